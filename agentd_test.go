package agentd_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/model/provider/script"
	"agentd/session"
	"agentd/state"
	"agentd/store"
	"agentd/store/storetest"
)

// kit is a runtime over a store in memory whose events are held against the
// schemas.
type kit struct {
	*testing.T
	store  store.Store
	script *script.Script
	manual bool
	// dir is the workspace, change what the test wants otherwise.
	dir    string
	change func(*agentd.Options)
	r      *agentd.Runtime
}

func newKit(t *testing.T, answers ...script.Answer) *kit {
	t.Helper()
	return newKitWith(t, nil, answers...)
}

func newKitWith(t *testing.T, change func(*agentd.Options), answers ...script.Answer) *kit {
	t.Helper()
	k := &kit{T: t, store: storetest.Strict(t, storetest.NewMem()), script: &script.Script{Answers: answers}, dir: t.TempDir(), change: change}
	k.open()
	t.Cleanup(func() {
		k.close()
		replayed.Recorded(k, k.store)
	})
	return k
}

func (k *kit) open() {
	k.Helper()
	opt := agentd.Options{Store: k.store, Provider: script.New("script", k.script), Model: "test"}
	opt.Loop.Workspace = k.dir
	if k.manual {
		opt.Recovery = "manual"
	}
	if k.change != nil {
		k.change(&opt)
	}
	var err error
	if k.r, err = agentd.Open(context.Background(), opt); err != nil {
		k.Fatal(err)
	}
}

func (k *kit) close() {
	k.Helper()
	if err := k.r.Close(context.Background()); err != nil {
		k.Error(err)
	}
	report, err := session.Verify(context.Background(), k.store, session.VerifyOptions{})
	if err != nil {
		k.Error(err)
	}
	for _, p := range report.Problems {
		k.Error(p)
	}
}

func do[R any](k *kit, p command.Params) *R {
	k.Helper()
	res, err := k.r.Do(context.Background(), command.Local(), p)
	if err != nil {
		k.Fatalf("%s: %v", p.Command(), err)
	}
	return res.(*R)
}

func (k *kit) submit(sessionID, text string) *command.SubmitTurnResult {
	k.Helper()
	return do[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: sessionID, Create: true, Input: event.Raw(`"` + text + `"`)})
}

// until follows a session to the first event that the condition accepts.
func (k *kit) until(sessionID string, ok func(*event.Event) bool) *event.Event {
	k.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // so that a broken test ends
	defer cancel()
	oldest, err := k.r.Port().Oldest(ctx, command.Local(), sessionID)
	if err != nil {
		k.Fatal(err)
	}
	sub, err := k.r.Subscribe(ctx, command.Local(), sessionID, oldest-1)
	if err != nil {
		k.Fatal(err)
	}
	defer sub.Close()
	for {
		records, err := sub.Next(ctx)
		if err != nil {
			k.Fatalf("waiting in session %s: %v", sessionID, err)
		}
		for _, rec := range records {
			e, err := event.Decode(rec.Data)
			if err != nil {
				k.Fatal(err)
			}
			if ok(e) {
				return e
			}
		}
	}
}

func is(t event.Type, turnID string) func(*event.Event) bool {
	return func(e *event.Event) bool { return e.Type == t && (turnID == "" || e.TurnID == turnID) }
}

func (k *kit) types(sessionID, turnID string) []event.Type {
	k.Helper()
	var out []event.Type
	for rec, err := range k.store.Read(context.Background(), sessionID, store.Range{}) {
		if err != nil {
			k.Fatal(err)
		}
		e, err := event.Decode(rec.Data)
		if err != nil {
			k.Fatal(err)
		}
		if e.TurnID == turnID {
			out = append(out, e.Type)
		}
	}
	return out
}

func TestTurnRunsToItsEnd(t *testing.T) {
	k := newKit(t, script.Answer{Text: "Hello, world.", Reasoning: "be nice", Chunks: 1})
	r := k.submit("sess_a", "hi")
	k.until("sess_a", is(event.TypeTaskCompleted, r.TurnID))
	want := []event.Type{
		event.TypeTurnSubmitted, event.TypeTaskCreated,
		event.TypeTaskAttemptStarted, event.TypeTaskStarted, event.TypeTurnStarted,
		event.TypeContextResolved, event.TypeToolCatalogResolved, event.TypeTaskProfileResolved,
		event.TypeRoutingCandidatesResolved, event.TypeRoutingSingleCandidate,
		event.TypeCostEstimated, event.TypeModelRequested, event.TypeReasoningDelta, event.TypeModelDelta, event.TypeModelCompleted,
		event.TypeCostRecorded,
		event.TypeTurnCompleted, event.TypeTaskAttemptCompleted, event.TypeTaskCompleted,
	}
	if got := k.types("sess_a", r.TurnID); !slices.Equal(got, want) {
		t.Errorf("facts: %v", got)
	}
	read := do[state.ThreadReadModel](k, &command.GetThreadRead{SessionID: "sess_a", ThreadID: r.ThreadID})
	if read.Status != "completed" {
		t.Errorf("the thread is %s", read.Status)
	}
}

