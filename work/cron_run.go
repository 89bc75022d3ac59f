package work

import (
	"context"
	"fmt"
	"sync"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
)

const (
	// lateAfter is how late a run may be and still count as in time.
	lateAfter = time.Minute
	// maxCatchUp bounds the missed runs that are started one after the other.
	maxCatchUp = 1000
	// overlapEvery is how often a run that waits for the one before looks again.
	overlapEvery = time.Second
)

// cronRuns are the schedules that are watched here.
type cronRuns struct {
	mu   sync.Mutex
	byID map[string]chan struct{}
}

// lookAtSchedules watches the schedules that were created and wakes those who
// watch one that changed, or whose run may have ended.
func (w *Work) lookAtSchedules(_ context.Context, sessionID string, facts []event.Event) error {
	for i := range facts {
		switch p := facts[i].Payload.(type) {
		case *event.ScheduleCreated:
			w.watchSchedule(sessionID, p.ScheduleID)
		case *event.ScheduleDeleted:
			w.wakeSchedule(p.ScheduleID)
		case *event.ScheduleResumed:
			w.wakeSchedule(p.ScheduleID)
		case *event.ScheduleQueued:
			w.wakeSchedule(p.ScheduleID)
		default:
			if id := scheduleOf(orElse(facts[i].JobID, facts[i].TaskID)); id != "" {
				w.wakeSchedule(id)
			}
		}
	}
	return nil
}

func (w *Work) wakeSchedule(id string) {
	w.crons.mu.Lock()
	defer w.crons.mu.Unlock()
	if c := w.crons.byID[id]; c != nil {
		wakeUp(c)
	}
}

// cronConcerns reports whether a fact is about a schedule, or may be the end of a run.
func cronConcerns(e *event.Event) bool {
	switch e.Type { //nolint:exhaustive // the rest says nothing of schedules
	case event.TypeScheduleCreated, event.TypeScheduleDeleted, event.TypeScheduleResumed, event.TypeScheduleQueued:
		return true
	case event.TypeJobCompleted, event.TypeJobFailed, event.TypeJobCancelled:
		return scheduleOf(e.JobID) != ""
	}
	return e.Type.EndsTask() && scheduleOf(orElse(e.JobID, e.TaskID)) != ""
}

// recoverSchedules watches a session's schedules again after a restart.
func (w *Work) recoverSchedules(ctx context.Context, sessionID string) error {
	if w.isManualRecovery() {
		if err := w.m.Emit(ctx, sessionID, asWork, func(tx *session.Tx) error { holdSchedules(tx); return nil }); err != nil {
			return ignoreMissing(err)
		}
	}
	var ids []string
	if err := w.m.View(ctx, sessionID, func(s *state.Session) error {
		for _, x := range s.Schedules.Open {
			ids = append(ids, x.ScheduleID)
		}
		return nil
	}); err != nil {
		return ignoreMissing(err)
	}
	for _, id := range ids {
		w.watchSchedule(sessionID, id)
	}
	return nil
}

