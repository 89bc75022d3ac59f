package event

import "time"

// ScheduleCreated gives a schedule its identity: a job or a task that is started
// again and again.
type ScheduleCreated struct {
	ScheduleID string `json:"scheduleId" check:"nonempty"`
	Title      string `json:"title,omitempty"`
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
	Kind      string    `json:"kind" enum:"@scheduledKind"`
	Run       Raw       `json:"run,omitempty"`
	RunRef    string    `json:"runRef,omitempty"`
	NextAt    time.Time `json:"nextAt,omitzero"`
	CreatedBy *Actor    `json:"createdBy,omitempty"`
}

// ScheduleFired says that a run was started.
type ScheduleFired struct {
	ScheduleID string    `json:"scheduleId" check:"nonempty"`
	DueAt      time.Time `json:"dueAt,omitzero"`
	NextAt     time.Time `json:"nextAt,omitzero"`
	// JobID or TaskID is what was started; Error why it could not be.
	JobID  string   `json:"jobId,omitempty"`
	TaskID string   `json:"taskId,omitempty"`
	Error  *Failure `json:"error,omitempty"`
}

// ScheduleMissed says that runs were due and are not started.
type ScheduleMissed struct {
	ScheduleID string `json:"scheduleId" check:"nonempty"`
	// Reason is why: the runtime was down, the last run went on, or the schedule was
	// paused.
	Reason     string    `json:"reason" enum:"down overlap paused"`
	Count      int64     `json:"count"`
	FirstDueAt time.Time `json:"firstDueAt,omitzero"`
	LastDueAt  time.Time `json:"lastDueAt,omitzero"`
	NextAt     time.Time `json:"nextAt,omitzero"`
}

// ScheduleQueued says that a run is due that the schedule's times don't name, because
// the one before went on then or because a caller asked for it: it starts when that one
// has ended. One run waits at most.
type ScheduleQueued struct {
	ScheduleID string    `json:"scheduleId" check:"nonempty"`
	DueAt      time.Time `json:"dueAt,omitzero"`
	NextAt     time.Time `json:"nextAt,omitzero"`
}

// SchedulePaused says that a schedule starts nothing until it is resumed.
type SchedulePaused struct {
	ScheduleID string `json:"scheduleId" check:"nonempty"`
	// Code is for programs: recovery_manual after a restart, empty if a caller
	// asked for it.
	Code     string `json:"code,omitempty"`
	Reason   string `json:"reason,omitempty"`
	PausedBy *Actor `json:"pausedBy,omitempty"`
}

// ScheduleResumed lets a paused schedule go on.
type ScheduleResumed struct {
	ScheduleID string `json:"scheduleId" check:"nonempty"`
	Reason     string `json:"reason,omitempty"`
	ResumedBy  *Actor `json:"resumedBy,omitempty"`
}

// ScheduleDeleted ends a schedule; what it started stays.
type ScheduleDeleted struct {
	ScheduleID string `json:"scheduleId" check:"nonempty"`
	Reason     string `json:"reason,omitempty"`
	DeletedBy  *Actor `json:"deletedBy,omitempty"`
}
