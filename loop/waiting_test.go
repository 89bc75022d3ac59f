package loop_test

import (
	"slices"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/session"
	"agentd/state"
)

// taskStory is what the facts of a turn's task say, in order, with the actions in
// between.
func taskStory(k *runtimetest.Kit, r *command.SubmitTurnResult) string {
	k.Helper()
	var out []string
	for _, e := range k.Facts(r.SessionID) {
		if e.TaskID != r.TaskID {
			continue
		}
		switch p := e.Payload.(type) {
		case *event.ActionRequired, *event.ActionResolved:
			out = append(out, string(e.Type))
		case *event.TaskStatusChanged:
			out = append(out, string(e.Type)+"="+p.Status)
		}
	}
	return strings.Join(out, " ")
}

// taskOf reads the task of a turn.
func taskOf(k *runtimetest.Kit, r *command.SubmitTurnResult) state.Task {
	k.Helper()
	snap := runtimetest.Do[session.GetSessionResult](k, &command.GetSession{SessionID: r.SessionID})
	i := slices.IndexFunc(snap.Tasks, func(t state.Task) bool { return t.TaskID == r.TaskID })
	if i < 0 {
		k.Fatalf("there is no task %s", r.TaskID)
	}
	return snap.Tasks[i]
}

// TestTheTaskOfATurnSaysThatItWaits, what for, and that it goes on: by facts of its
// own, which name the action.
func TestTheTaskOfATurnSaysThatItWaits(t *testing.T) {
	asks := script.Answer{Tools: []script.Tool{{Name: "request_input", Arguments: map[string]any{"prompt": "Well?"}}}}
	for _, c := range []struct {
		name, status, decision string
		payload                event.Raw
		answer                 script.Answer
	}{
		{"permission", "waiting_permission", "allow", nil, runtimetest.WritesFile("a.txt", "x")},
		{"permission denied", "waiting_permission", "deny", nil, runtimetest.WritesFile("a.txt", "x")},
		{"input", "waiting_input", "submit", event.Raw(`"yes"`), asks},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := runtimetest.NewWith(t, runtimetest.InMode("default"), c.answer, runtimetest.Says("done"))
			r := k.Submit("sess_a", "go")
			id, _ := k.WaitForAction("sess_a", 1)
			e := k.WaitFor("sess_a", func(e *event.Event) bool { return e.Type == event.TypeTaskWaiting })
			p := e.Payload.(*event.TaskStatusChanged)
			if p.Status != c.status || !slices.Equal(p.Blockers, []string{id}) || p.StatusReason == "" || e.TurnID != r.TurnID || e.RunID != r.RunID {
				t.Errorf("%+v %+v", e.Scope, p)
			}
			if got := taskOf(k, r); got.Status != c.status || got.StatusSequence != e.Sequence || !slices.Equal(got.Blockers, []string{id}) {
				t.Errorf("the read model: %+v", got)
			}
			runtimetest.Do[command.RespondActionResult](k, &command.RespondAction{ActionID: id, Decision: c.decision, Payload: c.payload})
			k.Completes(r)
			want := "task.started=running action.required task.waiting=" + c.status + " action.resolved task.resumed=running"
			if got := taskStory(k, r); got != want {
				t.Errorf("the task's story:\n%s\nwant\n%s", got, want)
			}
			if got := taskOf(k, r); got.Status != "completed" || len(got.Blockers) != 0 {
				t.Errorf("in the end: %+v", got)
			}
		})
	}
}

// TestATaskThatIsCancelledWhileItWaitsDoesNotGoOn: nothing says that it did.
func TestATaskThatIsCancelledWhileItWaitsDoesNotGoOn(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.InMode("default"), runtimetest.WritesFile("a.txt", "x"), runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	k.WaitForAction("sess_a", 1)
	runtimetest.Do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_a"})
	k.Fails(r, "interrupted")
	want := "task.started=running action.required task.waiting=waiting_permission action.resolved task.cancelled=cancelled"
	if got := taskStory(k, r); got != want {
		t.Errorf("the task's story:\n%s\nwant\n%s", got, want)
	}
}

// TestTheTaskWaitsForAllThatIsAsked: it goes on with the last answer, not before.
func TestTheTaskWaitsForAllThatIsAsked(t *testing.T) {
	both := script.Answer{Tools: []script.Tool{
		{Name: "request_input", Arguments: map[string]any{"prompt": "One?"}},
		{Name: "request_input", Arguments: map[string]any{"prompt": "Two?"}},
	}}
	k := runtimetest.NewWith(t, runtimetest.InMode("default"), both, runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	for n := range 2 {
		id, _ := k.WaitForAction("sess_a", n+1)
		runtimetest.Do[command.RespondActionResult](k, &command.RespondAction{ActionID: id, Decision: "submit", Payload: event.Raw(`"x"`)})
	}
	k.Completes(r)
	waiting := 0
	for _, e := range k.Facts("sess_a") {
		switch e.Type {
		case event.TypeActionRequired:
			waiting++
		case event.TypeActionResolved:
			waiting--
		case event.TypeTaskResumed:
			if waiting != 0 {
				t.Errorf("fact %d says that it goes on while it waits for %d", e.Sequence, waiting)
			}
		}
	}
	if story := taskStory(k, r); !strings.HasSuffix(story, "action.resolved task.resumed=running") {
		t.Errorf("the task's story: %s", story)
	}
}
