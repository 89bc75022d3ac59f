package work

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/session"
	"agentd/state"
)

const (
	// defaultConcurrency is how many items of a job are worked on at once if the caller
	// says how many.
	defaultConcurrency = 8
	// batchItems bounds the items that one decision starts.
	batchItems = 64
	// maxItemBackoff bounds the wait before another attempt where the policy doesn't.
	maxItemBackoff = time.Hour
)

// jobOutlook is what is due for a job, seen at one moment.
type jobOutlook struct {
	// running says that the job gives out items.
	running bool
	// late says that its time is over; over, that all items ended.
	late, over bool
	ended      []jobEnd
	starts     []jobStart
	// silent are the items at work that show no progress for longer than they may.
	silent []string
	// progress is the count of the items by their status.
	progress event.JobCounts
	// again is when an item is to be tried again, or the time is over.
	again time.Time
}

// jobEnd is an attempt at an item whose turn ended.
type jobEnd struct {
	item state.JobItem
	turn state.Turn
	// structured says that the output is JSON that a schema was asked for.
	structured bool
	output     event.Raw
	text       string
}

// jobStart is an attempt at an item that is to begin.
type jobStart struct {
	index, attempt int64
	itemID         string
	input          event.Raw
}

// lookAtJob decides what is due for a job, from the state alone. Up is when this
// process began: who was silent before could not be heard.
func lookAtJob(s *state.Session, jobID string, now, up time.Time) jobOutlook {
	j := s.Jobs.Find(jobID)
	if j == nil || j.Status != jobRunning {
		return jobOutlook{}
	}
	at := jobOutlook{running: true, again: jobDeadline(j), progress: j.Progress}
	at.late = !at.again.IsZero() && !now.Before(at.again)
	if at.late {
		at.again, at.over = time.Time{}, len(j.Running) == 0
		return at
	}
	for _, item := range j.Running {
		if turn := endedTurn(s, item); turn != nil {
			at.ended = append(at.ended, jobEnd{item: *item, turn: *turn, structured: j.OutputSchemaRef != "" || len(j.OutputSchema) > 0})
			continue
		}
		at.watch(s, j, item, now, up)
	}
	at.chooseStarts(j, now)
	at.over = len(j.Running) == 0 && len(j.Retrying) == 0 && j.Cursor >= j.ItemCount
	return at
}

// watch holds an item at work to the policy's limit of inactivity.
func (at *jobOutlook) watch(s *state.Session, j *state.Job, item *state.JobItem, now, up time.Time) {
	if j.RetryPolicy == nil || j.RetryPolicy.InactivityTimeoutMs <= 0 {
		return
	}
	t := s.Thread(item.ThreadID)
	if t.Active == nil || t.Active.Interrupt != nil {
		return // it has not begun, or is being stopped
	}
	heard, waits := quietSince(s, t)
	if waits {
		heard = now
	}
	due := latest(heard, up).Add(millis(j.RetryPolicy.InactivityTimeoutMs))
	if now.Before(due) {
		at.again = earlier(at.again, due)
		return
	}
	at.silent = append(at.silent, item.ItemID)
}

// jobDeadline is when a job has used its time; zero if it has no limit.
func jobDeadline(j *state.Job) time.Time {
	if j.MaxRuntimeMs <= 0 || j.StartedAt.IsZero() {
		return time.Time{}
	}
	return j.StartedAt.Add(millis(j.MaxRuntimeMs + j.HeldMs))
}

// endedTurn returns the ended turn of an item, or nil. A thread that is gone ended
// without a result.
func endedTurn(s *state.Session, item *state.JobItem) *state.Turn {
	t := s.Thread(item.ThreadID)
	switch {
	case t == nil:
		return &state.Turn{Status: state.TurnFailed, FailureCategory: "lost", Error: &event.Failure{Message: "the item's thread is gone"}}
	case t.Busy() || len(t.Recent) == 0:
		return nil
	}
	return t.Recent[len(t.Recent)-1]
}

