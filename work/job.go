package work

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/clip"
	"agentd/session"
	"agentd/state"
)

// Statuses of a job.
const (
	jobPending   = "pending"
	jobRunning   = "running"
	jobCompleted = "completed"
	jobFailed    = "failed"
	jobCancelled = "cancelled"
)

// linesType is the media type of items and results: one JSON object a line.
const linesType = "application/x-ndjson"

// createJob stores the items first, then the job that refers to them.
func (w *Work) createJob(ctx context.Context, caller command.Caller, p *command.CreateJob) (*command.JobResult, error) {
	if err := w.m.CheckTurn(&event.TurnOptions{OutputSchema: p.OutputSchema}); err != nil {
		return nil, err
	}
	lines, err := w.itemLines(p.Items)
	if err != nil {
		return nil, err
	}
	to, err := w.targetOfJob(ctx, caller, p)
	if err != nil {
		return nil, err
	}
	itemsRef, err := w.m.PutOutput(ctx, bytes.NewReader(lines))
	if err != nil {
		return nil, err
	}
	return session.WriteTo(ctx, w.m, caller, p, to, asWork, func(tx *session.Tx) (*command.JobResult, error) {
		return w.emitJob(tx, p, itemsRef, session.ActorOf(caller))
	})
}

// targetOfJob returns the session that a job goes to: the named one, that of the job if it
// exists already, or a new one.
func (w *Work) targetOfJob(ctx context.Context, caller command.Caller, p *command.CreateJob) (session.Target, error) {
	if p.TaskID != "" {
		f, err := w.findVisibleTask(ctx, caller, p.TaskID)
		if err == nil && p.SessionID != "" && p.SessionID != f.sessionID {
			err = fault.New(fault.Conflict, "task %s is in session %s: a job must be in its task's session", p.TaskID, f.sessionID)
		}
		if err != nil {
			return session.Target{}, err
		}
		return session.Target{SessionID: f.sessionID}, nil
	}
	return w.targetOf(ctx, session.KindJob, p.JobID, p.SessionID, p.Title)
}

// targetOf returns the session that something goes to: the named one, that of the thing if it
// exists already, or a new one.
func (w *Work) targetOf(ctx context.Context, kind, id, sessionID, title string) (session.Target, error) {
	if sessionID == "" && id != "" {
		found, err := w.m.Locate(ctx, kind, id)
		if err != nil && fault.KindOf(err) != fault.NotFound {
			return session.Target{}, err
		}
		sessionID = found
	}
	if sessionID == "" {
		return w.m.NewTarget(orElse(title, kind)), nil
	}
	return session.Target{SessionID: sessionID}, nil
}

// jobLine is an item as it is stored.
type jobLine struct {
	ItemID string    `json:"itemId"`
	Input  event.Raw `json:"input"`
}

