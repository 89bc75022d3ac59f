package session_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
)

// idsIn returns the ids in a fact, each with the name of the member that has it.
func idsIn(v any, name string, out map[string]string) {
	switch v := v.(type) {
	case string:
		if strings.HasSuffix(name, "Id") && event.ValidID(v) {
			out[v] = name
		}
	case []any:
		for _, x := range v {
			idsIn(x, name, out)
		}
	case map[string]any:
		for n, x := range v {
			idsIn(x, n, out)
		}
	}
}

// worked is a runtime in which an account used most of what has ids.
func worked(t *testing.T) (k *runtimetest.Kit, owner command.Caller) {
	t.Helper()
	owner = runtimetest.ClientOf("acme")
	k = runtimetest.New(t, runtimetest.WritesFile("a.txt", "a"), script.Answer{Text: "done"})
	for _, name := range []string{"acme", "", "stranger"} { // facts of others at the same time
		caller := runtimetest.ClientOf(name)
		res := runtimetest.DoAs[command.SubmitTurnResult](k, caller, &command.SubmitTurn{Input: command.Text("hello"), Options: &event.TurnOptions{PermissionMode: "bypass"}})
		k.WaitForEnd(res.SessionID, res.TurnID)
		if name == "acme" {
			runtimetest.DoAs[command.TaskResult](k, caller, &command.CreateTask{SessionID: res.SessionID, TaskID: "task_chosen", Objective: "count"})
			runtimetest.DoAs[command.SubmitTurnResult](k, caller, &command.SubmitTurn{SessionID: res.SessionID, TurnID: "chosen-turn", Input: command.Text("again")})
			k.WaitForEnd(res.SessionID, "chosen-turn")
		}
	}
	return k, owner
}

// Whatever id is in a fact leads to the first fact that has it, and for another account to
// nothing, with the same words as an id that nobody has.
func TestEveryIDLeadsToItsFact(t *testing.T) {
	k, owner := worked(t)
	sessions := runtimetest.DoAs[command.ListSessionsResult](k, owner, &command.ListSessions{}).Sessions
	if len(sessions) != 1 {
		t.Fatalf("%d sessions", len(sessions))
	}
	sessionID := sessions[0].SessionID
	kinds, tried := map[string]bool{}, map[string]bool{}
	for _, e := range k.Facts(sessionID) {
		var fact any
		if err := json.Unmarshal(event.AppendJSON(nil, e), &fact); err != nil {
			t.Fatal(err)
		}
		ids := map[string]string{}
		idsIn(fact, "", ids)
		for id, member := range ids {
			if _, made := event.MadeAt(id); !made || tried[id] || strings.HasPrefix(id, "runtime_") {
				continue
			}
			tried[id] = true
			res := runtimetest.DoAs[command.FindIDResult](k, owner, &command.FindID{ID: id})
			if len(res.Found) != 1 || !res.Complete || res.Found[0].SessionID != sessionID || res.Found[0].Sequence != e.Sequence || res.Found[0].EventID != e.ID || res.Found[0].Type != string(e.Type) {
				t.Errorf("%s %s of fact %d (%s): %+v", member, id, e.Sequence, e.Type, res)
				continue
			}
			kinds[res.Found[0].Kind] = true
			if in := runtimetest.DoAs[command.FindIDResult](k, owner, &command.FindID{ID: id, SessionID: sessionID}); len(in.Found) != 1 || in.Found[0].Sequence != e.Sequence {
				t.Errorf("%s in its session: %+v", id, in)
			}
			stranger := runtimetest.ClientOf("stranger")
			theirs := runtimetest.DoAs[command.FindIDResult](k, stranger, &command.FindID{ID: id})
			nobody := runtimetest.DoAs[command.FindIDResult](k, stranger, &command.FindID{ID: otherEnd(id)})
			if len(theirs.Found) != 0 || fmt.Sprint(theirs) != fmt.Sprint(nobody) {
				t.Errorf("%s as another account: %+v; an unknown one: %+v", id, theirs, nobody)
			}
		}
	}
	for _, kind := range []string{"session", "thread", "turn", "task", "run", "step", "toolCall", "modelRequest", "event"} {
		if !kinds[kind] {
			t.Errorf("no %s was tried, only %v", kind, kinds)
		}
	}
}

// otherEnd is an id that was made at the same time and that nothing has.
func otherEnd(id string) string {
	last := id[len(id)-1]
	return id[:len(id)-1] + string(map[bool]byte{true: '1', false: '0'}[last == '0'])
}

// Ids that a caller chose say nothing of their time.
func TestChosenIDsAreFound(t *testing.T) {
	k, owner := worked(t)
	for id, kind := range map[string]string{"task_chosen": "task", "chosen-turn": "turn"} {
		if res := runtimetest.DoAs[command.FindIDResult](k, owner, &command.FindID{ID: id}); len(res.Found) != 1 || res.Found[0].Kind != kind {
			t.Errorf("%s: %+v", id, res)
		}
		if res := runtimetest.DoAs[command.FindIDResult](k, runtimetest.ClientOf("stranger"), &command.FindID{ID: id}); len(res.Found) != 0 {
			t.Errorf("%s as another account: %+v", id, res)
		}
		if res := runtimetest.Do[command.FindIDResult](k, &command.FindID{ID: id}); len(res.Found) != 1 {
			t.Errorf("%s as an admin: %+v", id, res)
		}
	}
	if res := runtimetest.DoAs[command.FindIDResult](k, owner, &command.FindID{ID: "nowhere"}); len(res.Found) != 0 || res.Complete {
		t.Errorf("an unknown id: %+v", res)
	}
	runtimetest.RefusedAs(k, runtimetest.ClientOf("stranger"), &command.FindID{ID: "x", SessionID: runtimetest.DoAs[command.ListSessionsResult](k, owner, &command.ListSessions{}).Sessions[0].SessionID}, fault.NotFound)
}

// Words in a text are not ids, whatever they look like.
func TestIDsInTextsNameNothing(t *testing.T) {
	k := runtimetest.New(t, script.Answer{Text: "done"})
	words := event.NewIDs(nil, nil).New(event.PrefixToolCall)
	res := k.Submit("sess_text", words)
	k.Completes(res)
	found := runtimetest.Do[command.FindIDResult](k, &command.FindID{ID: words})
	if len(found.Found) != 0 || !found.Complete || !slices.ContainsFunc(k.Facts("sess_text"), func(e *event.Event) bool { return e.Type == event.TypeTurnCompleted }) {
		t.Errorf("found %+v", found)
	}
}
