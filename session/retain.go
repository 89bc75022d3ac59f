package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/store"
)

// Retained says what a sweep over old sessions did.
type Retained struct {
	// Sessions counts those whose events went, Events these, Kept the old sessions
	// that keep theirs for now, because something needs them.
	Sessions, Events, Kept int
}

// RetainEvents removes the events of sessions whose last one was written before a
// moment and that are at rest, see [Manager.Trim]. It may be cut off at any point and
// called again.
func (m *Manager) RetainEvents(ctx context.Context, before time.Time) (Retained, error) {
	return m.retainWithProgress(ctx, before, func(int, Retained) {})
}

// retainWithProgress is RetainEvents that tells how many sessions are old enough, and
// after each what was done so far.
func (m *Manager) retainWithProgress(ctx context.Context, before time.Time, progress func(total int, sum Retained)) (Retained, error) {
	old, damaged, err := m.oldSessions(ctx, before)
	sum := Retained{Kept: damaged}
	if err != nil || len(old) == 0 {
		return sum, err
	}
	progress(len(old)+damaged, sum)
	defer m.forks.beginRemoval()()
	forks, err := m.forkedSessions(ctx)
	if err != nil {
		return sum, err
	}
	for _, id := range old {
		res, err := m.trimSession(ctx, id, TrimOptions{Later: true}, forks)
		switch {
		case ctx.Err() != nil:
			return sum, ctx.Err()
		case err != nil:
			// Whatever keeps one session must not keep the others.
			sum.Kept++
			m.keptEvents(id, err)
		default:
			sum.Sessions++
			sum.Events += int(res.Events)
		}
		progress(len(old)+damaged, sum)
	}
	return sum, nil
}

// keptEvents logs why a session keeps its events: as a warning if something is wrong.
func (m *Manager) keptEvents(sessionID string, err error) {
	log := m.opt.Logger.Warn
	if k := fault.KindOf(err); k == fault.Conflict || isOwned(err) {
		log = m.opt.Logger.Debug
	}
	log("old events are kept", "sessionId", sessionID, "error", err)
}

// isOwned reports whether another node owns the session: it sweeps it itself.
func isOwned(err error) bool {
	var owned *store.OwnedError
	return errors.As(err, &owned)
}

// oldSessions lists the sessions whose last fact was written before a moment and
// that have events to remove, and counts those of which damage keeps it from saying
// so. It claims nothing.
func (m *Manager) oldSessions(ctx context.Context, before time.Time) (out []string, damaged int, err error) {
	for e, err := range m.opt.Store.Scan(ctx, store.Scan{Kind: kindSession}) {
		if err != nil {
			return nil, damaged, storeFault(err)
		}
		var s command.SessionSummary
		if err := json.Unmarshal(e.Value, &s); err != nil {
			damaged++
			m.keptEvents(e.Key, storeFault(fmt.Errorf("%w: index of sessions: %w", store.ErrCorrupt, err)))
			continue
		}
		if s.SessionID == event.RuntimeSession || !s.UpdatedAt.Before(before) {
			continue
		}
		old, err := m.isOld(ctx, s.SessionID, before)
		switch {
		case errors.Is(err, store.ErrCorrupt):
			damaged++
			m.keptEvents(s.SessionID, err)
		case err != nil:
			return nil, damaged, err
		case old:
			out = append(out, s.SessionID)
		}
	}
	return out, damaged, nil
}

// isOld looks at a session's last fact. One of which only the fact is left that
// tells of a removal has nothing to remove.
func (m *Manager) isOld(ctx context.Context, sessionID string, before time.Time) (bool, error) {
	if _, err := m.opt.Store.Get(ctx, kindOpen, sessionID); err == nil {
		return false, nil
	} else if !errors.Is(err, store.ErrNotFound) {
		return false, storeFault(err)
	}
	for rec, err := range m.opt.Store.Read(ctx, sessionID, store.Range{Reverse: true, Limit: 1}) {
		if err != nil {
			return false, storeFault(err)
		}
		var last event.Event
		if _, err := event.DecodeHeader(rec.Data, &last); err != nil {
			return false, storeFault(fmt.Errorf("%w: session %s, fact %d: %w", store.ErrCorrupt, sessionID, rec.Sequence, err))
		}
		if !last.Time.Before(before) {
			return false, nil
		}
		oldest, err := m.Oldest(ctx, sessionID)
		return oldest < rec.Sequence, err
	}
	return false, nil
}

// retainEvents sweeps until ctx ends.
func (m *Manager) retainEvents(ctx context.Context) {
	m.sweepOld(ctx, m.opt.RetainEvents, func(before time.Time) {
		swept, err := m.RetainEvents(ctx, before)
		switch {
		case err != nil && ctx.Err() == nil:
			m.opt.Logger.Warn("old events could not be removed", "error", err)
		case swept.Sessions > 0:
			m.opt.Logger.Info("old events were removed", "sessions", swept.Sessions, "events", swept.Events, "kept", swept.Kept)
		}
	})
}
