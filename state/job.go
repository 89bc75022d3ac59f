package state

import (
	"slices"
	"time"

	"agentd/event"
)

// keepFailedItems bounds the failed items that a job lists. An older one leaves
// as a record of its own and stays counted.
const keepFailedItems = 50

// keepJobThreads bounds the threads that a job lists.
const keepJobThreads = 50

// Statuses of a job's item.
const (
	ItemPending   = "pending"
	ItemRunning   = "running"
	ItemCompleted = "completed"
	ItemFailed    = "failed"
	ItemReported  = "reported"
)

// Jobs are the session's batches of work.
type Jobs struct {
	// Open holds the jobs that have not ended, in the order of creation.
	Open []*Job `json:"open,omitempty"`
	// Recent holds the last ended ones, oldest first.
	Recent []*Job `json:"recent,omitempty"`
	// Counts has the number of jobs by the status that they have or left the
	// working set with.
	Counts map[string]int64 `json:"counts,omitempty"`
}

// Job is one batch. It holds only the items that something is still to be said
// of, however many it has: an item that is done leaves at once.
type Job struct {
	// JobID is the job's id.
	JobID string `json:"jobId"`
	// SessionID is the session that it belongs to.
	SessionID string `json:"sessionId"`
	// TaskID is the task that the job works for.
	TaskID string `json:"taskId,omitempty"`
	// ThreadID is the thread that created the job.
	ThreadID string `json:"threadId,omitempty"`
	// Title for people.
	Title string `json:"title,omitempty"`
	// Status of the job.
	Status string `json:"status"`
	// Reason of the status.
	Reason string `json:"reason,omitempty"`

	// InstructionRef is where a long instruction is.
	InstructionRef string `json:"instructionRef,omitempty"`
	// Instruction says what is to be done with each item; the beginning of a long one.
	Instruction string `json:"instruction,omitempty"`
	// ItemsRef is where the items are: one JSON object a line.
	ItemsRef string `json:"itemsRef,omitempty"`
	// ItemCount counts the items.
	ItemCount int64 `json:"itemCount"`
	// Concurrency is how many items are worked on at once; 0 is the server's default.
	Concurrency int64 `json:"concurrency,omitempty"`
	// RetryPolicy bounds the attempts at an item.
	RetryPolicy *event.RetryPolicy `json:"retryPolicy,omitempty"`
	// FailuresAllowed is how many items may fail without failing the job.
	FailuresAllowed int64 `json:"failuresAllowed,omitempty"`
	// OutputSchemaRef is where a large schema is.
	OutputSchemaRef string `json:"outputSchemaRef,omitempty"`
	// OutputSchema is the JSON Schema that an item's output satisfies.
	OutputSchema event.Raw `json:"outputSchema,omitempty"`
	// MaxRuntimeMs ends the job after that time; 0 is no limit.
	MaxRuntimeMs int64 `json:"maxRuntimeMs,omitempty"`
	// CreatedBy created it.
	CreatedBy *event.Actor `json:"createdBy,omitempty"`
	// Metadata is the caller's own, kept as it is.
	Metadata event.Raw `json:"metadata,omitempty"`

	// Progress counts the items by status.
	Progress event.JobCounts `json:"progress"`
	// Cursor is the ordinal of the first item that was not given out yet.
	Cursor int64 `json:"cursor"`
	// Running holds the items under way, Retrying those that failed and are tried
	// again. Both are unfinished work and have no bound but the scheduler's.
	Running  []*JobItem `json:"running,omitempty" view:"-"`
	Retrying []*JobItem `json:"retrying,omitempty" view:"-"`
	// Failed holds the last items that failed for good.
	Failed []*JobItem `json:"failed,omitempty" view:"-"`
	// Threads are the last threads that items were given to, oldest first.
	Threads []string `json:"threads,omitempty" view:"-"`

	// ResultsRef is where the results are once the job ended: one JSON object a line, in the
	// order of the items.
	ResultsRef string `json:"resultsRef,omitempty"`
	// Error is why the job failed.
	Error *event.Failure `json:"error,omitempty"`

	// CreatedSequence is where it was created.
	CreatedSequence uint64 `json:"createdSequence"`
	// CreatedAt is when it was created.
	CreatedAt time.Time `json:"createdAt"`
	// UpdatedAt is when its newest fact happened.
	UpdatedAt time.Time `json:"updatedAt"`
	// StartedAt is when it began; absent until then.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// EndedAt is when it ended; absent until then.
	EndedAt time.Time `json:"endedAt,omitzero"`
	// HeldAt is when the job was last held.
	HeldAt time.Time `json:"heldAt,omitzero"`
	// HeldMs is for how long it was held before, which is none of its work.
	HeldMs int64 `json:"heldMs,omitempty"`
}

