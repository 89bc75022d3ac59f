package session

import (
	"context"
	"sync"

	"agentd/command"
	"agentd/fault"
	"agentd/quota"
	"agentd/store"
)

// maxBehind bounds the sessions that a feed is behind with.
const maxBehind = 1 << 16

// Feed follows all sessions that a caller may see, from its start on, also those
// that other nodes append to. Like a [Subscription] it holds no facts, only where
// it has to go on reading. It is for one goroutine.
//
// A feed that can't have every fact once and in order any more, because the store
// was out of reach, so that it isn't known what others appended, ends with an
// error instead of passing over something.
type Feed struct {
	m      *Manager
	caller command.Caller
	wake   chan struct{}

	mu sync.Mutex
	// behind maps each session with undelivered facts to their range; turn lists
	// the sessions in the order in which they fell behind.
	behind map[string]span
	turn   []string
	err    error // why the feed ended
	// usage counts the feed; nil if it is the runtime's own.
	usage *quota.Account
}

// FeedRecord is a fact of some session.
type FeedRecord struct {
	SessionID string
	store.Record
}

// SubscribeAll follows all sessions that the caller may see. Facts come in order
// within a session; those of different sessions are not ordered.
func (m *Manager) SubscribeAll(caller command.Caller) *Feed {
	f := &Feed{m: m, caller: caller, wake: make(chan struct{}, 1), behind: map[string]span{}}
	m.topics.addFeed(f)
	return f
}

// SubscribeAllAs is [Manager.SubscribeAll] for a caller among whose subscriptions the
// feed counts.
func (m *Manager) SubscribeAllAs(ctx context.Context, caller command.Caller) (*Feed, error) {
	usage, err := m.countSubscription(ctx, caller, "")
	if err != nil {
		return nil, err
	}
	f := m.SubscribeAll(caller)
	f.usage = usage
	return f, nil
}

// Close ends the feed.
func (f *Feed) Close() {
	if f.m.topics.removeFeed(f) && f.usage != nil {
		f.usage.Add(quota.Subscriptions, -1)
	}
}

// mark says that facts of a session became durable. They extend what the feed was
// told before without a gap, so that each is delivered once.
func (f *Feed) mark(sessionID string, published span) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known, ok := f.behind[sessionID]; ok {
		f.behind[sessionID] = span{known.first, published.last}
	} else {
		f.queueSession(sessionID, published)
	}
}

// queueSession puts a session in line.
func (f *Feed) queueSession(sessionID string, missing span) {
	if len(f.behind) >= maxBehind {
		f.err = fault.New(fault.RateLimited, "the subscriber is behind on more than %d sessions; subscribe again", maxBehind)
	} else {
		f.behind[sessionID] = missing
		f.turn = append(f.turn, sessionID)
	}
	f.signal()
}

// fail ends the feed.
func (f *Feed) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
	f.signal()
}

func (f *Feed) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// popSession removes the session that has waited longest.
func (f *Feed) popSession() (sessionID string, missing span, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return "", span{}, f.err
	}
	if len(f.turn) == 0 {
		return "", span{}, nil
	}
	sessionID, f.turn = f.turn[0], f.turn[1:]
	missing = f.behind[sessionID]
	delete(f.behind, sessionID)
	return sessionID, missing, nil
}

// Next returns the next facts, at least one, all of one session; it waits for
// one until ctx ends.
func (f *Feed) Next(ctx context.Context) ([]FeedRecord, error) {
	for {
		id, missing, err := f.popSession()
		if err != nil {
			return nil, err
		}
		if id != "" {
			records, err := f.read(ctx, id, missing)
			if err != nil {
				f.putBack(id, missing) // the next call returns them
				return nil, err
			}
			if len(records) > 0 {
				return records, nil
			}
			continue
		}
		if f.m.topics.closed.Load() {
			return nil, fault.New(fault.Unavailable, "the runtime is stopping")
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-f.wake:
		}
	}
}

// read returns the first of a session's missing facts, if the caller may see
// them, and puts the session in line again for the rest.
func (f *Feed) read(ctx context.Context, sessionID string, missing span) ([]FeedRecord, error) {
	if err := f.m.See(ctx, f.caller, sessionID); err != nil {
		if fault.KindOf(err) == fault.NotFound {
			return nil, nil
		}
		return nil, err
	}
	var out []FeedRecord
	for rec, err := range f.m.opt.Store.Read(ctx, sessionID, store.Range{After: missing.first - 1, Before: missing.last + 1, Limit: maxRead}) {
		if err != nil {
			return nil, behindFault(err)
		}
		out = append(out, FeedRecord{sessionID, rec})
	}
	if len(out) > 0 && out[len(out)-1].Sequence < missing.last {
		f.putBack(sessionID, span{out[len(out)-1].Sequence + 1, missing.last})
	}
	return out, nil
}

// putBack adds what is left of a session, before what was published in the meantime.
func (f *Feed) putBack(sessionID string, rest span) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if later, ok := f.behind[sessionID]; ok {
		f.behind[sessionID] = span{rest.first, later.last}
		return
	}
	f.queueSession(sessionID, rest)
}

// Output opens what is behind a reference, if the caller may see a session that
// refers to it, and returns its media type.
func (m *Manager) Output(ctx context.Context, caller command.Caller, ref string) (store.Blob, string, error) {
	missing := fault.New(fault.NotFound, "there is no output %s", clipText(ref, 100))
	if _, err := store.ParseRef(ref); err != nil {
		return nil, "", missing
	}
	for e, err := range m.opt.Store.Scan(ctx, store.Scan{Kind: kindRef, Prefix: ref + "/"}) {
		if err != nil {
			return nil, "", storeFault(err)
		}
		sessionID := e.Key[len(ref)+1:]
		switch err := m.See(ctx, caller, sessionID); {
		case fault.KindOf(err) == fault.NotFound:
			continue
		case err != nil:
			return nil, "", err
		}
		b, err := m.opt.Store.OpenBlob(ctx, ref)
		if err != nil {
			return nil, "", fault.Wrap(fault.NotFound, err, "output %s was deleted", ref)
		}
		return b, string(e.Value), nil
	}
	if err := (&request{m: m, caller: caller}).expiredFault(ctx, ref); err != nil {
		return nil, "", err
	}
	return nil, "", missing
}
