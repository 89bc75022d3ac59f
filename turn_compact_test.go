package agentd_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/model"
	"agentd/session"
)

// talker answers turns with their number and summaries with a summary.
type talker struct {
	heard []string
	// tokens that an answer claims to have used.
	tokens int64
	// summary answers a request for a summary; nil gives one.
	summary func(ctx context.Context, n int64) error
	// answer comes before an ordinary answer; an error takes its place.
	answer    func(n int64) error
	summaries atomic.Int64
	answers   atomic.Int64
}

func (k *talker) stream(ctx context.Context, r *model.Request, send func(model.Chunk) bool) error {
	last := r.Messages[len(r.Messages)-1].Text
	if strings.Contains(last, "is about to be replaced by a summary") {
		n := k.summaries.Add(1)
		if k.summary != nil {
			if err := k.summary(ctx, n); err != nil {
				return err
			}
		}
		send(model.Chunk{Text: "in short"})
		send(end("end_turn", 50, 5))
		return nil
	}
	k.heard = append(k.heard, transcript(r))
	if n := k.answers.Add(1); k.answer != nil {
		if err := k.answer(n); err != nil {
			return err
		}
	}
	send(model.Chunk{Text: "answer"})
	send(end("end_turn", k.tokens, 0))
	return nil
}

func (k *talker) use(o *agentd.Options) {
	quickBackoff(o)
	o.Provider = nil
	o.Loop.Providers = []model.Provider{&fakeModel{name: "talker", answer: k.stream}}
	o.Loop.Models = []model.Info{{Provider: "talker", Model: "m", HasCredential: true, Capabilities: []string{model.CapTools}, ContextWindow: 1000}}
	o.Loop.DefaultModel = "talker/m"
}

func TestCompactionAtTheFraction(t *testing.T) {
	talk := &talker{tokens: 700}
	k := newKitWith(t, talk.use)
	k.completes(k.submit("sess_a", "one"))
	talk.tokens = 850
	second := k.submit("sess_a", "two")
	k.completes(second)
	if talk.summaries.Load() != 0 {
		t.Fatal("it was compacted below the fraction")
	}
	talk.tokens = 100
	third := k.submit("sess_a", "three")
	k.completes(third)
	done := payloads[*event.CompactionCompleted](k, "sess_a")
	if len(done) != 1 || done[0].Trigger != "context_fraction" || len(done[0].AffectedTurns) != 3 || done[0].TokensBefore < 850 || done[0].TokensAfter == 0 {
		t.Fatalf("%+v", done)
	}
	if got := k.output(done[0].SummaryRef); !strings.HasPrefix(got, "in short") {
		t.Errorf("the summary is %q", got)
	}
	last := talk.heard[len(talk.heard)-1]
	if !strings.Contains(last, "in short") || !strings.Contains(last, "three") || strings.Contains(last, "two") {
		t.Errorf("the model heard:\n%s", last)
	}
	k.completes(k.submit("sess_a", "four"))
	if talk.summaries.Load() != 1 {
		t.Errorf("%d compactions", talk.summaries.Load())
	}
}

func TestRequestedCompaction(t *testing.T) {
	talk := &talker{tokens: 100}
	k := newKitWith(t, talk.use)
	r := k.submit("sess_a", "one")
	k.completes(r)
	p := &command.CompactThread{Mutation: command.Mutation{IdempotencyKey: "once"}, SessionID: "sess_a", ThreadID: r.ThreadID}
	got := do[command.CompactThreadResult](k, p)
	if got.Boundary.Trigger != "requested" || len(got.Boundary.AffectedTurns) != 1 || got.Boundary.AffectedTurns[0] != r.TurnID {
		t.Errorf("%+v", got.Boundary)
	}
	if again := do[command.CompactThreadResult](k, p); again.Boundary.CompactionID != got.Boundary.CompactionID || talk.summaries.Load() != 1 {
		t.Errorf("the same key compacted again: %+v", again.Boundary)
	}
	k.completes(k.submit("sess_a", "two"))
	if last := talk.heard[len(talk.heard)-1]; !strings.Contains(last, "in short") || strings.Contains(last, "user: one") {
		t.Errorf("the model heard:\n%s", last)
	}
	empty := k.submit("sess_empty", "x")
	k.completes(empty)
	refused(k, &command.CompactThread{SessionID: "sess_a", ThreadID: "thread_none"}, fault.NotFound)
}

