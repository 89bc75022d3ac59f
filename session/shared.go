package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"agentd/event"
	"agentd/fault"
	"agentd/state"
	"agentd/store"
)

// This file has what follows from a store that several nodes share: reading without
// owning, the session that belongs to all nodes, and finding work that lost its node.

// OwnedElsewhere reports whether err says that another live node owns the session. What
// is left to do there is that node's.
func OwnedElsewhere(err error) bool {
	var owned *store.OwnedError
	return errors.As(err, &owned)
}

// LostSession reports whether err says that another live node owns that very session.
func LostSession(err error, sessionID string) bool {
	var owned *store.OwnedError
	return errors.As(err, &owned) && owned.SessionID == sessionID
}

// Passing reports whether err may go away by itself: the store couldn't be reached, and it
// will take the same facts again. A store that needs a person, or another owner, doesn't.
func Passing(err error) bool {
	if fault.KindOf(err) != fault.Unavailable || OwnedElsewhere(err) {
		return false
	}
	for _, lasting := range []error{store.ErrFailed, store.ErrClosed, store.ErrNoSpace, store.ErrCorrupt, store.ErrReplaced, store.ErrRestored, errStopped, errAway} {
		if errors.Is(err, lasting) {
			return false
		}
	}
	return true
}

// errStopped says that the manager is closed.
var errStopped = errors.New("session: the manager is closed")

// Read runs a function on a session's state as it is in the store. Unlike View it doesn't
// make this node the session's owner: a session that is read stays where it is. The
// function must copy what it keeps.
func (m *Manager) Read(ctx context.Context, sessionID string, view func(*state.Session) error) error {
	if m.shared == nil {
		return m.View(ctx, sessionID, view)
	}
	if w := m.ownWriter(sessionID); w != nil {
		err := w.viewDurable(ctx, view)
		m.releaseWriter(w)
		if !errors.Is(err, errStale) {
			return err
		}
	}
	st, err := m.readState(ctx, sessionID)
	if err != nil {
		return storeFault(err)
	}
	if st.Sequence == 0 || st.Status == state.SessionDeleted {
		return fault.New(fault.NotFound, "there is no session %s", sessionID)
	}
	return view(st)
}

// ownWriter returns the writer of a session that this node has in memory and owns, in use
// until it is released; nil if there is none.
func (m *Manager) ownWriter(sessionID string) *writer {
	if sessionID == event.RuntimeSession {
		return nil // every node writes it: the store has the newest
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.writers[sessionID]
	if m.closed || w == nil || !w.ready.Load() || w.away.Load() || w.isOutdated() {
		return nil
	}
	w.users++
	return w
}

// readTries is how often a read is begun again because facts that it needed were
// removed meanwhile.
const readTries = 5

// readState folds a session from its newest snapshot and the facts after it.
func (m *Manager) readState(ctx context.Context, sessionID string) (st *state.Session, err error) {
	for range readTries {
		if st, err = m.readStateOnce(ctx, sessionID); !errors.Is(err, store.ErrTrimmed) {
			break
		}
	}
	return st, err
}

func (m *Manager) readStateOnce(ctx context.Context, sessionID string) (*state.Session, error) {
	head, err := m.opt.Store.Head(ctx, sessionID)
	if err != nil {
		return nil, fmt.Errorf("session: read %s: %w", sessionID, err)
	}
	if head.Sequence == 0 {
		return state.New(sessionID), nil
	}
	// The snapshot may be of a later fact than the head that was just read.
	st, hash, _, err := loadState(ctx, m.opt.Store, sessionID, store.Head{Sequence: 1<<63 - 1})
	if errors.Is(err, errMarked) {
		return nil, errPartial(sessionID)
	}
	if err != nil {
		return nil, err
	}
	chain := store.NewChain(hash)
	if _, err := foldRecords(ctx, m.opt.Store, st, chain); errors.Is(err, store.ErrTrimmed) && st.Sequence == 0 {
		if st, hash, err = origin(ctx, m.opt.Store, sessionID); err == nil {
			_, err = foldRecords(ctx, m.opt.Store, st, store.NewChain(hash))
		}
		return st, err
	} else if err != nil {
		return nil, err
	}
	return st, nil
}

// claimSession makes this node the session's writer; create says that it need not exist. The
// runtime's own session belongs to all nodes: a node takes it when it writes there.
func (m *Manager) claimSession(ctx context.Context, sessionID string, create bool) (store.Claim, error) {
	if m.shared != nil && create && takeMadeUp(ctx) {
		return m.shared.ClaimNew(ctx, sessionID)
	}
	if m.shared != nil && (sessionID == event.RuntimeSession || sessionID == cardedSession) {
		return m.shared.ClaimAnyway(ctx, sessionID)
	}
	if m.shared != nil && isMoving(ctx) {
		return m.claimToMove(ctx, sessionID)
	}
	return m.opt.Store.Claim(ctx, sessionID)
}

// term returns the number of this node's present lease, which is another one after it had
// lapsed, and whether the lease holds.
func (m *Manager) term() (n uint64, held bool) {
	if m.shared == nil {
		return 0, true
	}
	return m.shared.Term()
}

// isOutdated reports whether the writer's claim may be lost: another node wrote, or this
// node's lease had ended in between.
func (w *writer) isOutdated() bool {
	if w.m.shared == nil {
		return false
	}
	n, held := w.m.term()
	return w.outrun.Load() || !held || n != w.term
}

// noteForeignAppend drops what is in memory of a session that another node wrote to.
func (m *Manager) noteForeignAppend(a store.Appended) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.writers[a.SessionID]
	if w != nil && (!w.ready.Load() || w.head.Load() >= a.Sequence) {
		return
	}
	if w != nil {
		w.outrun.Store(true)
	}
	m.leaveStanding(a.SessionID)
}

