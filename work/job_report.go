package work

import (
	"context"
	"encoding/json"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
)

// reportJobItem records the result of an item that someone other than the runtime
// worked out: a person who did it by hand, or a worker outside.
func (w *Work) reportJobItem(ctx context.Context, caller command.Caller, p *command.ReportJobItem) (*command.JobRecord, error) {
	seen, _, err := w.findItem(ctx, caller, p.JobID, p.ItemID)
	if err != nil {
		return nil, err
	}
	if err := w.checkReported(ctx, caller, p); err != nil {
		return nil, err
	}
	by := session.ActorOf(caller)
	return w.changeJob(ctx, caller, p, p.JobID, func(tx *session.Tx, j *state.Job) error {
		item := j.Item(p.ItemID)
		if item == nil {
			item = seen
		}
		if err := mayReport(j, item); err != nil {
			return err
		}
		if err := mayDelegate(tx, j.TaskID); err != nil {
			return err
		}
		takeUpJob(tx, j, p.Command(), by)
		if t := tx.State.Thread(item.ThreadID); t != nil && item.Status == state.ItemRunning {
			tx.Interrupt(by, t, "the result of the item was reported", true)
		}
		emitItemReported(tx, j, item, w.m.Redact(p.Output), by)
		return nil
	})
}

// mayReport refuses the result of an item that is done, or that wasn't given out yet.
func mayReport(j *state.Job, item *state.JobItem) error {
	switch {
	case item.Status == state.ItemCompleted, item.Status == state.ItemReported:
		return itemConflict(j.JobID, item)
	case item.AttemptCount == 0:
		return fault.New(fault.Conflict, "item %s of job %s was not given out yet; start the job, or wait for its turn", item.ItemID, j.JobID)
	case j.Status == jobCancelled, j.Status != jobRunning && j.Progress.Pending > 0:
		return fault.New(fault.Conflict, "job %s is %s with %d items not done", j.JobID, j.Status, j.Progress.Pending)
	}
	return nil
}

// checkReported refuses an output that doesn't satisfy the job's schema.
func (w *Work) checkReported(ctx context.Context, caller command.Caller, p *command.ReportJobItem) error {
	plan, err := w.planOf(ctx, caller, p.JobID)
	if err != nil || w.opt.CheckOutput == nil || len(plan.options.OutputSchema) == 0 {
		return err
	}
	if err := w.opt.CheckOutput(plan.options.OutputSchema, p.Output); err != nil {
		return fault.Within("output", "the job's outputSchema", err)
	}
	return nil
}

func emitItemReported(tx *session.Tx, j *state.Job, item *state.JobItem, output event.Raw, by *event.Actor) {
	done := &event.JobItemCompleted{Status: state.ItemReported, Index: item.Index, AttemptCount: item.AttemptCount, ReportedBy: by}
	if !item.StartedAt.IsZero() {
		done.DurationMs = tx.Now().Sub(item.StartedAt).Milliseconds()
	}
	var text string
	if json.Unmarshal(output, &text) == nil && len(j.OutputSchema) == 0 && j.OutputSchemaRef == "" {
		done.OutputRef = tx.Blob([]byte(text), "text/plain; charset=utf-8")
	} else {
		done.OutputRef = tx.Blob(output, "application/json")
	}
	if len(output) <= factBytes {
		done.Output = output
	}
	tx.Emit(event.Event{Type: event.TypeJobItemCompleted, Scope: itemScope(j, item), Payload: done})
}
