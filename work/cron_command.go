package work

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
)

// timing says when a schedule is due.
type timing struct {
	cron  *cronSpec
	every time.Duration
	// from is where intervals are counted from.
	from time.Time
}

// timingOf reads when a schedule is due.
func timingOf(cron string, everyMs int64, zone string, from time.Time) (*timing, error) {
	t := &timing{every: time.Duration(everyMs) * time.Millisecond, from: from}
	if cron == "" {
		return t, nil
	}
	where, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return nil, fault.Param("timeZone", "%q is not a known time zone; use a name such as Europe/Berlin", zone)
	}
	if t.cron, err = parseCron(cron, where); err != nil {
		return nil, fault.Param("cron", "%s", err)
	}
	return t, nil
}

// next returns the first due time after a moment.
func (t *timing) next(after time.Time) time.Time {
	if t.cron != nil {
		return t.cron.next(after).UTC()
	}
	if after.Before(t.from) {
		return t.from.Add(t.every).UTC()
	}
	passed := after.Sub(t.from)
	return t.from.Add(passed - passed%t.every + t.every).UTC()
}

// upTo returns the last due time up to a moment, and how many there are from the
// first on. Of very many the count is enough to know that they are.
func (t *timing) upTo(first, now time.Time) (last time.Time, count int64) {
	if t.cron == nil {
		passed := int64(now.Sub(first) / t.every)
		return first.Add(time.Duration(passed) * t.every), passed + 1
	}
	last, count = first, 1
	for n := t.next(last); !n.IsZero() && !n.After(now); n = t.next(last) {
		last = n
		count++
	}
	return last, count
}

func (w *Work) createSchedule(ctx context.Context, caller command.Caller, p *command.CreateSchedule) (*command.ScheduleResult, error) {
	due, err := timingOf(p.Cron, p.EveryMs, p.TimeZone, w.m.Now())
	if err != nil {
		return nil, err
	}
	if err := w.checkInterval(caller.Account, p, due); err != nil {
		return nil, err
	}
	to, err := w.targetOf(ctx, session.KindSchedule, p.ScheduleID, p.SessionID, p.Title)
	if err != nil {
		return nil, err
	}
	return session.WriteTo(ctx, w.m, caller, p, to, asWork, func(tx *session.Tx) (*command.ScheduleResult, error) {
		if err := w.checkInterval(tx.State.Account, p, due); err != nil {
			return nil, err
		}
		due.from = tx.Now()
		return w.emitSchedule(tx, p, due.next(tx.Now()), session.ActorOf(caller))
	})
}

// checkInterval refuses a schedule that is due more often than its account may have
// one run.
func (w *Work) checkInterval(account string, p *command.CreateSchedule, due *timing) error {
	limits := w.m.Limits(account)
	least, got := limits.ScheduleMinInterval, due.shortest(w.m.Now())
	if got >= least {
		return nil
	}
	name := "everyMs"
	if p.Cron != "" {
		name = "cron"
	}
	return fault.Param(name, "the schedule runs every %v, but the shortest interval allowed for this account is %v (quotas.scheduleMinInterval)", got, least)
}

// shortest returns the least time between two of the next due times.
func (t *timing) shortest(now time.Time) time.Duration {
	if t.cron == nil {
		return t.every
	}
	const looks = 100 // of an expression such as "0,1 * * * *" the next ones tell enough
	least := time.Duration(math.MaxInt64)
	at := t.next(now)
	for range looks {
		next := t.next(at)
		if next.IsZero() || least <= time.Minute {
			break
		}
		least, at = min(least, next.Sub(at)), next
	}
	return least
}

// emitSchedule emits a new schedule.
func (w *Work) emitSchedule(tx *session.Tx, p *command.CreateSchedule, next time.Time, by *event.Actor) (*command.ScheduleResult, error) {
	created := &event.ScheduleCreated{
		ScheduleID: p.ScheduleID, Title: p.Title, Cron: p.Cron, EveryMs: p.EveryMs, TimeZone: p.TimeZone,
		Missed: orElse(p.Missed, "run_once"), Overlap: orElse(p.Overlap, "skip"), Kind: "task", NextAt: next, CreatedBy: by,
	}
	name, run := p.Starts()
	if name == "create_job" {
		created.Kind = "job"
	}
	if run = w.m.Redact(run); len(run) <= factBytes {
		created.Run = run
	} else {
		created.RunRef = tx.Blob(run, "application/json")
	}
	if p.ScheduleID == "" {
		created.ScheduleID = tx.NewID(event.PrefixSchedule)
	} else if exists, same, err := tx.Identity(session.KindSchedule, p.ScheduleID, created); exists || err != nil {
		x := tx.State.Schedules.Find(p.ScheduleID)
		if err == nil && (!same || x == nil) {
			err = session.Taken("schedule %s already exists with different parameters, or was deleted; choose another id", p.ScheduleID)
		}
		if err != nil {
			return nil, err
		}
		return &command.ScheduleResult{ScheduleID: p.ScheduleID, Status: scheduleStatus(x), NextAt: x.NextAt}, nil
	}
	tx.Emit(event.Event{Type: event.TypeScheduleCreated, Payload: created})
	return &command.ScheduleResult{ScheduleID: created.ScheduleID, Status: "active", NextAt: next}, nil
}

