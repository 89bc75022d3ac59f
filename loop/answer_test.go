package loop_test

import (
	"context"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
)

// TestATurnStartsOnceItsSubmissionIsAnswered: who answers a submission lets the turn
// wait for that, also when several requests carry the same id, and when the
// submission is refused.
func TestATurnStartsOnceItsSubmissionIsAnswered(t *testing.T) {
	k := runtimetest.New(t)
	var first, second command.Answer
	submit := func(a *command.Answer, sessionID, turnID string) error {
		caller := command.Local()
		caller.RequestID, caller.Answer = "req_same", a
		_, err := k.Runtime.Do(context.Background(), caller, &command.SubmitTurn{SessionID: sessionID, Create: true, TurnID: turnID, Input: runtimetest.Quoted("x")})
		return err
	}
	if err := submit(&first, "sess_a", "turn_a"); err != nil {
		t.Fatal(err)
	}
	if err := submit(&second, "sess_b", "turn_b"); err != nil {
		t.Fatal(err)
	}
	completed := func(e *event.Event) bool { return e.Type == event.TypeTurnCompleted }
	waits := func(sessionID string) {
		t.Helper()
		// A turn that waits for nobody goes by.
		k.Submit("sess_other", "y")
		k.WaitFor("sess_other", completed)
		for _, e := range k.Facts(sessionID) {
			if e.Type == event.TypeTurnStarted {
				t.Errorf("the turn of %s started before its submission was answered", sessionID)
			}
		}
	}
	waits("sess_a")
	waits("sess_b")

	// The first answer lets go of what was submitted so far under its id; what comes
	// under it later waits again.
	first.Sent()
	k.WaitFor("sess_a", completed)
	var third command.Answer
	if err := submit(&third, "sess_c", "turn_c"); err != nil {
		t.Fatal(err)
	}
	waits("sess_c")
	second.Sent()
	third.Sent()
	k.WaitFor("sess_b", completed)
	k.WaitFor("sess_c", completed)

	var last command.Answer
	if err := submit(&last, "sess_c", "turn_d"); err != nil {
		t.Fatal(err)
	}
	last.Sent()
	last.Sent() // does nothing twice
	caller := command.Local()
	caller.RequestID, caller.Answer = "req_none", &last
	if _, err := k.Runtime.Do(context.Background(), caller, &command.SubmitTurn{SessionID: "sess_none", Input: runtimetest.Quoted("x")}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a turn in no session: %v", err)
	}
	last.Sent()
	k.Submit("sess_d", "z") // and whoever answers nobody waits for nothing
	k.WaitFor("sess_d", completed)
}
