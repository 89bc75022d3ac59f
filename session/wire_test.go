package session_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/model"
	"agentd/model/provider/script"
	"agentd/replay"
	"agentd/state"
	"agentd/tool"
)

// The commands as the wire contract has them: what happens the second time, what an
// update may change, and what a list says to a cursor that it never gave.

// TestSteeringTwiceUnderOneID: an id that the caller gave makes a repeat safe also
// where the input became no turn of its own.
func TestSteeringTwiceUnderOneID(t *testing.T) {
	gate := make(chan struct{})
	hold := func(context.Context, *tool.Call) (*tool.Result, error) {
		<-gate
		return &tool.Result{Output: []byte("ok")}, nil
	}
	var heard runtimetest.Listener
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.ListenedBy(&heard), runtimetest.WithTools(t, runtimetest.ReadOnlyTool("hold", hold))), runtimetest.CallsTool("hold", nil), runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	k.WaitFor("sess_a", runtimetest.Runs(r.TurnID))
	steer := `{"sessionId":"sess_a","turnId":"turn_s","input":"also this","options":{"queuePolicy":"steer"},"metadata":{"from":"a test"}}`
	first, refusal := runtimetest.CallByName(k, "submit_turn", steer)
	again, refusedAgain := runtimetest.CallByName(k, "submit_turn", steer)
	if refusal+refusedAgain != "" || fmt.Sprint(first) != fmt.Sprint(again) || first["turnId"] != r.TurnID {
		t.Errorf("first %v %s\nagain %v %s", first, refusal, again, refusedAgain)
	}
	for _, other := range []string{
		strings.Replace(steer, "also this", "something else", 1),
		strings.Replace(steer, `"queuePolicy":"steer"`, `"queuePolicy":"queue"`, 1),
	} {
		if res, refusal := runtimetest.CallByName(k, "submit_turn", other); !strings.HasPrefix(refusal, "conflict") {
			t.Errorf("another content under the same id: %v %s", res, refusal)
		}
	}
	close(gate)
	k.Completes(r)
	if said := runtimetest.Conversation(heard.Heard()[1]); strings.Count(said, "also this") != 1 {
		t.Errorf("the model heard:\n%s", said)
	}
	fact := k.WaitFor("sess_a", runtimetest.FactIs(event.TypeTurnSteered, r.TurnID)).Payload.(*event.TurnSteered)
	if fact.SubmittedTurnID != "turn_s" || string(fact.Metadata) != `{"from":"a test"}` {
		t.Errorf("the fact is %+v", fact)
	}
	k.Close()
	k.Open() // the first result is kept, not remembered
	if again, refusal := runtimetest.CallByName(k, "submit_turn", steer); fmt.Sprint(first) != fmt.Sprint(again) {
		t.Errorf("after a restart %v %s", again, refusal)
	}
}

// TestTheSameJobAgainGivesTheFirstResult: however far it has come meanwhile.
func TestTheSameJobAgainGivesTheFirstResult(t *testing.T) {
	k := runtimetest.New(t)
	k.Submit("sess_a", "hi")
	for id, start := range map[string]string{"job_now": "", "job_later": `,"start":false`} {
		create := `{"jobId":"` + id + `","sessionId":"sess_a","instruction":"Say it.","items":[{"input":"a"}]` + start + `}`
		first, refusal := runtimetest.CallByName(k, "create_job", create)
		if refusal != "" {
			t.Fatal(refusal)
		}
		if start == "" {
			k.WaitFor("sess_a", runtimetest.FactIs(event.TypeJobCompleted, ""))
		} else {
			runtimetest.Do[command.JobRecord](k, &command.StartJob{JobID: id})
		}
		if again, refusal := runtimetest.CallByName(k, "create_job", create); fmt.Sprint(first) != fmt.Sprint(again) {
			t.Errorf("%s: first %v, again %v %s", id, first, again, refusal)
		}
		if res, refusal := runtimetest.CallByName(k, "create_job", strings.Replace(create, "Say", "Sing", 1)); !strings.HasPrefix(refusal, "conflict") {
			t.Errorf("%s with another content: %v %s", id, res, refusal)
		}
	}
	k.WaitFor("sess_a", func(e *event.Event) bool { return e.Type == event.TypeJobCompleted && e.JobID == "job_later" })
}

