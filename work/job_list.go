package work

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
)

// foundJob is a copy of a job, with its session.
type foundJob struct {
	sessionID string
	job       *state.Job
	// held are the items that the job still holds, by id.
	held map[string]*state.JobItem
	// threads are those of the items under way.
	threads []string
}

// findJob returns a job that the caller may see, also when it ended long ago.
func (w *Work) findJob(ctx context.Context, caller command.Caller, id string) (*foundJob, error) {
	sessionID, err := w.m.Locate(ctx, session.KindJob, id)
	if err != nil {
		return nil, err
	}
	return w.jobIn(ctx, caller, sessionID, id)
}

func (w *Work) jobIn(ctx context.Context, caller command.Caller, sessionID, id string) (*foundJob, error) {
	out := &foundJob{sessionID: sessionID}
	if err := w.m.ViewAs(ctx, caller, sessionID, func(s *state.Session) error {
		if j := s.Jobs.Find(id); j != nil {
			kept := *j
			out.job = &kept
			out.copyItems(j)
		}
		return nil
	}); err != nil {
		return nil, hidden(err, "job", id)
	}
	if out.job != nil {
		return out, nil
	}
	raw, err := w.m.Record(ctx, sessionID, "job/"+id)
	if err != nil {
		return nil, hidden(err, "job", id)
	}
	out.job = &state.Job{}
	if err := json.Unmarshal(raw, out.job); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the record of job %s can't be read", id)
	}
	out.copyItems(out.job)
	return out, nil
}

// copyItems copies the items that a job holds.
func (f *foundJob) copyItems(j *state.Job) {
	f.held, f.threads = map[string]*state.JobItem{}, j.AssignedThreads()
	for _, list := range [...][]*state.JobItem{j.Running, j.Retrying, j.Failed} {
		for _, item := range list {
			kept := *item
			f.held[item.ItemID] = &kept
		}
	}
}

// itemAt returns an item of a job: one that the job holds, one that wasn't given
// out yet, or the record of one that left.
func (w *Work) itemAt(ctx context.Context, f *foundJob, index int64, id string) (*state.JobItem, error) {
	if item := f.held[id]; item != nil {
		return item, nil
	}
	if index >= f.job.Cursor {
		return &state.JobItem{JobID: f.job.JobID, ItemID: id, Index: index, Status: state.ItemPending}, nil
	}
	raw, err := w.m.Record(ctx, f.sessionID, "job_item/"+f.job.JobID+"/"+id)
	if fault.KindOf(err) == fault.NotFound {
		// It left the job between the look at the job and this one.
		return &state.JobItem{JobID: f.job.JobID, ItemID: id, Index: index, Status: state.ItemRunning}, nil
	}
	if err != nil {
		return nil, err
	}
	item := &state.JobItem{}
	if err := json.Unmarshal(raw, item); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the record of item %s can't be read", id)
	}
	return item, nil
}

// getJob returns a job with a page of its items.
func (w *Work) getJob(ctx context.Context, caller command.Caller, p *command.GetJob) (*command.JobRecord, error) {
	from, err := ordinal(p.Cursor)
	if err != nil {
		return nil, err
	}
	f, err := w.findJob(ctx, caller, p.JobID)
	if err != nil {
		return nil, err
	}
	return w.jobRecord(ctx, f, from, p.Size())
}

// jobRecord returns a job with so many of its items.
func (w *Work) jobRecord(ctx context.Context, f *foundJob, from int64, size int) (*command.JobRecord, error) {
	rec := &command.JobRecord{JobSummary: f.summary(), Items: []command.JobItemRecord{}}
	src, err := w.openItems(ctx, f.job.ItemsRef)
	if fault.KindOf(err) == fault.NotFound {
		return rec, nil // the inputs of an old job have expired, and with them the order of its items
	}
	if err != nil {
		return nil, err
	}
	defer src.close()
	for index := from; index < f.job.ItemCount; index++ {
		if len(rec.Items) == size {
			rec.NextCursor = strconv.FormatInt(index, 10)
			break
		}
		line, err := src.item(index)
		if err != nil || line == nil {
			return rec, err
		}
		item, err := w.itemAt(ctx, f, index, line.ItemID)
		if err != nil {
			return nil, err
		}
		rec.Items = append(rec.Items, command.JobItemRecord{
			ItemID: item.ItemID, Status: item.Status, AttemptCount: item.AttemptCount, LastError: item.LastError,
			OutputRef: item.OutputRef, ThreadID: item.ThreadID,
		})
	}
	return rec, nil
}

func (f *foundJob) summary() command.JobSummary {
	j := f.job
	s := command.JobSummary{
		JobID: j.JobID, SessionID: j.SessionID, TaskID: j.TaskID, Status: j.Status, Reason: j.Reason, Progress: j.Progress, Title: j.Title, Error: j.Failure(),
		Instruction: j.Instruction, InstructionRef: j.InstructionRef, InputRefs: []string{}, OutputSchema: j.OutputSchema, OutputSchemaRef: j.OutputSchemaRef,
		Concurrency: j.Concurrency, RetryPolicy: j.RetryPolicy, FailuresAllowed: j.FailuresAllowed, MaxRuntimeMs: j.MaxRuntimeMs,
		ItemCursor: j.Cursor, AssignedThreadIDs: f.threads, Metadata: j.Metadata,
		ResultsRef: j.ResultsRef, CreatedAt: j.CreatedAt, StartedAt: j.StartedAt, EndedAt: j.EndedAt,
	}
	if j.ItemsRef != "" {
		s.InputRefs = append(s.InputRefs, j.ItemsRef)
	}
	return s
}

