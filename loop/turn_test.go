package loop_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/state"
)

func TestTurnRunsToItsEnd(t *testing.T) {
	k := runtimetest.New(t, script.Answer{Text: "Hello, world.", Reasoning: "be nice", Chunks: 1})
	r := k.Submit("sess_a", "hi")
	k.WaitFor("sess_a", runtimetest.FactIs(event.TypeTaskCompleted, r.TurnID))
	want := []event.Type{
		event.TypeTurnSubmitted, event.TypeTaskCreated,
		event.TypeTaskAttemptStarted, event.TypeTaskStarted, event.TypeTurnStarted,
		event.TypeContextResolved, event.TypeToolCatalogResolved, event.TypeTaskProfileResolved,
		event.TypeRoutingCandidatesResolved, event.TypeRoutingSingleCandidate,
		event.TypeCostEstimated, event.TypeModelRequested, event.TypeReasoningDelta, event.TypeModelDelta, event.TypeModelCompleted,
		event.TypeCostRecorded,
		event.TypeTurnCompleted, event.TypeTaskAttemptCompleted, event.TypeTaskCompleted,
	}
	if got := k.FactTypes("sess_a", r.TurnID); !slices.Equal(got, want) {
		t.Errorf("facts: %v", got)
	}
	read := runtimetest.Do[state.ThreadReadModel](k, &command.GetThreadRead{SessionID: "sess_a", ThreadID: r.ThreadID})
	if read.Status != "completed" {
		t.Errorf("the thread is %s", read.Status)
	}
}

func TestWithoutAScriptTheProviderRepeatsTheUser(t *testing.T) {
	k := runtimetest.New(t)
	r := k.Submit("sess_e", "good morning")
	done := k.WaitFor("sess_e", runtimetest.FactIs(event.TypeModelCompleted, r.TurnID)).Payload.(*event.ModelCompleted)
	if done.Message.Text != "You said: good morning" || done.StopReason != "end_turn" {
		t.Errorf("got %+v", done.Message)
	}
}

