package session

import (
	"context"
	"errors"

	"agentd/command"
	"agentd/fault"
	"agentd/internal/clip"
	"agentd/quota"
	"agentd/store"
	"agentd/store/storefault"
)

// Feed follows all sessions that a caller may see, whichever node appends to them.
// Like a [Subscription] it holds no facts, only its place among the changes of the store.
// It is for one goroutine.
type Feed struct {
	m      *Manager
	caller command.Caller
	wake   chan struct{}
	// window is shared with other feeds; nil for one that isn't told of news.
	window *feedWindow

	// after is the position up to which all changes were delivered, page some of those
	// that follow it, next the sequence with which the first of them goes on.
	after string
	page  []*feedChange
	next  uint64
	// begun is the change that was delivered in part when the feed was left.
	begun feedCursor
	seal  *cursorSeal
	// usage counts the feed; nil if it is the runtime's own.
	usage *quota.Account
}

// FeedRecord is a fact of some session.
type FeedRecord struct {
	SessionID string
	store.Record
	// RemovedThrough, if not zero, says that the facts from Sequence through it were
	// removed by retention; there is no Data then.
	RemovedThrough uint64
	cursor         feedCursor
	seal           *cursorSeal
}

// Cursor returns where a feed goes on after the record.
func (r *FeedRecord) Cursor() string { return r.seal.encode(r.cursor) }

// Cursor returns where a feed goes on that begins now where this one is; before the first
// fact, where it began.
func (f *Feed) Cursor() string {
	c := feedCursor{position: f.after}
	switch {
	case f.next > 0 && len(f.page) > 0:
		c.sessionID, c.through = f.page[0].SessionID, f.next-1
	case f.begun.position == f.after:
		c = f.begun
	}
	return f.seal.encode(c)
}

