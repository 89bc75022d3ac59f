package event

// JobCounts counts a job's items by status.
type JobCounts struct {
	// Pending counts the items that wait.
	Pending int64 `json:"pending"`
	// Running counts the items under way.
	Running int64 `json:"running"`
	// Completed counts the items that were completed.
	Completed int64 `json:"completed"`
	// Failed counts the items that failed for good.
	Failed int64 `json:"failed"`
	// Reported counts the items whose result was reported from outside.
	Reported int64 `json:"reported"`
	// Total counts all items.
	Total int64 `json:"total"`
}

// JobCreated gives a job its identity. The items are behind ItemsRef, one JSON
// object a line.
type JobCreated struct {
	Status         string       `json:"status" enum:"pending"`
	Title          string       `json:"title,omitempty"`
	InstructionRef string       `json:"instructionRef,omitempty"`
	Instruction    string       `json:"instruction,omitempty"`
	ItemsRef       string       `json:"itemsRef,omitempty"`
	ItemCount      int64        `json:"itemCount"`
	Concurrency    int64        `json:"concurrency,omitempty"`
	RetryPolicy    *RetryPolicy `json:"retryPolicy,omitempty"`
	// FailuresAllowed is how many items may fail without failing the job.
	FailuresAllowed int64  `json:"failuresAllowed,omitempty"`
	OutputSchemaRef string `json:"outputSchemaRef,omitempty"`
	OutputSchema    Raw    `json:"outputSchema,omitempty"`
	MaxRuntimeMs    int64  `json:"maxRuntimeMs,omitempty"`
	CreatedBy       *Actor `json:"createdBy,omitempty"`
	Metadata        Raw    `json:"metadata,omitempty"`
}

// JobStatusChanged moves a job: started, completed, failed or cancelled.
type JobStatusChanged struct {
	Status     string     `json:"status" enum:"running completed failed cancelling cancelled"`
	Reason     string     `json:"reason,omitempty"`
	Progress   *JobCounts `json:"progress,omitempty"`
	ResultsRef string     `json:"resultsRef,omitempty"`
	Error      *Failure   `json:"error,omitempty"`
	ChangedBy  *Actor     `json:"changedBy,omitempty"`
	// RestedMs is how long a job that is taken up again was over: that time is none of
	// its work.
	RestedMs int64 `json:"restedMs,omitempty"`
}

// JobHeld says that a job gives out nothing until it is started again.
type JobHeld struct {
	Status string `json:"status" enum:"pending"`
	// Code is for programs: recovery_manual after a restart.
	Code   string `json:"code,omitempty"`
	Reason string `json:"reason,omitempty"`
	HeldBy *Actor `json:"heldBy,omitempty"`
}

// JobProgressed counts the items, now and then.
type JobProgressed struct {
	Progress JobCounts `json:"progress"`
	// Cursor is the ordinal of the first item that was not given out yet.
	Cursor int64 `json:"cursor"`
}

// JobItemStarted gives an item to a thread.
type JobItemStarted struct {
	Index            int64  `json:"index"`
	AttemptCount     int64  `json:"attemptCount"`
	AssignedThreadID string `json:"assignedThreadId,omitempty"`
	Worker           string `json:"worker,omitempty"`
	InputRef         string `json:"inputRef,omitempty"`
}

// JobItemCompleted ends an item well; "reported" means that a worker reported the result.
type JobItemCompleted struct {
	Status       string `json:"status" enum:"completed reported"`
	Index        int64  `json:"index"`
	AttemptCount int64  `json:"attemptCount"`
	OutputRef    string `json:"outputRef,omitempty"`
	Output       Raw    `json:"output,omitempty"`
	DurationMs   int64  `json:"durationMs,omitempty"`
	// ReportedBy is who reported the result of a reported item.
	ReportedBy *Actor `json:"reportedBy,omitempty"`
}

// JobItemFailed ends an attempt at an item otherwise.
type JobItemFailed struct {
	Index            int64   `json:"index"`
	AttemptCount     int64   `json:"attemptCount"`
	Error            Failure `json:"error"`
	WillRetry        bool    `json:"willRetry"`
	AssignedThreadID string  `json:"assignedThreadId,omitempty"`
	DurationMs       int64   `json:"durationMs,omitempty"`
}
