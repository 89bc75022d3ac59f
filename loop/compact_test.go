package loop_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/model"
	"agentd/session"
)

func TestCompactionAtTheFraction(t *testing.T) {
	talk := &runtimetest.TalkingModel{Tokens: 700}
	k := runtimetest.NewWith(t, talk.Use)
	k.Completes(k.Submit("sess_a", "one"))
	talk.Tokens = 850
	second := k.Submit("sess_a", "two")
	k.Completes(second)
	if talk.Summaries.Load() != 0 {
		t.Fatal("it was compacted below the fraction")
	}
	talk.Tokens = 100
	third := k.Submit("sess_a", "three")
	k.Completes(third)
	done := runtimetest.Payloads[*event.CompactionCompleted](k, "sess_a")
	if len(done) != 1 || done[0].Trigger != "context_fraction" || len(done[0].AffectedTurns) != 3 || done[0].TokensBefore < 850 || done[0].TokensAfter == 0 {
		t.Fatalf("%+v", done)
	}
	if got := k.ReadOutput(done[0].SummaryRef); !strings.HasPrefix(got, "in short") {
		t.Errorf("the summary is %q", got)
	}
	last := talk.Requests[len(talk.Requests)-1]
	if !strings.Contains(last, "in short") || !strings.Contains(last, "three") || strings.Contains(last, "two") {
		t.Errorf("the model heard:\n%s", last)
	}
	k.Completes(k.Submit("sess_a", "four"))
	if talk.Summaries.Load() != 1 {
		t.Errorf("%d compactions", talk.Summaries.Load())
	}
}

func TestRequestedCompaction(t *testing.T) {
	talk := &runtimetest.TalkingModel{Tokens: 100}
	k := runtimetest.NewWith(t, talk.Use)
	r := k.Submit("sess_a", "one")
	k.Completes(r)
	p := &command.CompactThread{Mutation: command.Mutation{IdempotencyKey: "once"}, SessionID: "sess_a", ThreadID: r.ThreadID}
	got := runtimetest.Do[command.CompactThreadResult](k, p)
	if got.Boundary.Trigger != "requested" || len(got.Boundary.AffectedTurns) != 1 || got.Boundary.AffectedTurns[0] != r.TurnID {
		t.Errorf("%+v", got.Boundary)
	}
	if again := runtimetest.Do[command.CompactThreadResult](k, p); again.Boundary.CompactionID != got.Boundary.CompactionID || talk.Summaries.Load() != 1 {
		t.Errorf("the same key compacted again: %+v", again.Boundary)
	}
	k.Completes(k.Submit("sess_a", "two"))
	if last := talk.Requests[len(talk.Requests)-1]; !strings.Contains(last, "in short") || strings.Contains(last, "user: one") {
		t.Errorf("the model heard:\n%s", last)
	}
	empty := k.Submit("sess_empty", "x")
	k.Completes(empty)
	runtimetest.Refused(k, &command.CompactThread{SessionID: "sess_a", ThreadID: "thread_none"}, fault.NotFound)
}

func TestCompactionOnOverflow(t *testing.T) {
	overflow := &model.Error{Category: model.ContextOverflow, Message: "too long"}
	talk := &runtimetest.TalkingModel{Tokens: 100, Answer: func(n int64) error {
		if n == 2 {
			return overflow
		}
		return nil
	}}
	k := runtimetest.NewWith(t, talk.Use)
	k.Completes(k.Submit("sess_a", "one"))
	k.Completes(k.Submit("sess_a", "two"))
	if done := runtimetest.Payloads[*event.CompactionCompleted](k, "sess_a"); len(done) != 1 || done[0].Trigger != "context_overflow" {
		t.Fatalf("%+v", done)
	}
	talk.Answer = func(int64) error { return overflow }
	k.Fails(k.Submit("sess_a", "three"), "model_failed")
	if n := talk.Summaries.Load(); n != 2 {
		t.Errorf("%d compactions for a context that always overflows", n)
	}
}