// chooseStarts chooses the items that begin next: those to be tried again whose
// wait is over, then new ones.
func (at *jobOutlook) chooseStarts(j *state.Job, now time.Time) {
	free := cmp.Or(j.Concurrency, defaultConcurrency) - int64(len(j.Running)-len(at.ended))
	free = min(free, batchItems)
	for _, item := range j.Retrying {
		due := item.EndedAt.Add(itemBackoff(j.RetryPolicy, item))
		switch {
		case now.Before(due):
			at.again = earlier(at.again, due)
		case free > 0:
			free--
			at.starts = append(at.starts, jobStart{index: item.Index, itemID: item.ItemID, attempt: item.AttemptCount + 1})
		}
	}
	for index := j.Cursor; index < j.ItemCount && free > 0; index++ {
		free--
		at.starts = append(at.starts, jobStart{index: index, attempt: 1})
	}
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// finalFailures are the failures of turns that another attempt would meet again.
var finalFailures = []string{"interrupted", "quota_blocked", "routing_not_possible", "hook_blocked"}

// itemRetries reports whether an item that failed is tried again by itself.
func itemRetries(j *state.Job, item *state.JobItem, category string) bool {
	p := j.RetryPolicy
	if p == nil || item.AttemptCount >= max(p.MaxAttempts, 1) {
		return false
	}
	return !slices.Contains(finalFailures, category) && !slices.Contains(p.NonRetryable, category)
}

// itemBackoff is how long an item waits before its next attempt. The jitter
// follows from the item, so that it is the same after a restart.
func itemBackoff(p *event.RetryPolicy, item *state.JobItem) time.Duration {
	if p == nil || p.BackoffMs <= 0 {
		return 0
	}
	most := time.Duration(p.MaxBackoffMs) * time.Millisecond
	if most <= 0 {
		most = maxItemBackoff
	}
	wait := time.Duration(p.BackoffMs) * time.Millisecond
	for n := int64(1); n < item.AttemptCount && wait < most; n++ {
		wait *= 2
	}
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%s/%s/%d", item.JobID, item.ItemID, item.AttemptCount) // a hash takes everything
	share := 0.75 + float64(h.Sum32()%1000)/2000
	return min(time.Duration(float64(wait)*share), most)
}

// jobPlan is what all items of a job have in common.
type jobPlan struct {
	itemsRef string
	// parts are what stands before an item's own input.
	parts   []command.Part
	options event.TurnOptions
	by      *event.Actor
}

// maxReferred is the largest instruction that a model is shown whole from behind a
// reference.
const maxReferred = 32 << 10

// planOf reads what all items of a job have in common.
func (w *Work) planOf(ctx context.Context, caller command.Caller, jobID string) (*jobPlan, error) {
	found, err := w.findJob(ctx, caller, jobID)
	if err != nil {
		return nil, err
	}
	j := found.job
	p := &jobPlan{itemsRef: j.ItemsRef, by: j.CreatedBy, options: event.TurnOptions{OutputSchema: j.OutputSchema}}
	first := command.Part{Type: "text", Text: j.Instruction}
	if j.InstructionRef != "" {
		text, err := w.readBlob(ctx, j.InstructionRef)
		if err != nil {
			return nil, err
		}
		if first.Text = string(text); len(text) <= maxReferred {
			first = command.Part{Type: "ref", Ref: j.InstructionRef}
		}
	}
	p.parts = []command.Part{first}
	if j.OutputSchemaRef != "" {
		if p.options.OutputSchema, err = w.readBlob(ctx, j.OutputSchemaRef); err != nil {
			return nil, err
		}
	}
	if j.RetryPolicy != nil {
		p.options.TimeoutMs = j.RetryPolicy.TimeoutMs
	}
	return p, nil
}

// start emits the beginning of an attempt: a thread and a turn in it.
func (p *jobPlan) start(tx *session.Tx, j *state.Job, s jobStart) error {
	text := string(s.input)
	var plain string
	if json.Unmarshal(s.input, &plain) == nil {
		text = plain
	}
	parts := p.parts
	if text != "" {
		parts = append(slices.Clip(parts), command.Part{Type: "text", Text: text})
	}
	input, err := json.Marshal(parts)
	if err != nil {
		return fmt.Errorf("work: input of item %s: %w", s.itemID, err)
	}
	threadID := tx.NewID(event.PrefixThread)
	scope := event.Scope{JobID: j.JobID, JobItemID: s.itemID, ThreadID: threadID, TaskID: j.TaskID}
	tx.Emit(event.Event{Type: event.TypeThreadStarted, Scope: event.Scope{ThreadID: threadID, JobID: j.JobID, JobItemID: s.itemID, TaskID: j.TaskID}, Payload: &event.ThreadStarted{
		Role: "job_item", Title: s.itemID, ParentThreadID: j.ThreadID,
	}})
	tx.Emit(event.Event{Type: event.TypeJobItemStarted, Scope: scope, Payload: &event.JobItemStarted{
		Index: s.index, AttemptCount: s.attempt, AssignedThreadID: threadID,
	}})
	options := p.options
	_, err = tx.SubmitPart(p.by, &state.Thread{ThreadID: threadID}, "job", &command.SubmitTurn{Input: input, Options: &options}, itemWhole(tx.State, j, s.itemID))
	return err
}
