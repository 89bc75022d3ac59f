package work_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/model/provider/script"
	"agentd/state"
)

// TestInactivityEndsAnAttempt has a runtime task whose model says nothing: the
// attempt ends when its limit has passed, is tried again as the policy says, and
// the task has timed out when the attempts are used up. A restart in between gives
// it another while.
func TestInactivityEndsAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &crew{TB: t, store: newCrewStore(t), script: &script.Script{Repeat: true, Answers: []script.Answer{{Text: "slow", Stall: 5 * time.Hour}}}}
		k.started()
		begun := time.Now()
		k.create(command.CreateTask{TaskID: "task_a", Start: true, TaskFields: command.TaskFields{
			RetryPolicy: &event.RetryPolicy{MaxAttempts: 2, BackoffMs: 60_000, InactivityTimeoutMs: 600_000},
		}})
		time.Sleep(9 * time.Minute)
		k.restart()
		time.Sleep(9 * time.Minute)
		if a := k.task("task_a"); a.Status != state.TaskRunning || len(a.Attempts) != 1 {
			t.Errorf("after a restart: %s %+v", a.Status, a.Attempts)
		}
		waiting := k.await("task_a", state.TaskRetrying)
		if at := time.Since(begun); at != 19*time.Minute || waiting.LastError.Category != "timed_out" {
			t.Errorf("stopped after %s: %+v", at, waiting.LastError)
		}
		end := k.await("task_a", state.TaskTimedOut)
		if len(end.Attempts) != 2 || end.LastError.Category != "timed_out" {
			t.Errorf("attempts %+v, error %+v", end.Attempts, end.LastError)
		}
		if second := end.Attempts[1]; second.EndedAt.Sub(second.StartedAt) != 10*time.Minute {
			t.Errorf("the second attempt took %s", second.EndedAt.Sub(second.StartedAt))
		}
		for _, a := range end.Attempts {
			if wait := end.Attempts[1].StartedAt.Sub(end.Attempts[0].EndedAt); wait < time.Minute || wait > 75*time.Second {
				t.Errorf("the wait was %s", wait)
			}
			if a.Status != state.AttemptFailed || a.LastError.Category != "timed_out" || !strings.Contains(a.LastError.Message, "no progress") {
				t.Errorf("attempt: %s %+v", a.Status, a.LastError)
			}
		}
	})
}

// TestSignsOfLifeAreNoInactivity has a task whose model speaks slowly, and one that
// waits for its subagent: neither is inactive.
func TestSignsOfLifeAreNoInactivity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		steps := func(contains string) []script.Answer {
			var out []script.Answer
			for range 4 {
				out = append(out, when(contains, script.Answer{Stall: 8 * time.Minute, Tools: []script.Tool{{Name: "list_files", Arguments: map[string]any{"path": "."}}}}))
			}
			return append(out, when(contains, script.Answer{Text: "Done."}))
		}
		answers := append(steps("slowly"), uses("lead", "spawn_agent", map[string]any{"role": "helper", "input": "take time"}), when("lead", script.Answer{Text: "It was done."}))
		k := newCrew(t, append(answers, steps("take time")...)...)
		limit := command.TaskFields{RetryPolicy: &event.RetryPolicy{InactivityTimeoutMs: 600_000}}
		k.create(command.CreateTask{TaskID: "task_slow", Objective: "slowly", Start: true, TaskFields: limit})
		k.create(command.CreateTask{TaskID: "task_lead", Objective: "lead", Start: true, TaskFields: limit})
		for _, id := range []string{"task_slow", "task_lead"} {
			done := k.await(id, state.TaskCompleted, state.TaskTimedOut, state.TaskFailed)
			if took := done.EndedAt.Sub(done.StartedAt); done.Status != state.TaskCompleted || took < 32*time.Minute {
				t.Errorf("%s is %s (%s) after %s", id, done.Status, done.StatusReason, took)
			}
		}
	})
}

