package command

import (
	"fmt"
	"time"

	"agentd/event"
	"agentd/fault"
	"agentd/internal/wire"
)

// JobItemInput is one piece of work of a new job.
type JobItemInput struct {
	// ItemID is the item's id; made if absent.
	ItemID string `json:"itemId,omitempty" check:"id"`
	// Input of the item: any JSON value.
	Input event.Raw `json:"input"`
}

// CreateJob creates a batch of items that are worked on side by side.
type CreateJob struct {
	Mutation
	// JobID is the job's id; made if absent.
	JobID string `json:"jobId,omitempty" check:"id"`
	// SessionID of the job; that of its task, or a session of its own, if absent.
	SessionID string `json:"sessionId,omitempty" check:"id"`
	// TaskID is the task that the job works for: it is stopped with the task.
	TaskID string `json:"taskId,omitempty" check:"id"`
	// Instruction says what is to be done with each item.
	Instruction string `json:"instruction" max:"1048576"`
	// Items are worked on in this order.
	Items []JobItemInput `json:"items" max:"100000"`
	// Concurrency is how many items are worked on at once; the server's default
	// if absent.
	Concurrency int64 `json:"concurrency,omitempty" max:"256"`
	// RetryPolicy bounds the attempts at an item.
	RetryPolicy *event.RetryPolicy `json:"retryPolicy,omitempty"`
	// FailuresAllowed is how many items may fail without failing the job; true is all
	// of them. Default 0: one failed item fails the job.
	FailuresAllowed Allowance `json:"failuresAllowed,omitempty" also:"boolean" max:"100000"`
	// OutputSchema is the JSON Schema that an item's output satisfies.
	OutputSchema event.Raw `json:"outputSchema,omitempty" check:"object"`
	// MaxRuntimeMs ends the job after that time.
	MaxRuntimeMs int64 `json:"maxRuntimeMs,omitempty" max:"31536000000"`
	// Start starts the job at once; default true.
	Start *bool `json:"start,omitempty"`
	// Title for people.
	Title string `json:"title,omitempty" max:"1000"`
	// Metadata is the caller's own, kept as it is.
	Metadata event.Raw `json:"metadata,omitempty" check:"object" max:"16384"`
}

// Command implements [Params].
func (*CreateJob) Command() Name      { return "create_job" }
func (*CreateJob) returns(*JobResult) {}

// NewID implements [Creating].
func (p *CreateJob) NewID() (noun, id string) { return "job", p.JobID }

// Validate implements [Params].
func (p *CreateJob) Validate() error {
	if err := firstError(check(p), notRuntime(p.SessionID)); err != nil {
		return err
	}
	seen := make(map[string]bool, len(p.Items))
	for i := range p.Items {
		id := p.Items[i].ItemID
		if id != "" && seen[id] {
			return fault.Param(fmt.Sprintf("items[%d].itemId", i), "%s is given twice", id)
		}
		seen[id] = true
	}
	return nil
}

// maxAllowance is the most items that a job has.
const maxAllowance = 100_000

// Allowance is a number of items. On the wire it may be a truth value: all, or none.
type Allowance int64

// UnmarshalJSON implements [json.Unmarshaler].
func (a *Allowance) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case "true":
		*a = maxAllowance
		return nil
	case "false":
		*a = 0
		return nil
	}
	return wire.DecodeValue("", b, (*int64)(a))
}

// JobResult is a job's standing after a command.
type JobResult struct {
	// JobID is the job's id.
	JobID string `json:"jobId"`
	// Status of the job.
	Status string `json:"status"`
}

// StartJob starts a job that was created with start: false, or that waits since a
// restart.
type StartJob struct {
	Mutation
	// JobID is the job's id.
	JobID string `json:"jobId" check:"id"`
}

// Command implements [Params].
func (*StartJob) Command() Name      { return "start_job" }
func (*StartJob) returns(*JobRecord) {}

// Validate implements [Params].
func (p *StartJob) Validate() error { return check(p) }

// GetJob returns a job with a page of its items.
type GetJob struct {
	Page
	// JobID is the job's id.
	JobID string `json:"jobId" check:"id"`
}

// Command implements [Params].
func (*GetJob) Command() Name      { return "get_job" }
func (*GetJob) returns(*JobRecord) {}

// Validate implements [Params].
func (p *GetJob) Validate() error { return check(p) }

// ListJobs lists jobs.
type ListJobs struct {
	Page
	// SessionID keeps the jobs of one session.
	SessionID string `json:"sessionId,omitempty" check:"id"`
	// Status keeps the jobs with that status.
	Status string `json:"status,omitempty" enum:"pending running completed failed cancelling cancelled"`
	// TaskID keeps the jobs that work for this task.
	TaskID string `json:"taskId,omitempty" check:"id"`
	Narrowing
	// Sort is what the jobs are ordered by; default id.
	Sort string `json:"sort,omitempty" enum:"id created updated title items"`
}

// Command implements [Params].
func (*ListJobs) Command() Name           { return "list_jobs" }
func (*ListJobs) returns(*ListJobsResult) {}

// Validate implements [Params].
func (p *ListJobs) Validate() error { return checkNarrowing(p, &p.Narrowing) }

// ListJobsResult is a page of jobs.
type ListJobsResult struct {
	// Jobs of this page, each with its first items; the nextCursor of a job that has
	// more is for get_job.
	Jobs []JobRecord `json:"jobs"`
	// Total counts the jobs that the filters keep, over all pages.
	Total int64 `json:"total"`
	// NextCursor is the cursor of the next page; absent on the last.
	NextCursor string `json:"nextCursor,omitempty"`
}

