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
	// Status is pending.
	Status string `json:"status" enum:"pending"`
	// Title is the name of the job, for people.
	Title string `json:"title,omitempty"`
	// InstructionRef is where a long instruction is.
	InstructionRef string `json:"instructionRef,omitempty"`
	// Instruction says what is done with each item, or its beginning.
	Instruction string `json:"instruction,omitempty"`
	// ItemsRef is where the items are, one JSON object a line.
	ItemsRef string `json:"itemsRef,omitempty"`
	// ItemCount counts the items.
	ItemCount int64 `json:"itemCount"`
	// Concurrency is how many items are worked on at the same time.
	Concurrency int64 `json:"concurrency,omitempty"`
	// RetryPolicy bounds the attempts at an item.
	RetryPolicy *RetryPolicy `json:"retryPolicy,omitempty"`
	// FailuresAllowed is how many items may fail without failing the job.
	FailuresAllowed int64 `json:"failuresAllowed,omitempty"`
	// OutputSchemaRef is where a large schema of results is.
	OutputSchemaRef string `json:"outputSchemaRef,omitempty"`
	// OutputSchema is the JSON Schema that each result satisfies.
	OutputSchema Raw `json:"outputSchema,omitempty"`
	// MaxRuntimeMs is how long the job may take, in milliseconds.
	MaxRuntimeMs int64 `json:"maxRuntimeMs,omitempty"`
	// CreatedBy is who created it.
	CreatedBy *Actor `json:"createdBy,omitempty"`
	// Metadata is what the caller wants kept with it; the runtime does not interpret it.
	Metadata Raw `json:"metadata,omitempty"`
}

// JobStatusChanged moves a job: started, completed, failed or cancelled.
type JobStatusChanged struct {
	// Status is the status of the job from now on.
	Status string `json:"status" enum:"running completed failed cancelling cancelled"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
	// Progress counts the items by status.
	Progress *JobCounts `json:"progress,omitempty"`
	// ResultsRef is where the results are.
	ResultsRef string `json:"resultsRef,omitempty"`
	// Error says what went wrong.
	Error *Failure `json:"error,omitempty"`
	// ChangedBy is who changed it.
	ChangedBy *Actor `json:"changedBy,omitempty"`
	// RestedMs is how long a job that is taken up again was over: that time is none of
	// its work.
	RestedMs int64 `json:"restedMs,omitempty"`
}

// JobHeld says that a job gives out nothing until it is started again.
type JobHeld struct {
	// Status is pending.
	Status string `json:"status" enum:"pending"`
	// Code is for programs: recovery_manual after a restart.
	Code string `json:"code,omitempty"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
	// HeldBy is who holds it.
	HeldBy *Actor `json:"heldBy,omitempty"`
}

// JobProgressed counts the items, now and then.
type JobProgressed struct {
	// Progress counts the items by status.
	Progress JobCounts `json:"progress"`
	// Cursor is the ordinal of the first item that was not given out yet.
	Cursor int64 `json:"cursor"`
}

// JobItemStarted gives an item to a thread.
type JobItemStarted struct {
	// Index is the ordinal of the item in its job.
	Index int64 `json:"index"`
	// AttemptCount counts the attempts at the item, this one included.
	AttemptCount int64 `json:"attemptCount"`
	// AssignedThreadID is the thread that the item was given to.
	AssignedThreadID string `json:"assignedThreadId,omitempty"`
	// Worker is who works on it, if that is not a thread.
	Worker string `json:"worker,omitempty"`
	// InputRef is where the input of the item is.
	InputRef string `json:"inputRef,omitempty"`
}

// JobItemCompleted ends an item well; "reported" means that a worker reported the result.
type JobItemCompleted struct {
	// Status is completed, or reported if a worker reported the result.
	Status string `json:"status" enum:"completed reported"`
	// Index is the ordinal of the item in its job.
	Index int64 `json:"index"`
	// AttemptCount counts the attempts at the item, this one included.
	AttemptCount int64 `json:"attemptCount"`
	// OutputRef is where a large result is.
	OutputRef string `json:"outputRef,omitempty"`
	// Output is the result.
	Output Raw `json:"output,omitempty"`
	// DurationMs is how long it took, in milliseconds.
	DurationMs int64 `json:"durationMs,omitempty"`
	// ReportedBy is who reported the result of a reported item.
	ReportedBy *Actor `json:"reportedBy,omitempty"`
}

// JobItemFailed ends an attempt at an item otherwise.
type JobItemFailed struct {
	// Index is the ordinal of the item in its job.
	Index int64 `json:"index"`
	// AttemptCount counts the attempts at the item, this one included.
	AttemptCount int64 `json:"attemptCount"`
	// Error says what went wrong.
	Error Failure `json:"error"`
	// WillRetry says that the item is tried again.
	WillRetry bool `json:"willRetry"`
	// AssignedThreadID is the thread that worked on it.
	AssignedThreadID string `json:"assignedThreadId,omitempty"`
	// DurationMs is how long it took, in milliseconds.
	DurationMs int64 `json:"durationMs,omitempty"`
}