// runSchedule queues a run that is due now; who watches the schedule starts it.
func (w *Work) runSchedule(ctx context.Context, caller command.Caller, p *command.RunSchedule) (*command.ScheduleResult, error) {
	sessionID, err := w.m.Locate(ctx, session.KindSchedule, p.ScheduleID)
	if err != nil {
		return nil, err
	}
	res, err := session.Write(ctx, w.m, caller, p, sessionID, asWork, func(tx *session.Tx) (*command.ScheduleResult, error) {
		x := tx.State.Schedules.Find(p.ScheduleID)
		switch {
		case x == nil:
			return nil, fault.New(fault.Conflict, "schedule %s was deleted", p.ScheduleID)
		case x.Pause != nil:
			return nil, fault.New(fault.Conflict, "schedule %s is paused; resume it with resume_schedule, then run it", p.ScheduleID)
		case x.QueuedDueAt.IsZero():
			tx.Emit(event.Event{Type: event.TypeScheduleQueued, Payload: &event.ScheduleQueued{ScheduleID: x.ScheduleID, DueAt: tx.Now(), NextAt: x.NextAt}})
		}
		return &command.ScheduleResult{ScheduleID: x.ScheduleID, Status: scheduleActive, NextAt: x.NextAt}, nil
	})
	return res, hidden(err, "schedule", p.ScheduleID)
}

func (w *Work) pauseSchedule(ctx context.Context, caller command.Caller, p *command.PauseSchedule) (*command.ScheduleResult, error) {
	return w.changeSchedule(ctx, caller, p, p.ScheduleID, func(tx *session.Tx, x *state.Schedule) string {
		if x.Pause == nil {
			tx.Emit(event.Event{Type: event.TypeSchedulePaused, Payload: &event.SchedulePaused{
				ScheduleID: x.ScheduleID, Reason: p.Reason, PausedBy: session.ActorOf(caller),
			}})
		}
		return schedulePaused
	})
}

func (w *Work) resumeSchedule(ctx context.Context, caller command.Caller, p *command.ResumeSchedule) (*command.ScheduleResult, error) {
	return w.changeSchedule(ctx, caller, p, p.ScheduleID, func(tx *session.Tx, x *state.Schedule) string {
		if x.Pause != nil {
			tx.Emit(event.Event{Type: event.TypeScheduleResumed, Payload: &event.ScheduleResumed{
				ScheduleID: x.ScheduleID, Reason: p.Reason, ResumedBy: session.ActorOf(caller),
			}})
		}
		return scheduleActive
	})
}

// changeSchedule carries out a command that changes a schedule's standing.
func (w *Work) changeSchedule(ctx context.Context, caller command.Caller, p command.Params, id string, decide func(*session.Tx, *state.Schedule) string) (*command.ScheduleResult, error) {
	sessionID, err := w.m.Locate(ctx, session.KindSchedule, id)
	if err != nil {
		return nil, err
	}
	res, err := session.Write(ctx, w.m, caller, p, sessionID, asWork, func(tx *session.Tx) (*command.ScheduleResult, error) {
		x := tx.State.Schedules.Find(id)
		if x == nil {
			return nil, fault.New(fault.Conflict, "schedule %s was deleted", id)
		}
		return &command.ScheduleResult{ScheduleID: id, NextAt: x.NextAt, Status: decide(tx, x)}, nil
	})
	return res, hidden(err, "schedule", id)
}

// Statuses of a schedule that was not deleted.
const (
	scheduleActive = "active"
	schedulePaused = "paused"
)

func scheduleStatus(x *state.Schedule) string {
	if x.Pause != nil {
		return schedulePaused
	}
	return scheduleActive
}

