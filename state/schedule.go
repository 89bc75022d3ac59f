package state

import (
	"time"

	"agentd/event"
)

// Schedules are what starts jobs and tasks again and again.
type Schedules struct {
	// Open holds those that were not deleted, in the order of creation.
	Open []*Schedule `json:"open,omitempty"`
}

// Schedule is one of them.
type Schedule struct {
	ScheduleID string       `json:"scheduleId"`
	SessionID  string       `json:"sessionId"`
	Title      string       `json:"title,omitempty"`
	Cron       string       `json:"cron,omitempty"`
	EveryMs    int64        `json:"everyMs,omitempty"`
	TimeZone   string       `json:"timeZone,omitempty"`
	Missed     string       `json:"missed"`
	Overlap    string       `json:"overlap"`
	Kind       string       `json:"kind"`
	Run        event.Raw    `json:"run,omitempty"`
	RunRef     string       `json:"runRef,omitempty"`
	CreatedBy  *event.Actor `json:"createdBy,omitempty"`
	CreatedAt  time.Time    `json:"createdAt"`
	// NextAt is when the next run is due, LastDueAt when the last one was, LastAt
	// when it was started.
	NextAt    time.Time `json:"nextAt,omitzero"`
	LastDueAt time.Time `json:"lastDueAt,omitzero"`
	LastAt    time.Time `json:"lastAt,omitzero"`
	// LastJobID or LastTaskID is what the last run started; LastError why nothing.
	LastJobID  string         `json:"lastJobId,omitempty"`
	LastTaskID string         `json:"lastTaskId,omitempty"`
	LastError  *event.Failure `json:"lastError,omitempty"`
	// QueuedDueAt is when a run was due that waits for the end of the one before.
	QueuedDueAt time.Time `json:"queuedDueAt,omitzero"`
	// Pause is set while the schedule starts nothing, ResumedAt is when it last went
	// on after one.
	Pause     *SchedulePause `json:"pause,omitempty"`
	ResumedAt time.Time      `json:"resumedAt,omitzero"`
	// Fired and MissedCount count over all time.
	Fired       int64 `json:"fired,omitempty"`
	MissedCount int64 `json:"missedCount,omitempty"`
}

// SchedulePause says why a schedule starts nothing.
type SchedulePause struct {
	Code   string       `json:"code,omitempty"`
	Reason string       `json:"reason,omitempty"`
	By     *event.Actor `json:"by,omitempty"`
	At     time.Time    `json:"at"`
}

// Find returns a schedule that was not deleted, or nil.
func (s *Schedules) Find(id string) *Schedule {
	if i := indexWhere(s.Open, func(x *Schedule) bool { return x.ScheduleID == id }); i >= 0 {
		return s.Open[i]
	}
	return nil
}

// schedule folds the facts of schedules.
func (f *fold) schedule() {
	all := &f.s.Schedules
	switch p := f.e.Payload.(type) {
	case *event.ScheduleCreated:
		if all.Find(p.ScheduleID) != nil {
			return
		}
		all.Open = append(all.Open, &Schedule{
			ScheduleID: p.ScheduleID, SessionID: f.e.SessionID, Title: p.Title, Cron: p.Cron, EveryMs: p.EveryMs, TimeZone: p.TimeZone,
			Missed: p.Missed, Overlap: p.Overlap, Kind: p.Kind, Run: presentValue(p.Run), RunRef: p.RunRef, CreatedBy: p.CreatedBy,
			CreatedAt: f.e.Time, NextAt: journalTime(p.NextAt),
		})
	case *event.ScheduleFired:
		if x := all.Find(p.ScheduleID); x != nil {
			x.Fired++
			x.LastAt, x.LastDueAt, x.NextAt = f.e.Time, journalTime(p.DueAt), journalTime(p.NextAt)
			x.LastJobID, x.LastTaskID, x.LastError, x.QueuedDueAt = p.JobID, p.TaskID, p.Error, time.Time{}
		}
	case *event.ScheduleMissed:
		if x := all.Find(p.ScheduleID); x != nil {
			x.MissedCount += p.Count
			x.NextAt = journalTime(p.NextAt)
		}
	case *event.ScheduleQueued:
		if x := all.Find(p.ScheduleID); x != nil {
			x.QueuedDueAt, x.NextAt = journalTime(p.DueAt), journalTime(p.NextAt)
		}
	case *event.SchedulePaused:
		if x := all.Find(p.ScheduleID); x != nil {
			x.Pause = &SchedulePause{Code: p.Code, Reason: p.Reason, By: p.PausedBy, At: f.e.Time}
		}
	case *event.ScheduleResumed:
		if x := all.Find(p.ScheduleID); x != nil {
			x.Pause, x.ResumedAt = nil, f.e.Time
		}
	case *event.ScheduleDeleted:
		if i := indexWhere(all.Open, func(x *Schedule) bool { return x.ScheduleID == p.ScheduleID }); i >= 0 {
			f.evict("schedule/"+p.ScheduleID, all.Open[i])
			all.Open = removed(all.Open, i)
		}
	}
}
