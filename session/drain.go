package session

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/store"
)

// This file has what lets a node hand its sessions over while it runs.

// SetDraining says whether this node leaves sessions that it doesn't have to the others; it
// reports whether that is a change.
func (m *Manager) SetDraining(on bool) bool { return m.draining.Swap(on) != on }

// IsDraining reports whether this node hands over what it has.
func (m *Manager) IsDraining() bool { return m.draining.Load() }

// SetDrained says whether a node that is drained has nothing left; it reports whether that is
// a change.
func (m *Manager) SetDrained(on bool) bool { return m.drained.Swap(on) != on }

// IsDrained reports whether this node is drained and has nothing left.
func (m *Manager) IsDrained() bool { return m.draining.Load() && m.drained.Load() }

// NodeState says whether this node takes work, as [command.NodeRecord] does.
func (m *Manager) NodeState() string {
	switch {
	case m.IsDrained():
		return "drained"
	case m.IsDraining():
		return "draining"
	}
	return "open"
}

// HandOver gives up a session that nothing uses at this moment: the next node that looks
// takes it up. It reports whether it did.
func (m *Manager) HandOver(ctx context.Context, sessionID string) (bool, error) {
	if m.shared == nil {
		return false, nil
	}
	m.mu.Lock()
	w := m.writers[sessionID]
	if w != nil && w.users > 0 {
		m.mu.Unlock()
		return false, nil
	}
	delete(m.writers, sessionID)
	m.leaveStanding(sessionID)
	m.mu.Unlock()
	if w != nil {
		return true, w.retireSession(ctx, true)
	}
	// It is out of memory, and still this node's.
	claim, err := m.opt.Store.Claim(ctx, sessionID)
	if OwnedElsewhere(err) {
		return true, nil
	}
	if err != nil {
		return false, storeFault(err)
	}
	return true, m.shared.Yield(ctx, sessionID, claim.Epoch)
}

// leaveToOthers refuses a session that this node would have to claim while it is drained,
// if another node can have it.
func (m *Manager) leaveToOthers(ctx context.Context, sessionID string) error {
	if m.shared == nil || !m.draining.Load() || sessionID == event.RuntimeSession || sessionID == cardedSession {
		return nil
	}
	p, _, err := m.knownPlace(ctx, sessionID)
	if err != nil {
		return err
	}
	heirs, err := m.Heirs(ctx)
	if err != nil {
		return err
	}
	var to *store.Node
	for i := range heirs.nodes {
		n := &heirs.nodes[i]
		if p != nil && !placedOn(p, n) {
			continue
		}
		if to == nil || n.Running+n.Waiting < to.Running+to.Waiting {
			to = n
		}
	}
	if to == nil {
		return nil // no one else can
	}
	return &store.OwnedError{SessionID: sessionID, Owner: to.ID, Address: to.Address, Until: to.LeaseUntil}
}

// Heirs are the other nodes that take work.
type Heirs struct{ nodes []store.Node }

// Heirs returns the nodes that this one can hand sessions over to.
func (m *Manager) Heirs(ctx context.Context) (*Heirs, error) {
	nodes, err := m.shared.Nodes(ctx)
	if err != nil {
		return nil, storeFault(err)
	}
	return &Heirs{slices.DeleteFunc(nodes, func(n store.Node) bool {
		return n.Self || !n.Alive || n.Address == "" || n.State != ""
	})}, nil
}

// None reports whether there is no such node.
func (h *Heirs) None() bool { return len(h.nodes) == 0 }

// Reach reports whether one of the nodes reaches a place for sure. Another may, too, if it
// has the very same folder, which only that node can tell.
func (h *Heirs) Reach(p *event.WorkspacePlace) bool {
	return slices.ContainsFunc(h.nodes, func(n store.Node) bool { return p == nil || placedOn(p, &n) })
}

// PlaceOf returns where a session's files are, nil if that is anywhere.
func (m *Manager) PlaceOf(ctx context.Context, sessionID string) (*event.WorkspacePlace, error) {
	p, _, err := m.knownPlace(ctx, sessionID)
	if err != nil {
		return nil, storeFault(err)
	}
	return p, nil
}

// TakeBack makes this node the owner of a session again that it offered to the others. It
// reports whether none of them took it.
func (m *Manager) TakeBack(ctx context.Context, sessionID string) (bool, error) {
	m.mu.Lock()
	w := m.writers[sessionID]
	m.mu.Unlock()
	if w != nil {
		return true, nil // a command needed it here
	}
	_, err := m.opt.Store.Claim(ctx, sessionID)
	if OwnedElsewhere(err) {
		return false, nil
	}
	if err != nil {
		return false, storeFault(err)
	}
	return true, nil
}

