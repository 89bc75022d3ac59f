package work

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
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
// watch one that changed.
func (w *Work) lookAtSchedules(_ context.Context, sessionID string, facts []event.Event) error {
	for i := range facts {
		switch p := facts[i].Payload.(type) {
		case *event.ScheduleCreated:
			w.watchSchedule(sessionID, p.ScheduleID)
		case *event.ScheduleDeleted:
			w.crons.mu.Lock()
			if c := w.crons.byID[p.ScheduleID]; c != nil {
				wakeUp(c)
			}
			w.crons.mu.Unlock()
		}
	}
	return nil
}

// cronConcerns reports whether facts of a type are about schedules.
func cronConcerns(t event.Type) bool {
	return t == event.TypeScheduleCreated || t == event.TypeScheduleDeleted
}

// recoverSchedules watches a session's schedules again after a restart.
func (w *Work) recoverSchedules(ctx context.Context, sessionID string) error {
	var ids []string
	if err := w.m.View(ctx, sessionID, func(s *state.Session) error {
		for _, x := range s.Schedules.Open {
			ids = append(ids, x.ScheduleID)
		}
		return nil
	}); err != nil {
		return missing(err)
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
	if w.crons.byID[id] != nil || w.ctx.Err() != nil {
		return
	}
	if w.crons.byID == nil {
		w.crons.byID = map[string]chan struct{}{}
	}
	woken := make(chan struct{}, 1)
	w.crons.byID[id] = woken
	w.wg.Go(func() {
		w.watch(sessionID, id, woken)
		w.crons.mu.Lock()
		delete(w.crons.byID, id)
		w.crons.mu.Unlock()
	})
}

func (w *Work) watch(sessionID, id string, woken chan struct{}) {
	for w.ctx.Err() == nil {
		at, gone, err := w.fire(w.ctx, sessionID, id)
		if err != nil && w.ctx.Err() == nil {
			w.opt.Logger.Error("a schedule could not be looked at", "sessionId", sessionID, "scheduleId", id, "error", err)
			at = w.opt.Clock().Add(retryStep)
		}
		if gone {
			return
		}
		(&jobRun{woken: woken}).rest(w.ctx, at, w.opt.Clock())
	}
}

// fire starts what is due of a schedule and returns when to look again.
func (w *Work) fire(ctx context.Context, sessionID, id string) (again time.Time, gone bool, err error) {
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
		return time.Time{}, x == nil && missing(err) == nil, missing(err)
	}
	due, err := timingOf(x.Cron, x.EveryMs, x.TimeZone, x.CreatedAt)
	if err != nil {
		return time.Time{}, false, err
	}
	now := w.opt.Clock()
	p := planRuns(x, due, now)
	if p.missed == nil && p.due.IsZero() {
		return x.NextAt, false, nil
	}
	if p.missed != nil {
		if err := w.emitScheduled(ctx, sessionID, x, event.TypeScheduleMissed, p.missed); err != nil || p.due.IsZero() {
			return p.missed.NextAt, false, err
		}
		x.NextAt = p.missed.NextAt
	}
	return w.fireOne(ctx, sessionID, account, x, p.due, due.next(p.due))
}

// runPlan is what becomes of the runs of a schedule that are due.
type runPlan struct {
	// missed are those that are not started.
	missed *event.ScheduleMissed
	// due is the one that is; zero if none.
	due time.Time
}

// planRuns decides, from the schedule and the time alone, which runs are missed
// and which is started now. Runs are started one at a time.
func planRuns(x *state.Schedule, t *timing, now time.Time) runPlan {
	if x.NextAt.IsZero() || now.Before(x.NextAt) {
		return runPlan{}
	}
	first, last, count := x.NextAt, x.NextAt, int64(1)
	for n := t.next(last); !n.IsZero() && !n.After(now); n = t.next(last) {
		last = n
		count++
	}
	switch {
	case now.Sub(first) <= lateAfter || (x.Missed == "run_all" && count <= maxCatchUp):
		return runPlan{due: first}
	case x.Missed == "run_once" && count == 1:
		return runPlan{due: first}
	case x.Missed == "skip":
		return runPlan{missed: &event.ScheduleMissed{
			ScheduleID: x.ScheduleID, Reason: "down", Count: count, FirstDueAt: first, LastDueAt: last, NextAt: t.next(last),
		}}
	}
	// All but the last are missed; the last is started in their place.
	return runPlan{due: last, missed: &event.ScheduleMissed{
		ScheduleID: x.ScheduleID, Reason: "down", Count: count - 1, FirstDueAt: first, LastDueAt: last, NextAt: last,
	}}
}

