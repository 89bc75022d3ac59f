package work

import (
	"slices"
	"time"

	"agentd/event"
	"agentd/state"
)

// outlook is what a decision knows beside the session's state.
type outlook struct {
	// up is when this process began to listen: who was silent before could not be
	// heard.
	up time.Time
	// seen is when the newest fact of the task's work happened, as far as known.
	seen map[string]time.Time
	// unreachable are the processes that could not be ended.
	unreachable map[string]bool
	// standings are the statuses of tasks that are not in the session's working set.
	standings map[string]string
}

// scheduleTask records what a task's facts demand now, and returns when time alone will
// demand something. It is asked again after each fact of the task, so it does one
// thing at a time and is idle when there is nothing to do.
func (w *Work) scheduleTask(e *edit, o outlook) (again time.Time, err error) {
	settleEdges(e, o)
	switch e.t.Status {
	case state.TaskCancelling:
		return time.Time{}, w.nextCancelling(e, o)
	case state.TaskRetrying:
		if e.tx.Now().Before(e.t.RetryAt) {
			return e.t.RetryAt, nil
		}
		_, err = w.beginAttempt(e, false)
		return again, err
	case state.TaskBlocked:
		return w.nextBlocked(e, o)
	case state.TaskPaused, state.TaskQueued:
		e.closeStopped()
	case state.TaskPreparing, state.TaskRunning, state.TaskWaitingInput, state.TaskWaitingPermission, state.TaskWaitingResource:
		return w.nextAtWork(e, o)
	}
	return again, nil
}

func (w *Work) nextBlocked(e *edit, o outlook) (again time.Time, err error) {
	switch e.t.NativeStatus {
	case byDependency:
		open := openDependencies(&e.t)
		if len(open) == 0 {
			_, err = w.beginAttempt(e, false)
		} else if w.m.IsShared() && slices.ContainsFunc(open, func(id string) bool { return e.tx.State.Tasks.Find(id) == nil }) {
			waited := e.tx.Now().Sub(e.t.UpdatedAt)
			again = e.tx.Now().Add(min(max(waited/4, soonElsewhere), lateElsewhere))
		}
	case byAcceptance, byDelivery, byParts:
		err = e.afterSuccess()
	case byThread:
		return w.nextAtWork(e, o)
	}
	return again, err
}

// nextAtWork follows an attempt.
func (w *Work) nextAtWork(e *edit, o outlook) (time.Time, error) {
	a := currentAttempt(&e.t)
	switch {
	case a == nil:
		return time.Time{}, nil
	case !a.EndedAt.IsZero():
		return time.Time{}, w.decideOutcome(e, a)
	case external(&e.t):
		return w.nextExternal(e, a, o)
	}
	return w.nextTurn(e, a, o)
}

// decideOutcome decides what an attempt's end means for its task.
func (w *Work) decideOutcome(e *edit, a *state.Attempt) error {
	switch a.Status {
	case state.AttemptCompleted:
		return e.afterSuccess()
	case state.AttemptCancelled:
		return w.decideInterrupted(e, a)
	}
	f := a.LastError
	if f == nil {
		f = newFailure("internal", false, "the attempt ended without a reason")
	}
	if !external(&e.t) {
		// What a turn's failure says about repeating is about its last step; another
		// attempt begins anew.
		anew := *f
		anew.Retryable = f.Retryable || !contains(stubborn, f.Category)
		f = &anew
	}
	return w.afterFailure(e, f)
}

// decideInterrupted decides what follows a turn that a person stopped.
func (w *Work) decideInterrupted(e *edit, a *state.Attempt) error {
	reason := "its turn was interrupted"
	if a.LastError != nil {
		reason += ": " + a.LastError.Message
	}
	if err := e.becomeStatus(event.TypeTaskCancelRequested, &event.TaskStatusChanged{Status: state.TaskCancelling, StatusReason: reason}); err != nil {
		return err
	}
	return e.becomeCancelled(reason)
}

// nextExternal holds an external worker to its limits.
func (w *Work) nextExternal(e *edit, a *state.Attempt, o outlook) (time.Time, error) {
	heard := latest(e.t.LastSeenAt, o.up)
	p := retryPolicy(&e.t)
	silent := "the worker was silent for longer than %s"
	if unclaimed(&e.t, a) {
		silent = "no worker took the attempt within %s"
	}
	limits := []limit{
		{state.TaskLost, heard, e.t.HeartbeatTimeoutMs, silent},
		{state.TaskTimedOut, a.StartedAt, p.TimeoutMs, "the attempt took longer than %s"},
		{state.TaskTimedOut, heard, p.InactivityTimeoutMs, "the attempt showed no progress for longer than %s"},
	}
	if left, bounded := timeLeft(&e.t); bounded {
		limits = append(limits, limit{state.TaskTimedOut, a.StartedAt, left.Milliseconds(), "the work took longer than the %s that were left"})
	}
	again, hit := earliest(limits, e.tx.Now())
	if hit == nil {
		return again, nil
	}
	return time.Time{}, w.endOverdue(e, a, hit)
}

