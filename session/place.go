package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"agentd/event"
	"agentd/fault"
	"agentd/state"
	"agentd/store"
)

// This file has what follows from files that are not everywhere. A session whose workspace
// is on the disk of a node, or on a file system that the nodes of a pool share, has a place,
// and only nodes that reach it work on the session. See decision 24.

// kindPlace: session id → the mark of the place that the session's files are in, whether no
// node reaches it, and the place itself, a line each.
const kindPlace = "place"

// Locator says which places a node reaches. Its methods must be quick: they are called
// while a session is locked.
type Locator interface {
	// Here is the place of a folder as this node sees it.
	Here(root string) *event.WorkspacePlace
	// Reaches reports whether this node has the files of a session: the folder that the
	// session named itself, or the one that nodes use for sessions without one.
	Reaches(p *event.WorkspacePlace, own bool) bool
	// Marks are those of the places that this node reaches for sure.
	Marks() []string
}

// PlaceMark names what reaches a place: its pool, or else its node.
func PlaceMark(p *event.WorkspacePlace) string {
	if p.Pool != "" {
		return "pool:" + p.Pool
	}
	return "node:" + p.Node
}

// placeEntry is what the index has of a session's place.
func placeEntry(sessionID string, p *event.WorkspacePlace, own bool) (store.IndexOp, error) {
	away := ""
	if p.Away != "" {
		away = store.PlacedAway
	}
	text, err := json.Marshal(indexedPlace{p, own})
	if err != nil {
		return store.IndexOp{}, fmt.Errorf("session: the place of %s: %w", sessionID, err)
	}
	return putOp(kindPlace, sessionID, fmt.Appendf(nil, "%s\n%s\n%s", PlaceMark(p), away, text)), nil
}

// indexPlace appends what follows from a fact about a session's place.
func indexPlace(ops []store.IndexOp, s *state.Session, p *event.WorkspacePlace) ([]store.IndexOp, error) {
	if p == nil {
		return ops, nil
	}
	op, err := placeEntry(s.SessionID, p, ownRoot(s))
	if err != nil {
		return nil, err
	}
	return append(ops, op), nil
}

type indexedPlace struct {
	*event.WorkspacePlace
	// Own says that the session named the folder.
	Own bool `json:"own,omitempty"`
}

// ownRoot reports whether a session named its workspace itself.
func ownRoot(s *state.Session) bool { return s.Workspace != nil && s.Workspace.Root != "" }

// Here is the place of a folder of this node; nil if the runtime has one node.
func (m *Manager) Here(root string) *event.WorkspacePlace {
	if m.shared == nil || m.opt.Locator == nil || root == "" {
		return nil
	}
	return m.opt.Locator.Here(root)
}

// HasPlaces reports whether sessions have places: the runtime has several nodes.
func (m *Manager) HasPlaces() bool { return m.shared != nil && m.opt.Locator != nil }

// IsAway reports whether a session's files are out of this node's reach.
func (m *Manager) IsAway(s *state.Session) bool {
	return s.Place != nil && m.HasPlaces() && !m.opt.Locator.Reaches(s.Place, ownRoot(s))
}

// adoption is what this node can take over.
func (m *Manager) adoption() *store.Adoption {
	a := &store.Adoption{Kind: kindOpen, Places: kindPlace}
	if m.opt.Locator != nil {
		a.Reach = m.opt.Locator.Marks()
	}
	return a
}

// Displaced returns sessions with unfinished work that no live node has and that lie
// outside of the places which this node reaches for sure.
func (m *Manager) Displaced(ctx context.Context, limit int) ([]store.Displaced, error) {
	if !m.HasPlaces() {
		return nil, nil
	}
	found, err := m.shared.Displaced(ctx, m.adoption(), limit)
	if err != nil {
		return nil, storeFault(err)
	}
	return found, nil
}

// errAway says that a session's files are out of reach of every live node.
var errAway = errors.New("session: no live node reaches the session's files")

type anywhere struct{}

// Anywhere returns a context under which a session can be written whose files are out of
// reach of every live node: for what ends its work, and for saying so.
func Anywhere(ctx context.Context) context.Context {
	return context.WithValue(ctx, anywhere{}, true)
}

