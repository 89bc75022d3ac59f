package session

import (
	"context"
	"fmt"
	"strconv"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/state"
	"agentd/store"
)

// historyBefore returns the newest events before a place, oldest first. Places from 1 are
// the session's sequences. What a fork inherits lies before them, in one line: the
// last inherited event has place -1, the one before it -2, and so on through the
// session that it was forked from, and from there into the one that this was forked
// from. A window never mixes the events of two sessions. The newest events of the session
// may have been read already.
func (r *request) historyBefore(ctx context.Context, snap *state.SessionSnapshot, before int64, limit int, recent *factWindow) (command.History, error) {
	if before > 1 {
		h, err := r.m.historyWindow(ctx, snap.SessionID, uint64(before), limit, recent)
		if err == nil && !h.Truncated && snap.ForkedFrom != nil {
			h.Truncated, h.Cursor = true, inheritedCursor(0)
		}
		return h, err
	}
	if snap.ForkedFrom == nil && before < 1 {
		return command.History{}, fault.Param("before", "\"%d\" is not a cursor", before)
	}
	return r.inheritedHistory(ctx, snap.ForkedFrom, before, limit)
}

// maxForks bounds how many forks of forks are followed.
const maxForks = 1000

// inheritedHistory returns a window of what a fork inherits.
func (r *request) inheritedHistory(ctx context.Context, from *event.ForkPoint, before int64, limit int) (command.History, error) {
	none := command.History{Events: []event.Raw{}}
	var newer, skip uint64 // inherited events that are newer than the window: in later sessions, and here
	if before < 0 {
		skip = uint64(-before)
	}
	for range maxForks {
		if from == nil {
			return none, nil
		}
		if fault.KindOf(r.m.See(ctx, r.caller, from.SessionID)) == fault.NotFound {
			none.Truncated = true // there was more, and it isn't here
			return none, nil
		}
		if skip < from.Sequence {
			return r.originWindow(ctx, from, newer+skip, skip, limit)
		}
		skip -= from.Sequence
		newer += from.Sequence
		earlier, err := r.m.forkedFrom(ctx, from)
		if err != nil {
			return none, err
		}
		from = earlier
	}
	return none, fault.New(fault.Unavailable, "the session is forked more than %d levels deep", maxForks)
}

// originWindow returns the newest events of an origin but for skip; all is how many
// inherited events are newer than the window.
func (r *request) originWindow(ctx context.Context, from *event.ForkPoint, all, skip uint64, limit int) (command.History, error) {
	h, err := r.m.historyWindow(ctx, from.SessionID, from.Sequence-skip+1, limit, nil)
	if err != nil {
		return h, err
	}
	if !h.Truncated {
		earlier, err := r.m.forkedFrom(ctx, from)
		if err != nil {
			return h, err
		}
		h.Truncated = earlier != nil
	}
	if h.Cursor = ""; h.Truncated && h.RemovedThrough == 0 {
		h.Cursor = inheritedCursor(all + uint64(len(h.Events)))
	}
	h.Origin = &command.HistoryOrigin{SessionID: from.SessionID, ThreadID: from.ThreadID, Sequence: from.Sequence}
	return h, nil
}

// inheritedCursor is the cursor of the window before the given number of inherited events.
func inheritedCursor(newer uint64) string {
	if newer == 0 {
		return "1"
	}
	return "-" + strconv.FormatUint(newer, 10)
}

// forkedFrom returns where the history of a forked thread goes on; nil if it began
// where it is, or in another thread of that session.
func (m *Manager) forkedFrom(ctx context.Context, from *event.ForkPoint) (*event.ForkPoint, error) {
	var out *event.ForkPoint
	for rec, err := range m.opt.Store.Read(ctx, from.SessionID, store.Range{Limit: 2}) {
		if err != nil {
			return nil, storeFault(err)
		}
		e, err := store.DecodeFact(ctx, m.opt.Store, rec.Data)
		if err != nil {
			return nil, storeFault(fmt.Errorf("%w: session %s, fact %d: %w", store.ErrCorrupt, from.SessionID, rec.Sequence, err))
		}
		if p, ok := e.Payload.(*event.SessionCreated); ok {
			out = p.ForkedFrom
		}
		if e.Type == event.TypeThreadStarted && e.ThreadID != from.ThreadID {
			return nil, nil
		}
	}
	return out, nil
}