func TestWithoutAScriptTheProviderRepeatsTheUser(t *testing.T) {
	k := newKit(t)
	r := k.submit("sess_e", "good morning")
	done := k.until("sess_e", is(event.TypeModelCompleted, r.TurnID)).Payload.(*event.ModelCompleted)
	if done.Message.Text != "You said: good morning" || done.StopReason != "end_turn" {
		t.Errorf("got %+v", done.Message)
	}
}

func TestQueuedTurnsRunOneAfterTheOther(t *testing.T) {
	k := newKit(t)
	var turns []*command.SubmitTurnResult
	for range 5 {
		turns = append(turns, k.submit("sess_q", "next"))
	}
	k.until("sess_q", is(event.TypeTurnCompleted, turns[4].TurnID))
	var order []string
	running := ""
	k.until("sess_q", func(e *event.Event) bool {
		switch e.Type {
		case event.TypeTurnStarted:
			if running != "" {
				t.Errorf("turn %s started while %s ran", e.TurnID, running)
			}
			running = e.TurnID
		case event.TypeTurnCompleted:
			order = append(order, e.TurnID)
			running = ""
		}
		return len(order) == len(turns)
	})
	for i, turn := range turns {
		if order[i] != turn.TurnID {
			t.Errorf("turns ended in the order %v", order)
		}
	}
}

func TestQuestionWaitsForItsAnswer(t *testing.T) {
	k := newKit(t, script.Answer{Ask: &script.Ask{Prompt: "Which colour?"}}, script.Answer{Text: "Blue it is."})
	r := k.submit("sess_w", "paint")
	asked := k.until("sess_w", is(event.TypeActionRequired, r.TurnID))
	if p := asked.Payload.(*event.ActionRequired); p.Prompt != "Which colour?" || p.ActionType != "structured_input" {
		t.Errorf("got %+v", p)
	}
	k.close()
	k.open() // a pending question survives a restart
	read := do[state.ThreadReadModel](k, &command.GetThreadRead{SessionID: "sess_w", ThreadID: r.ThreadID})
	if read.Status != "blocked" || read.Phase != "waiting_input" {
		t.Errorf("the thread is %s, %s", read.Status, read.Phase)
	}
	do[command.RespondActionResult](k, &command.RespondAction{ActionID: asked.ActionID, Decision: "submit", Payload: event.Raw(`{"colour":"blue"}`)})
	k.until("sess_w", is(event.TypeTurnCompleted, r.TurnID))
	result := k.until("sess_w", is(event.TypeToolResult, r.TurnID)).Payload.(*event.ToolResult)
	if !strings.Contains(string(result.StructuredContent), "blue") {
		t.Errorf("got %+v", result)
	}
}

func TestInterruptStopsAStreamingModel(t *testing.T) {
	var h halting
	k := newKitWith(t, h.use, says("and on and on"))
	r := k.submit("sess_i", "talk")
	next := k.submit("sess_i", "and then")
	k.until("sess_i", is(event.TypeModelDelta, r.TurnID))
	do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_i", Reason: "enough"})
	failed := k.until("sess_i", is(event.TypeTurnFailed, r.TurnID)).Payload.(*event.TurnFailed)
	if failed.Status != "cancelled" || failed.FailureCategory != "interrupted" || failed.Error.Message != "enough" {
		t.Errorf("got %+v", failed)
	}
	k.until("sess_i", is(event.TypeTurnStarted, next.TurnID)) // the queue goes on
}

func TestInterruptOfAWaitingTurnCancelsItsQuestion(t *testing.T) {
	k := newKit(t, script.Answer{Ask: &script.Ask{Prompt: "Really?"}})
	r := k.submit("sess_x", "ask")
	asked := k.until("sess_x", is(event.TypeActionRequired, r.TurnID))
	do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_x"})
	k.until("sess_x", is(event.TypeTurnFailed, r.TurnID))
	resolved := k.until("sess_x", is(event.TypeActionResolved, r.TurnID))
	if p := resolved.Payload.(*event.ActionResolved); resolved.ActionID != asked.ActionID || p.Status != "cancelled" {
		t.Errorf("got %+v", p)
	}
}

func TestFailedModelFailsTheTurn(t *testing.T) {
	k := newKit(t, script.Answer{Error: &script.Error{Category: "auth", Message: "the key is wrong"}})
	r := k.submit("sess_f", "hi")
	failed := k.until("sess_f", is(event.TypeTurnFailed, r.TurnID)).Payload.(*event.TurnFailed)
	if failed.FailureCategory != "model_failed" || !strings.Contains(failed.Error.Message, "the key is wrong") {
		t.Errorf("got %+v", failed)
	}
}

func TestStopInTheMiddleGoesOnAfterRestart(t *testing.T) {
	var h halting
	k := newKitWith(t, h.use, says("very slowly"))
	r := k.submit("sess_r", "go")
	k.until("sess_r", is(event.TypeModelDelta, r.TurnID))
	k.close()
	h.goesOn.Store(true)
	k.open()
	k.until("sess_r", is(event.TypeTurnCompleted, r.TurnID))
	failed := k.until("sess_r", is(event.TypeModelFailed, r.TurnID)).Payload.(*event.ModelFailed)
	if failed.ErrorCategory != "interrupted" || !failed.Retryable {
		t.Errorf("got %+v", failed)
	}
}

