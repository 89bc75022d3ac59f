package session

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"agentd/store"
)

// feedWindow has the newest changes of all sessions, as far as feeds have read them. Feeds
// that are not behind read the store once for all of them: what many feeds take of the
// machine would otherwise be missed by those who write. A feed that is behind reads by
// itself until it has caught up.
type feedWindow struct {
	mu sync.Mutex
	// begun says that a feed has caught up. start is the position before the first change.
	begun   bool
	start   string
	changes []*feedChange
	// news counts what was written while there are feeds, seen is what it was when the store
	// was read last.
	news atomic.Uint64
	seen uint64
}

const (
	// maxWindow is how many changes are kept for feeds.
	maxWindow = 256
	// Facts of a change are kept if there are at most maxSharedFacts, of maxSharedBytes.
	maxSharedFacts = 64
	maxSharedBytes = 32 << 10
	// maxLoaded is how many facts of changes are read at once, about.
	maxLoaded = 1024
)

// feedChange is a change on its way to feeds.
type feedChange struct {
	store.Change

	mu sync.Mutex
	// loaded says that the facts were read; there are none if they are large. asked says that
	// they were asked for together with those of others.
	loaded, asked bool
	facts         []store.Record
}

// changesAfter returns the changes that come next after a position, without waiting for any.
func (w *feedWindow) changesAfter(ctx context.Context, s store.Store, after string) ([]*feedChange, error) {
	if w == nil {
		return readChanges(ctx, s, after)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.begun {
		return w.begin(ctx, s, after)
	}
	i, ok := w.find(after)
	if !ok {
		now := w.news.Load()
		w.mu.Unlock()
		list, err := readChanges(ctx, s, after)
		w.mu.Lock()
		if err == nil && len(list) < maxRead { // it has caught up, and others may have to
			w.begun, w.seen, w.start, w.changes = true, now, after, slices.Clone(list)
		}
		return list, err
	}
	if i == len(w.changes) && w.seen != w.news.Load() {
		if err := w.extend(ctx, s, after); err != nil {
			return nil, err
		}
		i, _ = w.find(after)
	}
	return slices.Clone(w.changes[i:]), nil
}

// begin reads for the first feed, and has others wait for it.
func (w *feedWindow) begin(ctx context.Context, s store.Store, after string) ([]*feedChange, error) {
	now := w.news.Load()
	list, err := readChanges(ctx, s, after)
	if err == nil && len(list) < maxRead {
		w.begun, w.seen, w.start, w.changes = true, now, after, slices.Clone(list)
	}
	return list, err
}

// find returns the place of the first change after a position.
func (w *feedWindow) find(after string) (int, bool) {
	for i, c := range slices.Backward(w.changes) {
		if c.Position == after {
			return i + 1, true
		}
	}
	return 0, w.start == after
}

// extend reads what was written after the last change.
func (w *feedWindow) extend(ctx context.Context, s store.Store, last string) error {
	now := w.news.Load()
	list, err := readChanges(ctx, s, last)
	if err != nil {
		return err
	}
	if len(list) < maxRead {
		w.seen = now
	}
	w.changes = append(w.changes, list...)
	if over := len(w.changes) - len(list) - maxWindow; over > 0 {
		w.start = w.changes[over-1].Position
		w.changes = slices.Delete(w.changes, 0, over)
	}
	return nil
}

// forget drops everything: there are no feeds.
func (w *feedWindow) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun, w.changes = false, nil
}

// readChanges reads changes after a position, at most maxRead.
func readChanges(ctx context.Context, s store.Store, after string) ([]*feedChange, error) {
	var list []*feedChange
	for c, err := range s.Changes(ctx, after) {
		if err != nil {
			return nil, err
		}
		if list = append(list, &feedChange{Change: c}); len(list) == maxRead {
			break
		}
	}
	return list, nil
}

// loadFacts reads the facts of changes, in their order, with one question: with a question for
// each a feed of many sessions would be as slow as the way to the store and back, and the store
// busy with answering. Another feed that is at the same place waits, and finds them. What can't
// be read is left to who reads it by itself, and finds out why.
func loadFacts(ctx context.Context, reader store.SpanReader, changes []*feedChange) {
	var missing []*feedChange
	var spans []store.Span
	defer func() {
		for _, c := range missing {
			c.mu.Unlock()
		}
	}()
	for _, c := range changes {
		c.mu.Lock()
		if c.loaded || c.asked {
			c.mu.Unlock()
			continue
		}
		missing = append(missing, c)
		spans = append(spans, store.Span{SessionID: c.SessionID, First: c.First, Last: c.Last})
	}
	if len(spans) < 2 {
		return
	}
	read, err := reader.ReadSpans(ctx, spans)
	if err != nil {
		return
	}
	for i, c := range missing {
		c.keepFacts(read[i])
	}
}

// sharesFacts reports whether the change's facts are few enough to be kept.
func (c *feedChange) sharesFacts() bool { return c.Last-c.First+1 <= maxSharedFacts }

// wantsFacts reports whether the facts are to be read together with those of others.
func (c *feedChange) wantsFacts() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sharesFacts() && !c.loaded && !c.asked
}

// keepFacts keeps what was read together with others, if it is there and isn't too large. The
// lock is held.
func (c *feedChange) keepFacts(facts []store.Record) {
	bytes := 0
	for i := range facts {
		bytes += len(facts[i].Data)
	}
	c.asked, c.loaded = true, len(facts) > 0
	if bytes <= maxSharedBytes {
		c.facts = facts
	}
}

// sharedFacts returns the facts of a change, which the first feed reads for all; none if they
// are many, or if not all of them can be read: then each feed finds out by itself.
func (c *feedChange) sharedFacts(ctx context.Context, s store.Store) []store.Record {
	if !c.sharesFacts() {
		return nil
	}
	n := c.Last - c.First + 1
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loaded {
		return c.facts
	}
	facts, bytes := make([]store.Record, 0, n), 0
	for rec, err := range s.Read(ctx, c.SessionID, store.Range{After: c.First - 1, Before: c.Last + 1}) {
		if err != nil {
			return nil
		}
		facts = append(facts, rec)
		if bytes += len(rec.Data); bytes > maxSharedBytes {
			c.loaded = true
			return nil
		}
	}
	if uint64(len(facts)) < n {
		return nil
	}
	c.loaded, c.facts = true, facts
	return facts
}