// JobEnded reports whether a job with that status has ended.
func JobEnded(status string) bool {
	switch status {
	case "completed", "failed", "cancelled":
		return true
	}
	return false
}

// JobItem is one piece of a job.
type JobItem struct {
	// JobID is the job of the item.
	JobID string `json:"jobId"`
	// ItemID is the item's id.
	ItemID string `json:"itemId"`
	// Index is the item's ordinal, from 0.
	Index int64 `json:"index"`
	// Status of the item.
	Status string `json:"status"`
	// AttemptCount counts the attempts at the item.
	AttemptCount int64 `json:"attemptCount"`
	// LastError is why the last attempt failed.
	LastError *event.Failure `json:"lastError,omitempty"`
	// ThreadID is the thread that works, or worked, on the item.
	ThreadID string `json:"threadId,omitempty"`
	// Worker says who works on it.
	Worker string `json:"worker,omitempty"`
	// InputRef is where the item's input is.
	InputRef string `json:"inputRef,omitempty"`
	// OutputRef is where the item's output is.
	OutputRef string `json:"outputRef,omitempty"`
	// Output of the item, if it is short.
	Output event.Raw `json:"output,omitempty"`
	// StartedAt is when it began; absent until then.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// EndedAt is when it ended; absent until then.
	EndedAt time.Time `json:"endedAt,omitzero"`
	// DurationMs is how long it took, in milliseconds.
	DurationMs int64 `json:"durationMs,omitempty"`
	// Sequence is where the item's newest fact is found.
	Sequence uint64 `json:"sequence"`
}

// Failure is why the job failed; nil for one that has not, or that was taken up again
// since.
func (j *Job) Failure() *event.Failure {
	if j.Status != "failed" {
		return nil
	}
	return j.Error
}

// Find returns a job of the working set, or nil.
func (j *Jobs) Find(id string) *Job {
	for _, list := range [...][]*Job{j.Open, j.Recent} {
		if i := indexWhere(list, func(x *Job) bool { return x.JobID == id }); i >= 0 {
			return list[i]
		}
	}
	return nil
}

func (j *Jobs) open() bool { return len(j.Open) > 0 }

// Item returns an item that the job still holds, or nil.
func (j *Job) Item(id string) *JobItem {
	for _, list := range [...][]*JobItem{j.Running, j.Retrying, j.Failed} {
		if i := indexWhere(list, func(x *JobItem) bool { return x.ItemID == id }); i >= 0 {
			return list[i]
		}
	}
	return nil
}

// job folds the facts of jobs and their items.
func (f *fold) job() {
	if p, ok := f.e.Payload.(*event.JobCreated); ok {
		f.jobCreated(p)
		return
	}
	j := f.s.Jobs.Find(f.e.JobID)
	if j == nil {
		return
	}
	j.UpdatedAt = f.e.Time
	switch p := f.e.Payload.(type) {
	case *event.JobStatusChanged:
		f.jobStatus(j, p)
	case *event.JobHeld:
		f.jobHeld(j, p)
	case *event.JobProgressed:
		j.Progress, j.Cursor = p.Progress, p.Cursor
	case *event.JobItemStarted:
		f.jobItemStarted(j, p)
	case *event.JobItemCompleted:
		f.jobItemCompleted(j, p)
	case *event.JobItemFailed:
		f.jobItemFailed(j, p)
	}
}