// restartedByHand is a runtime with manual recovery that was restarted in the middle of
// a turn, and has blocked its thread.
func restartedByHand(t *testing.T, sessionID string) (*kit, *command.SubmitTurnResult) {
	t.Helper()
	var h halting
	k := newKitWith(t, h.use, says("very slowly"))
	r := k.submit(sessionID, "go")
	k.until(sessionID, is(event.TypeModelDelta, r.TurnID))
	k.close()
	k.manual = true
	h.goesOn.Store(true)
	k.open()
	k.until(sessionID, is(event.TypeThreadUpdated, ""))
	return k, r
}

func TestManualRecoveryWaitsForResume(t *testing.T) {
	k, r := restartedByHand(t, "sess_m")
	read := do[state.ThreadReadModel](k, &command.GetThreadRead{SessionID: "sess_m", ThreadID: r.ThreadID})
	if read.Status != "blocked" {
		t.Errorf("the thread is %s", read.Status)
	}
	got := do[command.ResumeThreadResult](k, &command.ResumeThread{SessionID: "sess_m", ThreadID: r.ThreadID})
	if got.Status != "resumed" || !strings.Contains(got.Reason, "manual") {
		t.Errorf("got %+v", got)
	}
	k.until("sess_m", is(event.TypeTurnCompleted, r.TurnID))
	if got := do[command.ResumeThreadResult](k, &command.ResumeThread{SessionID: "sess_m", ThreadID: r.ThreadID}); got.Status != "nothing_to_resume" {
		t.Errorf("got %+v", got)
	}
}

func TestWithoutRecoveryOthersWorkIsLeftAlone(t *testing.T) {
	var h halting
	k := newKitWith(t, h.use, says("very slowly"))
	r := k.submit("sess_n", "go")
	k.until("sess_n", is(event.TypeModelDelta, r.TurnID))
	k.close()
	before := len(k.types("sess_n", r.TurnID))
	alone, err := agentd.Open(context.Background(), agentd.Options{Store: k.store, Provider: script.New("script", nil), Model: "test", Recovery: "none"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := alone.Do(context.Background(), command.Local(), &command.SubmitTurn{Input: event.Raw(`"mine"`)}); err != nil {
		t.Fatal(err)
	}
	if err := alone.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if after := len(k.types("sess_n", r.TurnID)); after != before {
		t.Errorf("%d facts became %d", before, after)
	}
	h.goesOn.Store(true)
	k.open()
	k.until("sess_n", is(event.TypeTurnCompleted, r.TurnID))
}

// TestWhatADeadNodeLeftIsTakenUp when somebody uses its session elsewhere: no start
// looks for it there.
func TestWhatADeadNodeLeftIsTakenUp(t *testing.T) {
	asked, d := make(chan struct{}, 1), &dying{}
	k := newKitWith(t, all(stuck(asked), mortal(d)))
	r := k.submit("sess_t", "go")
	<-asked
	k.crash(d)
	k.script.Answers = []script.Answer{says("done"), says("and more")}
	k.change = func(o *agentd.Options) { o.Recovery = "none" }
	k.open()
	next := k.submit("sess_t", "and more")
	k.until("sess_t", is(event.TypeTurnCompleted, r.TurnID))
	k.until("sess_t", is(event.TypeTurnCompleted, next.TurnID))
	failed := k.until("sess_t", is(event.TypeModelFailed, r.TurnID)).Payload.(*event.ModelFailed)
	if failed.ErrorCategory != "interrupted" || !failed.Retryable {
		t.Errorf("got %+v", failed)
	}
}

func TestRuntimeIDIsMadeOnce(t *testing.T) {
	k := newKit(t)
	id := k.r.ID()
	k.close()
	k.open()
	if k.r.ID() != id || id == "" {
		t.Errorf("%s became %s", id, k.r.ID())
	}
}

func TestWhatTheStoreRepairedIsAFact(t *testing.T) {
	s := &repaired{storetest.Strict(t, storetest.NewMem())}
	r, err := agentd.Open(context.Background(), agentd.Options{Store: s, Provider: script.New("script", nil), Model: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close(context.Background())
	records, _, err := r.Events(context.Background(), command.Local(), event.RuntimeSession, 0, 10)
	if err != nil || len(records) != 3 || !strings.Contains(string(records[2].Data), "17 bytes") {
		t.Errorf("got %v, %v", records, err)
	}
	acme := command.Caller{Account: "acme"}
	if _, _, err := r.Events(context.Background(), acme, event.RuntimeSession, 0, 10); err == nil {
		t.Error("somebody who is no admin sees the runtime's own session")
	}
}

type repaired struct{ store.Store }

func (s *repaired) Meta(ctx context.Context) (store.Meta, error) {
	m, err := s.Store.Meta(ctx)
	m.Recovery = []string{"17 bytes at the end of the log could not be read"}
	return m, err
}