// TestFailingCompactionIsBounded: the thread is as it was, and nothing loops.
func TestFailingCompactionIsBounded(t *testing.T) {
	talk := &runtimetest.TalkingModel{Tokens: 900, Summary: func(context.Context, int64) error {
		return &model.Error{Category: model.InvalidRequest, Message: "no summary today"}
	}}
	k := runtimetest.NewWith(t, talk.Use)
	r := k.Submit("sess_a", "one")
	k.Completes(r)
	for range 3 {
		k.Completes(k.Submit("sess_a", "more"))
	}
	failed := runtimetest.Payloads[*event.CompactionFailed](k, "sess_a")
	if n := talk.Summaries.Load(); n != 3 || len(failed) != 3 {
		t.Errorf("%d tries, %d failures", n, len(failed))
	}
	for i, p := range failed {
		if p.Attempt != int64(i+1) || p.Error.Message != "no summary today" || p.WillRetry != (i < 2) {
			t.Errorf("%+v", p)
		}
	}
	if last := talk.Requests[len(talk.Requests)-1]; !strings.HasPrefix(last, "user: one") {
		t.Errorf("the model heard:\n%s", last)
	}
	runtimetest.Refused(k, &command.CompactThread{SessionID: "sess_a", ThreadID: r.ThreadID}, fault.Unavailable)
	talk.Summary = nil
	runtimetest.Do[command.CompactThreadResult](k, &command.CompactThread{SessionID: "sess_a", ThreadID: r.ThreadID})
}

func TestEmptySummaryIsAFailure(t *testing.T) {
	k := runtimetest.NewWith(t, (&runtimetest.TalkingModel{Tokens: 100}).Use)
	k.Close()
	blank := &runtimetest.FakeModel{ProviderName: "talker", Answer: func(_ context.Context, r *model.Request, send func(model.Chunk) bool) error {
		if !strings.Contains(r.Messages[len(r.Messages)-1].Text, "summary") {
			send(model.Chunk{Text: "ok"})
		}
		send(runtimetest.AnswerEnd("end_turn", 1, 1))
		return nil
	}}
	k.Change = func(o *agentd.Options) {
		(&runtimetest.TalkingModel{}).Use(o)
		o.Loop.Providers = []model.Provider{blank}
	}
	k.Open()
	r := k.Submit("sess_a", "one")
	k.Completes(r)
	runtimetest.Refused(k, &command.CompactThread{SessionID: "sess_a", ThreadID: r.ThreadID}, fault.Unavailable)
	k.Completes(k.Submit("sess_a", "two"))
}