// CancelJob stops a job; items that are done stay as they are.
type CancelJob struct {
	Mutation
	// JobID is the job's id.
	JobID string `json:"jobId" check:"id"`
	// Reason for people.
	Reason string `json:"reason,omitempty" max:"10000"`
}

// Command implements [Params].
func (*CancelJob) Command() Name      { return "cancel_job" }
func (*CancelJob) returns(*JobRecord) {}

// Validate implements [Params].
func (p *CancelJob) Validate() error { return check(p) }

// RetryJobItem starts a new attempt at an item that failed.
type RetryJobItem struct {
	Mutation
	// JobID is the job's id.
	JobID string `json:"jobId" check:"id"`
	// ItemID is the item's id.
	ItemID string `json:"itemId" check:"id"`
}

// Command implements [Params].
func (*RetryJobItem) Command() Name      { return "retry_job_item" }
func (*RetryJobItem) returns(*JobRecord) {}

// Validate implements [Params].
func (p *RetryJobItem) Validate() error { return check(p) }

// ReportJobItem records the result of an item that was worked out elsewhere.
type ReportJobItem struct {
	Mutation
	// JobID is the job's id.
	JobID string `json:"jobId" check:"id"`
	// ItemID is the item's id.
	ItemID string `json:"itemId" check:"id"`
	// Output of the item: any JSON value. A job with an output schema takes only what
	// satisfies it.
	Output event.Raw `json:"output"`
}

// Command implements [Params].
func (*ReportJobItem) Command() Name      { return "report_job_item" }
func (*ReportJobItem) returns(*JobRecord) {}

// Validate implements [Params].
func (p *ReportJobItem) Validate() error { return check(p) }

// JobSummary is the record of a job without its items.
type JobSummary struct {
	// JobID is the job's id.
	JobID string `json:"jobId"`
	// SessionID is the session that the job works in.
	SessionID string `json:"sessionId"`
	// Status of the job.
	Status string `json:"status"`
	// Reason of the status.
	Reason string `json:"reason,omitempty"`
	// Progress counts the items by status.
	Progress event.JobCounts `json:"progress"`
	// TaskID is the task that the job works for.
	TaskID string `json:"taskId,omitempty"`
	// Title for people.
	Title string `json:"title,omitempty"`
	// Instruction says what is to be done with each item; the beginning of a long one,
	// which is behind InstructionRef.
	Instruction string `json:"instruction,omitempty"`
	// InstructionRef is where a long instruction is.
	InstructionRef string `json:"instructionRef,omitempty"`
	// InputRefs are where the items are: one JSON object a line.
	InputRefs []string `json:"inputRefs"`
	// OutputSchema is the JSON Schema that an item's output satisfies.
	OutputSchema event.Raw `json:"outputSchema,omitempty" as:"object"`
	// OutputSchemaRef is where a large schema is.
	OutputSchemaRef string `json:"outputSchemaRef,omitempty"`
	// Concurrency is how many items are worked on at once; 0 is the server's default.
	Concurrency int64 `json:"concurrency,omitempty"`
	// RetryPolicy bounds the attempts at an item.
	RetryPolicy *event.RetryPolicy `json:"retryPolicy,omitempty"`
	// FailuresAllowed is how many items may fail without failing the job.
	FailuresAllowed int64 `json:"failuresAllowed"`
	// MaxRuntimeMs ends the job after that time; 0 is no limit.
	MaxRuntimeMs int64 `json:"maxRuntimeMs,omitempty"`
	// ItemCursor is the ordinal of the first item that was not given out yet.
	ItemCursor int64 `json:"itemCursor"`
	// AssignedThreadIDs are the threads that items were given to: those of the items under
	// way, and the last 50 before. They stay when the job has ended.
	AssignedThreadIDs []string `json:"assignedThreadIds"`
	// Metadata is the caller's own.
	Metadata event.Raw `json:"metadata,omitempty" as:"object"`
	// Error is why the job failed.
	Error *event.Failure `json:"error,omitempty"`
	// ResultsRef is where the results are once the job ended: one JSON object a
	// line, in the order of the items.
	ResultsRef string `json:"resultsRef,omitempty"`
	// CreatedAt is when the job was created.
	CreatedAt time.Time `json:"createdAt"`
	// StartedAt is when it first gave out items.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// EndedAt is when it ended.
	EndedAt time.Time `json:"endedAt,omitzero"`
}

// JobRecord is a job with a page of its items.
type JobRecord struct {
	JobSummary
	// Items of this page.
	Items []JobItemRecord `json:"items"`
	// NextCursor is the cursor of the next page of items; absent on the last.
	NextCursor string `json:"nextCursor,omitempty"`
}

// JobItemRecord is the record of a job's item.
type JobItemRecord struct {
	// ItemID is the item's id.
	ItemID string `json:"itemId"`
	// Status of the item.
	Status string `json:"status" enum:"pending running completed failed reported"`
	// AttemptCount counts the attempts at the item.
	AttemptCount int64 `json:"attemptCount"`
	// LastError is why the last attempt failed.
	LastError *event.Failure `json:"lastError,omitempty"`
	// OutputRef is where the item's output is.
	OutputRef string `json:"outputRef,omitempty"`
	// ThreadID is the thread that works, or worked, on the item.
	ThreadID string `json:"threadId,omitempty"`
}
