package work_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/model"
	"agentd/model/provider/script"
	"agentd/state"
)

func TestTaskRunsInAThreadOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t, script.Answer{Text: "There are three."})
		made := k.create(command.CreateTask{TaskID: "task_a", TaskFields: command.TaskFields{Title: "Count"}})
		if made.Status != state.TaskAccepted {
			t.Errorf("created: %+v", made)
		}
		run := k.start("task_a")
		if run.Status != state.TaskRunning || run.RunID == "" || run.AttemptCount != 1 {
			t.Errorf("started: %+v", run)
		}
		done := k.await("task_a", state.TaskCompleted)
		want := []event.Type{
			event.TypeTaskCreated, event.TypeTaskAccepted, event.TypeTaskDelegated, event.TypeTaskAttemptStarted, event.TypeTaskStarted,
			event.TypeTaskProgress, event.TypeTaskAttemptCompleted, event.TypeTaskCompleted,
		}
		if got := k.factTypesOf(done); !slices.Equal(got, want) {
			t.Errorf("facts: %v", got)
		}
		if len(done.Attempts) != 1 || done.Attempts[0].RunID != run.RunID || done.Attempts[0].Status != state.AttemptCompleted {
			t.Errorf("attempts: %+v", done.Attempts)
		}
		thread := ask[state.ThreadReadModel](k, &command.GetThreadRead{SessionID: done.SessionID, ThreadID: done.ThreadID})
		if thread.ThreadID == "" || thread.ThreadID == k.mainThread(done.SessionID) {
			t.Errorf("the task was worked on in %+v", thread)
		}
	})
}

func (k *crew) mainThread(sessionID string) string {
	k.Helper()
	for _, e := range k.facts(sessionID) {
		if p, ok := e.Payload.(*event.ThreadStarted); ok && p.Role == "main" {
			return e.ThreadID
		}
	}
	k.Fatal("there is no main thread")
	return ""
}

func TestTaskWithOpenCriteriaIsNotCompleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t, script.Answer{Text: "Done."}, script.Answer{Text: "Done."})
		criteria := []command.Criterion{{ID: "tests", Description: "the tests pass"}, {ID: "docs", Description: "it is documented"}}
		k.create(command.CreateTask{TaskID: "task_a", Start: true, TaskFields: command.TaskFields{Acceptance: criteria}})
		blocked := k.await("task_a", state.TaskBlocked)
		if !slices.Equal(blocked.Blockers, []string{"tests", "docs"}) || blocked.Attempts[0].Status != state.AttemptCompleted {
			t.Errorf("blocked: %v %v", blocked.Blockers, blocked.Attempts)
		}
		k.refuse(fault.Conflict, &command.CompleteTask{TaskID: "task_a"}, "tests", "docs", "blocked")
		ask[command.TaskResult](k, &command.UpdateTask{TaskID: "task_a", TaskFields: command.TaskFields{
			Acceptance: []command.Criterion{{ID: "tests", Description: "the tests pass", Status: "satisfied"}},
		}})
		k.refuse(fault.Conflict, &command.CompleteTask{TaskID: "task_a"}, "docs")
		ask[command.TaskResult](k, &command.CompleteTask{TaskID: "task_a", Acceptance: []command.CriterionResult{{ID: "docs", Status: "waived", Reason: "internal"}}})
		done := k.await("task_a", state.TaskCompleted)
		for _, c := range done.Acceptance {
			if c.Status == "" || c.By == nil {
				t.Errorf("criterion %+v", c)
			}
		}
		// The last criterion that somebody satisfies completes the task by itself.
		k.create(command.CreateTask{TaskID: "task_b", Start: true, TaskFields: command.TaskFields{Acceptance: criteria[:1]}})
		k.await("task_b", state.TaskBlocked)
		ask[command.TaskResult](k, &command.UpdateTask{TaskID: "task_b", TaskFields: command.TaskFields{
			Acceptance: []command.Criterion{{ID: "tests", Description: "the tests pass", Status: "satisfied"}},
		}})
		k.await("task_b", state.TaskCompleted)
	})
}

func TestTaskIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := script.Answer{Error: &script.Error{Category: "invalid_request", Message: "no"}}
		k := newCrew(t, broken, broken, script.Answer{Text: "Done."})
		k.create(command.CreateTask{TaskID: "task_a", Start: true, TaskFields: command.TaskFields{RetryPolicy: &event.RetryPolicy{MaxAttempts: 3, BackoffMs: 60_000}}})
		waiting := k.await("task_a", state.TaskRetrying)
		if wait := time.Until(waiting.RetryAt); wait < time.Minute || wait > 75*time.Second {
			t.Errorf("the next attempt is due in %s", wait)
		}
		k.restart() // the wait survives it
		done := k.await("task_a", state.TaskCompleted)
		var statuses []string
		runs := map[string]bool{}
		for _, a := range done.Attempts {
			statuses = append(statuses, a.Status)
			runs[a.RunID] = true
		}
		if !slices.Equal(statuses, []string{"failed", "failed", "completed"}) || len(runs) != 3 {
			t.Errorf("attempts: %v %v", statuses, runs)
		}
		if gap := done.Attempts[2].StartedAt.Sub(done.Attempts[1].EndedAt); gap < 2*time.Minute {
			t.Errorf("the second wait was %s", gap)
		}
	})
}