// Stranded returns sessions of which facts say that no node reaches their files, although
// this one does: they were out of its reach, or it of theirs, only for a while.
func (m *Manager) Stranded(ctx context.Context) ([]string, error) {
	if !m.HasPlaces() {
		return nil, nil
	}
	marks := m.opt.Locator.Marks()
	var ids []string
	for e, err := range m.opt.Store.Scan(ctx, store.Scan{Kind: kindPlace}) {
		if err != nil {
			return ids, storeFault(err)
		}
		mark, rest, _ := bytes.Cut(e.Value, []byte("\n"))
		away, _, _ := bytes.Cut(rest, []byte("\n"))
		if string(away) == store.PlacedAway && slices.Contains(marks, string(mark)) {
			ids = append(ids, e.Key)
		}
	}
	return ids, nil
}

// placedOn reports whether a node reaches a place for sure.
func placedOn(p *event.WorkspacePlace, n *store.Node) bool {
	return n.ID == p.Node || (p.Pool != "" && n.Pool == p.Pool)
}

// NodeNamed finds the node that a command is about: this one, or the error says where the
// other one is.
func (m *Manager) NodeNamed(ctx context.Context, nodeID string) (string, error) {
	if m.shared == nil {
		if nodeID != "" && nodeID != m.opt.RuntimeID {
			return "", fault.New(fault.NotFound, "there is no node %s; there is one, %s", nodeID, m.opt.RuntimeID)
		}
		return m.opt.RuntimeID, nil
	}
	nodes, err := m.shared.Nodes(ctx)
	if err != nil {
		return "", storeFault(err)
	}
	for i := range nodes {
		n := &nodes[i]
		switch {
		case nodeID != "" && n.ID != nodeID, nodeID == "" && !n.Self:
			continue
		case n.Self:
			return n.ID, nil
		case !n.Alive || n.Address == "":
			return "", fault.New(fault.Unavailable, "node %s is gone, and the others have what it did", nodeID)
		}
		f := fault.New(fault.Unavailable, "node %s has to do it itself", nodeID)
		f.Elsewhere = n.Address
		return "", f
	}
	return "", fault.New(fault.NotFound, "there is no node %s; list_nodes has those that there are", nodeID)
}

// Nodes returns the nodes of a shared store; none if one process has it to itself.
func (m *Manager) Nodes(ctx context.Context) ([]store.Node, error) {
	if m.shared == nil {
		return nil, nil
	}
	nodes, err := m.shared.Nodes(ctx)
	if err != nil {
		return nil, storeFault(err)
	}
	return nodes, nil
}

// NodeRecord is what is known of a node.
func (m *Manager) NodeRecord(ctx context.Context, nodeID string) (*command.NodeRecord, error) {
	records, err := m.nodeRecords(ctx, func(n *store.Node) bool { return n.ID == nodeID })
	if err != nil {
		return nil, err
	}
	if m.shared == nil || len(records) == 1 {
		return &records[0], nil
	}
	return nil, storeFault(errors.Join(store.ErrNotFound, errStopped))
}

// nodeRecords is what is known of the nodes that are wanted. A store that one process has to
// itself has one node.
func (m *Manager) nodeRecords(ctx context.Context, wanted func(*store.Node) bool) ([]command.NodeRecord, error) {
	if m.shared == nil {
		return []command.NodeRecord{m.onlyNode()}, nil
	}
	nodes, err := m.shared.Nodes(ctx)
	if err != nil {
		return nil, storeFault(err)
	}
	var records []command.NodeRecord
	var ids []string
	for i := range nodes {
		if n := &nodes[i]; wanted(n) {
			records, ids = append(records, nodeRecord(n)), append(ids, n.ID)
		}
	}
	owned, err := m.shared.CountOwned(ctx, event.RuntimeSession, ids...)
	if err != nil {
		return nil, storeFault(err)
	}
	for i := range records {
		records[i].Sessions = owned[records[i].NodeID]
	}
	return records, nil
}

// onlyNode is the node of a store that one process has to itself.
func (m *Manager) onlyNode() command.NodeRecord {
	return command.NodeRecord{NodeID: m.opt.RuntimeID, Self: true, Alive: true, Sessions: int64(m.Figures().Loaded), State: m.NodeState()}
}

func nodeRecord(n *store.Node) command.NodeRecord {
	state := n.State
	if state == "" {
		state = "open"
	}
	return command.NodeRecord{
		NodeID: n.ID, Address: n.Address, Self: n.Self, Alive: n.Alive, LastSeenAt: n.LastSeen, LeaseUntil: n.LeaseUntil,
		Pool: n.Pool, Labels: n.Labels, State: state, Running: n.Running, Waiting: n.Waiting,
	}
}
