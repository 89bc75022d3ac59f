package command

import (
	"time"

	"agentd/event"
	"agentd/fault"
)

// CreateSchedule starts a job or a task again and again.
type CreateSchedule struct {
	Mutation
	// ScheduleID is the schedule's id; made if absent.
	ScheduleID string `json:"scheduleId,omitempty" check:"id"`
	// SessionID of the schedule and, unless they say otherwise, of what it starts; a
	// session of its own if absent.
	SessionID string `json:"sessionId,omitempty" check:"id"`
	// Title for people.
	Title string `json:"title,omitempty" max:"1000"`
	// Cron has five fields: minute, hour, day, month, day of the week; or a
	// name such as @daily.
	Cron string `json:"cron,omitempty" max:"256"`
	// EveryMs is an interval, in place of cron.
	EveryMs int64 `json:"everyMs,omitempty" max:"31536000000"`
	// TimeZone that cron is meant in, such as Europe/Paris; default UTC.
	TimeZone string `json:"timeZone,omitempty" max:"64"`
	// Missed says what becomes of runs that were due while the runtime was down or the
	// schedule paused: run_once (the default) starts one for all, skip none, run_all
	// each, one after the other.
	Missed string `json:"missed,omitempty" enum:"@missedRuns"`
	// Overlap says what becomes of a run that is due while the last one goes on: skip
	// (the default) leaves it out, queue lets one wait for the end, allow starts it.
	Overlap string `json:"overlap,omitempty" enum:"@overlappingRuns"`
	// Job are the parameters of create_job.
	Job event.Raw `json:"job,omitempty" check:"object"`
	// Task are the parameters of create_task, in place of a job.
	Task event.Raw `json:"task,omitempty" check:"object"`
}

// Command implements [Params].
func (*CreateSchedule) Command() Name           { return "create_schedule" }
func (*CreateSchedule) returns(*ScheduleResult) {}

// NewID implements [Creating].
func (p *CreateSchedule) NewID() (noun, id string) { return "schedule", p.ScheduleID }

// minInterval is the shortest interval of a schedule, in milliseconds.
const minInterval = 100

// Validate implements [Params].
func (p *CreateSchedule) Validate() error {
	if err := firstError(check(p), notRuntime(p.SessionID)); err != nil {
		return err
	}
	switch {
	case p.Cron == "" && p.EveryMs == 0:
		return fault.Param("cron", "is missing: give cron or everyMs")
	case p.Cron != "" && p.EveryMs != 0:
		return fault.Param("cron", "give either cron or everyMs, not both")
	case p.EveryMs != 0 && p.EveryMs < minInterval:
		return fault.Param("everyMs", "must be at least %d", minInterval)
	case len(p.Job) == 0 && len(p.Task) == 0:
		return fault.Param("job", "is missing: give job or task")
	case len(p.Job) != 0 && len(p.Task) != 0:
		return fault.Param("job", "give either job or task, not both")
	}
	name, run := p.Starts()
	inner, err := Decode(name, run)
	if err == nil {
		err = inner.Validate()
	}
	if err != nil {
		return fault.Param(map[Name]string{"create_job": "job", "create_task": "task"}[name], "%s", err)
	}
	return nil
}

// Starts returns the command that a run carries out, and its parameters.
func (p *CreateSchedule) Starts() (Name, event.Raw) {
	if len(p.Job) > 0 {
		return "create_job", p.Job
	}
	return "create_task", p.Task
}

// ScheduleResult is a schedule's standing after a command.
type ScheduleResult struct {
	// ScheduleID is the schedule's id.
	ScheduleID string `json:"scheduleId"`
	// Status is active, paused or deleted.
	Status string `json:"status" enum:"active paused deleted"`
	// NextAt is when the next run is due.
	NextAt time.Time `json:"nextAt,omitzero"`
}

// ListSchedules lists schedules.
type ListSchedules struct {
	Page
	// SessionID keeps the schedules of one session.
	SessionID string `json:"sessionId,omitempty" check:"id"`
}

// Command implements [Params].
func (*ListSchedules) Command() Name                { return "list_schedules" }
func (*ListSchedules) returns(*ListSchedulesResult) {}

// Validate implements [Params].
func (p *ListSchedules) Validate() error { return check(p) }

// ListSchedulesResult is a page of schedules.
type ListSchedulesResult struct {
	// Schedules of this page.
	Schedules []ScheduleRecord `json:"schedules"`
	// Total counts the schedules that the filters keep, over all pages.
	Total int64 `json:"total"`
	// NextCursor is the cursor of the next page; absent on the last.
	NextCursor string `json:"nextCursor,omitempty"`
}

