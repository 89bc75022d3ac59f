package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/state"
	"agentd/store"
)

// reasonRetention is why facts were removed, in the fact that says so.
const reasonRetention = "retention"

// TrimOptions say which facts of a session go. Without a bound all go that are
// there: the one that tells of it stays.
type TrimOptions struct {
	// Before, if not 0, is the first fact that stays.
	Before uint64
	// OlderThan, if not zero, keeps the facts from that time on.
	OlderThan time.Time
	// Later lets the store keep the bytes for a while, which nobody can read any more.
	Later bool
	// DryRun says what would go and changes nothing.
	DryRun bool
}

// Trimmed says what went.
type Trimmed struct {
	SessionID string `json:"sessionId"`
	// From and Through are the first and the last fact that went; 0 for none.
	From    uint64 `json:"from"`
	Through uint64 `json:"through"`
	Events  uint64 `json:"events"`
	Bytes   int64  `json:"bytes"`
	// DryRun says that nothing went.
	DryRun bool `json:"dryRun,omitempty"`
}

// Trim removes the beginning of a session that is at rest. What its facts folded to
// stays, with the hash of the chain there, and a fact of the session says what is
// gone, all in one atomic write. The facts are read and checked against their chain and
// against the session's state before: what doesn't fit is not removed.
//
// A session with unfinished work, one that a fork refers to, one that a connected
// peer has not read and the runtime's own keep everything.
func (m *Manager) Trim(ctx context.Context, sessionID string, opt TrimOptions) (*Trimmed, error) {
	defer m.forks.beginRemoval()()
	forks, err := m.forkedSessions(ctx)
	if err != nil {
		return nil, err
	}
	return m.trimSession(ctx, sessionID, opt, forks)
}

// forkRefers is why a session keeps its facts.
func forkRefers(sessionID string) error {
	return fault.New(fault.Conflict, "a fork refers to the events of session %s, so they are kept", sessionID)
}

// trimSession is [Manager.Trim], given the sessions that forks refer to. They were looked for
// after the fork guard was informed.
func (m *Manager) trimSession(ctx context.Context, sessionID string, opt TrimOptions, forks map[string]bool) (*Trimmed, error) {
	switch {
	case sessionID == event.RuntimeSession:
		return nil, fault.New(fault.Conflict, "the runtime's own session keeps its events")
	case forks[sessionID]:
		return nil, forkRefers(sessionID)
	}
	b, err := m.findBoundary(ctx, sessionID, opt)
	if err != nil {
		return nil, err
	}
	res := b.result(sessionID, opt.DryRun)
	err = m.writeDecision(ctx, sessionID, event.ByRuntime, false, func(tx *Tx) error {
		if err := tx.atRest(); err != nil {
			return err
		}
		if forked, err := tx.hasForks(); err != nil {
			return err
		} else if forked {
			return forkRefers(sessionID)
		}
		if err := b.fits(tx.State); err != nil || res.Events == 0 || opt.DryRun {
			return err
		}
		tx.Emit(event.Event{Type: event.TypeSnapshotRepaired, Payload: &event.SnapshotRepaired{
			Reason: reasonRetention, GapFrom: 1, GapTo: b.trim.Through, RecoveryMode: "snapshot_repair",
			SnapshotSequence: b.trim.Through, Status: "unavailable",
		}})
		b.trim.Later = opt.Later
		tx.trim = &b.trim
		return tx.removeMarks(b.trim.Through)
	})
	if err != nil {
		return nil, err
	}
	if res.Events > 0 && !opt.DryRun {
		m.journal.tally.trimmed(res)
		m.freeBytes(ctx, sessionID, res.Bytes)
		m.opt.Logger.Info("events were removed", "sessionId", sessionID, "from", res.From, "through", res.Through, "events", res.Events, "bytes", res.Bytes)
	}
	return res, nil
}

// atRest reports why a session's facts are still needed.
func (tx *Tx) atRest() error {
	s := tx.State
	if s.HasOpenWork() {
		return fault.New(fault.Conflict, "session %s has unfinished work, so its events are kept", s.SessionID)
	}
	for _, c := range s.Channels.Connected {
		at, err := tx.ChannelCursor(c.ChannelID)
		if err != nil {
			return err
		}
		if at < s.Sequence {
			return fault.New(fault.Conflict, "the peer of channel %s is connected and has not acknowledged the events of session %s, so they are kept", c.ChannelID, s.SessionID)
		}
	}
	return nil
}

// boundary is the place through which a session's facts go.
type boundary struct {
	// after is the last fact that went before; found says that trim is set.
	after uint64
	trim  store.Trim
	found bool
	// bytes is the size of the facts that go; state is that after the last fact.
	bytes int64
	state *state.Session
}