// loseAttempt ends an attempt whose worker nothing is known of any more. That the task is
// lost is recorded in any case; another attempt follows if the policy has one left.
func (w *Work) loseAttempt(e *edit, a *state.Attempt, f *event.Failure) error {
	after := *e
	after.endAttempt(a.RunID, state.AttemptUnknown, f)
	next := event.NextAttemptAsked
	if _, again := w.retryAt(&after.t, f, e.tx.Now()); again {
		next = "another attempt, as the retry policy says"
	}
	e.failAttempt(a, state.AttemptUnknown, f, next)
	return w.afterFailure(e, f)
}

// endOverdue ends an attempt that passed a limit. Of a silent worker nothing is known.
func (w *Work) endOverdue(e *edit, a *state.Attempt, hit *limit) error {
	f := newFailure(hit.category, true, hit.says, millis(hit.ms))
	if hit.category == state.TaskLost {
		return w.loseAttempt(e, a, f)
	}
	e.failAttempt(a, state.AttemptFailed, f, "")
	return w.afterFailure(e, f)
}

// limit is a bound in time of an attempt; 0 ms is none.
type limit struct {
	category string
	from     time.Time
	ms       int64
	says     string
}

// earliest returns the limit that was passed first, or when the next one will be.
func earliest(limits []limit, now time.Time) (again time.Time, hit *limit) {
	for i, l := range limits {
		if l.ms <= 0 {
			continue
		}
		at := l.from.Add(millis(l.ms))
		if again.IsZero() || at.Before(again) {
			again = at
			if hit = nil; !now.Before(at) {
				hit = &limits[i]
			}
		}
	}
	return again, hit
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// nextTurn follows the turn that an attempt of the runtime is.
func (w *Work) nextTurn(e *edit, a *state.Attempt, o outlook) (time.Time, error) {
	thread, turn := turnOf(e.tx.State, a)
	if turn == nil || !turn.EndedAt.IsZero() {
		return time.Time{}, w.turnGone(e, a, turn)
	}
	heard, waits := quietSince(e.tx.State, thread)
	heard = latest(latest(heard, o.up), o.seen[e.t.TaskID])
	if waits {
		heard = e.tx.Now() // what waits for a person is not inactive
	}
	again, hit := earliest([]limit{{state.TaskTimedOut, heard, retryPolicy(&e.t).InactivityTimeoutMs, inactive}}, e.tx.Now())
	switch {
	case turn.Interrupt != nil:
	case hit != nil:
		e.interruptTurn(a, inactive, event.InterruptInactivity)
	}
	return again, e.mirrorTurn(thread, turn)
}

// turnGone ends an attempt whose turn is over without having said so: it was
// stopped before it began, or its thread is gone.
func (w *Work) turnGone(e *edit, a *state.Attempt, turn *state.Turn) error {
	f := newFailure(state.TaskLost, true, "the attempt's turn is gone")
	status := state.AttemptUnknown
	if turn != nil {
		f, status = newFailure("interrupted", true, "the turn was stopped before it started"), state.AttemptCancelled
		if turn.FailureCategory == state.TaskTimedOut {
			f.Category, status = state.TaskTimedOut, state.AttemptFailed
		}
		if turn.Error != nil {
			f.Message = turn.Error.Message
		}
	}
	e.failAttempt(a, status, f, "")
	return w.decideOutcome(e, attemptOfRun(&e.t, a.RunID))
}

// closeStopped ends the attempt of a task that was paused if its turn was stopped
// before it began: then no other fact says that it is over.
func (e *edit) closeStopped() {
	a := underWay(&e.t)
	if a == nil || external(&e.t) {
		return
	}
	if _, turn := turnOf(e.tx.State, a); turn == nil || !turn.EndedAt.IsZero() {
		e.failAttempt(a, state.AttemptCancelled, newFailure("interrupted", true, "the turn was stopped before it started"), "")
	}
}

// turnOf returns the turn that an attempt is, finished or not, and its thread.
func turnOf(st *state.Session, a *state.Attempt) (*state.Thread, *state.Turn) {
	thread := st.Thread(a.ThreadID)
	if thread == nil {
		return nil, nil
	}
	return thread, thread.Known(a.TurnID)
}

// mirrorTurn gives the task the status that its turn has.
func (e *edit) mirrorTurn(thread *state.Thread, turn *state.Turn) error {
	p := &event.TaskStatusChanged{Status: state.TaskRunning}
	fact := event.TypeTaskResumed
	switch {
	case len(turn.Waiting) > 0:
		fact = event.TypeTaskWaiting
		p.Status, p.Blockers, p.StatusReason = state.TaskWaitingInput, turn.Waiting, "waits for an answer"
		if a := e.tx.State.Actions.Find(turn.Waiting[0]); a != nil {
			p.Status, p.StatusReason = state.TurnTaskStatus(a.ActionType, "")
		}
	case thread.Block != nil:
		fact = event.TypeTaskBlocked
		p.Status, p.NativeStatus, p.StatusReason = state.TaskBlocked, byThread, thread.Block.Reason
	}
	if p.Status == e.t.Status && p.NativeStatus == e.t.NativeStatus {
		return nil
	}
	return e.becomeStatus(fact, p)
}

// interruptTurn asks the loop to stop an attempt's turn, for a cause if no person
// wants it.
func (e *edit) interruptTurn(a *state.Attempt, reason, cause string) {
	e.emitScoped(event.TypeTurnInterruptRequested, e.attemptScope(a), &event.TurnInterruptRequested{Reason: reason, Queue: "keep", RequestedBy: e.by, Cause: cause})
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