// RunSchedule has a schedule start a run now, besides those that are due.
type RunSchedule struct {
	Mutation
	// ScheduleID is the schedule's id.
	ScheduleID string `json:"scheduleId" check:"id"`
}

// Command implements [Params].
func (*RunSchedule) Command() Name           { return "run_schedule" }
func (*RunSchedule) returns(*ScheduleResult) {}

// Validate implements [Params].
func (p *RunSchedule) Validate() error { return check(p) }

// PauseSchedule holds a schedule: it starts nothing until it is resumed.
type PauseSchedule struct {
	Mutation
	// ScheduleID is the schedule's id.
	ScheduleID string `json:"scheduleId" check:"id"`
	// Reason for people.
	Reason string `json:"reason,omitempty" max:"10000"`
}

// Command implements [Params].
func (*PauseSchedule) Command() Name           { return "pause_schedule" }
func (*PauseSchedule) returns(*ScheduleResult) {}

// Validate implements [Params].
func (p *PauseSchedule) Validate() error { return check(p) }

// ResumeSchedule lets a paused schedule go on.
type ResumeSchedule struct {
	Mutation
	// ScheduleID is the schedule's id.
	ScheduleID string `json:"scheduleId" check:"id"`
	// Reason for people.
	Reason string `json:"reason,omitempty" max:"10000"`
}

// Command implements [Params].
func (*ResumeSchedule) Command() Name           { return "resume_schedule" }
func (*ResumeSchedule) returns(*ScheduleResult) {}

// Validate implements [Params].
func (p *ResumeSchedule) Validate() error { return check(p) }

// DeleteSchedule ends a schedule; what it started stays.
type DeleteSchedule struct {
	Mutation
	// ScheduleID is the schedule's id.
	ScheduleID string `json:"scheduleId" check:"id"`
	// Reason for people.
	Reason string `json:"reason,omitempty" max:"10000"`
}

// Command implements [Params].
func (*DeleteSchedule) Command() Name           { return "delete_schedule" }
func (*DeleteSchedule) returns(*ScheduleResult) {}

// Validate implements [Params].
func (p *DeleteSchedule) Validate() error { return check(p) }

// ScheduleRecord is the record of a schedule.
type ScheduleRecord struct {
	// ScheduleID is the schedule's id.
	ScheduleID string `json:"scheduleId"`
	// SessionID of the schedule.
	SessionID string `json:"sessionId"`
	// Status is active, or paused: then nothing is started.
	Status string `json:"status" enum:"active paused"`
	// StatusReason says why it is paused.
	StatusReason string `json:"statusReason,omitempty"`
	// Title for people.
	Title string `json:"title,omitempty"`
	// Cron of the schedule, or EveryMs its interval.
	Cron string `json:"cron,omitempty"`
	// EveryMs is the interval of a schedule without cron.
	EveryMs int64 `json:"everyMs,omitempty"`
	// TimeZone that cron is meant in.
	TimeZone string `json:"timeZone,omitempty"`
	// Kind of what is started.
	Kind string `json:"kind" enum:"@scheduledKind"`
	// Missed is the policy for runs that were due while the runtime was down.
	Missed string `json:"missed" enum:"@missedRuns"`
	// Overlap is the policy for a run that is due while the last one goes on.
	Overlap string `json:"overlap" enum:"@overlappingRuns"`
	// NextAt is when the next run is due.
	NextAt time.Time `json:"nextAt,omitzero"`
	// QueuedDueAt is when a run was due that waits for the end of the one before.
	QueuedDueAt time.Time `json:"queuedDueAt,omitzero"`
	// LastAt is when the last run was started.
	LastAt time.Time `json:"lastAt,omitzero"`
	// LastJobID is the job that the last run started.
	LastJobID string `json:"lastJobId,omitempty"`
	// LastTaskID is the task that the last run started.
	LastTaskID string `json:"lastTaskId,omitempty"`
	// LastError is why the last run could not be started.
	LastError *event.Failure `json:"lastError,omitempty"`
	// Fired counts the runs.
	Fired int64 `json:"fired"`
	// MissedCount counts the runs that were not started.
	MissedCount int64 `json:"missedCount"`
	// CreatedAt is when the schedule was created.
	CreatedAt time.Time `json:"createdAt"`
}
