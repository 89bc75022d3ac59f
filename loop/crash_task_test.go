package loop_test

import (
	"reflect"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/state"
)

// TestACrashOfATasksTurnBeginsAnotherRun: agent task, "Task is not job, run, step, or
// todo": a new run for resume-after-crash. The retry policy doesn't count it: of two
// attempts one is left after a crash and a failure. Who started the task was told the
// first run, and is told so again.
func TestACrashOfATasksTurnBeginsAnotherRun(t *testing.T) {
	s := silentAt("count")
	fails := script.Answer{When: &script.When{Contains: "count"}, Error: &script.Error{Category: "invalid_request", Message: "not now"}}
	k, dies := newMortal(t, s.wrapProvider, script.Answer{When: &script.When{Contains: "last attempt"}, Text: "three"},
		fails, fails, fails) // calls that were cut off count as answered
	runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
	runtimetest.Do[command.TaskResult](k, &command.CreateTask{
		TaskID: "task_a", SessionID: "sess_a", Objective: "count the files", TaskFields: command.TaskFields{RetryPolicy: &event.RetryPolicy{MaxAttempts: 2}},
	})
	start := &command.StartTask{Mutation: command.Mutation{IdempotencyKey: "start"}, TaskID: "task_a"}
	told := runtimetest.Do[command.TaskRunResult](k, start)
	if run := s.silence(k); run != told.RunID {
		t.Fatalf("run %s, told %s", run, told.RunID)
	}
	dies()
	k.Open()
	second := s.silence(k, told.RunID)
	words, runs := attempts(k, "task_a")
	if want := []string{"first unknown lost", "crash_recovery running"}; !reflect.DeepEqual(words, want) || !reflect.DeepEqual(runs, []string{told.RunID, second}) {
		t.Errorf("after the crash: %q %q", words, runs)
	}
	if task := runtimetest.Do[state.Task](k, &command.GetTask{TaskID: "task_a"}); task.CurrentRunID != second || task.Status != state.TaskRunning {
		t.Errorf("the task is %s in run %s", task.Status, task.CurrentRunID)
	}
	dies()
	s.goesOn.Store(true)
	k.Open()
	k.WaitFor("sess_a", func(e *event.Event) bool { return e.Type == event.TypeTaskCompleted && e.TaskID == "task_a" })
	words, _ = attempts(k, "task_a")
	if want := []string{"first unknown lost", "crash_recovery unknown lost", "crash_recovery failed model_failed", "retry completed"}; !reflect.DeepEqual(words, want) {
		t.Errorf("at the end: %q", words)
	}
	if again := runtimetest.Do[command.TaskRunResult](k, start); *again != *told {
		t.Errorf("the start again: %+v, at first %+v", again, told)
	}
}