// TestUpdateTaskChangesWhatCreateTaskSets: also its kind, who works on it, and its
// place in the graph.
func TestUpdateTaskChangesWhatCreateTaskSets(t *testing.T) {
	k := runtimetest.New(t)
	k.Submit("sess_a", "hi")
	for _, id := range []string{"task_a", "task_b", "task_c", "task_d"} {
		runtimetest.Do[command.TaskResult](k, &command.CreateTask{TaskID: id, SessionID: "sess_a", Objective: "do " + id})
	}
	update := func(params string) string {
		t.Helper()
		_, refusal := runtimetest.CallByName(k, "update_task", params)
		return refusal
	}
	read := func(id string) *state.Task {
		t.Helper()
		return runtimetest.Do[state.Task](k, &command.GetTask{TaskID: id})
	}
	edges := func(id, kind string) []string {
		t.Helper()
		var out []string
		for _, r := range read(id).Relationships {
			if r.Kind == kind {
				out = append(out, r.TargetID)
			}
		}
		slices.Sort(out)
		return out
	}
	if refusal := update(`{"taskId":"task_a","taskKind":"chore","worker":"external","parentTaskId":"task_b","dependsOn":["task_c","task_d"],"idempotencyKey":"k"}`); refusal != "" {
		t.Fatal(refusal)
	}
	a := read("task_a")
	if a.TaskKind != "chore" || a.WorkerKind != "external" || a.ParentTaskID != "task_b" ||
		!slices.Equal(edges("task_a", "blocked_by"), []string{"task_c", "task_d"}) || !slices.Equal(edges("task_c", "blocks"), []string{"task_a"}) {
		t.Errorf("after the first update: %+v", a)
	}
	if refusal := update(`{"taskId":"task_a","parentTaskId":"task_c","dependsOn":["task_d"]}`); refusal != "" {
		t.Error(refusal)
	}
	if a := read("task_a"); a.ParentTaskID != "task_c" || !slices.Equal(edges("task_a", "blocked_by"), []string{"task_d"}) || len(edges("task_c", "blocks"))+len(edges("task_b", "child")) != 0 {
		t.Errorf("after the second update: %+v", a)
	}
	for _, c := range []struct {
		params string
		want   fault.Kind
	}{
		{`{"taskId":"task_d","dependsOn":["task_a"]}`, fault.Conflict},  // a circle
		{`{"taskId":"task_c","parentTaskId":"task_a"}`, fault.Conflict}, // a circle
		{`{"taskId":"task_a","dependsOn":["task_a"]}`, fault.Conflict},  // the smallest one
		{`{"taskId":"task_a","dependsOn":["task_none"]}`, fault.NotFound},
		{`{"taskId":"task_a","parentTaskId":"task_none"}`, fault.NotFound},
		{`{"taskId":"task_a","title":"x","worker":"somebody"}`, fault.InvalidParams},
	} {
		if refusal := update(c.params); !strings.HasPrefix(refusal, string(c.want)) {
			t.Errorf("%s: %q, want %q", c.params, refusal, c.want)
		}
	}
	if refusal := update(`{"taskId":"task_a","dependsOn":[]}`); refusal != "" || len(edges("task_a", "blocked_by")) != 0 {
		t.Errorf("no dependencies any more: %q %v", refusal, edges("task_a", "blocked_by"))
	}
	// The key of the first update was used: it isn't carried out a second time.
	if refusal := update(`{"taskId":"task_a","taskKind":"chore","worker":"external","parentTaskId":"task_b","dependsOn":["task_c","task_d"],"idempotencyKey":"k"}`); refusal != "" || len(edges("task_a", "blocked_by")) != 0 {
		t.Errorf("the same key again: %q %v", refusal, edges("task_a", "blocked_by"))
	}
	if _, refusal := runtimetest.CallByName(k, "link_tasks", `{"taskId":"task_a","kind":"spawned_subagent","targetId":"sub_none"}`); !strings.Contains(refusal, "there is no subagent sub_none") {
		t.Error(refusal)
	}
}