// fireOne starts one run, unless the one before goes on and that matters.
func (w *Work) fireOne(ctx context.Context, sessionID, account string, x *state.Schedule, due, next time.Time) (time.Time, bool, error) {
	if x.Overlap != "allow" {
		busy, err := w.stillRuns(ctx, x)
		if err != nil {
			return time.Time{}, false, err
		}
		if busy && x.Overlap == "queue" {
			return w.opt.Clock().Add(overlapEvery), false, nil
		}
		if busy {
			return next, false, w.emitScheduled(ctx, sessionID, x, event.TypeScheduleMissed, &event.ScheduleMissed{
				ScheduleID: x.ScheduleID, Reason: "overlap", Count: 1, FirstDueAt: due, LastDueAt: due, NextAt: next,
			})
		}
	}
	fired := &event.ScheduleFired{ScheduleID: x.ScheduleID, DueAt: due, NextAt: next}
	caller := command.Caller{Account: account, Actor: event.Actor{Kind: "schedule", ID: x.ScheduleID, Account: account}}
	id, err := w.startRun(ctx, caller, x, due)
	switch {
	case err != nil && fault.KindOf(err) == fault.Unavailable:
		return time.Time{}, false, err
	case err != nil:
		fired.Error = &event.Failure{Message: err.Error(), Category: string(fault.KindOf(err))}
	case x.Kind == "job":
		fired.JobID = id
	default:
		fired.TaskID = id
	}
	return next, false, w.emitScheduled(ctx, sessionID, x, event.TypeScheduleFired, fired)
}

// startRun carries out what a run is.
func (w *Work) startRun(ctx context.Context, caller command.Caller, x *state.Schedule, due time.Time) (string, error) {
	template, err := w.template(ctx, x)
	if err != nil {
		return "", err
	}
	p, id, err := runOf(x, template, due)
	if err != nil {
		return "", err
	}
	_, err = w.carryOut(ctx, caller, p)
	return id, err
}

// carryOut gives a command to the runtime.
func (w *Work) carryOut(ctx context.Context, caller command.Caller, p command.Params) (any, error) {
	res, mine, err := w.Do(ctx, caller, p)
	if !mine {
		return nil, fault.New(fault.Unavailable, "%s is not available in this build", p.Command())
	}
	return res, err
}

// stillRuns reports whether what the last run started has not ended.
func (w *Work) stillRuns(ctx context.Context, x *state.Schedule) (bool, error) {
	var status string
	switch {
	case x.LastJobID != "":
		f, err := w.job(ctx, command.Local(), x.LastJobID)
		if err != nil {
			return false, missing(err)
		}
		status = f.job.Status
	case x.LastTaskID != "":
		res, err := w.carryOut(ctx, command.Local(), &command.GetTask{TaskID: x.LastTaskID})
		if err != nil {
			return false, missing(err)
		}
		raw, err := json.Marshal(res)
		if err != nil {
			return false, fmt.Errorf("work: a task: %w", err)
		}
		var rec struct {
			Status string `json:"status"`
		}
		if err := json.Unmarshal(raw, &rec); err != nil {
			return false, fmt.Errorf("work: a task: %w", err)
		}
		status = rec.Status
	}
	return status != "" && !slices.Contains([]string{jobCompleted, jobFailed, jobCancelled, "timed_out", "lost", "archived"}, status), nil
}

// emitScheduled records a fact of a schedule that is still as it was looked at.
func (w *Work) emitScheduled(ctx context.Context, sessionID string, x *state.Schedule, t event.Type, p event.Payload) error {
	err := w.m.Emit(ctx, sessionID, asWork, func(tx *session.Tx) error {
		now := tx.State.Schedules.Find(x.ScheduleID)
		if now == nil || !now.NextAt.Equal(x.NextAt) {
			return nil
		}
		tx.Emit(event.Event{Type: t, Payload: p})
		return nil
	})
	if err != nil {
		return fmt.Errorf("work: schedule %s: %w", x.ScheduleID, err)
	}
	return nil
}
