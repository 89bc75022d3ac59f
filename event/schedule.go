package event

import "time"

// ScheduleCreated gives a schedule its identity: a job or a task that is started
// again and again.
type ScheduleCreated struct {
	// ScheduleID is the schedule's id.
	ScheduleID string `json:"scheduleId" check:"nonempty"`
	// Title is its name, for people.
	Title string `json:"title,omitempty"`
	// Cron has five fields: minute, hour, day, month, day of the week.
	Cron string `json:"cron,omitempty"`
	// EveryMs is the interval of a schedule without cron.
	EveryMs int64 `json:"everyMs,omitempty"`
	// TimeZone that cron is meant in.
	TimeZone string `json:"timeZone,omitempty"`
	// Missed says what happens to runs that were due while they couldn't be started.
	Missed string `json:"missed" enum:"@missedRuns"`
	// Overlap says what becomes of a run that is due while the last one goes on.
	Overlap string `json:"overlap" enum:"@overlappingRuns"`
	// Kind of what is started; Run are its parameters, RunRef where large ones are.
	Kind string `json:"kind" enum:"@scheduledKind"`
	// Run are the parameters of what is started.
	Run Raw `json:"run,omitempty"`
	// RunRef is where large parameters are.
	RunRef string `json:"runRef,omitempty"`
	// NextAt is when the first run is due.
	NextAt time.Time `json:"nextAt,omitzero"`
	// CreatedBy is who created it.
	CreatedBy *Actor `json:"createdBy,omitempty"`
}

// ScheduleFired says that a run was started.
type ScheduleFired struct {
	// ScheduleID is the schedule that it is about.
	ScheduleID string `json:"scheduleId" check:"nonempty"`
	// DueAt is when the run was due.
	DueAt time.Time `json:"dueAt,omitzero"`
	// NextAt is when the next run is due.
	NextAt time.Time `json:"nextAt,omitzero"`
	// JobID or TaskID is what was started; Error why it could not be.
	JobID string `json:"jobId,omitempty"`
	// TaskID is the task that was started.
	TaskID string `json:"taskId,omitempty"`
	// Error says why nothing could be started.
	Error *Failure `json:"error,omitempty"`
}

// ScheduleMissed says that runs were due and are not started.
type ScheduleMissed struct {
	// ScheduleID is the schedule that it is about.
	ScheduleID string `json:"scheduleId" check:"nonempty"`
	// Reason is why: the runtime was down, the last run went on, or the schedule was
	// paused.
	Reason string `json:"reason" enum:"down overlap paused"`
	// Count counts the runs.
	Count int64 `json:"count"`
	// FirstDueAt is when the first of them was due.
	FirstDueAt time.Time `json:"firstDueAt,omitzero"`
	// LastDueAt is when the last of them was due.
	LastDueAt time.Time `json:"lastDueAt,omitzero"`
	// NextAt is when the next run is due.
	NextAt time.Time `json:"nextAt,omitzero"`
}

// ScheduleQueued says that a run is due that the schedule's times don't name, because
// the one before went on then or because a caller asked for it: it starts when that one
// has ended. One run waits at most.
type ScheduleQueued struct {
	// ScheduleID is the schedule that it is about.
	ScheduleID string `json:"scheduleId" check:"nonempty"`
	// DueAt is when the run was due.
	DueAt time.Time `json:"dueAt,omitzero"`
	// NextAt is when the next run is due.
	NextAt time.Time `json:"nextAt,omitzero"`
}

// SchedulePaused says that a schedule starts nothing until it is resumed.
type SchedulePaused struct {
	// ScheduleID is the schedule that it is about.
	ScheduleID string `json:"scheduleId" check:"nonempty"`
	// Code is for programs: recovery_manual after a restart, empty if a caller
	// asked for it.
	Code string `json:"code,omitempty"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
	// PausedBy is who paused it.
	PausedBy *Actor `json:"pausedBy,omitempty"`
}

// ScheduleResumed lets a paused schedule go on.
type ScheduleResumed struct {
	// ScheduleID is the schedule that it is about.
	ScheduleID string `json:"scheduleId" check:"nonempty"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
	// ResumedBy is who resumed it.
	ResumedBy *Actor `json:"resumedBy,omitempty"`
}

// ScheduleDeleted ends a schedule; what it started stays.
type ScheduleDeleted struct {
	// ScheduleID is the schedule that it is about.
	ScheduleID string `json:"scheduleId" check:"nonempty"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
	// DeletedBy is who deleted it.
	DeletedBy *Actor `json:"deletedBy,omitempty"`
}
