package state

import (
	"slices"
	"time"

	"agentd/event"
)

// Statuses of an attempt. There is no lost and no timed-out attempt: a lost one
// is unknown, with the category "lost" in its error, a timed-out one has failed,
// with "timed_out".
const (
	AttemptPreparing = "preparing"
	AttemptRunning   = "running"
	AttemptCompleted = "completed"
	AttemptFailed    = "failed"
	AttemptCancelled = "cancelled"
	AttemptUnknown   = Unknown
)

// AttemptAfterCrash is the reason of an attempt in which a turn goes on that a crash
// cut off.
const AttemptAfterCrash = "crash_recovery"

const (
	// keepAttempts bounds the attempts of a task in the working set. An older one
	// that has ended leaves as a record of its own.
	keepAttempts = 100
	// keepLate bounds the late reports that an attempt lists.
	keepLate = 10
)

// Attempt is one run of a task. Once ended it doesn't change any more, except
// that late reports are added.
type Attempt struct {
	// RunID is the attempt's run.
	RunID string `json:"runId"`
	// AttemptID is the attempt's id.
	AttemptID string `json:"attemptId,omitempty"`
	// Status of the attempt.
	Status string `json:"status"`
	// AttemptCount is the ordinal of the attempt, from 1.
	AttemptCount int64 `json:"attemptCount"`
	// Reason says why the attempt was made.
	Reason string `json:"reason,omitempty"`
	// ThreadID is the thread that the attempt works in.
	ThreadID string `json:"threadId,omitempty"`
	// TurnID is the turn that the attempt is.
	TurnID string `json:"turnId,omitempty"`

	// Worker does the work.
	Worker *event.Worker `json:"worker,omitempty"`
	// InputRefs are what the attempt was given.
	InputRefs []event.OutputLink `json:"inputRefs,omitempty"`
	// OutputRefs are what the attempt made.
	OutputRefs []event.OutputLink `json:"outputRefs,omitempty"`
	// CheckpointRefs are where the attempt can be taken up again.
	CheckpointRefs []event.OutputLink `json:"checkpointRefs,omitempty"`
	// OlderOutputs counts the output references that were dropped.
	OlderOutputs int64 `json:"olderOutputs,omitempty"`

	// RetryPolicy that held for the attempt.
	RetryPolicy *event.RetryPolicy `json:"retryPolicy,omitempty"`
	// LastError is why the attempt failed.
	LastError *event.Failure `json:"lastError,omitempty"`
	// NextAttemptPolicy says what comes after the attempt.
	NextAttemptPolicy string `json:"nextAttemptPolicy,omitempty"`
	// CompletionSummary is the worker's prose; nothing follows from it.
	CompletionSummary string `json:"completionSummary,omitempty"`

	// StartedAt is when it began; absent until then.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// HeardAt is when the attempt's external worker last reported.
	HeardAt time.Time `json:"heardAt,omitzero"`
	// EndedAt is when it ended; absent until then.
	EndedAt time.Time `json:"endedAt,omitzero"`
	// DurationMs is how long it took, in milliseconds.
	DurationMs int64 `json:"durationMs,omitempty"`
	// Inferred says that the end follows from the task's end alone; a fact of the
	// attempt itself still replaces it.
	Inferred bool `json:"inferred,omitempty"`
	// Late holds what the worker said after the attempt was over.
	Late []LateReport `json:"late,omitempty"`
}

// LateReport is what a worker said after its attempt was over.
type LateReport struct {
	// Type of the event that tells of it.
	Type event.Type `json:"type"`
	// Sequence of the fact that says so.
	Sequence uint64 `json:"sequence"`
	// At is when it was said.
	At time.Time `json:"at"`
	// Status that the worker reported.
	Status string `json:"status,omitempty"`
	// Summary is the worker's prose.
	Summary string `json:"summary,omitempty"`
	// OutputRefs are what the worker made.
	OutputRefs []event.OutputLink `json:"outputRefs,omitempty"`
}

// ended reports whether a fact of the attempt itself said how it ended.
func (a *Attempt) ended() bool { return !a.EndedAt.IsZero() && !a.Inferred }

// addOutputs notes outputs; an output that is known moves its offset.
func (a *Attempt) addOutputs(links []event.OutputLink) {
	out, dropped := mergeLinks(a.OutputRefs, links)
	a.OutputRefs, a.OlderOutputs = out, a.OlderOutputs+dropped
}

