package session

import (
	"context"

	"agentd/store"
)

// What other nodes append to sessions that someone follows here is read once for all of
// them: while one read is under way the hints for the next one gather. Sessions that nobody
// follows are not read.

const (
	// maxHintedSpan is how much of one session is read ahead; followers that are further
	// behind read by themselves.
	maxHintedSpan = maxRead
	// maxHintedRead is how much of all sessions is read at once.
	maxHintedRead = 4096
)

// hinted are the sessions that other nodes appended to and that are to be read.
type hinted struct {
	reader store.SpanReader // nil if the store has none
	bell   chan struct{}    // capacity 1
	// last is by session how far it goes; guarded by the lock of topics.
	last map[string]uint64
}

// noteSession has a session read up to a sequence. It is false if the store can't read ahead.
// The lock of topics is held.
func (h *hinted) noteSession(id string, last uint64) bool {
	if h.reader == nil {
		return false
	}
	h.last[id] = max(h.last[id], last)
	select {
	case h.bell <- struct{}{}:
	default:
	}
	return true
}

// readHinted reads what other nodes appended, until ctx ends.
func (ts *topics) readHinted(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-ts.hinted.bell:
		}
		for spans := ts.takeHinted(); len(spans) > 0; spans = ts.takeHinted() {
			read, err := ts.hinted.reader.ReadSpans(ctx, spans)
			if err != nil {
				read = make([][]store.Record, len(spans)) // followers read by themselves, and see why
			}
			ts.publishHinted(spans, read)
		}
	}
}

// takeHinted returns what is to be read next. What is too long to be read ahead is left to
// its followers.
func (ts *topics) takeHinted() []store.Span {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	var spans []store.Span
	var facts uint64
	for id, last := range ts.hinted.last {
		if facts >= maxHintedRead {
			break
		}
		delete(ts.hinted.last, id)
		t := ts.byID[id]
		if t == nil {
			continue
		}
		have := t.end.Load().last
		switch {
		case last <= have:
		case last-have > maxHintedSpan:
			ts.reach(id, last)
		default:
			spans = append(spans, store.Span{SessionID: id, First: have + 1, Last: last})
			facts += last - have
		}
	}
	return spans
}

// publishHinted passes on what was read.
func (ts *topics) publishHinted(spans []store.Span, read [][]store.Record) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for i, s := range spans {
		t := ts.byID[s.SessionID]
		if t == nil {
			continue
		}
		if e := t.end.Load(); len(read[i]) == 0 || e.last+1 != s.First {
			ts.reach(s.SessionID, s.Last)
			continue
		}
		t.end.Store(t.end.Load().extended(read[i], ts.keep))
		ts.enlist(t)
	}
}