func (w *Work) deleteSchedule(ctx context.Context, caller command.Caller, p *command.DeleteSchedule) (*command.ScheduleResult, error) {
	sessionID, err := w.m.Locate(ctx, session.KindSchedule, p.ScheduleID)
	if err != nil {
		return nil, err
	}
	res, err := session.Write(ctx, w.m, caller, p, sessionID, asWork, func(tx *session.Tx) (*command.ScheduleResult, error) {
		if tx.State.Schedules.Find(p.ScheduleID) != nil {
			tx.Emit(event.Event{Type: event.TypeScheduleDeleted, Payload: &event.ScheduleDeleted{
				ScheduleID: p.ScheduleID, Reason: p.Reason, DeletedBy: session.ActorOf(caller),
			}})
		}
		return &command.ScheduleResult{ScheduleID: p.ScheduleID, Status: "deleted"}, nil
	})
	return res, hidden(err, "schedule", p.ScheduleID)
}

func (w *Work) listSchedules(ctx context.Context, caller command.Caller, p *command.ListSchedules) (*command.ListSchedulesResult, error) {
	if p.SessionID != "" {
		if err := w.m.ViewAs(ctx, caller, p.SessionID, func(*state.Session) error { return nil }); err != nil {
			return nil, err
		}
	}
	page, err := command.NewOrderedPage(&p.Page, "id", "", scheduleOrders, scheduleID)
	if err != nil {
		return nil, err
	}
	all, err := w.m.Members(ctx, session.KindSchedule, p.SessionID, "", 0)
	if err != nil {
		return nil, err
	}
	in := map[string][]string{} // the ids of those of each session
	for _, x := range all {
		in[x.SessionID] = append(in[x.SessionID], x.ID)
	}
	for sessionID, ids := range in {
		err := w.m.See(ctx, caller, sessionID)
		if err == nil {
			err = w.m.ViewAs(ctx, caller, sessionID, func(s *state.Session) error {
				for _, id := range ids {
					if x := s.Schedules.Find(id); x != nil { // else it was deleted
						page.Offer(scheduleRecord(x))
					}
				}
				return nil
			})
		}
		if err != nil && fault.KindOf(err) != fault.NotFound { // not another account's
			return nil, err
		}
	}
	res := &command.ListSchedulesResult{Schedules: []command.ScheduleRecord{}, Total: page.Total, NextCursor: page.Next()}
	for _, rec := range page.Things() {
		res.Schedules = append(res.Schedules, *rec)
	}
	return res, nil
}

// scheduleOrders are the orders of the list of schedules.
var scheduleOrders = command.Orders[*command.ScheduleRecord]{"id": scheduleID}

func scheduleID(x *command.ScheduleRecord) string { return x.ScheduleID }

func scheduleRecord(x *state.Schedule) *command.ScheduleRecord {
	rec := &command.ScheduleRecord{
		ScheduleID: x.ScheduleID, SessionID: x.SessionID, Status: scheduleStatus(x), QueuedDueAt: x.QueuedDueAt, Title: x.Title, Cron: x.Cron, EveryMs: x.EveryMs, TimeZone: x.TimeZone,
		Kind: x.Kind, Missed: x.Missed, Overlap: x.Overlap, NextAt: x.NextAt, LastAt: x.LastAt, LastJobID: x.LastJobID, LastTaskID: x.LastTaskID,
		LastError: x.LastError, Fired: x.Fired, MissedCount: x.MissedCount, CreatedAt: x.CreatedAt,
	}
	if x.Pause != nil {
		rec.StatusReason = x.Pause.Reason
	}
	return rec
}

// runSuffix is what the id of a run has after that of its schedule: when it was due.
const runSuffix = ".20060102T150405.000"

// scheduleOf returns the schedule that a job or task is a run of, going by its id;
// "" if it is none.
func scheduleOf(id string) string {
	at := len(id) - len(runSuffix)
	if at <= 0 || id[at] != '.' {
		return ""
	}
	return id[:at]
}

// runOf returns the command that a run of a schedule carries out. Its id follows
// from the schedule and the due time, so that a run that is started twice is one.
func runOf(x *state.Schedule, template event.Raw, due time.Time) (command.Params, string, error) {
	id := x.ScheduleID + due.UTC().Format(runSuffix)
	name := command.Name("create_" + x.Kind)
	p, err := command.Decode(name, template)
	if err != nil {
		return nil, "", err
	}
	switch p := p.(type) {
	case *command.CreateJob:
		p.JobID = id
		p.SessionID = orElse(p.SessionID, x.SessionID)
	case *command.CreateTask:
		p.TaskID, p.Start = id, true
		p.SessionID = orElse(p.SessionID, x.SessionID)
	}
	return p, id, p.Validate()
}

// scheduleTemplate returns the parameters of a schedule's runs.
func (w *Work) scheduleTemplate(ctx context.Context, x *state.Schedule) (event.Raw, error) {
	if x.RunRef == "" {
		return x.Run, nil
	}
	raw, err := w.readBlob(ctx, x.RunRef)
	return json.RawMessage(raw), err
}