func (f *fold) jobCreated(p *event.JobCreated) {
	if f.s.Jobs.Find(f.e.JobID) != nil {
		return
	}
	f.s.Jobs.Counts = addCount(f.s.Jobs.Counts, p.Status, 1)
	f.s.Jobs.Open = append(f.s.Jobs.Open, &Job{
		JobID: f.e.JobID, SessionID: f.e.SessionID, TaskID: f.e.TaskID, ThreadID: f.e.ThreadID, Title: p.Title, Status: p.Status,
		InstructionRef: p.InstructionRef, Instruction: p.Instruction, ItemsRef: p.ItemsRef, ItemCount: p.ItemCount,
		Concurrency: p.Concurrency, RetryPolicy: p.RetryPolicy, FailuresAllowed: p.FailuresAllowed, OutputSchemaRef: p.OutputSchemaRef, OutputSchema: presentValue(p.OutputSchema),
		MaxRuntimeMs: p.MaxRuntimeMs, CreatedBy: p.CreatedBy, Metadata: presentValue(p.Metadata),
		Progress:        event.JobCounts{Pending: p.ItemCount, Total: p.ItemCount},
		CreatedSequence: f.e.Sequence, CreatedAt: f.e.Time, UpdatedAt: f.e.Time,
	})
}

// jobHeld lets an open job wait until it is started again.
func (f *fold) jobHeld(j *Job, p *event.JobHeld) {
	if !j.EndedAt.IsZero() {
		return
	}
	f.s.Jobs.Counts = addCount(f.s.Jobs.Counts, j.Status, -1)
	f.s.Jobs.Counts = addCount(f.s.Jobs.Counts, p.Status, 1)
	j.Status, j.Reason, j.HeldAt = p.Status, p.Reason, f.e.Time
}

func (f *fold) jobStatus(j *Job, p *event.JobStatusChanged) {
	f.s.Jobs.Counts = addCount(f.s.Jobs.Counts, j.Status, -1)
	f.s.Jobs.Counts = addCount(f.s.Jobs.Counts, p.Status, 1)
	j.Status, j.Reason = p.Status, p.Reason
	if p.Progress != nil {
		j.Progress = *p.Progress
	}
	setIf(&j.ResultsRef, p.ResultsRef)
	setIf(&j.Error, p.Error)
	j.HeldMs += p.RestedMs
	switch {
	case p.Status == "running":
		if j.StartedAt.IsZero() {
			j.StartedAt = f.e.Time
		}
		if !j.HeldAt.IsZero() {
			j.HeldMs += f.e.Time.Sub(j.HeldAt).Milliseconds()
			j.HeldAt = time.Time{}
		}
		f.reopenJob(j)
	case JobEnded(p.Status):
		f.endJob(j)
	}
	if p.Status == "failed" {
		f.incident("job_failed", j.JobID+": "+failureMessage(p.Error, p.Reason), false)
	}
}

// reopenJob takes an ended job that goes on among the open ones: an item of it
// is tried again.
func (f *fold) reopenJob(j *Job) {
	i := indexWhere(f.s.Jobs.Recent, func(x *Job) bool { return x == j })
	if i < 0 {
		return
	}
	f.s.Jobs.Recent = removed(f.s.Jobs.Recent, i)
	j.EndedAt = time.Time{}
	f.s.Jobs.Open = append(f.s.Jobs.Open, j)
}

func (f *fold) endJob(j *Job) {
	all := &f.s.Jobs
	i := indexWhere(all.Open, func(x *Job) bool { return x == j })
	if i < 0 {
		return
	}
	j.EndedAt = f.e.Time
	all.Open = removed(all.Open, i)
	if len(all.Recent) == keepRecent {
		f.evict("job/"+all.Recent[0].JobID, all.Recent[0])
	}
	all.Recent = recent(all.Recent, j, keepRecent)
}

