package work_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/state"
)

// TestALostTaskIsTriedAgain has workers that vanish: that the task is lost is
// recorded first, then another attempt waits for a worker, over restarts, until the
// policy has none left.
func TestALostTaskIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t)
		first := k.hire("task_a", time.Minute, &event.RetryPolicy{MaxAttempts: 3, BackoffMs: 600_000})
		waiting := k.await("task_a", state.TaskRetrying)
		if a := waiting.Attempts[0]; a.Status != state.AttemptUnknown || a.LastError.Category != "lost" || a.NextAttemptPolicy != "another attempt, as the retry policy says" {
			t.Errorf("the lost attempt: %+v", a)
		}
		if wait := time.Until(waiting.RetryAt); wait < 9*time.Minute || !waiting.EndedAt.IsZero() || waiting.LastError.Category != "lost" {
			t.Errorf("it is tried again in %s: %+v", wait, waiting)
		}
		k.refuse(fault.Conflict, &command.AppendTaskProgress{TaskID: "task_a", Progress: &event.Progress{}}, "declared lost")
		k.restart()
		second := k.await("task_a", state.TaskRunning)
		if a := second.Attempts[1]; len(second.Attempts) != 2 || a.Reason != "lost_worker" || a.AttemptCount != 2 || a.Worker.ID != "" {
			t.Fatalf("the second attempt: %+v", second.Attempts)
		}
		// Nobody took it: that is said, and it was an attempt.
		if gone := k.await("task_a", state.TaskRetrying); gone.StatusReason != "no worker took the attempt within 1m0s" {
			t.Errorf("given up because %s", gone.StatusReason)
		}
		third := k.await("task_a", state.TaskRunning)
		k.restart()
		if got := k.start("task_a"); got.RunID != third.CurrentRunID || got.AttemptCount != 3 {
			t.Errorf("took %+v, there is %s", got, third.CurrentRunID)
		}
		k.refuse(fault.Conflict, &command.CompleteTask{TaskID: "task_a", RunID: first}, "declared lost", third.CurrentRunID)
		end := k.await("task_a", state.TaskLost)
		if a := end.Attempts[2]; len(end.Attempts) != 3 || a.Status != state.AttemptUnknown || a.NextAttemptPolicy != "none: retry_task starts another" || end.EndedAt.IsZero() {
			t.Errorf("the end: %+v", end.Attempts)
		}
		begins, loses := []event.Type{event.TypeTaskAttemptStarted, event.TypeTaskStarted}, []event.Type{event.TypeTaskAttemptFailed, event.TypeTaskLost}
		again := []event.Type{event.TypeTaskRetrying}
		want := slices.Concat([]event.Type{event.TypeTaskCreated, event.TypeTaskAccepted}, begins, []event.Type{event.TypeTaskDelegated}, loses, again,
			[]event.Type{event.TypeTaskProgress}, // the first worker's, late
			begins, loses, again,
			begins, []event.Type{event.TypeTaskAttemptStarted, event.TypeTaskDelegated, event.TypeTaskAttemptCompleted}, // it is taken; the first worker's result, late
			loses)
		if got := k.factTypesOf(end); !slices.Equal(got, want) {
			t.Errorf("facts: %v\nwant:  %v", got, want)
		}
	})
}

// TestLostTasksThatAreNotTriedAgain: without attempts left, with a policy that
// excludes it, or when the task's time limit has passed, lost is the end.
func TestLostTasksThatAreNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t)
		k.hire("task_once", time.Minute, nil)
		k.hire("task_never", time.Minute, &event.RetryPolicy{MaxAttempts: 5, NonRetryable: []string{"lost"}})
		k.create(command.CreateTask{TaskID: "task_late", Worker: "external", Start: true, TaskFields: command.TaskFields{
			HeartbeatTimeoutMs: 60_000, RetryPolicy: &event.RetryPolicy{MaxAttempts: 5}, Constraints: &event.TaskConstraints{MaxRuntimeMs: 90_000},
		}})
		for _, id := range []string{"task_once", "task_never"} {
			if end := k.await(id, state.TaskLost); len(end.Attempts) != 1 || !end.RetryAt.IsZero() {
				t.Errorf("%s: %+v", id, end)
			}
		}
		if end := k.await("task_late", state.TaskTimedOut); len(end.Attempts) != 2 || end.Attempts[0].Status != state.AttemptUnknown {
			t.Errorf("task_late: %+v", end.Attempts)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		for id, want := range map[string]string{"task_once": state.TaskLost, "task_never": state.TaskLost, "task_late": state.TaskTimedOut} {
			if got := k.task(id).Status; got != want {
				t.Errorf("%s became %s", id, got)
			}
		}
	})
}