// addCheckpoints notes states that the work can go on from; the newest stay.
func (a *Attempt) addCheckpoints(links []event.OutputLink) {
	a.CheckpointRefs, _ = mergeLinks(a.CheckpointRefs, links)
}

// mergeLinks returns a list of references with new ones in the place of those to the
// same output, or after the rest. Beyond the bound the oldest are dropped.
func mergeLinks(have, links []event.OutputLink) (out []event.OutputLink, dropped int64) {
	if len(links) == 0 {
		return have, 0
	}
	out = slices.Clone(have)
	for _, l := range links {
		i := slices.IndexFunc(out, func(x event.OutputLink) bool { return x.OutputRef == l.OutputRef })
		if i >= 0 {
			out[i] = l
			continue
		}
		out = append(out, l)
	}
	if n := len(out) - keepRefs; n > 0 {
		return slices.Clone(out[n:]), int64(n)
	}
	return out, 0
}

// attempt returns the place of the fact's run among the attempts, or -1.
func (f *fold) attempt(t *Task) int {
	return slices.IndexFunc(t.Attempts, func(a Attempt) bool { return a.RunID == f.e.RunID })
}

// changeAttempt replaces the attempt of the fact's run, if there is one, by a
// changed copy.
func (f *fold) changeAttempt(t *Task, change func(*Attempt)) {
	i := f.attempt(t)
	if i < 0 {
		return
	}
	t.Attempts = slices.Clone(t.Attempts)
	change(&t.Attempts[i])
}

// addAttempt appends an attempt. Beyond the bound the oldest ended one leaves.
func (f *fold) addAttempt(t *Task, a Attempt) {
	t.Attempts = append(slices.Clone(t.Attempts), a)
	if len(t.Attempts) <= keepAttempts {
		return
	}
	i := slices.IndexFunc(t.Attempts, func(x Attempt) bool { return !x.EndedAt.IsZero() })
	if i < 0 {
		return
	}
	old := t.Attempts[i]
	f.evict("attempt/"+t.TaskID+"/"+old.RunID, &old)
	t.Attempts = slices.Delete(t.Attempts, i, i+1)
	t.OlderAttempts++
}

func (f *fold) attemptStarted(t *Task, p *event.TaskAttemptStarted) {
	t.LastSeenAt = f.e.Time
	f.placeTask(t)
	if i := f.attempt(t); i >= 0 {
		if t.Attempts[i].EndedAt.IsZero() {
			f.changeAttempt(t, func(a *Attempt) { a.Status = p.Status; setIf(&a.Worker, p.Worker) })
		}
		return
	}
	t.CurrentRunID = f.e.RunID
	if t.StartedAt.IsZero() {
		t.StartedAt = f.e.Time
	}
	f.addAttempt(t, Attempt{
		RunID: f.e.RunID, AttemptID: f.e.AttemptID, Status: p.Status, AttemptCount: max(0, p.AttemptCount), Reason: p.Reason,
		ThreadID: f.e.ThreadID, TurnID: f.e.TurnID,
		Worker: p.Worker, InputRefs: firstN(p.InputRefs, keepRefs), RetryPolicy: p.RetryPolicy, StartedAt: f.e.Time,
	})
	if turn := f.turn(); turn != nil && GoesOnIn(turn, f.e, p) {
		turn.RunID = f.e.RunID
	}
}

// GoesOnIn reports whether an attempt that starts is the run that a turn goes on in
// after a crash. Any other attempt of a turn has the run that the turn has.
func GoesOnIn(turn *Turn, e *event.Event, p *event.TaskAttemptStarted) bool {
	return p.Reason == AttemptAfterCrash && e.TurnID == turn.TurnID && e.TaskID == turn.TaskID
}

// attemptWorkedOn makes an attempt that was being prepared a running one: its
// turn has started.
func (f *fold) attemptWorkedOn() {
	t := f.s.Tasks.Find(f.e.TaskID)
	if t == nil {
		return
	}
	i := f.attempt(t)
	if i < 0 || t.Attempts[i].Status != AttemptPreparing {
		return
	}
	t.UpdatedAt, t.LastSeenAt = f.e.Time, f.e.Time
	f.changeAttempt(t, func(a *Attempt) { a.Status = AttemptRunning })
}

