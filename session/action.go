package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/state"
	"agentd/store"
)

func (r *request) respondAction(ctx context.Context, p *command.RespondAction) (*command.RespondActionResult, error) {
	rec, err := r.action(ctx, p.ActionID)
	if err != nil {
		return nil, err
	}
	return mutate(ctx, r, rec.Action.SessionID, false, func(tx *Tx) (*command.RespondActionResult, error) {
		a := tx.State.Actions.Find(p.ActionID)
		if a == nil {
			a = rec.Action // resolved long ago
		}
		if a.Status != state.ActionPending {
			return answered(a, p)
		}
		if len(a.Decisions) > 0 && !slices.Contains(a.Decisions, p.Decision) {
			return nil, fault.Param("decision", "%q is not one of the decisions that action %s offers: %v", p.Decision, a.ActionID, a.Decisions)
		}
		r.resolve(tx, a, p)
		return &command.RespondActionResult{ActionID: a.ActionID, Status: state.ActionResolved}, nil
	})
}

// resolve emits the answer to a pending action.
func (r *request) resolve(tx *Tx, a *state.Action, p *command.RespondAction) {
	out := &event.ActionResolved{
		Decision: p.Decision, Status: "resolved", DecisionSource: "human", ActionType: a.ActionType,
		Scope: p.Scope, Reason: p.Reason, ResolvedBy: r.actor(),
	}
	if len(p.Payload) > r.m.opt.InlineBytes {
		out.PayloadRef = tx.Blob(p.Payload, "application/json")
	} else {
		out.Payload = p.Payload
	}
	tx.Emit(event.Event{Type: event.TypeActionResolved, Scope: event.Scope{
		ThreadID: a.ThreadID, TurnID: a.TurnID, TaskID: a.TaskID, ActionID: a.ActionID, ToolCallID: a.ToolCallID, SubagentID: a.SubagentID,
	}, Payload: out})
}

// answered tells the same answer, which is fine, from another one.
func answered(a *state.Action, p *command.RespondAction) (*command.RespondActionResult, error) {
	if a.Decision == p.Decision && a.DecisionSource == "human" && (a.PayloadRef != "" || sameJSON(a.Payload, p.Payload)) {
		return &command.RespondActionResult{ActionID: a.ActionID, Status: a.Status}, nil
	}
	return nil, fault.New(fault.Conflict, "action %s is %s already: %s (%s)", a.ActionID, a.Status, a.Decision, a.DecisionSource)
}

// sameJSON compares two values without regard to white space.
func sameJSON(a, b event.Raw) bool {
	compact := func(v event.Raw) []byte {
		var buf bytes.Buffer
		if len(v) > 0 && json.Compact(&buf, v) != nil {
			return v
		}
		return buf.Bytes()
	}
	return bytes.Equal(compact(a), compact(b))
}

// action returns an action's record from the index, if the caller may see it.
func (r *request) action(ctx context.Context, actionID string) (*actionRecord, error) {
	v, err := r.m.opt.Store.Get(ctx, kindAction, actionID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, fault.New(fault.NotFound, "there is no action %s", actionID)
	}
	if err != nil {
		return nil, storeFault(err)
	}
	var rec actionRecord
	if err := json.Unmarshal(v, &rec); err != nil || rec.Action == nil {
		return nil, storeFault(fmt.Errorf("%w: action %s in the index", store.ErrCorrupt, actionID))
	}
	if !r.caller.Sees(rec.Account) {
		return nil, fault.New(fault.NotFound, "there is no action %s", actionID)
	}
	return &rec, nil
}

func (r *request) listActions(ctx context.Context, p *command.ListActions) (*command.ListActionsResult, error) {
	kind := kindAction
	if p.Status == state.ActionPending {
		kind = kindPending // the few that are pending, not all that ever were
	}
	if p.SessionID != "" {
		if err := r.view(ctx, p.SessionID, func(*state.Session) error { return nil }); err != nil {
			return nil, err
		}
	}
	res := &command.ListActionsResult{Actions: []event.Raw{}}
	last := ""
	for entry, err := range r.m.opt.Store.Scan(ctx, store.Scan{Kind: kind, After: p.Cursor}) {
		if err != nil {
			return nil, storeFault(err)
		}
		rec, err := r.action(ctx, entry.Key)
		if fault.KindOf(err) == fault.NotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		if (p.SessionID != "" && rec.Action.SessionID != p.SessionID) || (p.Status != "" && rec.Action.Status != p.Status) {
			continue
		}
		if len(res.Actions) == p.Size() {
			res.NextCursor = last
			break
		}
		v, err := json.Marshal(rec.Action)
		if err != nil {
			return nil, fault.Wrap(fault.Internal, err, "an action could not be encoded")
		}
		res.Actions = append(res.Actions, v)
		last = entry.Key
	}
	return res, nil
}
