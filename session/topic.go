package session

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/quota"
	"agentd/store"
)

// topics are the subscribers to new facts, by session. A topic outlives the
// writers of its session: it holds only what is durable.
//
// A commit costs the same for a session without followers, one that one
// follows and that thousands follow: it puts the topic in line and goes on. One
// goroutine, tell, wakes the subscribers, and however many facts came in the meantime
// it wakes each once.
type topics struct {
	keep   int
	closed atomic.Bool
	// followed counts subscriptions and feeds: mostly there are none.
	followed atomic.Int64
	// begins is called when someone begins to follow.
	begins func()
	bell   chan struct{} // capacity 1

	mu   sync.Mutex
	byID map[string]*topic
	// feeds follow all sessions; behind says that there are changes for them.
	// feedList has the same feeds; it is replaced, never changed.
	feeds    map[*Feed]struct{}
	feedList []*Feed
	behind   bool
	window   feedWindow
	// line has the topics whose subscribers are to be woken, each once.
	line []*topic
	// hinted is what other nodes appended and is to be read.
	hinted hinted
}

// topic is the durable end of one session.
type topic struct {
	// Changed under the lock of topics alone.
	end    atomic.Pointer[end]
	inLine bool

	members sync.Mutex
	subs    map[*Subscription]struct{}
}

// end is what subscribers see of a topic. It is never changed, only replaced, so
// that a thousand readers don't hold up the one who publishes.
type end struct {
	last uint64
	// tail holds the newest records, without gaps, the last one being last.
	tail []store.Record
}

func (ts *topics) init(keep int) {
	ts.keep, ts.byID, ts.feeds = keep, map[string]*topic{}, map[*Feed]struct{}{}
	ts.bell = make(chan struct{}, 1)
	ts.hinted.bell, ts.hinted.last = make(chan struct{}, 1), map[string]uint64{}
	ts.begins = func() {}
}

