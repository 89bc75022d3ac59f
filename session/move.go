package session

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/state"
	"agentd/store"
)

// This file has what is done about nodes that don't come back: they leave the list, and the
// sessions whose files only they had are given another place. See decision 31.

// listedPlaced is how many sessions of a node are named.
const listedPlaced = 100

// ForgottenNode is what is kept of a call of [command.ForgetNode].
type ForgottenNode struct {
	command.ForgetNodeResult
	// Seen is the last sign of life that the node had given.
	Seen time.Time `json:"seen,omitzero"`
}

// ForgetNode records that a node is gone for good. [Manager.FinishForgetting] takes it off
// the list then.
func (m *Manager) ForgetNode(ctx context.Context, caller command.Caller, p *command.ForgetNode) (*ForgottenNode, error) {
	if err := CheckAdmin(caller, p); err != nil {
		return nil, err
	}
	res, err := m.whatIsOn(ctx, p.NodeID)
	switch {
	case err != nil:
		return nil, err
	case p.Preview:
		return recordAnswer(ctx, m, caller, p, *res)
	case res.Alive:
		return nil, fault.New(fault.Conflict, "node %s is alive, or was until a moment ago: stop it and wait until its lease has ended; list_nodes shows when", p.NodeID)
	case !res.Listed && res.Placed == 0:
		return nil, fault.New(fault.NotFound, "there is no node %s, and no session has its files there; list_nodes has the nodes that there are", p.NodeID)
	}
	res.Forgotten = true
	return RecordChange(ctx, m, caller, p, &event.RuntimeChanged{Change: "node_forgotten", NodeID: p.NodeID}, *res)
}

// FinishForgetting takes a node off the list for which that was recorded, and reports whether
// it isn't there. A repeated call does what the first one was kept from doing; a node that
// gave a sign of life since stays.
func (m *Manager) FinishForgetting(ctx context.Context, node *ForgottenNode) (gone bool, err error) {
	if !node.Forgotten || m.shared == nil {
		return false, nil
	}
	if err := m.shared.Forget(ctx, node.NodeID, node.Seen); err != nil {
		return false, storeFault(err)
	}
	nodes, err := m.shared.Nodes(ctx)
	if err != nil {
		return false, storeFault(err)
	}
	return !slices.ContainsFunc(nodes, func(n store.Node) bool { return n.ID == node.NodeID }), nil
}

// recordAnswer keeps an answer that changes nothing under the idempotency key, if there is
// one: a repeated call gets the same.
func recordAnswer[R any](ctx context.Context, m *Manager, caller command.Caller, p command.Params, result R) (*R, error) {
	r, err := m.request(caller, p)
	if err != nil || r.key == "" {
		return &result, err
	}
	r.by = event.ByRuntime | event.BySession
	return mutate(ctx, r, event.RuntimeSession, true, func(tx *Tx) (*R, error) {
		if tx.State.Sequence == 0 {
			openRuntime(tx)
		}
		return &result, nil
	})
}

// whatIsOn finds a node and the sessions whose files are there and on no other live node.
func (m *Manager) whatIsOn(ctx context.Context, nodeID string) (*ForgottenNode, error) {
	res := &ForgottenNode{ForgetNodeResult: command.ForgetNodeResult{NodeID: nodeID, SessionIDs: []string{}}}
	marks := []string{PlaceMark(&event.WorkspacePlace{Node: nodeID})}
	if m.shared == nil {
		res.Listed, res.Alive = nodeID == m.opt.RuntimeID, nodeID == m.opt.RuntimeID
		return res, nil
	}
	nodes, err := m.shared.Nodes(ctx)
	if err != nil {
		return nil, storeFault(err)
	}
	if i := slices.IndexFunc(nodes, func(n store.Node) bool { return n.ID == nodeID }); i >= 0 {
		n := &nodes[i]
		res.Listed, res.Alive, res.Seen = true, n.Alive, n.LastSeen
		if n.Pool != "" && !slices.ContainsFunc(nodes, func(x store.Node) bool { return x.ID != nodeID && x.Alive && x.Pool == n.Pool }) {
			marks = append(marks, PlaceMark(&event.WorkspacePlace{Pool: n.Pool}))
		}
	}
	for e, err := range m.opt.Store.Scan(ctx, store.Scan{Kind: kindPlace}) {
		if err != nil {
			return nil, storeFault(err)
		}
		mark, _, _ := bytes.Cut(e.Value, []byte("\n"))
		if !slices.Contains(marks, string(mark)) {
			continue
		}
		if res.Placed++; res.Placed <= listedPlaced {
			res.SessionIDs = append(res.SessionIDs, e.Key)
		}
	}
	return res, nil
}

type (
	unplaced struct{}
	moving   struct{}
)

// withoutPlace returns a context under which a session can be written wherever its files are:
// the place that it has is about to go.
func withoutPlace(ctx context.Context) context.Context {
	return context.WithValue(TakingUp(ctx), unplaced{}, true)
}

func isUnplaced(ctx context.Context) bool {
	on, _ := ctx.Value(unplaced{}).(bool)
	return on
}

// Moving returns a context under which a session can be written to give it a place here,
// whoever reached the one that it had.
func Moving(ctx context.Context) context.Context {
	return context.WithValue(withoutPlace(ctx), moving{}, true)
}

func isMoving(ctx context.Context) bool {
	on, _ := ctx.Value(moving{}).(bool)
	return on
}

// CheckMovable refuses to take a session's files away from a node that works there. What no
// live node reaches can be given up, and so can what only a drained node has.
func (m *Manager) CheckMovable(ctx context.Context, s *state.Session) error {
	nodes, err := m.shared.Nodes(ctx)
	if err != nil {
		return storeFault(err)
	}
	for i := range nodes {
		n := &nodes[i]
		if !n.Self && n.Alive && n.State != "drained" && placedOn(s.Place, n) {
			return fault.New(fault.Conflict, "the files of session %s are on node %s, which is alive or was until a moment ago: drain it first (drain_node), and bring the files along if they matter", s.SessionID, n.ID)
		}
	}
	return nil
}

// claimToMove claims a session for a node that gives it a place. A drained node that still
// has it does nothing with it and is fenced; any other node keeps it.
func (m *Manager) claimToMove(ctx context.Context, sessionID string) (store.Claim, error) {
	claim, err := m.opt.Store.Claim(ctx, sessionID)
	owned, ok := errors.AsType[*store.OwnedError](err)
	if !ok {
		return claim, err
	}
	nodes, err := m.shared.Nodes(ctx)
	if err != nil {
		return claim, err
	}
	if slices.ContainsFunc(nodes, func(n store.Node) bool { return n.ID == owned.Owner && n.State == "drained" }) {
		return m.shared.ClaimAnyway(ctx, sessionID)
	}
	return claim, fault.New(fault.Conflict, "node %s has session %s, and is alive or was until a moment ago: drain it first (drain_node)", owned.Owner, sessionID)
}

// ResumePlaced lets the threads of a session go on that wait for its files and nothing else.
func ResumePlaced(tx *Tx, reason string) {
	for _, t := range tx.State.Threads {
		if t.Block != nil && t.Block.Code == event.PlaceUnreachable {
			tx.Emit(event.Event{Type: event.TypeThreadUpdated, Scope: event.Scope{ThreadID: t.ThreadID}, Payload: &event.ThreadUpdated{
				Status: "resumed", Reason: reason,
			}})
		}
	}
}