func TestTaskFailsWhenItsAttemptsAreUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := script.Answer{Error: &script.Error{Category: "invalid_request", Message: "no"}}
		k := newCrew(t, broken, broken, script.Answer{Text: "Done."}) // in each thread
		k.create(command.CreateTask{TaskID: "task_a", Start: true, TaskFields: command.TaskFields{RetryPolicy: &event.RetryPolicy{MaxAttempts: 2, BackoffMs: 1}}})
		failed := k.await("task_a", state.TaskFailed)
		if len(failed.Attempts) != 2 || failed.LastError == nil {
			t.Errorf("attempts %d, error %v", len(failed.Attempts), failed.LastError)
		}
		k.create(command.CreateTask{TaskID: "task_b", Start: true, TaskFields: command.TaskFields{
			RetryPolicy: &event.RetryPolicy{MaxAttempts: 5, NonRetryable: []string{"model_failed"}},
		}})
		if b := k.await("task_b", state.TaskFailed); len(b.Attempts) != 1 {
			t.Errorf("an error that is not retried was: %+v", b.Attempts)
		}
		// A person can have it tried once more.
		again := ask[command.TaskRunResult](k, &command.RetryTask{TaskID: "task_a", Reason: "the model is back"})
		if again.AttemptCount != 3 {
			t.Errorf("retry: %+v", again)
		}
		done := k.await("task_a", state.TaskCompleted)
		if a := done.Attempts[2]; a.Reason != "rerun" || a.RunID != again.RunID {
			t.Errorf("the third attempt: %+v", a)
		}
	})
}

func TestTaskWaitsForAPermission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &crew{TB: t, mode: "default", store: newCrewStore(t), script: &script.Script{Answers: []script.Answer{
			{Tools: []script.Tool{{Name: "write_file", Arguments: map[string]any{"path": "a.txt", "content": "a"}}}}, {Text: "Done."},
		}}}
		k.started()
		k.create(command.CreateTask{TaskID: "task_a", Start: true})
		waiting := k.await("task_a", state.TaskWaitingPermission)
		if len(waiting.Blockers) != 1 {
			t.Fatalf("blockers: %v", waiting.Blockers)
		}
		k.restart() // a question survives it
		if s := k.task("task_a").Status; s != state.TaskWaitingPermission {
			t.Errorf("after a restart the task is %s", s)
		}
		ask[command.RespondActionResult](k, &command.RespondAction{ActionID: waiting.Blockers[0], Decision: "allow"})
		k.await("task_a", state.TaskCompleted)
	})
}

func TestTaskIsBoundByItsConstraints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &crew{TB: t, store: newCrewStore(t), price: &model.Price{Rates: model.Rates{InputPerMTok: 1_000_000, OutputPerMTok: 1_000_000}}, script: &script.Script{Answers: []script.Answer{
			{When: &script.When{Contains: "slowly"}, Text: "slow", Stall: 2 * time.Hour},
			{Tools: []script.Tool{{Name: "list_files", Arguments: map[string]any{"path": "."}}}, Usage: &script.Usage{InputTokens: 50_000, OutputTokens: 50_000}},
			{Text: "more", Stall: 2 * time.Hour},
		}}}
		k.started()
		k.create(command.CreateTask{TaskID: "task_slow", Objective: "go slowly", Start: true, TaskFields: command.TaskFields{Constraints: &event.TaskConstraints{MaxRuntimeMs: 1000}}})
		if slow := k.await("task_slow", state.TaskTimedOut); slow.LastError.Category != "timed_out" {
			t.Errorf("error: %+v", slow.LastError)
		}
		k.create(command.CreateTask{TaskID: "task_dear", Start: true, TaskFields: command.TaskFields{
			Constraints: &event.TaskConstraints{MaxCostUSD: 50_000}, RetryPolicy: &event.RetryPolicy{MaxAttempts: 3},
		}})
		dear := k.await("task_dear", state.TaskFailed)
		if dear.LastError.Category != "quota_blocked" || dear.CostUSD != 100_000 || len(dear.Attempts) != 1 {
			t.Errorf("error %+v, cost %v, attempts %d", dear.LastError, dear.CostUSD, len(dear.Attempts))
		}
		k.refuse(fault.InvalidParams, &command.CreateTask{Objective: "x", TaskFields: command.TaskFields{Constraints: &event.TaskConstraints{Model: "nobody/none"}}}, "constraints")
	})
}

func TestTaskIsPausedAndResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t, script.Answer{When: &script.When{Contains: "Go on"}, Text: "Done."}, script.Answer{Text: "slow", Stall: 2 * time.Hour})
		k.create(command.CreateTask{TaskID: "task_a", Start: true})
		k.refuse(fault.Conflict, &command.ResumeTask{TaskID: "task_a"}, "running")
		ask[command.TaskResult](k, &command.PauseTask{TaskID: "task_a", Reason: "lunch"})
		paused := k.awaitTask("task_a", "stopped", func(t *state.Task) bool { return !t.Attempts[0].EndedAt.IsZero() })
		if paused.Status != state.TaskPaused || paused.Attempts[0].Status != state.AttemptCancelled {
			t.Errorf("paused: %s %+v", paused.Status, paused.Attempts)
		}
		k.restart()
		if s := k.task("task_a").Status; s != state.TaskPaused {
			t.Errorf("after a restart the task is %s", s)
		}
		ask[command.TaskResult](k, &command.ResumeTask{TaskID: "task_a"})
		done := k.await("task_a", state.TaskCompleted)
		if len(done.Attempts) != 2 || done.Attempts[1].Reason != "resumed" {
			t.Errorf("attempts: %+v", done.Attempts)
		}
	})
}