// listedItems is how many items of each job a list shows.
const listedItems = 20

// listJobs lists the jobs that the caller may see.
func (w *Work) listJobs(ctx context.Context, caller command.Caller, p *command.ListJobs) (*command.ListJobsResult, error) {
	page, err := w.m.ListCards(ctx, caller, &session.CardQuery{
		Kind: session.JobCards, Page: &p.Page, Narrow: &p.Narrowing, SessionID: p.SessionID, Status: p.Status, Parent: p.TaskID, Sort: p.Sort,
	})
	if err != nil {
		return nil, err
	}
	res := &command.ListJobsResult{Jobs: []command.JobRecord{}, Total: page.Total, NextCursor: page.Next()}
	for _, c := range page.Things() {
		f, err := w.jobIn(ctx, caller, c.SessionID, c.ID)
		if fault.KindOf(err) == fault.NotFound {
			continue // its session was deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		rec, err := w.jobRecord(ctx, f, 0, listedItems)
		if err != nil {
			return nil, err
		}
		rec.NextCursor = command.SealCursor("get_job", rec.NextCursor)
		res.Jobs = append(res.Jobs, *rec)
	}
	return res, nil
}

// finishJob stores the results and ends a job whose items all ended, or whose time
// is over.
func (w *Work) finishJob(ctx context.Context, r *jobRun, at jobOutlook) error {
	ref, err := w.storeResults(ctx, r)
	if err != nil {
		return err
	}
	return w.m.Emit(ctx, r.sessionID, asWork, func(tx *session.Tx) error {
		if now := lookAtJob(tx.State, r.jobID, w.opt.Clock(), w.book.up); !now.running || !now.over || now.late != at.late || now.progress != at.progress {
			return nil // an item is tried again, or its result was reported
		}
		j := tx.State.Jobs.Find(r.jobID)
		counts := j.Progress
		end := &event.JobStatusChanged{Status: jobCompleted, Progress: &counts, ResultsRef: ref}
		e := event.Event{Type: event.TypeJobCompleted, Scope: jobScope(j), Payload: end}
		if end.Error = jobFailure(j, at.late); end.Error != nil {
			e.Type, end.Status, end.Reason = event.TypeJobFailed, jobFailed, end.Error.Message
		}
		tx.Refer(ref, linesType)
		tx.Emit(e)
		edge := edgeSatisfied
		if end.Error != nil {
			edge = edgeFailed
		}
		emitJobEdge(tx, jobScope(j), "updated", edge)
		return nil
	})
}

// jobFailure says why a job whose items all ended, or whose time is over, has failed;
// nil if it is done.
func jobFailure(j *state.Job, late bool) *event.Failure {
	switch n := j.Progress; {
	case late:
		return &event.Failure{Message: "the job's time limit has passed", Category: "timed_out"}
	case n.Failed > j.FailuresAllowed:
		says := fmt.Sprintf("%d of %d items failed, and %d may", n.Failed, n.Total, j.FailuresAllowed)
		if n.Failed == n.Total {
			says = fmt.Sprintf("all %d items failed", n.Failed)
		}
		return &event.Failure{Message: says, Category: "items_failed", Advice: "see each item's lastError; retry_job_item tries one again"}
	}
	return nil
}

// jobResult is a line of a job's results.
type jobResult struct {
	ItemID       string         `json:"itemId"`
	Index        int64          `json:"index"`
	Status       string         `json:"status"`
	AttemptCount int64          `json:"attemptCount"`
	Output       event.Raw      `json:"output,omitempty"`
	OutputRef    string         `json:"outputRef,omitempty"`
	Error        *event.Failure `json:"error,omitempty"`
}

// storeResults stores one line for each item, in their order, and returns where. They
// are written as they are read: memory doesn't grow with their number.
func (w *Work) storeResults(ctx context.Context, r *jobRun) (string, error) {
	f, err := w.findJob(ctx, command.Local(), r.jobID)
	if err != nil {
		return "", err
	}
	in, out := io.Pipe()
	var writing error
	done := make(chan struct{})
	go func() {
		defer close(done)
		writing = w.writeResults(ctx, out, f)
		_ = out.CloseWithError(writing) // it never fails
	}()
	ref, err := w.m.PutOutput(ctx, in)
	_ = in.CloseWithError(io.ErrClosedPipe) // so that the writer ends; it never fails
	<-done
	if writing != nil && err == nil {
		err = writing
	}
	return ref, err
}

func (w *Work) writeResults(ctx context.Context, out io.Writer, f *foundJob) error {
	src, err := w.openItems(ctx, f.job.ItemsRef)
	if err != nil {
		return err
	}
	defer src.close()
	buf := bufio.NewWriterSize(out, 64<<10)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	for index := range f.job.ItemCount {
		line, err := src.item(index)
		if err != nil || line == nil {
			return err
		}
		item, err := w.itemAt(ctx, f, index, line.ItemID)
		if err != nil {
			return err
		}
		if err := enc.Encode(jobResult{
			ItemID: item.ItemID, Index: index, Status: item.Status, AttemptCount: item.AttemptCount,
			Output: item.Output, OutputRef: item.OutputRef, Error: item.LastError,
		}); err != nil {
			return fmt.Errorf("work: results: %w", err)
		}
	}
	return buf.Flush()
}
