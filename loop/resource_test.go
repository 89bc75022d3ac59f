package loop_test

import (
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/state"
)

func refuses(category string) script.Answer {
	return script.Answer{Error: &script.Error{Category: category, Message: "the account is used up"}}
}

// specification.md, completion and failure: waiting_resource is the word for a missing
// credential or quota. A turn that has worked already waits, and goes on when a person
// says that it can.
func TestTurnWaitsForAKeyOrAQuota(t *testing.T) {
	for _, category := range []string{"auth", "rate_limited"} {
		t.Run(category, func(t *testing.T) {
			k := runtimetest.NewWith(t, runtimetest.QuickBackoff, runtimetest.CallsTool("list_files", map[string]any{"path": "."}), refuses(category), refuses(category), runtimetest.Says("at last"))
			r := k.Submit("sess_a", "go")
			first, asked := k.WaitForAction("sess_a", 1)
			if asked.ActionType != state.ActionResume || !strings.Contains(asked.Prompt, "the account is used up") || len(asked.Decisions) == 0 {
				t.Errorf("%+v", asked)
			}
			if read := k.Thread(r); read.Status != state.ThreadBlocked || read.Phase != "waiting_resource" {
				t.Errorf("%s, %s", read.Status, read.Phase)
			}
			if s := runtimetest.Payloads[*event.RunStatus](k, "sess_a"); len(s) == 0 || s[len(s)-1].Phase != "waiting_resource" || s[len(s)-1].Detail == "" {
				t.Errorf("%+v", s)
			}
			k.Close()
			k.Open()
			k.Respond(first, "allow")
			second, _ := k.WaitForAction("sess_a", 2) // it is refused again
			k.Respond(second, "allow")
			k.Completes(r)
			if n := k.CountFacts("sess_a", event.TypeModelRequested); n != 4 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

func TestTurnThatNobodyHelpsFails(t *testing.T) {
	k := runtimetest.New(t, runtimetest.CallsTool("list_files", map[string]any{"path": "."}), refuses("auth"))
	r := k.Submit("sess_a", "go")
	action, _ := k.WaitForAction("sess_a", 1)
	k.Respond(action, "deny")
	if p := k.Fails(r, "model_failed"); !strings.Contains(p.Error.Message, "auth") {
		t.Errorf("%+v", p.Error)
	}
	// A turn without an answer has nothing to lose.
	k = runtimetest.New(t, refuses("auth"))
	k.Fails(k.Submit("sess_a", "go"), "model_failed")
	if n := k.CountFacts("sess_a", event.TypeActionRequired); n != 0 {
		t.Error("a person was asked")
	}
}

// agent-task.md, status model: a task whose credential is missing is waiting_resource.
func TestTaskWaitsForAKey(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.QuickBackoff, refuses("auth"), runtimetest.Says("done"))
	runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
	runtimetest.Do[command.TaskResult](k, &command.CreateTask{TaskID: "task_a", SessionID: "sess_a", Objective: "paint", Start: true})
	action, _ := k.WaitForAction("sess_a", 1)
	k.WaitFor("sess_a", func(e *event.Event) bool { return e.Type == event.TypeTaskWaiting && e.TaskID == "task_a" })
	if task := runtimetest.Do[state.Task](k, &command.GetTask{TaskID: "task_a"}); task.Status != "waiting_resource" {
		t.Errorf("%s: %s", task.Status, task.StatusReason)
	}
	k.Respond(action, "allow")
	k.WaitFor("sess_a", func(e *event.Event) bool { return e.Type == event.TypeTaskCompleted && e.TaskID == "task_a" })
}