// TestAWaitForAPersonIsNoInactivity leaves a question open for hours.
func TestAWaitForAPersonIsNoInactivity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &crew{TB: t, mode: "default", store: newCrewStore(t), script: &script.Script{Answers: []script.Answer{
			{Tools: []script.Tool{{Name: "write_file", Arguments: map[string]any{"path": "a.txt", "content": "a"}}}}, {Text: "Done."},
		}}}
		k.started()
		k.create(command.CreateTask{TaskID: "task_a", Start: true, TaskFields: command.TaskFields{RetryPolicy: &event.RetryPolicy{InactivityTimeoutMs: 60_000}}})
		waiting := k.await("task_a", state.TaskWaitingPermission)
		time.Sleep(5 * time.Hour)
		synctest.Wait()
		if s := k.task("task_a").Status; s != state.TaskWaitingPermission {
			t.Fatalf("the task is %s", s)
		}
		ask[command.RespondActionResult](k, &command.RespondAction{ActionID: waiting.Blockers[0], Decision: "allow"})
		k.await("task_a", state.TaskCompleted)
	})
}

// TestTimeLimitsOfAttemptsAndOfTheWork bounds one attempt (retryPolicy.timeoutMs)
// and all of them together (constraints.maxRuntimeMs).
func TestTimeLimitsOfAttemptsAndOfTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &crew{TB: t, store: newCrewStore(t), script: &script.Script{Repeat: true, Answers: []script.Answer{{Text: "slow", Stall: 5 * time.Hour}}}}
		k.started()
		k.create(command.CreateTask{TaskID: "task_tries", Start: true, TaskFields: command.TaskFields{RetryPolicy: &event.RetryPolicy{MaxAttempts: 3, TimeoutMs: 60_000}}})
		tries := k.await("task_tries", state.TaskTimedOut)
		var took []time.Duration
		for _, a := range tries.Attempts {
			took = append(took, a.EndedAt.Sub(a.StartedAt))
		}
		if !slices.Equal(took, []time.Duration{time.Minute, time.Minute, time.Minute}) || tries.LastError.Category != "timed_out" {
			t.Errorf("attempts of %v, error %+v", took, tries.LastError)
		}
		k.create(command.CreateTask{TaskID: "task_all", Start: true, TaskFields: command.TaskFields{
			RetryPolicy: &event.RetryPolicy{MaxAttempts: 10, TimeoutMs: 60_000}, Constraints: &event.TaskConstraints{MaxRuntimeMs: 150_000},
		}})
		all := k.await("task_all", state.TaskTimedOut)
		var sum time.Duration
		for _, a := range all.Attempts {
			sum += a.EndedAt.Sub(a.StartedAt)
		}
		if len(all.Attempts) != 3 || sum != 150*time.Second {
			t.Errorf("%d attempts took %s", len(all.Attempts), sum)
		}
		k.create(command.CreateTask{TaskID: "task_once", Start: true, TaskFields: command.TaskFields{
			RetryPolicy: &event.RetryPolicy{MaxAttempts: 10, TimeoutMs: 60_000, NonRetryable: []string{"timed_out"}},
		}})
		if once := k.await("task_once", state.TaskTimedOut); len(once.Attempts) != 1 {
			t.Errorf("an error that is not retried was: %+v", once.Attempts)
		}
	})
}

// TestWaitsBeforeRetriesDiffer fails many tasks at the same moment: they don't all
// come back at once.
func TestWaitsBeforeRetriesDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &crew{TB: t, store: newCrewStore(t)}
		k.started()
		k.session("sess_a")
		seen := map[time.Duration]bool{}
		for i := range 20 {
			id := string(rune('a'+i)) + "_task"
			k.create(command.CreateTask{TaskID: id, SessionID: "sess_a", Worker: "external", Start: true, TaskFields: command.TaskFields{RetryPolicy: &event.RetryPolicy{MaxAttempts: 2, BackoffMs: 60_000}}})
			ask[command.TaskResult](k, &command.FailTask{TaskID: id, Error: &event.Failure{Message: "flaky", Retryable: true}})
			wait := time.Until(k.task(id).RetryAt)
			if wait < time.Minute || wait > 75*time.Second {
				t.Errorf("the wait is %s", wait)
			}
			seen[wait.Truncate(time.Millisecond)] = true
		}
		if len(seen) < 15 {
			t.Errorf("20 tasks have %d different waits", len(seen))
		}
	})
}