func TestCompactionOnOverflow(t *testing.T) {
	overflow := &model.Error{Category: model.ContextOverflow, Message: "too long"}
	talk := &talker{tokens: 100, answer: func(n int64) error {
		if n == 2 {
			return overflow
		}
		return nil
	}}
	k := newKitWith(t, talk.use)
	k.completes(k.submit("sess_a", "one"))
	k.completes(k.submit("sess_a", "two"))
	if done := payloads[*event.CompactionCompleted](k, "sess_a"); len(done) != 1 || done[0].Trigger != "context_overflow" {
		t.Fatalf("%+v", done)
	}
	talk.answer = func(int64) error { return overflow }
	k.fails(k.submit("sess_a", "three"), "model_failed")
	if n := talk.summaries.Load(); n != 2 {
		t.Errorf("%d compactions for a context that always overflows", n)
	}
}

// TestFailingCompactionIsBounded: the thread is as it was, and nothing loops.
func TestFailingCompactionIsBounded(t *testing.T) {
	talk := &talker{tokens: 900, summary: func(context.Context, int64) error {
		return &model.Error{Category: model.InvalidRequest, Message: "no summary today"}
	}}
	k := newKitWith(t, talk.use)
	r := k.submit("sess_a", "one")
	k.completes(r)
	for range 3 {
		k.completes(k.submit("sess_a", "more"))
	}
	failed := payloads[*event.CompactionFailed](k, "sess_a")
	if n := talk.summaries.Load(); n != 3 || len(failed) != 3 {
		t.Errorf("%d tries, %d failures", n, len(failed))
	}
	for i, p := range failed {
		if p.Attempt != int64(i+1) || p.Error.Message != "no summary today" || p.WillRetry != (i < 2) {
			t.Errorf("%+v", p)
		}
	}
	if last := talk.heard[len(talk.heard)-1]; !strings.HasPrefix(last, "user: one") {
		t.Errorf("the model heard:\n%s", last)
	}
	refused(k, &command.CompactThread{SessionID: "sess_a", ThreadID: r.ThreadID}, fault.Unavailable)
	talk.summary = nil
	do[command.CompactThreadResult](k, &command.CompactThread{SessionID: "sess_a", ThreadID: r.ThreadID})
}

func TestEmptySummaryIsAFailure(t *testing.T) {
	k := newKitWith(t, (&talker{tokens: 100}).use)
	k.close()
	blank := &fakeModel{name: "talker", answer: func(_ context.Context, r *model.Request, send func(model.Chunk) bool) error {
		if !strings.Contains(r.Messages[len(r.Messages)-1].Text, "summary") {
			send(model.Chunk{Text: "ok"})
		}
		send(end("end_turn", 1, 1))
		return nil
	}}
	k.change = func(o *agentd.Options) {
		(&talker{}).use(o)
		o.Loop.Providers = []model.Provider{blank}
	}
	k.open()
	r := k.submit("sess_a", "one")
	k.completes(r)
	refused(k, &command.CompactThread{SessionID: "sess_a", ThreadID: r.ThreadID}, fault.Unavailable)
	k.completes(k.submit("sess_a", "two"))
}