// findBoundary folds a session to the place through which its facts go, and from there
// to its end.
func (m *Manager) findBoundary(ctx context.Context, sessionID string, opt TrimOptions) (*boundary, error) {
	st, hash, err := origin(ctx, m.opt.Store, sessionID)
	if err != nil {
		return nil, storeFault(err)
	}
	b := &boundary{after: st.Sequence, state: st}
	chain := store.NewChain(hash)
	for rec, err := range m.opt.Store.Read(ctx, sessionID, store.Range{After: st.Sequence}) {
		if err != nil {
			return nil, storeFault(fmt.Errorf("session: read %s: %w", sessionID, err))
		}
		before := chain.Last()
		if chain.Next(rec.Data) != rec.Hash {
			return nil, storeFault(fmt.Errorf("%w: session %s, fact %d: the hash chain is broken", store.ErrCorrupt, sessionID, rec.Sequence))
		}
		e, err := store.DecodeFact(ctx, m.opt.Store, rec.Data)
		if err != nil {
			return nil, storeFault(fmt.Errorf("%w: session %s, fact %d: %w", store.ErrCorrupt, sessionID, rec.Sequence, err))
		}
		if !b.found && opt.keeps(e) {
			b.set(before)
		}
		if !b.found {
			b.bytes += int64(len(rec.Data))
		}
		if _, err := st.Apply(e); err != nil {
			return nil, storeFault(fmt.Errorf("%w: %w", store.ErrCorrupt, err))
		}
	}
	if st.Sequence == 0 {
		return nil, noSession(sessionID)
	}
	if !b.found {
		b.set(chain.Last())
	}
	return b, nil
}

// keeps reports whether a fact, and so all that follow, stays.
func (o *TrimOptions) keeps(e *event.Event) bool {
	return (o.Before != 0 && e.Sequence >= o.Before) || (!o.OlderThan.IsZero() && !e.Time.Before(o.OlderThan))
}

// set puts the boundary where the fold is.
func (b *boundary) set(hash store.Hash) {
	b.trim, b.found = store.Trim{Through: b.state.Sequence, Hash: hash, Data: b.state.Encode()}, true
}

// fits reports a session that went on in the meantime, or whose state is not what its
// facts fold to: removing them would make that the truth.
func (b *boundary) fits(s *state.Session) error {
	if s.Sequence != b.state.Sequence {
		return fault.New(fault.Conflict, "session %s is still active, so its events are kept", s.SessionID)
	}
	if !bytes.Equal(s.Encode(), b.state.Encode()) {
		return fault.New(fault.Internal, "the state of session %s doesn't match its facts, so its events are kept: run agentd verify", s.SessionID)
	}
	return nil
}

func (b *boundary) result(sessionID string, dry bool) *Trimmed {
	res := &Trimmed{SessionID: sessionID, DryRun: dry}
	if b.trim.Through > b.after {
		res.From, res.Through, res.Events, res.Bytes = b.after+1, b.trim.Through, b.trim.Through-b.after, b.bytes
	}
	return res
}

// origin returns the state from which a session's facts can be folded, and the hash
// of the chain there: that of no fact, or the state that replaced removed ones.
func origin(ctx context.Context, s store.Store, sessionID string) (*state.Session, store.Hash, error) {
	base, err := s.Base(ctx, sessionID)
	if errors.Is(err, store.ErrNotFound) {
		return state.New(sessionID), store.Genesis(sessionID), nil
	}
	if err != nil {
		return nil, store.Hash{}, fmt.Errorf("session: base of %s: %w", sessionID, err)
	}
	st, err := BaseState(&base)
	return st, base.Hash, err
}

// Origin returns the state from which a session's facts can be folded: an empty one, or
// what stands for those that were removed.
func (m *Manager) Origin(ctx context.Context, sessionID string) (*state.Session, error) {
	st, _, err := origin(ctx, m.opt.Store, sessionID)
	if err != nil {
		return nil, storeFault(err)
	}
	return st, nil
}

// foldFromBase loads a session whose first facts were removed and whose state isn't
// stored any more: that is only a shortcut, also here.
func (w *writer) foldFromBase(ctx context.Context) (*state.Session, foldedTail, error) {
	st, hash, err := origin(ctx, w.m.opt.Store, w.id)
	if err != nil {
		return nil, foldedTail{}, err
	}
	w.state, w.chain, w.snapshotSequence = st, store.NewChain(hash), st.Sequence
	tail, err := foldRecords(ctx, w.m.opt.Store, st, w.chain)
	return st, tail, err
}

