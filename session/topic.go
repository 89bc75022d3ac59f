package session

import (
	"context"
	"fmt"
	"sync"

	"agentd/fault"
	"agentd/store"
)

// topics is who is to be told of new facts, by session. A topic outlives the
// writers of its session: it holds only what is durable.
type topics struct {
	keep int

	mu     sync.Mutex
	byID   map[string]*topic
	feeds  map[*Feed]struct{}
	closed bool
}

// topic is the durable end of one session.
type topic struct {
	mu   sync.Mutex
	last uint64
	// tail holds the newest records, without gaps, the last one being last.
	tail []store.Record
	subs map[*Subscription]struct{}
}

func (ts *topics) init(keep int) {
	ts.keep, ts.byID, ts.feeds = keep, map[string]*topic{}, map[*Feed]struct{}{}
}

func (ts *topics) get(id string) *topic {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.byID[id]
}

// feed tells the feeds what was published.
func (ts *topics) feed(id string, published span) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for f := range ts.feeds {
		f.mark(id, published)
	}
}

func (ts *topics) addFeed(f *Feed) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.feeds[f] = struct{}{}
}

func (ts *topics) removeFeed(f *Feed) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	delete(ts.feeds, f)
}

// publish records what became durable and wakes the subscribers. Nothing is kept
// for a session that nobody follows.
func (ts *topics) publish(id string, records []store.Record) {
	if len(records) == 0 {
		return
	}
	ts.feed(id, span{records[0].Sequence, records[len(records)-1].Sequence})
	t := ts.get(id)
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = records[len(records)-1].Sequence
	if n := len(t.tail); n > 0 && t.tail[n-1].Sequence+1 != records[0].Sequence {
		t.tail = t.tail[:0]
	}
	t.tail = append(t.tail, records...)
	if over := len(t.tail) - ts.keep; over > ts.keep {
		t.tail = append([]store.Record(nil), t.tail[over:]...)
	}
	for s := range t.subs {
		s.signal()
	}
}

// hint says that another node appended.
func (ts *topics) hint(a store.Appended) {
	t := ts.get(a.SessionID)
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = max(t.last, a.Sequence)
	for s := range t.subs {
		s.signal()
	}
}

func (ts *topics) close() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.closed = true
	for f := range ts.feeds {
		f.signal()
	}
	for _, t := range ts.byID {
		t.mu.Lock()
		for s := range t.subs {
			s.signal()
		}
		t.mu.Unlock()
	}
}

func (ts *topics) isClosed() bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.closed
}

// subscribe adds a subscriber, making the topic if it is the first.
func (ts *topics) subscribe(id string, s *Subscription) *topic {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.byID[id]
	if t == nil {
		t = &topic{subs: map[*Subscription]struct{}{}}
		ts.byID[id] = t
	}
	t.mu.Lock()
	t.subs[s] = struct{}{}
	t.mu.Unlock()
	return t
}

func (ts *topics) unsubscribe(id string, s *Subscription) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.byID[id]
	if t == nil {
		return
	}
	t.mu.Lock()
	delete(t.subs, s)
	empty := len(t.subs) == 0
	t.mu.Unlock()
	if empty {
		delete(ts.byID, id)
	}
}

// after returns records after a sequence from the tail; whether the tail reaches
// back that far; and the last durable sequence that is known.
func (t *topic) after(seq uint64, limit int) (records []store.Record, reaches bool, last uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.tail) == 0 || t.tail[0].Sequence > seq+1 {
		return nil, false, t.last
	}
	if seq >= t.tail[len(t.tail)-1].Sequence {
		return nil, t.last <= seq, t.last
	}
	rest := t.tail[seq+1-t.tail[0].Sequence:]
	if len(rest) > limit {
		rest = rest[:limit]
	}
	return append([]store.Record(nil), rest...), true, t.last
}

// Subscription follows one session from a cursor. It holds no facts: it is
// woken by a signal that carries nothing and reads the journal again, so a slow
// subscriber costs no memory and delays nobody. It is for one goroutine.
type Subscription struct {
	m     *Manager
	id    string
	topic *topic
	next  uint64 // the last sequence that was returned
	wake  chan struct{}
}

// Subscribe follows a session that exists, from the fact after the given
// sequence on.
func (m *Manager) Subscribe(ctx context.Context, sessionID string, after uint64) (*Subscription, error) {
	s := &Subscription{m: m, id: sessionID, next: after, wake: make(chan struct{}, 1)}
	s.topic = m.topics.subscribe(sessionID, s)
	head, err := m.opt.Store.Head(ctx, sessionID)
	if err == nil && head.Sequence == 0 {
		err = fault.New(fault.NotFound, "there is no session %s", sessionID)
	}
	if err != nil {
		s.Close()
		return nil, storeFault(err)
	}
	s.topic.mu.Lock()
	s.topic.last = max(s.topic.last, head.Sequence)
	s.topic.mu.Unlock()
	return s, nil
}

// maxRead bounds the records of one Next.
const maxRead = 256

// Next returns the next facts, at least one; it waits for one until ctx ends.
func (s *Subscription) Next(ctx context.Context) ([]store.Record, error) {
	for {
		records, err := s.read(ctx)
		if err != nil {
			return nil, err
		}
		if len(records) > 0 {
			s.next = records[len(records)-1].Sequence
			return records, nil
		}
		if s.m.topics.isClosed() {
			return nil, fault.New(fault.Unavailable, "the runtime is stopping")
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.wake:
		}
	}
}

// read returns what is durable after the cursor, without waiting.
func (s *Subscription) read(ctx context.Context) ([]store.Record, error) {
	records, reaches, last := s.topic.after(s.next, maxRead)
	if reaches || last <= s.next {
		return records, nil
	}
	for rec, err := range s.m.opt.Store.Read(ctx, s.id, store.Range{After: s.next, Before: last + 1, Limit: maxRead}) {
		if err != nil {
			return nil, storeFault(fmt.Errorf("session: read %s: %w", s.id, err))
		}
		records = append(records, rec)
	}
	return records, nil
}

// Close ends the subscription.
func (s *Subscription) Close() { s.m.topics.unsubscribe(s.id, s) }

func (s *Subscription) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