// TestStopDuringACompaction: the next process finds its end, and tries again.
func TestStopDuringACompaction(t *testing.T) {
	asked := make(chan struct{})
	talk := &talker{tokens: 900, summary: func(ctx context.Context, n int64) error {
		if n == 1 {
			close(asked)
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}}
	k := newKitWith(t, talk.use)
	k.completes(k.submit("sess_a", "one"))
	talk.tokens = 10
	r := k.submit("sess_a", "two")
	<-asked
	k.close()
	k.open()
	k.completes(r)
	failed := payloads[*event.CompactionFailed](k, "sess_a")
	if len(failed) != 1 || failed[0].Error.Category != "interrupted" || k.count("sess_a", event.TypeContextCompactionCompleted) != 1 {
		t.Errorf("%+v", failed)
	}
	requested, ended := k.count("sess_a", event.TypeModelRequested), k.count("sess_a", event.TypeModelCompleted)+k.count("sess_a", event.TypeModelFailed)
	if requested != ended {
		t.Errorf("%d requests and %d ends", requested, ended)
	}
}

// TestCompactionKeepsWhatIsOpen: actions that nobody answered are named in the
// summary's boundary, and survive.
func TestCompactionWaitsForWhatIsOpen(t *testing.T) {
	k := newKit(t, wants("write_file", map[string]any{"path": "a", "content": "1"}), says("in short"), says("done"))
	r := k.submit("sess_a", "go")
	action, _ := k.required("sess_a", 1)
	finished := make(chan error, 1)
	go func() {
		_, err := k.r.Do(context.Background(), command.Local(), &command.CompactThread{SessionID: "sess_a", ThreadID: r.ThreadID})
		finished <- err
	}()
	k.until("sess_a", is(event.TypeContextCompactionStarted, ""))
	k.respond(action, "allow")
	if err := <-finished; err != nil {
		t.Fatal(err)
	}
	k.completes(r)
	if k.file("a") != "1" {
		t.Error("the call was forgotten")
	}
}

// TestCompactionKeepsAPendingApproval: a question that nobody answered is named in
// the boundary and in the summary, survives a restart, and its answer is carried out.
func TestCompactionKeepsAPendingApproval(t *testing.T) {
	k := newKit(t, wants("write_file", map[string]any{"path": "a", "content": "1"}), says("in short"), says("done"))
	r := k.submit("sess_a", "go")
	action, _ := k.required("sess_a", 1)
	got := do[command.CompactThreadResult](k, &command.CompactThread{SessionID: "sess_a", ThreadID: r.ThreadID})
	if p := got.Boundary.Preserved.Actions; len(p) != 1 || p[0] != action {
		t.Errorf("%v", p)
	}
	if text := k.output(got.Boundary.SummaryRef); !strings.Contains(text, action) {
		t.Errorf("the summary is %q", text)
	}
	k.close()
	k.open()
	k.respond(action, "allow")
	k.completes(r)
	if k.file("a") != "1" || k.count("sess_a", event.TypeToolStarted) != 1 {
		t.Errorf("%q", k.file("a"))
	}
}

// TestCompactionKeepsWhatPeopleRelyOn: an incident that still stands, evidence that
// was exported and what a task delivered are named in the boundary and in the
// summary, which the model is shown, and are still there afterwards.
func TestCompactionKeepsWhatPeopleRelyOn(t *testing.T) {
	talk := &talker{tokens: 100}
	k := newKitWith(t, talk.use)
	r := k.submit("sess_a", "one")
	k.completes(r)
	proof := do[command.ExportResult](k, &command.ExportEvidence{ExportScope: command.ExportScope{SessionID: "sess_a"}})
	task := do[command.TaskResult](k, &command.CreateTask{SessionID: "sess_a", Objective: "paint", Worker: "external", Start: true})
	do[command.TaskResult](k, &command.CompleteTask{TaskID: task.TaskID, Artifacts: []event.ArtifactLink{{ArtifactID: "artifact_picture", URI: "file:///picture.png"}}})
	incident := k.incident("sess_a", r.ThreadID)
	b := do[command.CompactThreadResult](k, &command.CompactThread{SessionID: "sess_a", ThreadID: r.ThreadID}).Boundary
	kept := map[string][]string{incident: b.Preserved.Incidents, proof.EvidenceID: b.Preserved.EvidenceRefs, "artifact_picture": b.Preserved.ArtifactRefs}
	summary := k.output(b.SummaryRef)
	k.completes(k.submit("sess_a", "two"))
	heard := talk.heard[len(talk.heard)-1]
	for id, list := range kept {
		if !slices.Contains(list, id) || !strings.Contains(summary, id) || !strings.Contains(heard, id) {
			t.Errorf("%s is lost: preserved %v, summary %q, heard %q", id, list, summary, heard)
		}
	}
	if read := k.thread(r); len(read.Incidents) == 0 || !read.Incidents[0].Active {
		t.Errorf("%+v", read.Incidents)
	}
}

// incident records that something is wrong with a thread, as a runtime would that
// runs between two of the kit's, and returns its id.
func (k *kit) incident(sessionID, threadID string) (id string) {
	k.Helper()
	k.close()
	m := session.New(session.Options{Store: k.store, RuntimeID: "runtime_other"})
	err := m.Emit(context.Background(), sessionID, event.ByRuntime, func(tx *session.Tx) error {
		tx.Emit(event.Event{Type: event.TypeRuntimeError, Scope: event.Scope{ThreadID: threadID}, Payload: &event.RuntimeNotice{
			Code: "disk_failing", Message: "The disk fails.",
		}})
		return nil
	})
	if err = errors.Join(err, m.Close(context.Background())); err != nil {
		k.Fatal(err)
	}
	for _, e := range k.facts(sessionID) {
		if e.Type == event.TypeRuntimeError {
			id = e.ID
		}
	}
	k.open()
	return id
}