// takeItem takes the fact's item out of the job, or makes it known, and takes it
// out of the count of its status. The attempt's ordinal and the cursor tell an item
// that was never given out from one that failed and left.
func (f *fold) takeItem(j *Job, at, attempt int64) *JobItem {
	for _, list := range [...]*[]*JobItem{&j.Running, &j.Retrying, &j.Failed} {
		i := indexWhere(*list, func(x *JobItem) bool { return x.ItemID == f.e.JobItemID })
		if i < 0 {
			continue
		}
		item := (*list)[i]
		*list = removed(*list, i)
		j.tally(item.Status, -1)
		return item
	}
	if (attempt > 1 || at < j.Cursor) && j.Progress.Failed > 0 {
		j.tally(ItemFailed, -1)
	} else {
		j.tally(ItemPending, -1)
	}
	return &JobItem{JobID: j.JobID, ItemID: f.e.JobItemID, Index: at}
}

// tally changes the count of a status; no count is negative.
func (j *Job) tally(status string, by int64) {
	n := &j.Progress.Pending
	switch status {
	case ItemRunning:
		n = &j.Progress.Running
	case ItemCompleted:
		n = &j.Progress.Completed
	case ItemFailed:
		n = &j.Progress.Failed
	case ItemReported:
		n = &j.Progress.Reported
	}
	*n = max(0, *n+by)
}

// putItem notes the item's new status.
func (f *fold) putItem(j *Job, item *JobItem, status string) {
	item.Status, item.Sequence = status, f.e.Sequence
	j.tally(status, 1)
}

func (f *fold) jobItemStarted(j *Job, p *event.JobItemStarted) {
	item := f.takeItem(j, p.Index, p.AttemptCount)
	item.AttemptCount, item.Worker = p.AttemptCount, p.Worker
	setIf(&item.ThreadID, p.AssignedThreadID)
	if id := p.AssignedThreadID; id != "" {
		if i := slices.Index(j.Threads, id); i >= 0 {
			j.Threads = removed(j.Threads, i)
		}
		j.Threads = pushed(j.Threads, id, keepJobThreads)
	}
	setIf(&item.InputRef, p.InputRef)
	item.StartedAt, item.EndedAt = f.e.Time, time.Time{}
	f.putItem(j, item, ItemRunning)
	j.Running = append(j.Running, item)
	j.Cursor = max(j.Cursor, p.Index+1)
}

// jobItemCompleted lets the item leave: it stays readable as a record of its own.
func (f *fold) jobItemCompleted(j *Job, p *event.JobItemCompleted) {
	item := f.takeItem(j, p.Index, p.AttemptCount)
	item.AttemptCount = p.AttemptCount // the last error stays: it says why there were more
	item.OutputRef, item.Output, item.DurationMs = p.OutputRef, presentValue(p.Output), p.DurationMs
	item.EndedAt = f.e.Time
	f.putItem(j, item, p.Status)
	f.evict("job_item/"+j.JobID+"/"+item.ItemID, item)
}

func (f *fold) jobItemFailed(j *Job, p *event.JobItemFailed) {
	item := f.takeItem(j, p.Index, p.AttemptCount)
	err := p.Error
	item.AttemptCount, item.LastError, item.DurationMs = p.AttemptCount, &err, p.DurationMs
	setIf(&item.ThreadID, p.AssignedThreadID)
	item.EndedAt = f.e.Time
	if p.WillRetry {
		f.putItem(j, item, ItemPending)
		j.Retrying = append(j.Retrying, item)
		return
	}
	f.putItem(j, item, ItemFailed)
	if len(j.Failed) == keepFailedItems {
		f.evict("job_item/"+j.JobID+"/"+j.Failed[0].ItemID, j.Failed[0])
	}
	j.Failed = recent(j.Failed, item, keepFailedItems)
}