// checkPlace refuses a session whose files this node doesn't reach: it names the node that
// does, or else says what is missing.
func (m *Manager) checkPlace(ctx context.Context, sessionID string, p *event.WorkspacePlace, own bool) error {
	if m.opt.Locator.Reaches(p, own) {
		return nil
	}
	nodes, err := m.shared.Nodes(ctx)
	if err != nil {
		return fmt.Errorf("session: look for the node of %s: %w", sessionID, err)
	}
	for i := range nodes {
		n := &nodes[i]
		if n.Self || !n.Alive || n.Address == "" {
			continue
		}
		if n.ID == p.Node || (p.Pool != "" && n.Pool == p.Pool) {
			return &store.OwnedError{SessionID: sessionID, Owner: n.ID, Address: n.Address, Until: n.LeaseUntil}
		}
	}
	if allowed, _ := ctx.Value(anywhere{}).(bool); allowed {
		return nil
	}
	return fault.Wrap(fault.Unavailable, errAway, "%s; %s", AwayReason(sessionID, p), awayAdvice(p))
}

// AwayReason says that no live node reaches a session's files, and where they are.
func AwayReason(sessionID string, p *event.WorkspacePlace) string {
	if p.Pool != "" {
		return fmt.Sprintf("the files of session %s are in %s, which the nodes of pool %s share, and none of them is alive here", sessionID, p.Root, p.Pool)
	}
	return fmt.Sprintf("the files of session %s are in %s on node %s, which is gone", sessionID, p.Root, p.Node)
}

func awayAdvice(p *event.WorkspacePlace) string {
	if p.Pool != "" {
		return fmt.Sprintf("start a node with node.pool: %s, and the session goes on by itself; if the files are lost, move_session (agentd nodes move) gives it another place", p.Pool)
	}
	return fmt.Sprintf("start node %s again, and the session goes on by itself; if it never comes back, move_session (agentd nodes move) gives the session another place; nodes that share a file system say so with node.pool", p.Node)
}

// knownPlace returns where a session's files are by the index; nil if that is anywhere.
func (m *Manager) knownPlace(ctx context.Context, sessionID string) (p *event.WorkspacePlace, own bool, err error) {
	value, err := m.opt.Store.Get(ctx, kindPlace, sessionID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("session: the place of %s: %w", sessionID, err)
	}
	in := indexedPlace{WorkspacePlace: &event.WorkspacePlace{}}
	if err := json.Unmarshal(lastLine(value), &in); err != nil {
		return nil, false, fmt.Errorf("%w: the place of session %s: %w", store.ErrCorrupt, sessionID, err)
	}
	return in.WorkspacePlace, in.Own, nil
}

func lastLine(b []byte) []byte {
	return b[bytes.LastIndexByte(b, '\n')+1:]
}

// admitPlace refuses to claim a session whose files other nodes have. It reports whether they
// are out of this node's reach.
func (w *writer) admitPlace(ctx context.Context) (away bool, err error) {
	if !w.m.HasPlaces() || w.id == event.RuntimeSession || w.id == cardedSession || isUnplaced(ctx) {
		return false, nil
	}
	p, own, err := w.m.knownPlace(ctx, w.id)
	if err != nil || p == nil {
		return false, err
	}
	return !w.m.opt.Locator.Reaches(p, own), w.m.checkPlace(ctx, w.id, p, own)
}

// Strand says in facts that no node reaches a session's files, and leaves the session for
// the first node that does. The decision adds what becomes of its work. It does nothing to
// a session that was taken up meanwhile, or of which that was said already.
func (m *Manager) Strand(ctx context.Context, sessionID string, decide func(*Tx) error) error {
	return m.Emit(Anywhere(ctx), sessionID, event.ByLoop, func(tx *Tx) error {
		p := tx.State.Place
		if p == nil || p.Away != "" || !m.IsAway(tx.State) {
			return nil
		}
		if err := decide(tx); err != nil {
			return err
		}
		away := *p
		away.Away = AwayReason(sessionID, p)
		tx.Emit(event.Event{Type: event.TypeSessionUpdated, Payload: &event.SessionUpdated{Place: &away, Reason: away.Away + "; " + awayAdvice(p)}})
		return nil
	})
}

// forkedPlace is where the files of a fork are: where those of its origin are.
func forkedPlace(p *event.WorkspacePlace) *event.WorkspacePlace {
	if p == nil {
		return nil
	}
	at := *p
	at.Away = "" // the fork has no work that waits for it
	return &at
}

// letGo gives back a session that this node can do nothing for.
func (m *Manager) letGo(w *writer) {
	if err := w.retireSession(context.Background(), false); err != nil {
		m.opt.Logger.Warn("a session whose files are elsewhere could not be given back", "sessionId", w.id, "error", err)
	}
}