// holds reports whether the session's claim is kept when it leaves memory: something runs
// or waits here that another node would have to begin anew.
func (w *writer) holds() bool {
	return w.m.shared != nil && w.id != event.RuntimeSession && w.state != nil &&
		(w.state.HasOpenWork() || len(w.state.Channels.Connected) > 0)
}

// giveClaimBack gives the claim back when the session is put away: for good if the manager
// stops, so that another node can go on at once.
func (w *writer) giveClaimBack(ctx context.Context, stopping bool) error {
	switch {
	case !w.holds() || w.m.IsAway(w.state):
		return w.m.opt.Store.Release(ctx, w.id, w.epoch)
	case stopping:
		return w.m.shared.Yield(ctx, w.id, w.epoch)
	default:
		return nil
	}
}

// fencedTries is how often a decision is made again because another node wrote meanwhile.
const fencedTries = 20

// retryFenced makes a decision again whose facts were not written because the session had
// another owner. A session that belongs to all nodes changes hands often; of any other
// this node learns who has it now.
func (m *Manager) retryFenced(ctx context.Context, do func() error) error {
	var err error
	for try := range fencedTries {
		err = do()
		if m.shared == nil || (!errors.Is(err, store.ErrFenced) && !errors.Is(err, store.ErrConflict)) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Duration(try) * time.Millisecond):
		}
	}
	return err
}

// Adopt makes this node the owner of sessions with unfinished work that no live node has,
// at most limit of them. A store that one process has to itself has none.
func (m *Manager) Adopt(ctx context.Context, limit int) ([]string, error) {
	if m.shared == nil {
		return nil, nil
	}
	ids, err := m.shared.Adopt(ctx, m.adoption(), limit)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		if w := m.writers[id]; w != nil {
			// It has the state of an earlier claim. Another node may have written since, and its
			// hint may be late. A decision on that state that writes nothing isn't fenced.
			w.outrun.Store(true)
		}
	}
	return ids, err
}

// Left returns the sessions with unfinished work that this node has to take up when it
// starts: all, or of a shared store those that it owned under its name before.
func (m *Manager) Left(ctx context.Context) ([]string, error) {
	if m.shared == nil {
		return m.Open(ctx)
	}
	ids, err := m.shared.Owned(ctx, kindOpen)
	if err != nil {
		return nil, storeFault(err)
	}
	return ids, nil
}

// IsShared reports whether other nodes may have the store open.
func (m *Manager) IsShared() bool { return m.shared != nil }

// Alone reports whether no other live node has the store open.
func (m *Manager) Alone(ctx context.Context) (bool, error) {
	if m.shared == nil {
		return true, nil
	}
	nodes, err := m.shared.Nodes(ctx)
	if err != nil {
		return false, storeFault(err)
	}
	for _, n := range nodes {
		if n.Alive && !n.Self {
			return false, nil
		}
	}
	return true, nil
}

type takingUp struct{}

// TakingUp returns a context under which sessions are loaded to go on with their work, so
// that nothing else has to see to it.
func TakingUp(ctx context.Context) context.Context {
	return context.WithValue(ctx, takingUp{}, true)
}

func isTakingUp(ctx context.Context) bool {
	on, _ := ctx.Value(takingUp{}).(bool)
	return on
}

// noteStray remembers a session that has to be taken up: its facts couldn't be written, so
// what was to follow from them is begun anew, or it came to this node with unfinished work.
func (m *Manager) noteStray(sessionID string) {
	if sessionID == event.RuntimeSession {
		return
	}
	m.mu.Lock()
	m.strays[sessionID] = struct{}{}
	m.mu.Unlock()
	select {
	case m.strayed <- struct{}{}:
	default:
	}
}

// Strayed is told when there may be [Manager.Strays].
func (m *Manager) Strayed() <-chan struct{} { return m.strayed }

// HasWork reports whether a session has unfinished work, without loading it.
func (m *Manager) HasWork(ctx context.Context, sessionID string) (bool, error) {
	_, err := m.opt.Store.Get(ctx, kindOpen, sessionID)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, storeFault(err)
	}
	return true, nil
}

// Stray has a session taken up again, see [Manager.Strays].
func (m *Manager) Stray(sessionID string) { m.noteStray(sessionID) }

// LeaveStray has a session left as it is, although taking it up noted it again.
func (m *Manager) LeaveStray(sessionID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.strays, sessionID)
}

// Strays returns the sessions of this node that have to be taken up since the last call:
// those whose facts couldn't be written, those that a command brought here with unfinished
// work, and those that were claimed, or may have been, and not loaded. It is the caller who has
// them from then on: [Manager.Stray] gives one back.
func (m *Manager) Strays() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]string, 0, len(m.strays))
	for id := range m.strays {
		out = append(out, id)
	}
	clear(m.strays)
	return out
}

// Facts returns the facts of a session from one sequence to another, both included.
func (m *Manager) Facts(ctx context.Context, sessionID string, first, last uint64) ([]event.Event, error) {
	var out []event.Event
	for rec, err := range m.opt.Store.Read(ctx, sessionID, store.Range{After: max(first, 1) - 1, Before: last + 1}) {
		if err != nil {
			return out, storeFault(err)
		}
		e, err := store.DecodeFact(ctx, m.opt.Store, rec.Data)
		if err != nil {
			return out, storeFault(fmt.Errorf("%w: session %s, fact %d: %w", store.ErrCorrupt, sessionID, rec.Sequence, err))
		}
		out = append(out, *e)
	}
	return out, nil
}
