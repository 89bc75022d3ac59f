package work

import (
	"fmt"
	"slices"
	"time"

	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
)

// edit is a decision about one task: its copy of the record follows the facts
// that it emits, which the session's state does only when they are sealed.
type edit struct {
	tx *session.Tx
	t  state.Task
	by *event.Actor
	// restore is the record of a task that left the working set; it is written back
	// before the first fact.
	restore event.Raw
	emitted int
	// why is the caller's reason for what is decided, if one was given.
	why string
}

// reasonFor is why the task gets a status: the caller's reason, then the runtime's.
func (e *edit) reasonFor(status string) string {
	switch {
	case e.why == "":
		return status
	case status == "":
		return e.why
	}
	return e.why + " (" + status + ")"
}

func newEdit(tx *session.Tx, t *state.Task, by *event.Actor) *edit {
	return &edit{tx: tx, t: *t, by: by}
}

// scope is the ids of a fact about the task and an attempt at it.
func (e *edit) scope(runID string) event.Scope {
	return event.Scope{TaskID: e.t.TaskID, ParentTaskID: e.t.ParentTaskID, RootTaskID: e.t.RootTaskID, RunID: runID, JobID: e.t.JobID, SubagentID: e.t.SubagentID}
}

// emitFact adds a fact about the task in its current attempt.
func (e *edit) emitFact(t event.Type, p event.Payload) { e.emitScoped(t, e.scope(e.t.CurrentRunID), p) }

func (e *edit) emitScoped(t event.Type, scope event.Scope, p event.Payload) {
	if e.restore != nil {
		record := e.restore
		e.restore = nil
		e.emitScoped(event.TypeTaskUpdated, e.scope(e.t.CurrentRunID), &event.TaskUpdated{Record: record, Reason: "taken up again"})
	}
	e.emitted++
	e.tx.Emit(event.Event{Type: t, Scope: scope, Payload: p})
}

// becomeStatus moves the task to another status. A transition that the machine doesn't
// have is a conflict and emits nothing.
func (e *edit) becomeStatus(t event.Type, p *event.TaskStatusChanged) error {
	return e.becomeIn(t, e.scope(e.t.CurrentRunID), p)
}

func (e *edit) becomeIn(t event.Type, scope event.Scope, p *event.TaskStatusChanged) error {
	if !mayBecome(e.t.Status, p.Status) {
		return conflict(&e.t, "it can't become %s", p.Status)
	}
	if p.ChangedBy == nil {
		p.ChangedBy = e.by
	}
	e.t.StatusSequence = e.tx.Sequence()
	e.emitScoped(t, scope, p)
	switch t { //nolint:exhaustive // the others say nothing of the wish to stop
	case event.TypeTaskCancelRequested:
		e.t.Cancel = &state.CancelIntent{Reason: p.StatusReason, By: p.ChangedBy, Propagate: p.Propagate, At: e.tx.Now()}
	case event.TypeTaskRetrying:
		e.t.Cancel = nil
	}
	e.t.Status, e.t.StatusReason, e.t.NativeStatus, e.t.RetryAt = p.Status, p.StatusReason, p.NativeStatus, p.RetryAt
	e.t.Blockers = p.Blockers
	return nil
}

// isSchedulerAttempt reports whether the scheduler started an attempt: it writes its policy into
// each. A turn that is submitted under a task is an attempt too, but the
// task's standing doesn't follow from it.
func isSchedulerAttempt(a *state.Attempt) bool { return a.RetryPolicy != nil }

// currentAttempt returns the newest attempt that the scheduler started, or nil.
func currentAttempt(t *state.Task) *state.Attempt {
	for i := len(t.Attempts) - 1; i >= 0; i-- {
		if isSchedulerAttempt(&t.Attempts[i]) {
			return &t.Attempts[i]
		}
	}
	return nil
}

// underWay returns the newest attempt if it has no end yet, or nil.
func underWay(t *state.Task) *state.Attempt {
	if a := currentAttempt(t); a != nil && a.EndedAt.IsZero() {
		return a
	}
	return nil
}

// attemptOfRun returns the attempt of a run, or nil.
func attemptOfRun(t *state.Task, runID string) *state.Attempt {
	if i := slices.IndexFunc(t.Attempts, func(a state.Attempt) bool { return a.RunID == runID }); i >= 0 {
		return &t.Attempts[i]
	}
	return nil
}

// countAttempts counts all attempts at a task.
func countAttempts(t *state.Task) int64 { return t.OlderAttempts + int64(len(t.Attempts)) }

// external reports whether an external worker works on the task.
func external(t *state.Task) bool { return t.WorkerKind == "external" || t.WorkerKind == workerPeer }

// retryPolicy is the task's retry policy with its default: one attempt.
func retryPolicy(t *state.Task) event.RetryPolicy {
	var p event.RetryPolicy
	if t.RetryPolicy != nil {
		p = *t.RetryPolicy
	}
	p.MaxAttempts = max(1, p.MaxAttempts)
	return p
}

// endAttempt notes the end of an attempt in the edit's copy.
func (e *edit) endAttempt(runID, status string, lastError *event.Failure) {
	e.t.Attempts = slices.Clone(e.t.Attempts)
	if a := attemptOfRun(&e.t, runID); a != nil {
		a.Status, a.LastError, a.EndedAt = status, lastError, e.tx.Now()
	}
}

// attemptScope is the ids of a fact about an attempt.
func (e *edit) attemptScope(a *state.Attempt) event.Scope {
	s := e.scope(a.RunID)
	s.AttemptID, s.ThreadID, s.TurnID = a.RunID, a.ThreadID, a.TurnID
	return s
}

// failAttempt emits the end of an attempt that didn't succeed. Next says what
// follows, if that is known already.
func (e *edit) failAttempt(a *state.Attempt, status string, f *event.Failure, next string) {
	e.endFailed(a, &event.TaskAttemptFailed{Status: status, Error: f, NextAttemptPolicy: next})
}

// endFailed emits the end of an attempt; what follows from its error and its status is
// filled in.
func (e *edit) endFailed(a *state.Attempt, p *event.TaskAttemptFailed) {
	if p.NextAttemptPolicy == "" {
		if p.NextAttemptPolicy = event.NextAttemptByPolicy; p.Status == state.AttemptCancelled {
			p.NextAttemptPolicy = event.NextAttemptAsked
		}
	}
	p.FailureCategory, p.Retryable, p.DurationMs = p.Error.Category, p.Error.Retryable, since(e.tx.Now(), a.StartedAt)
	e.emitScoped(event.TypeTaskAttemptFailed, e.attemptScope(a), p)
	e.endAttempt(a.RunID, p.Status, p.Error)
}

func since(now, start time.Time) int64 {
	if start.IsZero() {
		return 0
	}
	return now.Sub(start).Milliseconds()
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// newFailure returns a structured error whose message is never empty.
func newFailure(category string, retryable bool, format string, args ...any) *event.Failure {
	return &event.Failure{Message: fmt.Sprintf(format, args...), Category: category, Retryable: retryable}
}

// notFound is the refusal of a task that isn't there, or that the caller may not
// see: the two can't be told apart.
func notFound(taskID string) error { return fault.New(fault.NotFound, "there is no task %s", taskID) }