// publish records what became durable and has the subscribers woken. Nothing is
// kept for a session without followers. A subscriber that comes afterwards finds
// the records in the store.
func (ts *topics) publish(id string, records []store.Record) {
	if len(records) == 0 || ts.followed.Load() == 0 {
		return
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.noteChange()
	if t := ts.byID[id]; t != nil {
		t.end.Store(t.end.Load().extended(records, ts.keep))
		ts.enlist(t)
	}
}

// reach says that a session goes at least to a sequence. The caller holds the lock.
func (ts *topics) reach(id string, last uint64) {
	t := ts.byID[id]
	if t == nil {
		return
	}
	if e := t.end.Load(); last > e.last {
		t.end.Store(&end{last: last, tail: e.tail})
		ts.enlist(t)
	}
}

// enlist has the subscribers of a topic woken. What they are woken for is in its
// place already.
func (ts *topics) enlist(t *topic) {
	if !t.inLine {
		t.inLine = true
		ts.line = append(ts.line, t)
		ts.ring()
	}
}

func (ts *topics) ring() {
	select {
	case ts.bell <- struct{}{}:
	default:
	}
}

// wakeSubscribers wakes the subscribers of the topics in line, until stop is closed.
func (ts *topics) wakeSubscribers(stop <-chan struct{}) {
	var line []*topic
	for {
		select {
		case <-stop:
			return
		case <-ts.bell:
		}
		line = ts.takeLine(line)
		for _, t := range line {
			t.wake()
		}
		clear(line)
		ts.wakeFeeds()
	}
}

// hint says that another node appended to a session.
func (ts *topics) hint(a store.Appended) {
	if ts.followed.Load() == 0 {
		return
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.noteChange()
	if ts.byID[a.SessionID] != nil && !ts.hinted.noteSession(a.SessionID, a.Sequence) {
		ts.reach(a.SessionID, a.Sequence)
	}
}

// noteChange has the feeds woken, if there are any. The caller holds the lock.
func (ts *topics) noteChange() {
	if len(ts.feeds) == 0 {
		return
	}
	ts.window.news.Add(1)
	if !ts.behind {
		ts.behind = true
		ts.ring()
	}
}

// wakeFeeds signals all feeds if there are changes for them. Those who publish don't wait
// for it.
func (ts *topics) wakeFeeds() {
	ts.mu.Lock()
	var feeds []*Feed
	if ts.behind {
		ts.behind, feeds = false, ts.feedList
	}
	ts.mu.Unlock()
	for _, f := range feeds {
		f.signal()
	}
}

func (ts *topics) addFeed(f *Feed) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.feeds[f] = struct{}{}
	ts.feedList = slices.Collect(maps.Keys(ts.feeds))
	ts.followed.Add(1)
	ts.begins()
}

// removeFeed is false if that was done before.
func (ts *topics) removeFeed(f *Feed) bool {
	ts.mu.Lock()
	_, ok := ts.feeds[f]
	if ok {
		delete(ts.feeds, f)
		ts.feedList = slices.Collect(maps.Keys(ts.feeds))
		ts.followed.Add(-1)
	}
	last := ok && len(ts.feeds) == 0
	ts.mu.Unlock()
	if last {
		ts.window.forget()
	}
	return ok
}

// takeLine swaps the line for an empty one. What is published from here on rings
// again.
func (ts *topics) takeLine(spare []*topic) []*topic {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	line := ts.line
	ts.line = spare[:0]
	for _, t := range line {
		t.inLine = false
	}
	return line
}

// close wakes all subscribers: there will be nothing more. It is called after tell ended.
func (ts *topics) close() {
	ts.closed.Store(true)
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for f := range ts.feeds {
		f.signal()
	}
	for _, t := range ts.byID {
		t.wake()
	}
}

// subscribe adds a subscriber, making the topic if it is the first.
func (ts *topics) subscribe(id string, s *Subscription) *topic {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.byID[id]
	if t == nil {
		t = &topic{subs: map[*Subscription]struct{}{}}
		t.end.Store(&end{})
		ts.byID[id] = t
	}
	t.members.Lock()
	t.subs[s] = struct{}{}
	t.members.Unlock()
	ts.followed.Add(1)
	ts.begins()
	return t
}

// unsubscribe removes a subscriber. It is false if that was done before.
func (ts *topics) unsubscribe(id string, s *Subscription) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.byID[id]
	if t == nil || !t.leave(s) {
		return false
	}
	ts.followed.Add(-1)
	if t.size() == 0 {
		delete(ts.byID, id)
	}
	return true
}

// leave removes a subscriber. It is false if that was done before.
func (t *topic) leave(s *Subscription) bool {
	t.members.Lock()
	defer t.members.Unlock()
	_, ok := t.subs[s]
	delete(t.subs, s)
	return ok
}

// size counts the subscribers.
func (t *topic) size() int {
	t.members.Lock()
	defer t.members.Unlock()
	return len(t.subs)
}

// wake signals all subscribers.
func (t *topic) wake() {
	t.members.Lock()
	defer t.members.Unlock()
	for s := range t.subs {
		s.signal()
	}
}

// extended returns the end with records that became durable. Readers keep what
// they have: appending writes behind it, and what is trimmed is copied.
func (e *end) extended(records []store.Record, keep int) *end {
	tail := e.tail
	if n := len(tail); n > 0 && tail[n-1].Sequence+1 != records[0].Sequence {
		tail = nil
	}
	if len(tail)+len(records) > 2*keep {
		tail = append(make([]store.Record, 0, 2*keep), tail[max(0, len(tail)-keep):]...)
	}
	return &end{last: records[len(records)-1].Sequence, tail: append(tail, records...)}
}