// itemLines encodes the items, one a line. An item without an id is named by its
// ordinal, so that the same job given again is the same.
func (w *Work) itemLines(items []command.JobItemInput) ([]byte, error) {
	taken := make(map[string]bool, len(items))
	for i := range items {
		taken[items[i].ItemID] = true
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	for i := range items {
		if len(items[i].Input) == 0 {
			return nil, fault.Param(fmt.Sprintf("items[%d].input", i), "is missing")
		}
		id := items[i].ItemID
		for n := i + 1; id == ""; n += len(items) {
			if made := fmt.Sprintf("%s%06d", event.PrefixJobItem, n); !taken[made] {
				id, taken[made] = made, true
			}
		}
		if err := enc.Encode(jobLine{ItemID: id, Input: w.m.Redact(items[i].Input)}); err != nil {
			return nil, fault.Param(fmt.Sprintf("items[%d].input", i), "is not valid JSON")
		}
	}
	return out.Bytes(), nil
}

// emitJob emits a new job and, unless it is to wait, its start.
func (w *Work) emitJob(tx *session.Tx, p *command.CreateJob, itemsRef string, by *event.Actor) (*command.JobResult, error) {
	created := &event.JobCreated{
		Status: jobPending, Title: p.Title, ItemsRef: itemsRef, ItemCount: int64(len(p.Items)), Concurrency: p.Concurrency,
		RetryPolicy: p.RetryPolicy, FailuresAllowed: min(int64(p.FailuresAllowed), int64(len(p.Items))), MaxRuntimeMs: p.MaxRuntimeMs, CreatedBy: by, Metadata: p.Metadata,
	}
	describeJob(tx, created, p)
	res := &command.JobResult{JobID: p.JobID, Status: jobPending}
	if res.JobID == "" {
		res.JobID = tx.NewID(event.PrefixJob)
	} else if exists, same, err := tx.Identity(session.KindJob, p.JobID, created); exists || err != nil {
		return repeatedJob(p, same, err)
	}
	if err := mayDelegate(tx, p.TaskID); err != nil {
		return nil, err
	}
	tx.Refer(itemsRef, linesType)
	scope := event.Scope{JobID: res.JobID, TaskID: p.TaskID}
	if p.TaskID != "" {
		tx.Emit(event.Event{Type: event.TypeTaskDelegated, Scope: event.Scope{TaskID: p.TaskID, JobID: res.JobID}, Payload: &event.TaskDelegated{To: "job", TargetID: res.JobID}})
	}
	tx.Emit(event.Event{Type: event.TypeJobCreated, Scope: scope, Payload: created})
	emitJobEdge(tx, scope, "added", edgeActive)
	if p.Start == nil || *p.Start {
		res.Status = jobRunning
		tx.Emit(event.Event{Type: event.TypeJobStarted, Scope: scope, Payload: &event.JobStatusChanged{Status: jobRunning, ChangedBy: by}})
	}
	return res, nil
}

// mayDelegate refuses work for a task that is over or that is being stopped, it or
// one above it. Without a task there is nothing to refuse.
func mayDelegate(tx *session.Tx, taskID string) error {
	if taskID == "" {
		return nil
	}
	t := tx.State.Tasks.Find(taskID)
	switch {
	case t == nil:
		return fault.New(fault.Conflict, "task %s ended long ago", taskID)
	case t.Terminal() || t.Cancel != nil:
		return conflict(t, "it accepts no new work")
	}
	return underCancelled(tx, t)
}

// describeJob puts the instruction and the schema into the fact, or behind references.
func describeJob(tx *session.Tx, created *event.JobCreated, p *command.CreateJob) {
	if created.Instruction = p.Instruction; len(p.Instruction) > factBytes {
		created.InstructionRef, created.Instruction = tx.Blob([]byte(p.Instruction), "text/plain; charset=utf-8"), clip.Prefix(p.Instruction, saidBytes)
	}
	if created.OutputSchema = p.OutputSchema; len(p.OutputSchema) > factBytes {
		created.OutputSchemaRef, created.OutputSchema = tx.Blob(p.OutputSchema, "application/schema+json"), nil
	}
}

// repeatedJob answers a job that exists already.
func repeatedJob(p *command.CreateJob, same bool, err error) (*command.JobResult, error) {
	switch {
	case err != nil:
		return nil, err
	case !same:
		return nil, session.Taken("job %s already exists with different parameters; choose another id, or repeat the same parameters", p.JobID)
	case p.Start != nil && !*p.Start:
		return &command.JobResult{JobID: p.JobID, Status: jobPending}, nil
	}
	return &command.JobResult{JobID: p.JobID, Status: jobRunning}, nil
}

// startJob starts a job that waits.
func (w *Work) startJob(ctx context.Context, caller command.Caller, p *command.StartJob) (*command.JobRecord, error) {
	return w.changeJob(ctx, caller, p, p.JobID, func(tx *session.Tx, j *state.Job) error {
		switch j.Status {
		case jobRunning:
			return nil
		case jobPending:
			if err := mayDelegate(tx, j.TaskID); err != nil {
				return err
			}
			tx.Emit(event.Event{Type: event.TypeJobStarted, Scope: jobScope(j), Payload: &event.JobStatusChanged{
				Status: jobRunning, ChangedBy: session.ActorOf(caller),
			}})
			resumeItems(tx, j, session.ActorOf(caller))
			return nil
		}
		return fault.New(fault.Conflict, "job %s is %s", j.JobID, j.Status)
	})
}

// cancelJob stops a job: items at work fail, what is done stays.
func (w *Work) cancelJob(ctx context.Context, caller command.Caller, p *command.CancelJob) (*command.JobRecord, error) {
	return w.changeJob(ctx, caller, p, p.JobID, func(tx *session.Tx, j *state.Job) error {
		switch j.Status {
		case jobCancelled:
			return nil
		case jobCompleted, jobFailed:
			return fault.New(fault.Conflict, "job %s is %s", j.JobID, j.Status)
		}
		emitJobCancelled(tx, j, session.ActorOf(caller), orElse(p.Reason, "the job was cancelled"))
		return nil
	})
}

// emitJobCancelled ends a job that has not ended.
func emitJobCancelled(tx *session.Tx, j *state.Job, by *event.Actor, reason string) {
	counts := stopItems(tx, j, by, event.Failure{Message: reason, Category: "interrupted"})
	tx.Emit(event.Event{Type: event.TypeJobCancelled, Scope: jobScope(j), Payload: &event.JobStatusChanged{
		Status: jobCancelled, Reason: reason, Progress: &counts, ChangedBy: by,
	}})
	emitJobEdge(tx, jobScope(j), "updated", edgeFailed)
}

// jobScope is the ids of a fact about a job.
func jobScope(j *state.Job) event.Scope { return event.Scope{JobID: j.JobID, TaskID: j.TaskID} }

// stopItems fails the items at work and stops their turns. It returns the counts
// after that.
func stopItems(tx *session.Tx, j *state.Job, by *event.Actor, why event.Failure) event.JobCounts {
	counts := j.Progress
	for _, item := range j.Running {
		emitItemFailed(tx, j, item, why, false)
		if t := tx.State.Thread(item.ThreadID); t != nil {
			tx.Interrupt(by, t, why.Message, true)
		}
		counts.Running--
		counts.Failed++
	}
	return counts
}

// emitItemFailed ends an attempt at an item without success.
func emitItemFailed(tx *session.Tx, j *state.Job, item *state.JobItem, why event.Failure, again bool) {
	tx.Emit(event.Event{Type: event.TypeJobItemFailed, Scope: itemScope(j, item), Payload: &event.JobItemFailed{
		Index: item.Index, AttemptCount: item.AttemptCount, Error: why, WillRetry: again, AssignedThreadID: item.ThreadID,
		DurationMs: tx.Now().Sub(item.StartedAt).Milliseconds(),
	}})
}

func itemScope(j *state.Job, item *state.JobItem) event.Scope {
	return event.Scope{JobID: j.JobID, JobItemID: item.ItemID, ThreadID: item.ThreadID, TaskID: j.TaskID}
}

// retryJobItem starts another attempt at an item that failed.
func (w *Work) retryJobItem(ctx context.Context, caller command.Caller, p *command.RetryJobItem) (*command.JobRecord, error) {
	failed, line, err := w.failedItem(ctx, caller, p.JobID, p.ItemID)
	if err != nil {
		return nil, err
	}
	plan, err := w.planOf(ctx, caller, p.JobID)
	if err != nil {
		return nil, err
	}
	return w.changeJob(ctx, caller, p, p.JobID, func(tx *session.Tx, j *state.Job) error {
		item := j.Item(p.ItemID)
		if item == nil {
			item = failed
		}
		switch {
		case item.Status != state.ItemFailed || item.AttemptCount != failed.AttemptCount:
			return itemConflict(p.JobID, item)
		case j.Status != jobRunning && j.Progress.Pending > 0:
			return fault.New(fault.Conflict, "job %s is %s with %d items not done", j.JobID, j.Status, j.Progress.Pending)
		}
		if err := mayDelegate(tx, j.TaskID); err != nil {
			return err
		}
		takeUpJob(tx, j, p.Command(), session.ActorOf(caller))
		return plan.start(tx, j, jobStart{index: item.Index, itemID: item.ItemID, attempt: item.AttemptCount + 1, input: line.Input})
	})
}

// takeUpJob lets a job that ended go on, for a command about one of its items.
func takeUpJob(tx *session.Tx, j *state.Job, name command.Name, by *event.Actor) {
	if j.Status == jobRunning {
		return
	}
	goes := &event.JobStatusChanged{Status: jobRunning, Reason: string(name), ChangedBy: by}
	if !j.EndedAt.IsZero() {
		goes.RestedMs = tx.Now().Sub(j.EndedAt).Milliseconds()
	}
	tx.Emit(event.Event{Type: event.TypeJobStarted, Scope: jobScope(j), Payload: goes})
	emitJobEdge(tx, jobScope(j), "updated", edgeActive)
}

// failedItem finds an item that failed and its input.
func (w *Work) failedItem(ctx context.Context, caller command.Caller, jobID, itemID string) (*state.JobItem, *jobLine, error) {
	item, line, err := w.findItem(ctx, caller, jobID, itemID)
	if err == nil && item.Status != state.ItemFailed {
		err = itemConflict(jobID, item)
	}
	return item, line, err
}

// itemConflict refuses what an item's standing doesn't allow.
func itemConflict(jobID string, item *state.JobItem) error {
	return fault.New(fault.Conflict, "item %s of job %s is %s", item.ItemID, jobID, item.Status)
}

// findItem finds an item and its input.
func (w *Work) findItem(ctx context.Context, caller command.Caller, jobID, itemID string) (*state.JobItem, *jobLine, error) {
	j, err := w.findJob(ctx, caller, jobID)
	if err != nil {
		return nil, nil, err
	}
	src, err := w.openItems(ctx, j.job.ItemsRef)
	if err != nil {
		return nil, nil, err
	}
	defer src.close()
	index, line, err := src.find(itemID)
	if err != nil {
		return nil, nil, err
	}
	if line == nil {
		return nil, nil, fault.New(fault.NotFound, "there is no item %s in job %s", itemID, jobID)
	}
	item, err := w.itemAt(ctx, j, index, itemID)
	if err != nil {
		return nil, nil, err
	}
	return item, line, nil
}

// changeJob runs a decision about a job. What is kept of it has the job's id alone; see
// keepJobAnswer.
func (w *Work) changeJob(ctx context.Context, caller command.Caller, p command.Params, id string, decide func(*session.Tx, *state.Job) error) (*command.JobRecord, error) {
	sessionID, err := w.m.Locate(ctx, session.KindJob, id)
	if err != nil {
		return nil, err
	}
	res, err := session.Write(ctx, w.m, caller, p, sessionID, asWork, func(tx *session.Tx) (*command.JobRecord, error) {
		j := tx.State.Jobs.Find(id)
		if j == nil {
			return nil, fault.New(fault.Conflict, "job %s ended long ago", id)
		}
		return &command.JobRecord{JobSummary: command.JobSummary{JobID: id}}, decide(tx, j)
	})
	if err != nil {
		return nil, hidden(err, "job", id)
	}
	return res, nil
}

// keepJobAnswer answers a command about a job with the job after it, and a repeated call
// with what the first was told. What is kept with the command's own write has the job's
// id alone: a crash before the answer was kept leaves that, and no caller was told
// anything.
func keepJobAnswer[P command.Params](w *Work) func(context.Context, command.Caller, P, *command.JobRecord) (*command.JobRecord, error) {
	return func(ctx context.Context, caller command.Caller, p P, kept *command.JobRecord) (*command.JobRecord, error) {
		if kept.Status != "" {
			return kept, nil
		}
		now, err := w.getJob(ctx, caller, &command.GetJob{JobID: kept.JobID})
		if err != nil {
			return nil, err
		}
		now.NextCursor = command.SealCursor("get_job", now.NextCursor)
		return session.Answered(ctx, w.m, caller, p, now.SessionID, now)
	}
}

// ordinal reads the cursor of a page of items.
func ordinal(cursor string) (int64, error) {
	if cursor == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(cursor, 10, 64)
	if err != nil || n < 0 {
		return 0, fault.Param("cursor", "was not returned by get_job; pass its last nextCursor, or leave it out")
	}
	return n, nil
}