// SubscribeAll follows all sessions that the caller may see, after a cursor of an
// earlier feed, or from now on if that is empty. Facts come in order within a session;
// those of different sessions come in the order of their writes, more or less.
func (m *Manager) SubscribeAll(ctx context.Context, caller command.Caller, after string) (*Feed, error) {
	f := &Feed{m: m, caller: caller, wake: make(chan struct{}, 1), window: &m.topics.window}
	m.topics.addFeed(f)
	if err := f.begin(ctx, after); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// SubscribeAllAs is [Manager.SubscribeAll] for a caller among whose subscriptions the
// feed counts.
func (m *Manager) SubscribeAllAs(ctx context.Context, caller command.Caller, after string) (*Feed, error) {
	usage, err := m.countSubscription(ctx, caller, "")
	if err != nil {
		return nil, err
	}
	f, err := m.SubscribeAll(ctx, caller, after)
	if err != nil {
		usage.Add(quota.Subscriptions, -1)
		return nil, err
	}
	f.usage = usage
	return f, nil
}

func (f *Feed) begin(ctx context.Context, after string) (err error) {
	if f.seal, err = f.m.cursors.open(ctx, f.m.opt.Store); err != nil {
		return err
	}
	if after == "" {
		if f.after, err = f.m.opt.Store.Position(ctx); err != nil {
			return storeFault(err)
		}
		return nil
	}
	return f.beginAfter(ctx, after)
}

// beginAfter goes to the place of a cursor.
func (f *Feed) beginAfter(ctx context.Context, cursor string) (err error) {
	if f.begun, err = f.seal.decode(cursor); err != nil {
		return err
	}
	f.after = f.begun.position
	return f.readPage(ctx) // finds out whether it is a position
}

// Close ends the feed.
func (f *Feed) Close() {
	if f.m.topics.removeFeed(f) && f.usage != nil {
		f.usage.Add(quota.Subscriptions, -1)
	}
}

func (f *Feed) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Next returns the next facts, at least one, all of one session; it waits for
// one until ctx ends.
func (f *Feed) Next(ctx context.Context) ([]FeedRecord, error) {
	for {
		records, left, err := f.ready(ctx)
		if err != nil || len(records) > 0 {
			return records, err
		}
		if left {
			continue
		}
		if f.m.topics.closed.Load() {
			return nil, fault.Stopping(nil)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-f.wake:
		}
	}
}

// ready returns the next facts without waiting for any, all of one session; none if the
// caller may not see them, or if nothing is left.
func (f *Feed) ready(ctx context.Context) (records []FeedRecord, left bool, err error) {
	if len(f.page) == 0 {
		if err := f.readPage(ctx); err != nil || len(f.page) == 0 {
			return nil, false, err
		}
	}
	records, err = f.deliver(ctx)
	return records, true, err
}

// readPage reads the changes that come next, without waiting for any.
func (f *Feed) readPage(ctx context.Context) (err error) {
	f.page, err = f.window.changesAfter(ctx, f.m.opt.Store, f.after)
	if errors.Is(err, store.ErrPosition) {
		return errCursor
	}
	if err != nil {
		return storeFault(err)
	}
	return nil
}

// deliver returns the first facts of the first change, if the caller may see them. If it
// fails, the next call tries again.
func (f *Feed) deliver(ctx context.Context) ([]FeedRecord, error) {
	c := f.page[0]
	first := max(c.First, f.next)
	if b := f.begun; b.sessionID == c.SessionID && b.through >= c.First && b.through <= c.Last {
		first = max(first, b.through+1)
	}
	switch err := f.m.See(ctx, f.caller, c.SessionID); {
	case first > c.Last || fault.KindOf(err) == fault.NotFound:
		f.finishChange()
		return nil, nil
	case err != nil:
		return nil, err
	}
	f.loadAhead(ctx)
	out, err := f.read(ctx, c, first)
	if err != nil {
		return nil, err
	}
	last := c.Last // of a session that was deleted meanwhile there is nothing more to come
	if n := len(out); n > 0 {
		last = max(out[n-1].Sequence, out[n-1].RemovedThrough)
	}
	if f.next = last + 1; last == c.Last {
		f.finishChange()
	}
	return out, nil
}

// loadAhead reads facts of the changes that come next, of sessions that the caller may see, from a
// store that reads many at once.
func (f *Feed) loadAhead(ctx context.Context) {
	reader, ok := f.m.opt.Store.(store.SpanReader)
	if !ok || !f.page[0].wantsFacts() {
		return
	}
	var seen []*feedChange
	facts := uint64(0)
	for _, c := range f.page {
		if facts >= maxLoaded {
			break
		}
		if c.sharesFacts() && f.m.See(ctx, f.caller, c.SessionID) == nil {
			seen = append(seen, c)
			facts += c.Last - c.First + 1
		}
	}
	loadFacts(ctx, reader, seen)
}

// finishChange goes on to the next change.
func (f *Feed) finishChange() {
	f.after, f.page, f.next = f.page[0].Position, f.page[1:], 0
}

// read returns facts of a change from a sequence on.
func (f *Feed) read(ctx context.Context, c *feedChange, first uint64) ([]FeedRecord, error) {
	var out []FeedRecord
	if facts := c.sharedFacts(ctx, f.m.opt.Store); facts != nil {
		for _, rec := range facts[first-c.First:] {
			out = append(out, FeedRecord{SessionID: c.SessionID, Record: rec, cursor: f.cursorAt(c, rec.Sequence), seal: f.seal})
		}
		return out, nil
	}
	bytes := 0
	for rec, err := range f.m.opt.Store.Read(ctx, c.SessionID, store.Range{After: first - 1, Before: c.Last + 1, Limit: maxRead}) {
		if removed, ok := errors.AsType[*store.TrimmedError](err); ok {
			through := min(removed.Through, c.Last)
			gap := FeedRecord{SessionID: c.SessionID, RemovedThrough: through, cursor: f.cursorAt(c, through), seal: f.seal}
			gap.Sequence = first
			return append(out, gap), nil
		}
		if err != nil {
			return nil, storeFault(err)
		}
		out = append(out, FeedRecord{SessionID: c.SessionID, Record: rec, cursor: f.cursorAt(c, rec.Sequence), seal: f.seal})
		if bytes += len(rec.Data); bytes >= maxReadBytes {
			break
		}
	}
	return out, nil
}

// cursorAt is the place after a fact of the first change.
func (f *Feed) cursorAt(c *feedChange, sequence uint64) feedCursor {
	if sequence >= c.Last {
		return feedCursor{position: c.Position}
	}
	return feedCursor{position: f.after, sessionID: c.SessionID, through: sequence}
}

// Output opens what is behind a reference, if the caller may see a session that
// refers to it, and returns its media type.
func (m *Manager) Output(ctx context.Context, caller command.Caller, ref string) (store.Blob, string, error) {
	missing := fault.New(fault.NotFound, "there is no output %s", clip.Text(ref, 100))
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
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nil, "", fault.Wrap(fault.NotFound, err, "output %s was deleted", ref)
		case err != nil:
			return nil, "", storefault.Reading(err)
		}
		return b, string(e.Value), nil
	}
	if err := (&request{m: m, caller: caller}).expiredFault(ctx, ref); err != nil {
		return nil, "", err
	}
	return nil, "", missing
}