// named is a caller with a name of its own.
func named(id string) command.Caller {
	c := command.Local()
	c.Actor = event.Actor{Kind: "worker", ID: id}
	return c
}

// TestAReportIsNeverTakenForAnothersWork has two workers that name no run: what the
// first says after it was declared lost is not taken for the second's.
func TestAReportIsNeverTakenForAnothersWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t)
		as := func(who string, p command.Params) error {
			_, err := k.runCommand(context.Background(), named(who), p)
			return err
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		done := &command.CompleteTask{TaskID: "task_a", Summary: "mine"}
		k.create(command.CreateTask{TaskID: "task_a", Worker: "external", TaskFields: command.TaskFields{HeartbeatTimeoutMs: 60_000, RetryPolicy: &event.RetryPolicy{MaxAttempts: 3}}})
		must(as("ann", &command.StartTask{TaskID: "task_a"}))
		first := k.task("task_a").CurrentRunID
		k.awaitTask("task_a", "tried again", func(x *state.Task) bool { return x.CurrentRunID != first })
		// The second attempt is nobody's: whose work it is can't be told.
		k.refuseTo(named("ann"), fault.Conflict, done, "given up", "name the run", "start_task")
		// Who was never given up can only mean the newest; then it isn't nobody's any more.
		must(as("bob", &command.AppendTaskProgress{TaskID: "task_a", Progress: &event.Progress{Phase: "working"}}))
		k.restart()
		must(as("bob", &command.AppendTaskProgress{TaskID: "task_a", Progress: &event.Progress{Phase: "working"}}))
		second := k.task("task_a")
		k.awaitTask("task_a", "tried again", func(x *state.Task) bool { return x.CurrentRunID != second.CurrentRunID })
		must(as("bob", &command.StartTask{TaskID: "task_a"}))
		k.refuseTo(named("ann"), fault.Conflict, done, "declared lost", first)
		if now := k.task("task_a"); now.Status != state.TaskRunning || len(now.Attempts[0].Late) != 1 || now.Attempts[0].Late[0].Summary != "mine" {
			t.Errorf("after ann's word: %s %+v", now.Status, now.Attempts[0])
		}
		must(as("bob", &command.CompleteTask{TaskID: "task_a", Summary: "bob's"}))
		if end := k.task("task_a"); end.Summary != "bob's" || end.Attempts[2].Status != state.AttemptCompleted || end.Attempts[0].Status != state.AttemptUnknown {
			t.Errorf("the end: %+v", end)
		}
	})
}

// TestADependentWaitsWhileALostTaskIsTriedAgain: what waits for the task doesn't
// learn of the loss as of a failure.
func TestADependentWaitsWhileALostTaskIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t)
		k.hire("task_a", time.Minute, &event.RetryPolicy{MaxAttempts: 2})
		k.create(command.CreateTask{TaskID: "task_b", DependsOn: []string{"task_a"}, Start: true})
		k.awaitTask("task_a", "tried again", func(x *state.Task) bool { return len(x.Attempts) == 2 })
		k.start("task_a")
		ask[command.TaskResult](k, &command.CompleteTask{TaskID: "task_a"})
		b := k.await("task_b", state.TaskCompleted)
		for _, e := range k.facts(b.SessionID) {
			if p, ok := e.Payload.(*event.TaskDependencyUpdated); ok && e.TaskID == "task_b" && p.Status == "failed" {
				t.Errorf("its dependency was taken for failed: %+v", p)
			}
		}
	})
}
