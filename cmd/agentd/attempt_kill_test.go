package main

import (
	"path/filepath"
	"syscall"
	"testing"

	"agentd/client"
	"agentd/command"
	"agentd/event"
	"agentd/state"
)

// TestAKilledServersTurnGoesOnInAnotherRun kills servers whose model doesn't answer,
// and asks the next ones about the attempts.
func TestAKilledServersTurnGoesOnInAnotherRun(t *testing.T) {
	dir := t.TempDir()
	slow := writeFile(t, dir, "slow.script", "answers:\n  - {text: a b, delay: 1h}\n")
	config := writeFile(t, dir, "slow.yaml", "providers:\n  - {id: play, kind: script, script: "+slow+", models: [{id: m}]}\n")
	data := filepath.Join(dir, "data")
	submit := submitParams(t, "hello")
	submit.SessionID, submit.Create, submit.TurnID = "sess_a", true, "turn_a"
	var p *process
	var told *command.SubmitTurnResult
	var runs []string
	for n := 1; n <= 3; n++ {
		p = start(t, data, "--config", config)
		// The same again is answered the same, whatever run the turn is in.
		r, err := client.Call[command.SubmitTurnResult](t.Context(), p.client(), submit)
		if err != nil || told != nil && *r != *told {
			t.Fatalf("%v: %+v, told %+v", err, r, told)
		}
		told = r
		runs = append(runs, p.until("sess_a", event.TypeModelRequested, n).RunID)
		p.stop(syscall.SIGKILL)
	}
	p = start(t, data) // its model answers at once
	p.completed(told)
	task := call[state.Task](p, &command.GetTask{TaskID: told.TaskID})
	if len(task.Attempts) != 4 || task.Status != state.TaskCompleted || task.CurrentRunID != task.Attempts[3].RunID {
		t.Fatalf("the task: %+v", task)
	}
	for i, a := range task.Attempts[:3] {
		if a.RunID != runs[i] || a.AttemptCount != int64(i+1) || a.Status != state.AttemptUnknown || a.LastError.Category != state.TaskLost || a.EndedAt.IsZero() {
			t.Errorf("attempt %d, run %s: %+v", i+1, runs[i], a)
		}
	}
	if a := task.Attempts[3]; told.RunID != runs[0] || a.Reason != state.AttemptAfterCrash || a.Status != state.AttemptCompleted {
		t.Errorf("told %s; the last attempt: %+v", told.RunID, a)
	}
	// A server that is killed when nothing is under way leaves everything as it is.
	p.stop(syscall.SIGKILL)
	p = start(t, data)
	if again := call[state.Task](p, &command.GetTask{TaskID: told.TaskID}); len(again.Attempts) != 4 {
		t.Errorf("after another kill: %+v", again.Attempts)
	}
	p.stop(syscall.SIGTERM)
	says(t, self(t, "verify", "--data", data))
}
