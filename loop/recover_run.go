package loop

import (
	"slices"

	"agentd/event"
	"agentd/session"
	"agentd/state"
)

// nextAfterCrash is what follows a run that a crash cut off.
const nextAfterCrash = "at once: the turn continues in another run"

// recoverRun ends the run of a turn that a crash cut off and begins another one of
// the same task, in which the turn goes on. It has the policy of the run before, so that
// the scheduler goes on with it; the policy doesn't count it. A turn that is to be stopped
// ends in the run that it is in.
func recoverRun(tx *session.Tx, t *state.Thread) {
	turn := t.Active
	task := tx.State.Tasks.Find(turn.TaskID)
	if task == nil || turn.Interrupt != nil || turn.StartedAt.IsZero() {
		return
	}
	i := slices.IndexFunc(task.Attempts, func(a state.Attempt) bool { return a.RunID == turn.RunID })
	if i < 0 || !task.Attempts[i].EndedAt.IsZero() {
		return // a turn that wasn't started yet is not an attempt yet
	}
	old, scope := task.Attempts[i], scopeOf(t, turn)
	why := &event.Failure{Message: "the runtime stopped during the attempt", Category: state.TaskLost, Retryable: true}
	tx.Emit(event.Event{Type: event.TypeTaskAttemptFailed, Scope: ofAttempt(scope), Payload: &event.TaskAttemptFailed{
		Status: state.AttemptUnknown, FailureCategory: why.Category, Error: why, Retryable: why.Retryable,
		NextAttemptPolicy: nextAfterCrash, DurationMs: tx.Now().Sub(old.StartedAt).Milliseconds(),
	}})
	again := *turn
	again.RunID = tx.NewID(event.PrefixRun)
	count, _ := attemptOf(tx.State, &again)
	tx.Emit(event.Event{Type: event.TypeTaskAttemptStarted, Scope: ofAttempt(scopeOf(t, &again)), Payload: &event.TaskAttemptStarted{
		Status: state.AttemptRunning, AttemptCount: count, Reason: state.AttemptAfterCrash, Worker: old.Worker, InputRefs: old.InputRefs, RetryPolicy: old.RetryPolicy,
	}})
}
