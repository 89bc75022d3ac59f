package session

import (
	"agentd/fault"
	"agentd/store"
)

// news is what the feeds still have to get: for each session the facts that came
// since the last delivery. It is guarded by the lock of topics.
//
// A commit adds to it, whatever the number of feeds; the goroutine that
// wakes subscribers tells the feeds.
type news struct {
	feeds map[*Feed]struct{}
	// ranges has the facts, order the sessions as they came.
	ranges map[string]span
	order  []string
	// told is what the feeds got of each session lately. It joins what this
	// node appends to what it hears of other nodes: each fact is delivered once and in
	// order, whichever way it was heard of first.
	told recent[span]
}

// span is a range of sequences, both ends included.
type span struct{ first, last uint64 }

// errMissed ends feeds of which it can't be said that they have everything.
var errMissed = fault.New(fault.Unavailable, "events that other nodes appended may be missing from this stream: subscribe again")

func (n *news) init() {
	n.feeds, n.ranges = map[*Feed]struct{}{}, map[string]span{}
	n.told.keep = maxBehind
}

// add has the feeds told of facts. A range whose first is 0 is one of which only
// the end is known. It is false if nothing more can be delivered: facts came whose
// place is behind others that were already delivered, or whose beginning isn't known.
func (n *news) add(id string, came span) bool {
	told, known := n.told.get(id)
	switch {
	case known && came.first > 0 && came.first < told.first, !known && came.first == 0:
		return false
	case known && came.last <= told.last:
		return true
	case known:
		came.first = told.last + 1
		told.last = came.last
	default:
		told = came
	}
	n.told.put(id, told)
	if waits, ok := n.ranges[id]; ok {
		came.first = waits.first
	} else {
		n.order = append(n.order, id)
	}
	n.ranges[id] = came
	return true
}

// noteFacts adds facts to the news, if anybody follows all sessions. The caller holds
// the lock.
func (ts *topics) noteFacts(id string, came span) {
	n := &ts.news
	if len(n.feeds) == 0 {
		return
	}
	if len(n.order) >= maxBehind || !n.add(id, came) {
		for f := range n.feeds {
			f.fail(errMissed)
		}
		ts.followed.Add(-int64(len(n.feeds)))
		clear(n.feeds)
		n.forget()
		return
	}
	ts.ring()
}

// forget drops what was to be delivered, and what was.
func (n *news) forget() {
	clear(n.ranges)
	n.order = nil
	n.told.clear()
}

// hint says that another node appended to a session.
func (ts *topics) hint(a store.Appended) {
	if ts.followed.Load() == 0 {
		return
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.noteFacts(a.SessionID, span{a.First, a.Sequence})
	ts.reach(a.SessionID, a.Sequence)
}

func (ts *topics) addFeed(f *Feed) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.news.feeds[f] = struct{}{}
	ts.followed.Add(1)
}

func (ts *topics) removeFeed(f *Feed) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if _, ok := ts.news.feeds[f]; !ok {
		return false
	}
	delete(ts.news.feeds, f)
	ts.followed.Add(-1)
	if len(ts.news.feeds) == 0 {
		ts.news.forget() // what happens without followers isn't delivered either
	}
	return true
}

// tellFeeds tells each feed what there is, until there is nothing.
func (ts *topics) tellFeeds() {
	for {
		id, came, feeds := ts.takeNews()
		if id == "" {
			return
		}
		for _, f := range feeds {
			f.mark(id, came)
		}
	}
}

// takeNews removes the news of the session that has waited longest, and returns
// whom to tell.
func (ts *topics) takeNews() (id string, came span, feeds []*Feed) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	n := &ts.news
	if len(n.order) == 0 {
		return "", span{}, nil
	}
	id, n.order = n.order[0], n.order[1:]
	came = n.ranges[id]
	delete(n.ranges, id)
	feeds = make([]*Feed, 0, len(n.feeds))
	for f := range n.feeds {
		feeds = append(feeds, f)
	}
	return id, came, feeds
}