// TestInventedCursors: a list that went on from nowhere would seem to be whole.
func TestInventedCursors(t *testing.T) {
	k := runtimetest.New(t)
	for i := range 3 {
		k.Submit(fmt.Sprintf("sess_%d", i), "hi")
	}
	var seen []string
	for cursor := ""; ; {
		page := runtimetest.Do[command.ListSessionsResult](k, &command.ListSessions{Page: command.Page{Limit: 1, Cursor: cursor}})
		for _, s := range page.Sessions {
			seen = append(seen, s.SessionID)
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
		if res, refusal := runtimetest.CallByName(k, "list_tasks", `{"cursor":"`+cursor+`"}`); !strings.HasPrefix(refusal, "invalid_params invalid_params: cursor") {
			t.Errorf("a cursor of another list: %v %s", res, refusal)
		}
	}
	if slices.Sort(seen); !slices.Equal(seen, []string{"sess_0", "sess_1", "sess_2"}) {
		t.Errorf("page by page: %v", seen)
	}
	lists := 0
	for _, d := range command.Catalog() {
		if _, paged := d.New().(command.Paged); !paged {
			continue
		}
		lists++
		for _, cursor := range []string{"bogus", "AAAAAAAAAAAA", "sess_0", "0", " ", "../x", strings.Repeat("A", 2000)} {
			params := strings.TrimSuffix(d.Example, "}") + `,"cursor":"` + cursor + `"}`
			if d.Example == "{}" {
				params = `{"cursor":"` + cursor + `"}`
			}
			if res, refusal := runtimetest.CallByName(k, string(d.Name), params); !strings.HasPrefix(refusal, "invalid_params") {
				t.Errorf("%s %s: %v %s", d.Name, params, res, refusal)
			}
		}
	}
	if lists < 10 {
		t.Errorf("only %d commands answer in pages", lists)
	}
}

// TestAHistoryAlwaysHasACursor: a client that pages back reads it without asking
// whether it is there; at the beginning it is empty.
func TestAHistoryAlwaysHasACursor(t *testing.T) {
	k := runtimetest.New(t, runtimetest.Says("one"))
	k.Completes(k.Submit("sess_a", "hi"))
	for _, c := range []struct {
		limit string
		begin bool
	}{{"1000", true}, {"2", false}, {"0", false}} {
		res, refusal := runtimetest.CallByName(k, "get_session", `{"sessionId":"sess_a","limit":`+c.limit+`}`)
		if refusal != "" {
			t.Fatal(refusal)
		}
		history, _ := res["history"].(map[string]any)
		cursor, ok := history["cursor"].(string)
		if !ok || (cursor == "") != c.begin || history["truncated"] != !c.begin {
			t.Errorf("limit %s: cursor %v, truncated %v", c.limit, history["cursor"], history["truncated"])
		}
	}
}

// TestTheRuntimesOwnSessionIsThereFromTheStart: who may see it can wait for its
// first fact.
func TestTheRuntimesOwnSessionIsThereFromTheStart(t *testing.T) {
	k := runtimetest.New(t)
	records, last, err := k.Runtime.Events(t.Context(), command.Local(), event.RuntimeSession, 0, 10)
	if err != nil || last != 0 || len(records) != 0 {
		t.Fatalf("%v, %d, %v", records, last, err)
	}
	sub, err := k.Runtime.Subscribe(t.Context(), command.Local(), event.RuntimeSession, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	if _, err := k.Runtime.Subscribe(t.Context(), command.Caller{Account: "a"}, event.RuntimeSession, 0); fault.KindOf(err) != fault.NotFound {
		t.Errorf("somebody else: %v", err)
	}
	if got := runtimetest.Do[command.ListSessionsResult](k, &command.ListSessions{}); len(got.Sessions) != 0 {
		t.Errorf("a session without facts is listed: %+v", got.Sessions)
	}
	if _, refusal := runtimetest.CallByName(k, "set_policy", `{"mode":"auto"}`); refusal != "" {
		t.Fatal(refusal)
	}
	got, err := sub.Next(t.Context())
	if err != nil || len(got) == 0 || !strings.Contains(string(got[0].Data), string(event.TypeSessionCreated)) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestACompactionsAnswerIsKept: every model.completed has what the model said, or
// where it is.
func TestACompactionsAnswerIsKept(t *testing.T) {
	k := runtimetest.New(t, script.Answer{Text: "one"}, script.Answer{Text: "the summary"})
	r := k.Submit("sess_a", "hi")
	k.Completes(r)
	if _, refusal := runtimetest.CallByName(k, "compact_thread", `{"sessionId":"sess_a","threadId":"`+r.ThreadID+`"}`); refusal != "" {
		t.Fatal(refusal)
	}
	done := k.WaitFor("sess_a", func(e *event.Event) bool {
		p, ok := e.Payload.(*event.ModelCompleted)
		return ok && p.Purpose == "compaction"
	}).Payload.(*event.ModelCompleted)
	blob, _, err := k.Runtime.Output(t.Context(), command.Local(), done.MessageRef)
	if err != nil {
		t.Fatal(err)
	}
	defer blob.Close()
	text := make([]byte, 100)
	n, _ := blob.Read(text)
	if string(text[:n]) != "the summary" {
		t.Errorf("the answer is %q", text[:n])
	}
}

// TestATurnsFolderIsInItsWorkspace: a folder elsewhere is refused, because the turn
// would be done in another one than its caller thinks.
func TestATurnsFolderIsInItsWorkspace(t *testing.T) {
	k := runtimetest.New(t)
	k.Submit("sess_a", "hi")
	own := t.TempDir()
	runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_own", Workspace: &event.Workspace{Root: own}})
	for _, c := range []struct {
		session, cwd string
		ok           bool
	}{
		{"", k.Dir, true},
		{"", "/etc", false},
		{"sess_a", k.Dir, true},
		{"sess_a", k.Dir + "/below", true},
		{"sess_a", k.Dir + "x", false},
		{"sess_a", own, false},
		{"sess_own", own, true},
		{"sess_own", k.Dir, false},
		{"sess_own", "below", true},
		{"sess_own", "../x", false},
	} {
		p := &command.SubmitTurn{SessionID: c.session, Input: runtimetest.Quoted("hi"), Options: &event.TurnOptions{Cwd: c.cwd}}
		if c.ok {
			runtimetest.Do[command.SubmitTurnResult](k, p)
		} else if says := runtimetest.Refused(k, p, fault.InvalidParams); !strings.Contains(says, "options.cwd") {
			t.Errorf("%+v: %s", c, says)
		}
	}
}

// TestReplayWhereThereWasAChoice: a case is run again to the same facts also where
// other models could have answered, and where the turn named one of them.
func TestReplayWhereThereWasAChoice(t *testing.T) {
	k := runtimetest.NewWith(t, func(o *agentd.Options) {
		o.Loop.Models = append(o.Loop.Models, model.Info{Provider: "script", Model: "other", HasCredential: true, Capabilities: []string{model.CapTools, model.CapStreaming}})
	}, runtimetest.CallsTool("update_plan", map[string]any{"items": []any{"a < b"}}), runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "hi"))
	k.Completes(runtimetest.Do[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: "sess_a", Input: runtimetest.Quoted("again"), Options: &event.TurnOptions{Model: "script/test"}}))
	types := []event.Type{}
	k.WaitFor("sess_a", func(e *event.Event) bool {
		if _, ok := e.Payload.(*event.RoutingDecision); ok {
			types = append(types, e.Type)
		}
		return len(types) == 2
	})
	if !slices.Equal(types, []event.Type{event.TypeRoutingDecided, event.TypeRoutingSingleCandidate}) {
		t.Fatalf("the story is not the one that is meant: %v", types)
	}
	res := runtimetest.Do[command.ExportResult](k, &command.ExportReplay{ExportScope: command.ExportScope{SessionID: "sess_a"}})
	blob, _, err := k.Runtime.Output(t.Context(), command.Local(), res.Ref)
	if err != nil {
		t.Fatal(err)
	}
	defer blob.Close()
	// A client reads the case and writes it again in its own way.
	var members map[string]any
	if err := json.NewDecoder(blob).Decode(&members); err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	enc := json.NewEncoder(&again)
	enc.SetEscapeHTML(false)
	c := &evidence.Case{}
	if err := errors.Join(enc.Encode(members), json.Unmarshal(again.Bytes(), c)); err != nil {
		t.Fatal(err)
	}
	rec, err := replay.OfCase(c)
	if err != nil {
		t.Fatal(err)
	}
	if report, err := replay.Walk(rec, replay.Options{}); err != nil || len(report.Differences) > 0 || report.Decisions == 0 {
		t.Errorf("%+v, %v", report, err)
	}
}