// TestStopDuringACompaction: the next process finds its end, and tries again.
func TestStopDuringACompaction(t *testing.T) {
	asked := make(chan struct{})
	talk := &runtimetest.TalkingModel{Tokens: 900, Summary: func(ctx context.Context, n int64) error {
		if n == 1 {
			close(asked)
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}}
	k := runtimetest.NewWith(t, talk.Use)
	k.Completes(k.Submit("sess_a", "one"))
	talk.Tokens = 10
	r := k.Submit("sess_a", "two")
	<-asked
	k.Close()
	k.Open()
	k.Completes(r)
	failed := runtimetest.Payloads[*event.CompactionFailed](k, "sess_a")
	if len(failed) != 1 || failed[0].Error.Category != "interrupted" || k.CountFacts("sess_a", event.TypeContextCompactionCompleted) != 1 {
		t.Errorf("%+v", failed)
	}
	requested, ended := k.CountFacts("sess_a", event.TypeModelRequested), k.CountFacts("sess_a", event.TypeModelCompleted)+k.CountFacts("sess_a", event.TypeModelFailed)
	if requested != ended {
		t.Errorf("%d requests and %d ends", requested, ended)
	}
}

// TestCompactionKeepsWhatIsOpen: actions that nobody answered are named in the
// summary's boundary, and survive.
func TestCompactionWaitsForWhatIsOpen(t *testing.T) {
	k := runtimetest.New(t, runtimetest.CallsTool("write_file", map[string]any{"path": "a", "content": "1"}), runtimetest.Says("in short"), runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	action, _ := k.WaitForAction("sess_a", 1)
	finished := make(chan error, 1)
	go func() {
		_, err := k.Runtime.Do(context.Background(), command.Local(), &command.CompactThread{SessionID: "sess_a", ThreadID: r.ThreadID})
		finished <- err
	}()
	k.WaitFor("sess_a", runtimetest.FactIs(event.TypeContextCompactionStarted, ""))
	k.Respond(action, "allow")
	if err := <-finished; err != nil {
		t.Fatal(err)
	}
	k.Completes(r)
	if k.ReadFile("a") != "1" {
		t.Error("the call was forgotten")
	}
}

// TestCompactionKeepsAPendingApproval: a question that nobody answered is named in
// the boundary and in the summary, survives a restart, and its answer is carried out.
func TestCompactionKeepsAPendingApproval(t *testing.T) {
	k := runtimetest.New(t, runtimetest.CallsTool("write_file", map[string]any{"path": "a", "content": "1"}), runtimetest.Says("in short"), runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	action, _ := k.WaitForAction("sess_a", 1)
	got := runtimetest.Do[command.CompactThreadResult](k, &command.CompactThread{SessionID: "sess_a", ThreadID: r.ThreadID})
	if p := got.Boundary.Preserved.Actions; len(p) != 1 || p[0] != action {
		t.Errorf("%v", p)
	}
	if text := k.ReadOutput(got.Boundary.SummaryRef); !strings.Contains(text, action) {
		t.Errorf("the summary is %q", text)
	}
	k.Close()
	k.Open()
	k.Respond(action, "allow")
	k.Completes(r)
	if k.ReadFile("a") != "1" || k.CountRuns("sess_a") != 1 {
		t.Errorf("%q", k.ReadFile("a"))
	}
}

// TestCompactionKeepsWhatPeopleRelyOn: an incident that still stands, evidence that
// was exported and what a task delivered are named in the boundary and in the
// summary, which the model is shown, and are still there afterwards.
func TestCompactionKeepsWhatPeopleRelyOn(t *testing.T) {
	talk := &runtimetest.TalkingModel{Tokens: 100}
	k := runtimetest.NewWith(t, talk.Use)
	r := k.Submit("sess_a", "one")
	k.Completes(r)
	proof := runtimetest.Do[command.ExportResult](k, &command.ExportEvidence{ExportScope: command.ExportScope{SessionID: "sess_a"}})
	task := runtimetest.Do[command.TaskResult](k, &command.CreateTask{SessionID: "sess_a", Objective: "paint", Worker: "external", Start: true})
	runtimetest.Do[command.TaskResult](k, &command.CompleteTask{TaskID: task.TaskID, Artifacts: []event.ArtifactLink{{ArtifactID: "artifact_picture", URI: "file:///picture.png"}}})
	incident := incident(k, "sess_a", r.ThreadID)
	b := runtimetest.Do[command.CompactThreadResult](k, &command.CompactThread{SessionID: "sess_a", ThreadID: r.ThreadID}).Boundary
	kept := map[string][]string{incident: b.Preserved.Incidents, proof.EvidenceID: b.Preserved.EvidenceRefs, "artifact_picture": b.Preserved.ArtifactRefs}
	summary := k.ReadOutput(b.SummaryRef)
	k.Completes(k.Submit("sess_a", "two"))
	heard := talk.Requests[len(talk.Requests)-1]
	for id, list := range kept {
		if !slices.Contains(list, id) || !strings.Contains(summary, id) || !strings.Contains(heard, id) {
			t.Errorf("%s is lost: preserved %v, summary %q, heard %q", id, list, summary, heard)
		}
	}
	if read := k.Thread(r); len(read.Incidents) == 0 || !read.Incidents[0].Active {
		t.Errorf("%+v", read.Incidents)
	}
}

// incident records that something is wrong with a thread, as a runtime would that
// runs between two of the kit's, and returns its id.
func incident(k *runtimetest.Kit, sessionID, threadID string) (id string) {
	k.Helper()
	k.Close()
	m := session.New(session.Options{Store: k.Store, RuntimeID: "runtime_other"})
	err := m.Emit(context.Background(), sessionID, event.ByRuntime, func(tx *session.Tx) error {
		tx.Emit(event.Event{Type: event.TypeRuntimeError, Scope: event.Scope{ThreadID: threadID}, Payload: &event.RuntimeNotice{
			Code: "disk_failing", Message: "The disk fails.",
		}})
		return nil
	})
	if err = errors.Join(err, m.Close(context.Background())); err != nil {
		k.Fatal(err)
	}
	for _, e := range k.Facts(sessionID) {
		if e.Type == event.TypeRuntimeError {
			id = e.ID
		}
	}
	k.Open()
	return id
}