func (f *fold) attemptCompleted(t *Task, p *event.TaskAttemptCompleted) {
	f.endAttempt(t, p.Late, LateReport{Status: p.Status, Summary: preview(p.CompletionSummary), OutputRefs: firstN(p.OutputRefs, keepRefs)}, func(a *Attempt) {
		a.Status, a.CompletionSummary, a.DurationMs = AttemptCompleted, p.CompletionSummary, p.DurationMs
		a.LastError = nil
		a.addOutputs(p.OutputRefs)
		a.addCheckpoints(p.CheckpointRefs)
	})
}

func (f *fold) attemptFailed(t *Task, p *event.TaskAttemptFailed) {
	err := attemptError(p)
	f.endAttempt(t, p.Late, LateReport{Status: p.Status, Summary: preview(err.Message), OutputRefs: firstN(p.OutputRefs, keepRefs)}, func(a *Attempt) {
		a.Status, a.LastError, a.NextAttemptPolicy, a.DurationMs = p.Status, err, p.NextAttemptPolicy, p.DurationMs
		switch p.FailureCategory {
		case TaskLost:
			a.Status = AttemptUnknown
		case TaskTimedOut:
			a.Status = AttemptFailed
		}
		a.addOutputs(p.OutputRefs)
		a.addCheckpoints(p.CheckpointRefs)
	})
}

// attemptError returns the structured error of a failed attempt. The category is
// the fact's own.
func attemptError(p *event.TaskAttemptFailed) *event.Failure {
	err := event.Failure{Message: p.FailureCategory, Retryable: p.Retryable}
	if p.Error != nil {
		err = *p.Error
	}
	err.Category = p.FailureCategory
	return &err
}

// endAttempt ends the attempt of the fact's run. What comes after an attempt's
// own end is late, whether the fact says so or not.
func (f *fold) endAttempt(t *Task, late bool, report LateReport, end func(*Attempt)) {
	i := f.attempt(t)
	if late || i >= 0 && t.Attempts[i].ended() {
		f.lateReport(t, report)
		return
	}
	if i < 0 {
		f.addAttempt(t, Attempt{RunID: f.e.RunID, AttemptID: f.e.AttemptID})
	}
	t.LastSeenAt = f.e.Time
	f.changeAttempt(t, func(a *Attempt) {
		end(a)
		a.EndedAt, a.Inferred = f.e.Time, false
	})
}

// lateReport notes what came too late on the attempt that it is about.
func (f *fold) lateReport(t *Task, r LateReport) {
	t.LateReports++
	r.Type, r.Sequence, r.At = f.e.Type, f.e.Sequence, f.e.Time
	f.changeAttempt(t, func(a *Attempt) { a.Late = pushed(a.Late, r, keepLate) })
}

// settleAttempt ends the current attempt with its task when no fact of its own
// did. Success isn't inferred: of a completed task's attempt nothing is known.
func (f *fold) settleAttempt(t *Task) {
	i := slices.IndexFunc(t.Attempts, func(a Attempt) bool { return a.RunID == t.CurrentRunID })
	if i < 0 || !t.Attempts[i].EndedAt.IsZero() {
		return
	}
	a := t.Attempts[i]
	a.EndedAt, a.Inferred = f.e.Time, true
	a.Status, a.LastError = settledByTask(t)
	t.Attempts = slices.Clone(t.Attempts)
	t.Attempts[i] = a
}

// settledByTask returns what a task's end says about an attempt that has no end.
func settledByTask(t *Task) (string, *event.Failure) {
	switch t.Status {
	case TaskCancelled:
		return AttemptCancelled, nil
	case TaskFailed:
		return AttemptFailed, t.LastError
	case TaskTimedOut:
		return AttemptFailed, categorised(t, TaskTimedOut)
	case TaskLost:
		return AttemptUnknown, categorised(t, TaskLost)
	}
	return AttemptUnknown, nil
}

func categorised(t *Task, category string) *event.Failure {
	err := event.Failure{Message: t.StatusReason}
	if t.LastError != nil {
		err = *t.LastError
	}
	if err.Message == "" {
		err.Message = category
	}
	err.Category = category
	return &err
}