func TestQueuedTurnsRunOneAfterTheOther(t *testing.T) {
	k := runtimetest.New(t)
	var turns []*command.SubmitTurnResult
	for range 5 {
		turns = append(turns, k.Submit("sess_q", "next"))
	}
	k.WaitFor("sess_q", runtimetest.FactIs(event.TypeTurnCompleted, turns[4].TurnID))
	var order []string
	running := ""
	k.WaitFor("sess_q", func(e *event.Event) bool {
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
	k := runtimetest.New(t, script.Answer{Ask: &script.Ask{Prompt: "Which colour?"}}, script.Answer{Text: "Blue it is."})
	r := k.Submit("sess_w", "paint")
	asked := k.WaitFor("sess_w", runtimetest.FactIs(event.TypeActionRequired, r.TurnID))
	if p := asked.Payload.(*event.ActionRequired); p.Prompt != "Which colour?" || p.ActionType != "structured_input" {
		t.Errorf("got %+v", p)
	}
	k.Close()
	k.Open() // a pending question survives a restart
	read := runtimetest.Do[state.ThreadReadModel](k, &command.GetThreadRead{SessionID: "sess_w", ThreadID: r.ThreadID})
	if read.Status != "blocked" || read.Phase != "waiting_input" {
		t.Errorf("the thread is %s, %s", read.Status, read.Phase)
	}
	runtimetest.Do[command.RespondActionResult](k, &command.RespondAction{ActionID: asked.ActionID, Decision: "submit", Payload: event.Raw(`{"colour":"blue"}`)})
	k.WaitFor("sess_w", runtimetest.FactIs(event.TypeTurnCompleted, r.TurnID))
	result := k.WaitFor("sess_w", runtimetest.FactIs(event.TypeToolResult, r.TurnID)).Payload.(*event.ToolResult)
	if !strings.Contains(string(result.StructuredContent), "blue") {
		t.Errorf("got %+v", result)
	}
}

func TestInterruptStopsAStreamingModel(t *testing.T) {
	var h runtimetest.HaltingModel
	k := runtimetest.NewWith(t, h.Use, runtimetest.Says("and on and on"))
	r := k.Submit("sess_i", "talk")
	next := k.Submit("sess_i", "and then")
	k.WaitFor("sess_i", runtimetest.FactIs(event.TypeModelDelta, r.TurnID))
	runtimetest.Do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_i", Reason: "enough"})
	failed := k.WaitFor("sess_i", runtimetest.FactIs(event.TypeTurnFailed, r.TurnID)).Payload.(*event.TurnFailed)
	if failed.Status != "cancelled" || failed.FailureCategory != "interrupted" || failed.Error.Message != "enough" {
		t.Errorf("got %+v", failed)
	}
	k.WaitFor("sess_i", runtimetest.FactIs(event.TypeTurnStarted, next.TurnID)) // the queue goes on
}

func TestInterruptOfAWaitingTurnCancelsItsQuestion(t *testing.T) {
	k := runtimetest.New(t, script.Answer{Ask: &script.Ask{Prompt: "Really?"}})
	r := k.Submit("sess_x", "ask")
	asked := k.WaitFor("sess_x", runtimetest.FactIs(event.TypeActionRequired, r.TurnID))
	runtimetest.Do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_x"})
	k.WaitFor("sess_x", runtimetest.FactIs(event.TypeTurnFailed, r.TurnID))
	resolved := k.WaitFor("sess_x", runtimetest.FactIs(event.TypeActionResolved, r.TurnID))
	if p := resolved.Payload.(*event.ActionResolved); resolved.ActionID != asked.ActionID || p.Status != "cancelled" {
		t.Errorf("got %+v", p)
	}
}

func TestFailedModelFailsTheTurn(t *testing.T) {
	k := runtimetest.New(t, script.Answer{Error: &script.Error{Category: "auth", Message: "the key is wrong"}})
	r := k.Submit("sess_f", "hi")
	failed := k.WaitFor("sess_f", runtimetest.FactIs(event.TypeTurnFailed, r.TurnID)).Payload.(*event.TurnFailed)
	if failed.FailureCategory != "model_failed" || !strings.Contains(failed.Error.Message, "the key is wrong") {
		t.Errorf("got %+v", failed)
	}
}

func TestStopInTheMiddleGoesOnAfterRestart(t *testing.T) {
	var h runtimetest.HaltingModel
	k := runtimetest.NewWith(t, h.Use, runtimetest.Says("very slowly"))
	r := k.Submit("sess_r", "go")
	k.WaitFor("sess_r", runtimetest.FactIs(event.TypeModelDelta, r.TurnID))
	k.Close()
	h.GoesOn.Store(true)
	k.Open()
	k.WaitFor("sess_r", runtimetest.FactIs(event.TypeTurnCompleted, r.TurnID))
	failed := k.WaitFor("sess_r", runtimetest.FactIs(event.TypeModelFailed, r.TurnID)).Payload.(*event.ModelFailed)
	if failed.ErrorCategory != "interrupted" || !failed.Retryable {
		t.Errorf("got %+v", failed)
	}
}

// restartedByHand is a runtime with manual recovery that was restarted in the middle of
// a turn, and has blocked its thread.
func restartedByHand(t *testing.T, sessionID string) (*runtimetest.Kit, *command.SubmitTurnResult) {
	t.Helper()
	var h runtimetest.HaltingModel
	k := runtimetest.NewWith(t, h.Use, runtimetest.Says("very slowly"))
	r := k.Submit(sessionID, "go")
	k.WaitFor(sessionID, runtimetest.FactIs(event.TypeModelDelta, r.TurnID))
	k.Close()
	k.Manual = true
	h.GoesOn.Store(true)
	k.Open()
	k.WaitFor(sessionID, runtimetest.FactIs(event.TypeThreadUpdated, ""))
	return k, r
}

func TestManualRecoveryWaitsForResume(t *testing.T) {
	k, r := restartedByHand(t, "sess_m")
	read := runtimetest.Do[state.ThreadReadModel](k, &command.GetThreadRead{SessionID: "sess_m", ThreadID: r.ThreadID})
	if read.Status != "blocked" {
		t.Errorf("the thread is %s", read.Status)
	}
	got := runtimetest.Do[command.ResumeThreadResult](k, &command.ResumeThread{SessionID: "sess_m", ThreadID: r.ThreadID})
	if got.Status != "resumed" || !strings.Contains(got.Reason, "manual") {
		t.Errorf("got %+v", got)
	}
	k.WaitFor("sess_m", runtimetest.FactIs(event.TypeTurnCompleted, r.TurnID))
	if got := runtimetest.Do[command.ResumeThreadResult](k, &command.ResumeThread{SessionID: "sess_m", ThreadID: r.ThreadID}); got.Status != "nothing_to_resume" {
		t.Errorf("got %+v", got)
	}
}

// TestAResumedThreadThatWaitsGoesOnWithItsAnswer: after a restart by hand, a thread that
// waits for an answer needs resume_thread once and the answer once, in either order.
func TestAResumedThreadThatWaitsGoesOnWithItsAnswer(t *testing.T) {
	for _, first := range []string{"resume", "answer"} {
		t.Run(first, func(t *testing.T) {
			k := runtimetest.New(t, runtimetest.WritesFile("a.txt", "a"), runtimetest.Says("done"))
			r := k.Submit("sess_m", "go")
			action, _ := k.WaitForAction("sess_m", 1)
			k.Close()
			k.Manual = true
			k.Open()
			k.WaitFor("sess_m", runtimetest.FactIs(event.TypeThreadUpdated, ""))
			resume := func(status string) {
				t.Helper()
				got := runtimetest.Do[command.ResumeThreadResult](k, &command.ResumeThread{SessionID: "sess_m", ThreadID: r.ThreadID})
				if got.Status != status || !slices.Equal(got.Recovered, []string{"recovery_manual"}) {
					t.Errorf("got %+v", got)
				}
			}
			if first == "resume" {
				resume("blocked")
				if read := k.Thread(r); read.Status != "blocked" || read.Phase != "waiting_permission" {
					t.Errorf("the thread is %s/%s", read.Status, read.Phase)
				}
				k.Respond(action, "allow")
			} else {
				k.Respond(action, "allow")
				resume("resumed")
			}
			k.Completes(r)
		})
	}
}

func TestWithoutRecoveryOthersWorkIsLeftAlone(t *testing.T) {
	var h runtimetest.HaltingModel
	k := runtimetest.NewWith(t, h.Use, runtimetest.Says("very slowly"))
	r := k.Submit("sess_n", "go")
	k.WaitFor("sess_n", runtimetest.FactIs(event.TypeModelDelta, r.TurnID))
	k.Close()
	before := len(k.FactTypes("sess_n", r.TurnID))
	alone, err := agentd.Open(context.Background(), agentd.Options{Store: k.Store, Provider: script.New("script", nil), Model: "test", Recovery: "none"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := alone.Do(context.Background(), command.Local(), &command.SubmitTurn{Input: event.Raw(`"mine"`)}); err != nil {
		t.Fatal(err)
	}
	if err := alone.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if after := len(k.FactTypes("sess_n", r.TurnID)); after != before {
		t.Errorf("%d facts became %d", before, after)
	}
	h.GoesOn.Store(true)
	k.Open()
	k.WaitFor("sess_n", runtimetest.FactIs(event.TypeTurnCompleted, r.TurnID))
}

// TestWhatADeadNodeLeftIsTakenUp when somebody uses its session elsewhere: no start
// looks for it there.
func TestWhatADeadNodeLeftIsTakenUp(t *testing.T) {
	asked, d := make(chan struct{}, 1), &runtimetest.DyingStore{}
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.StuckModel(asked), runtimetest.OnDyingStore(d)))
	r := k.Submit("sess_t", "go")
	<-asked
	k.Crash(d)
	k.Script.Answers = []script.Answer{runtimetest.Says("done"), runtimetest.Says("and more")}
	k.Change = func(o *agentd.Options) { o.Recovery = "none" }
	k.Open()
	next := k.Submit("sess_t", "and more")
	k.WaitFor("sess_t", runtimetest.FactIs(event.TypeTurnCompleted, r.TurnID))
	k.WaitFor("sess_t", runtimetest.FactIs(event.TypeTurnCompleted, next.TurnID))
	failed := k.WaitFor("sess_t", runtimetest.FactIs(event.TypeModelFailed, r.TurnID)).Payload.(*event.ModelFailed)
	if failed.ErrorCategory != "interrupted" || !failed.Retryable {
		t.Errorf("got %+v", failed)
	}
}