func wakeUp(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// watchSchedule has a goroutine watch a schedule until it is deleted, unless one
// does.
func (w *Work) watchSchedule(sessionID, id string) {
	w.crons.mu.Lock()
	defer w.crons.mu.Unlock()
	if woken := w.crons.byID[id]; woken != nil {
		wakeUp(woken) // the session may have been another node's meanwhile
		return
	}
	if w.ctx.Err() != nil {
		return
	}
	if w.crons.byID == nil {
		w.crons.byID = map[string]chan struct{}{}
	}
	woken := make(chan struct{}, 1)
	w.crons.byID[id] = woken
	w.wg.Go(func() { w.addScheduleWatch(sessionID, id, woken) })
}

func (w *Work) addScheduleWatch(sessionID, id string, woken chan struct{}) {
	for w.ctx.Err() == nil {
		at, gone, err := w.fireSchedule(w.ctx, sessionID, id)
		if session.LostSession(err, sessionID) {
			gone, err = true, nil // the node that has the session watches it
		}
		if err != nil && w.ctx.Err() == nil {
			w.opt.Logger.Error("a schedule could not be checked", "sessionId", sessionID, "scheduleId", id, "error", err)
			at = w.opt.Clock().Add(retryStep)
		}
		if gone && w.leaveSchedule(id, woken) {
			return
		}
		(&jobRun{woken: woken}).waitUntil(w.ctx, at, w.opt.Clock())
	}
}

// leaveSchedule ends the watch of a schedule unless it was woken in the meantime.
func (w *Work) leaveSchedule(id string, woken chan struct{}) bool {
	w.crons.mu.Lock()
	defer w.crons.mu.Unlock()
	if len(woken) > 0 {
		return false
	}
	delete(w.crons.byID, id)
	return true
}

// fireSchedule starts what is due of a schedule and returns when to look again.
func (w *Work) fireSchedule(ctx context.Context, sessionID, id string) (again time.Time, gone bool, err error) {
	var x *state.Schedule
	account := ""
	if err := w.m.View(ctx, sessionID, func(s *state.Session) error {
		account = s.Account
		if found := s.Schedules.Find(id); found != nil {
			kept := *found
			x = &kept
		}
		return nil
	}); err != nil || x == nil {
		return time.Time{}, x == nil && ignoreMissing(err) == nil, ignoreMissing(err)
	}
	due, err := timingOf(x.Cron, x.EveryMs, x.TimeZone, x.CreatedAt)
	if err != nil {
		return time.Time{}, false, err
	}
	if x.Pause != nil {
		return time.Time{}, false, nil // until it is resumed
	}
	f := &firing{w: w, sessionID: sessionID, account: account, x: x, due: due, now: w.opt.Clock()}
	again, err = f.step(ctx)
	return again, false, err
}

// firing is a look at a schedule that isn't paused.
type firing struct {
	w                  *Work
	sessionID, account string
	x                  *state.Schedule
	due                *timing
	now                time.Time
}

// step does what is due and returns when to look again; a time that has passed
// means at once.
func (f *firing) step(ctx context.Context) (again time.Time, err error) {
	busy := false
	if f.x.Overlap != "allow" && (!f.x.QueuedDueAt.IsZero() || !f.now.Before(f.x.NextAt)) {
		if busy, err = f.w.stillRuns(ctx, f.x); err != nil {
			return time.Time{}, err
		}
	}
	p := planRuns(f.x, f.due, f.now, busy)
	switch {
	case p.missed != nil:
		return f.now, f.emit(ctx, event.TypeScheduleMissed, p.missed)
	case p.queued != nil:
		return f.now, f.emit(ctx, event.TypeScheduleQueued, p.queued)
	case !p.run.IsZero():
		return f.now, f.start(ctx, p.run, p.next)
	}
	return p.again, nil
}

// runPlan is what becomes of the runs of a schedule that are due: one thing at a
// time.
type runPlan struct {
	// missed are runs that are not started.
	missed *event.ScheduleMissed
	// queued is one that waits for the end of the run before.
	queued *event.ScheduleQueued
	// run is when the run was due that is started now; next is when the next one is.
	run, next time.Time
	// again is when to look again if nothing is to be done now.
	again time.Time
}

// planRuns decides, from the schedule, the time and whether the last run goes on,
// which runs are missed, which waits and which is started now.
func planRuns(x *state.Schedule, t *timing, now time.Time, busy bool) runPlan {
	if !x.QueuedDueAt.IsZero() && !busy {
		return runPlan{run: x.QueuedDueAt, next: x.NextAt}
	}
	if x.NextAt.IsZero() || now.Before(x.NextAt) {
		again := x.NextAt
		if busy {
			again = earlier(again, now.Add(overlapEvery))
		}
		return runPlan{again: again}
	}
	first := x.NextAt
	last, count := t.upTo(first, now)
	// With a short interval several may be due that are hardly late, such as when a session
	// comes to another node: they are missed as others are.
	several := count > 1 && !busy && x.Missed != "run_all"
	switch {
	case now.Sub(first) <= lateAfter && !several:
		return onTime(x, first, t.next(first), busy)
	case x.Missed == "run_all" && count <= maxCatchUp, x.Missed == "run_once" && count == 1:
		if busy {
			return runPlan{again: now.Add(overlapEvery)} // they are started one after the other
		}
		return runPlan{run: first, next: t.next(first)}
	case x.Missed == "skip" && (now.Sub(last) > lateAfter || last.Before(x.ResumedAt)):
		return runPlan{missed: missedRuns(x, first, last, count, t.next(last))}
	}
	// All but the last are missed; the last is in time, or is started in their place.
	return runPlan{missed: missedRuns(x, first, last, count-1, last)}
}

// onTime decides on a run that is due now.
func onTime(x *state.Schedule, due, next time.Time, busy bool) runPlan {
	switch {
	case !busy:
		return runPlan{run: due, next: next}
	case x.Overlap == "queue" && x.QueuedDueAt.IsZero():
		return runPlan{queued: &event.ScheduleQueued{ScheduleID: x.ScheduleID, DueAt: due, NextAt: next}}
	}
	return runPlan{missed: &event.ScheduleMissed{
		ScheduleID: x.ScheduleID, Reason: "overlap", Count: 1, FirstDueAt: due, LastDueAt: due, NextAt: next,
	}}
}

// missedRuns is the fact of runs that could not be started in time.
func missedRuns(x *state.Schedule, first, last time.Time, count int64, next time.Time) *event.ScheduleMissed {
	reason := "down"
	if first.Before(x.ResumedAt) {
		reason = "paused"
	}
	return &event.ScheduleMissed{ScheduleID: x.ScheduleID, Reason: reason, Count: count, FirstDueAt: first, LastDueAt: last, NextAt: next}
}

// start starts one run.
func (f *firing) start(ctx context.Context, due, next time.Time) error {
	x := f.x
	fired := &event.ScheduleFired{ScheduleID: x.ScheduleID, DueAt: due, NextAt: next}
	caller := command.Caller{Account: f.account, Actor: event.Actor{Kind: "schedule", ID: x.ScheduleID, Account: f.account}}
	id, err := f.w.startRun(ctx, caller, x, due)
	switch {
	case err != nil && fault.KindOf(err) == fault.Unavailable:
		return err
	case err != nil:
		fired.Error = &event.Failure{Message: err.Error(), Category: string(fault.KindOf(err))}
	case x.Kind == "job":
		fired.JobID = id
	default:
		fired.TaskID = id
	}
	return f.emit(ctx, event.TypeScheduleFired, fired)
}

// startRun carries out what a run is.
func (w *Work) startRun(ctx context.Context, caller command.Caller, x *state.Schedule, due time.Time) (string, error) {
	template, err := w.scheduleTemplate(ctx, x)
	if err != nil {
		return "", err
	}
	p, id, err := runOf(x, template, due)
	if err != nil {
		return "", err
	}
	_, err = w.opt.Do(ctx, caller, p)
	return id, err
}

// stillRuns reports whether what the last run started has not ended.
func (w *Work) stillRuns(ctx context.Context, x *state.Schedule) (bool, error) {
	switch {
	case x.LastJobID != "":
		f, err := w.findJob(ctx, command.Local(), x.LastJobID)
		if err != nil {
			return false, ignoreMissing(err)
		}
		return !state.JobEnded(f.job.Status), nil
	case x.LastTaskID != "":
		task, err := w.getTask(ctx, command.Local(), &command.GetTask{TaskID: x.LastTaskID})
		if err != nil {
			return false, ignoreMissing(err)
		}
		return !state.TaskEnded(task.Status), nil
	}
	return false, nil
}

// emit records a fact of a schedule that is still as it was looked at.
func (f *firing) emit(ctx context.Context, t event.Type, p event.Payload) error {
	err := f.w.m.Emit(ctx, f.sessionID, asWork, func(tx *session.Tx) error {
		now := tx.State.Schedules.Find(f.x.ScheduleID)
		if now == nil || !now.NextAt.Equal(f.x.NextAt) || !now.QueuedDueAt.Equal(f.x.QueuedDueAt) {
			return nil
		}
		tx.Emit(event.Event{Type: t, Payload: p})
		return nil
	})
	if err != nil {
		return fmt.Errorf("work: schedule %s: %w", f.x.ScheduleID, err)
	}
	return nil
}