// after returns records after a sequence from the tail; whether the tail reaches
// back that far; and the last durable sequence that is known.
func (e *end) after(seq uint64, limit int) (records []store.Record, reaches bool, last uint64) {
	if len(e.tail) == 0 || e.tail[0].Sequence > seq+1 {
		return nil, false, e.last
	}
	if seq >= e.tail[len(e.tail)-1].Sequence {
		return nil, e.last <= seq, e.last
	}
	rest := e.tail[seq+1-e.tail[0].Sequence:]
	n := min(len(rest), limit)
	return rest[:n:n], true, e.last
}

// Subscription follows one session from a cursor. It holds no facts: it is
// woken by a signal that carries nothing and reads the journal again, so a slow
// subscriber costs no memory and delays no one. It is for one goroutine.
type Subscription struct {
	m     *Manager
	id    string
	topic *topic
	next  uint64 // the last sequence that was returned
	wake  chan struct{}
	// usage counts the subscription; nil if it is the runtime's own.
	usage *quota.Account
}

// SubscribeAs is [Manager.Subscribe] for a caller who may see the session: the
// subscription counts among those of its account.
func (m *Manager) SubscribeAs(ctx context.Context, caller command.Caller, sessionID string, after uint64) (*Subscription, error) {
	if err := m.See(ctx, caller, sessionID); err != nil {
		return nil, err
	}
	usage, err := m.countSubscription(ctx, caller, sessionID)
	if err != nil {
		return nil, err
	}
	s, err := m.Subscribe(ctx, sessionID, after)
	if err != nil {
		usage.Add(quota.Subscriptions, -1)
		return nil, err
	}
	s.usage = usage
	return s, nil
}

// Subscribe follows a session that exists, from the fact after the given
// sequence on.
func (m *Manager) Subscribe(ctx context.Context, sessionID string, after uint64) (*Subscription, error) {
	s := &Subscription{m: m, id: sessionID, next: after, wake: make(chan struct{}, 1)}
	s.topic = m.topics.subscribe(sessionID, s)
	last, begun, err := m.durableEnd(ctx, sessionID)
	if err == nil && last == 0 && sessionID != event.RuntimeSession {
		err = noSession(sessionID)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	m.topics.mu.Lock()
	defer m.topics.mu.Unlock()
	if e := s.topic.end.Load(); e.last == 0 {
		s.topic.end.Store(&end{tail: begun})
	}
	m.topics.reach(sessionID, last)
	return s, nil
}

// Bounds of what one Next reads from the store: many slow subscribers hold as
// much each.
const (
	maxRead = 256
	// maxReadBytes may be exceeded by the last record.
	maxReadBytes = 128 << 10
)

// Next returns the next facts, at least one; it waits for one until ctx ends. The
// records are shared with other subscribers and must not be changed.
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
		if s.m.topics.closed.Load() {
			return nil, fault.Stopping(nil)
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
	records, reaches, last := s.topic.end.Load().after(s.next, maxRead)
	if reaches || last <= s.next {
		return records, nil
	}
	return s.readStore(ctx, last)
}

// readStore returns what the store has after the cursor, up to a sequence.
func (s *Subscription) readStore(ctx context.Context, last uint64) ([]store.Record, error) {
	if last >= s.next+maxRead {
		ctx = store.OnReplica(ctx, s.m.opt.Store)
	}
	var records []store.Record
	bytes := 0
	for rec, err := range s.m.opt.Store.Read(ctx, s.id, store.Range{After: s.next, Before: last + 1, Limit: maxRead}) {
		if err != nil {
			return nil, behindFault(fmt.Errorf("session: read %s: %w", s.id, err))
		}
		records = append(records, rec)
		if bytes += len(rec.Data); bytes >= maxReadBytes {
			break
		}
	}
	return records, nil
}

// Close ends the subscription.
func (s *Subscription) Close() {
	if s.m.topics.unsubscribe(s.id, s) && s.usage != nil {
		s.usage.Add(quota.Subscriptions, -1)
	}
}

func (s *Subscription) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