// BaseState returns the state that replaced the facts that were removed from a
// session.
func BaseState(base *store.Snapshot) (*state.Session, error) {
	st, err := state.DecodeBase(base.Data)
	if err == nil && (st.SessionID != base.SessionID || st.Sequence != base.Sequence) {
		err = fmt.Errorf("it is of fact %d of session %s", st.Sequence, st.SessionID)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: session %s: the base that replaces its facts through %d can't be used: %w", store.ErrCorrupt, base.SessionID, base.Sequence, err)
	}
	return st, nil
}

// forkedSessions returns the sessions that forks refer to.
func (m *Manager) forkedSessions(ctx context.Context) (map[string]bool, error) {
	out := map[string]bool{}
	for id, err := range m.opt.Store.Sessions(ctx, "") {
		if err != nil {
			return nil, storeFault(err)
		}
		created, err := m.firstFact(ctx, id)
		if err != nil {
			return nil, err
		}
		if created.ForkedFrom != nil {
			out[created.ForkedFrom.SessionID] = true
		}
	}
	return out, nil
}

// firstFact returns what a session's first fact says, or, where that was removed, what
// became of it.
func (m *Manager) firstFact(ctx context.Context, sessionID string) (*event.SessionCreated, error) {
	for rec, err := range m.opt.Store.Read(ctx, sessionID, store.Range{Limit: 1}) {
		if errors.Is(err, store.ErrTrimmed) {
			return m.createdBase(ctx, sessionID)
		}
		if err != nil {
			return nil, storeFault(fmt.Errorf("session: read %s: %w", sessionID, err))
		}
		e, err := store.DecodeFact(ctx, m.opt.Store, rec.Data)
		if err != nil {
			return nil, storeFault(fmt.Errorf("%w: session %s, fact %d: %w", store.ErrCorrupt, sessionID, rec.Sequence, err))
		}
		p, ok := e.Payload.(*event.SessionCreated)
		if !ok {
			return nil, storeFault(fmt.Errorf("%w: session %s begins with %s", store.ErrCorrupt, sessionID, e.Type))
		}
		return p, nil
	}
	return nil, noSession(sessionID)
}

func (m *Manager) createdBase(ctx context.Context, sessionID string) (*event.SessionCreated, error) {
	s, _, err := origin(ctx, m.opt.Store, sessionID)
	if err != nil {
		return nil, storeFault(err)
	}
	return &event.SessionCreated{
		Title: s.Title, Account: s.Account, Workspace: s.Workspace, PermissionMode: s.PermissionMode, Metadata: s.Metadata,
		CreatedBy: s.CreatedBy, ForkedFrom: s.ForkedFrom,
	}, nil
}

// Oldest returns the first sequence of a session that can be read: 1, unless facts
// were removed.
func (m *Manager) Oldest(ctx context.Context, sessionID string) (uint64, error) {
	base, err := m.opt.Store.Base(ctx, sessionID)
	if errors.Is(err, store.ErrNotFound) {
		return 1, nil
	}
	if err != nil {
		return 0, storeFault(err)
	}
	return base.Sequence + 1, nil
}

// repeatedTrimmed answers the creation of a session whose first facts were removed:
// what is left of them is what the session was like then.
func (r *request) repeatedTrimmed(ctx context.Context, sessionID string, p *command.CreateSession) (*command.CreateSessionResult, error) {
	s, _, err := origin(ctx, r.m.opt.Store, sessionID)
	if err != nil {
		return nil, storeFault(err)
	}
	t, was := s.MainThread(), &event.SessionCreated{Title: s.Title, Account: s.Account, Workspace: s.Workspace, PermissionMode: s.PermissionMode, Metadata: s.Metadata}
	if p.Workspace == nil && r.caller.Workspace != "" {
		was.Workspace = nil
	}
	if t == nil || !sameSession(was, r.sessionCreated(p)) {
		return nil, fault.New(fault.Conflict, "session %s exists, and its first events were removed by retention: it is unknown whether it was created with the same parameters", sessionID)
	}
	return &command.CreateSessionResult{SessionID: sessionID, ThreadID: t.ThreadID}, nil
}

// behindFault is [storeFault] for subscribers: one that was so far behind that
// what it had to read was removed must subscribe again, and then learns what it missed.
func behindFault(err error) error {
	if removed, ok := errors.AsType[*store.TrimmedError](err); ok {
		return fault.Wrap(fault.Unavailable, err, "the events of session %s through %d were removed by retention before they were delivered; subscribe again", removed.SessionID, removed.Through)
	}
	return storeFault(err)
}
