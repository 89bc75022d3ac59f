package proof

import (
	"context"
	"fmt"
	"iter"

	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/fault"
	"agentd/state"
	"agentd/store"
	"agentd/store/storefault"
)

// explain answers "why?" from a session's facts.
func (r *Reporter) explain(ctx context.Context, caller command.Caller, p *command.Explain) (*command.ExplainResult, error) {
	if err := r.manager.ViewAs(ctx, caller, p.SessionID, func(*state.Session) error { return nil }); err != nil {
		return nil, err
	}
	q := evidence.Question{
		ToolCallID: p.ToolCallID, ActionID: p.ActionID, TurnID: p.TurnID, TaskID: p.TaskID,
		SubagentID: p.SubagentID, JobID: p.JobID, ItemID: p.ItemID, EventID: p.EventID,
	}
	res, found, err := evidence.Explain(r.facts(ctx, p.SessionID), q)
	if err != nil {
		return nil, storefault.Read(err, "the session's facts can't be read")
	}
	oldest, err := r.manager.Oldest(ctx, p.SessionID)
	if err != nil {
		return nil, err
	}
	if !found && oldest > 1 {
		return nil, fault.New(fault.NotFound, "no fact of session %s is about %s; those through %d were removed by retention", p.SessionID, p.Asked(), oldest-1)
	}
	if !found {
		return nil, fault.New(fault.NotFound, "no fact of session %s is about %s", p.SessionID, p.Asked())
	}
	if oldest > 1 {
		res.Answer += fmt.Sprintf(" The events through %d were removed by retention: what they said is not part of this.", oldest-1)
	}
	return res, nil
}

// facts yields all facts of a session that there are.
func (r *Reporter) facts(ctx context.Context, sessionID string) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		oldest, err := r.manager.Oldest(ctx, sessionID)
		if err != nil {
			yield(nil, err)
			return
		}
		for rec, err := range r.opt.Store.Read(ctx, sessionID, store.Range{After: oldest - 1}) {
			if err != nil {
				yield(nil, err)
				return
			}
			e, err := store.DecodeFact(ctx, r.opt.Store, rec.Data)
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}
