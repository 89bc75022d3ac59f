package loop_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/hook"
	"agentd/internal/runtimetest"
	"agentd/model"
	"agentd/model/provider/script"
	"agentd/state"
	"agentd/tool"
)

// phase is what a client that asks now is told of a thread and of one of its turns.
func phase(k *runtimetest.Kit, r *command.SubmitTurnResult) (thread, turn string) {
	k.Helper()
	read := k.Thread(r)
	for i := range read.Turns {
		if read.Turns[i].TurnID == r.TurnID {
			return read.Phase, read.Turns[i].Phase
		}
	}
	for _, q := range read.QueuedTurns {
		if q.TurnID == r.TurnID {
			return read.Phase, "queued"
		}
	}
	k.Fatalf("turn %s isn't there: %+v", r.TurnID, read)
	return "", ""
}

// expects holds what a client is told against what must be told.
func expects(k *runtimetest.Kit, r *command.SubmitTurnResult, want string) {
	k.Helper()
	if thread, turn := phase(k, r); thread != want || turn != want {
		k.Errorf("the thread is %s, the turn %s; want %s", thread, turn, want)
	}
}

// TestPhasesAreSeenWhileTheyLast stops a turn in each of its phases and asks for it
// as a client does.
func TestPhasesAreSeenWhileTheyLast(t *testing.T) {
	t.Run("accepted and queued", func(t *testing.T) {
		asked, release := make(chan struct{}), make(chan struct{})
		first := true
		h := &runtimetest.Hooks{Points: []hook.Point{hook.UserPromptSubmit}, Answer: func(context.Context, *hook.Input, string) (string, error) {
			if first {
				first = false
				close(asked)
				<-release
			}
			return `{}`, nil
		}}
		k := runtimetest.NewWith(t, h.Use(t))
		r := k.Submit("sess_a", "go")
		<-asked
		next := k.Submit("sess_a", "then this")
		expects(k, r, "accepted")
		if _, turn := phase(k, next); turn != "queued" || r.Status != "accepted" || next.Status != "queued" || next.Position != 1 {
			t.Errorf("%s, %+v, %+v", turn, r, next)
		}
		close(release)
		k.Completes(r)
		k.Completes(next)
	})
	t.Run("streaming", func(t *testing.T) {
		var h runtimetest.HaltingModel
		k := runtimetest.NewWith(t, h.Use, runtimetest.Says("and on and on"))
		r := k.Submit("sess_a", "go")
		k.WaitFor("sess_a", runtimetest.FactIs(event.TypeModelDelta, r.TurnID))
		expects(k, r, "streaming")
		runtimetest.Do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_a"})
		k.Fails(r, "interrupted")
		expects(k, r, "cancelled")
	})
	t.Run("running", func(t *testing.T) {
		begun, release := make(chan struct{}), make(chan struct{})
		hold := func(context.Context, *tool.Call) (*tool.Result, error) {
			close(begun)
			<-release
			return &tool.Result{Output: []byte("ok")}, nil
		}
		k := runtimetest.NewWith(t, runtimetest.WithTools(t, runtimetest.ReadOnlyTool("hold", hold)), runtimetest.CallsTool("hold", nil), runtimetest.Says("done"))
		r := k.Submit("sess_a", "go")
		<-begun
		expects(k, r, "running")
		close(release)
		k.Completes(r)
		expects(k, r, "completed")
	})
	t.Run("waiting", func(t *testing.T) {
		k := runtimetest.New(t, runtimetest.CallsTool("write_file", map[string]any{"path": "a", "content": "1"}), script.Answer{Ask: &script.Ask{Prompt: "Well?"}}, runtimetest.Says("done"))
		r := k.Submit("sess_a", "go")
		action, _ := k.WaitForAction("sess_a", 1)
		expects(k, r, "waiting_permission")
		k.Respond(action, "allow")
		action, _ = k.WaitForAction("sess_a", 2)
		expects(k, r, "waiting_input")
		runtimetest.Do[command.RespondActionResult](k, &command.RespondAction{ActionID: action, Decision: "submit", Payload: event.Raw(`"yes"`)})
		k.Completes(r)
	})
	t.Run("retrying", func(t *testing.T) {
		k := runtimetest.NewWith(t, nil, script.Answer{Error: &script.Error{Category: "rate_limited", Message: "slow", Retryable: true, RetryAfter: time.Minute}})
		r := k.Submit("sess_a", "go")
		k.WaitFor("sess_a", runtimetest.FactIs(event.TypeRunStatus, r.TurnID))
		expects(k, r, "retrying")
		runtimetest.Do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_a"})
		k.Fails(r, "interrupted")
	})
}

// TestBlockedIsSeen: a thread that can't go on by itself says so, and why.
func TestBlockedIsSeen(t *testing.T) {
	k, r := restartedByHand(t, "sess_a")
	if read := k.Thread(r); read.Status != "blocked" || read.Phase != "blocked" || read.Block == nil || read.Block.Reason == "" {
		t.Errorf("the thread is %s, %s: %+v", read.Status, read.Phase, read.Block)
	}
	runtimetest.Do[command.ResumeThreadResult](k, &command.ResumeThread{SessionID: "sess_a", ThreadID: r.ThreadID})
	k.Completes(r)
}

// TestPhasesFollowTheFacts goes through the facts of a turn that has seen
// everything, and looks at what a client would have been told after each of them.
func TestPhasesFollowTheFacts(t *testing.T) {
	k := runtimetest.NewWith(t, func(o *agentd.Options) { o.Loop.Backoff = model.Backoff{Base: time.Millisecond} },
		failing("overloaded", true), script.Answer{Text: "I write.", Tools: []script.Tool{{Name: "write_file", Arguments: map[string]any{"path": "a", "content": "1"}}}}, runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	action, _ := k.WaitForAction("sess_a", 1)
	k.Respond(action, "allow")
	k.Completes(r)
	s := state.New("sess_a")
	var phases []string
	for _, e := range k.Facts("sess_a") {
		if _, err := s.Apply(e); err != nil {
			t.Fatal(err)
		}
		if read := s.ThreadRead(r.ThreadID); read != nil && e.TurnID == r.TurnID && (len(phases) == 0 || phases[len(phases)-1] != read.Phase) {
			phases = append(phases, read.Phase)
		}
	}
	want := []string{"accepted", "preparing", "running", "retrying", "running", "streaming", "running", "waiting_permission", "running", "streaming", "running", "completed"}
	if !slices.Equal(phases, want) {
		t.Errorf("got  %v\nwant %v", phases, want)
	}
}
