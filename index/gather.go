package index

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentd/event"
	"agentd/fault"
	"agentd/store"
)

// kindBuilt: projection name and session id → the sequence through which the build
// folded the session, until the changes that were written meanwhile are past.
const kindBuilt = "index_built"

// gathered is a batch of facts, and where the projections are after it.
type gathered struct {
	facts []Fact
	next  progress
	// ops are changes to the entries of kindBuilt; their keys are session ids.
	ops []store.IndexOp
	// unchanged says that there is nothing to fold, ended that nothing more was durable.
	unchanged, ended bool
	// read counts the facts that a build looked at.
	read int
}

// count is how much of a batch is used up: sessions count too, however short they are.
func (b *gathered) count() int { return b.read + len(b.ops) }

// span is a part of a session.
type span struct {
	sessionID   string
	first, last uint64
}

// gather reads the next facts of a track.
func (x *Indexer) gather(ctx context.Context, t *track) (*gathered, error) {
	if t.at.Build != nil {
		return x.gatherBuild(ctx, t)
	}
	b := &gathered{next: progress{Position: t.at.Position, Overlap: t.at.Overlap}}
	spans, ended, err := x.changedSpans(ctx, b)
	if err != nil {
		return nil, err
	}
	if t.at.Overlap {
		if err := x.leaveOverlap(ctx, t, b, spans, ended); err != nil {
			return nil, err
		}
	} else if len(spans) == 0 {
		b.unchanged = true
		return b, nil
	}
	b.ended = ended && !b.next.Overlap
	return b, x.readSpans(ctx, b, spans)
}

// maxSpanRead is how many facts are read at once.
const maxSpanRead = 2048

// readSpans appends the facts of parts of sessions. What this process wrote is in memory;
// the rest is read in as few questions as the store allows.
func (x *Indexer) readSpans(ctx context.Context, b *gathered, spans []*span) error {
	reader, ok := x.opt.Store.(store.SpanReader)
	var cold []*span
	var wanted []store.Span
	count := uint64(0)
	for _, s := range spans {
		if !ok || s.first > s.last || s.last-s.first >= maxSpanRead || x.hot.has(s) {
			if err := x.readSpan(ctx, b, s); err != nil {
				return err
			}
			continue
		}
		cold, wanted = append(cold, s), append(wanted, store.Span{SessionID: s.sessionID, First: s.first, Last: s.last})
		if count += s.last - s.first + 1; count >= maxSpanRead {
			if err := x.readCold(ctx, b, reader, cold, wanted); err != nil {
				return err
			}
			cold, wanted, count = nil, nil, 0
		}
	}
	return x.readCold(ctx, b, reader, cold, wanted)
}

func (x *Indexer) readCold(ctx context.Context, b *gathered, reader store.SpanReader, spans []*span, wanted []store.Span) error {
	if len(spans) == 0 {
		return nil
	}
	read, err := reader.ReadSpans(ctx, wanted)
	if err != nil {
		return err
	}
	for i, s := range spans {
		if read[i] == nil {
			if err := x.readSpan(ctx, b, s); err != nil {
				return err
			}
			continue
		}
		if first := read[i][0]; first.Sequence == 1 {
			if e, err := event.Decode(first.Data); err == nil && !e.IsCut() {
				x.noteOwner(s.sessionID, e.Payload)
			}
		}
		owner, err := x.owner(ctx, s.sessionID)
		deleted := fault.KindOf(err) == fault.NotFound
		if err != nil && !deleted {
			return err
		}
		for _, rec := range read[i] {
			x.addRecord(b, s, rec, owner, deleted)
		}
	}
	return nil
}

// changedSpans reads the changes that come next, those of one session joined, moves the
// position behind them, and reports whether they were all.
func (x *Indexer) changedSpans(ctx context.Context, b *gathered) (spans []*span, ended bool, err error) {
	bySession := map[string]*span{}
	count := 0
	for c, err := range x.opt.Store.Changes(ctx, b.next.Position) {
		if err != nil {
			return nil, false, err
		}
		b.next.Position = c.Position
		if s := bySession[c.SessionID]; s != nil {
			s.last = c.Last
		} else {
			s = &span{c.SessionID, c.First, c.Last}
			bySession[c.SessionID] = s
			spans = append(spans, s)
		}
		if count += int(c.Last - c.First + 1); count >= x.opt.MaxFacts {
			return spans, false, nil
		}
	}
	return spans, true, nil
}

// leaveOverlap takes out of the spans what the build has folded, and ends the overlap
// when all changes that the build may have seen are past.
func (x *Indexer) leaveOverlap(ctx context.Context, t *track, b *gathered, spans []*span, ended bool) error {
	name := t.projections[0].Name() // those of a track were built together
	for _, s := range spans {
		v, err := x.opt.Store.Get(ctx, kindBuilt, name+"/"+s.sessionID)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if len(v) != 8 {
			return fmt.Errorf("%w: index entry %s %s/%s", store.ErrCorrupt, kindBuilt, name, s.sessionID)
		}
		s.first = max(s.first, binary.BigEndian.Uint64(v)+1)
	}
	if !ended {
		return nil
	}
	for e, err := range x.opt.Store.Scan(ctx, store.Scan{Kind: kindBuilt, Prefix: name + "/", Limit: removedAtOnce}) {
		if err != nil {
			return err
		}
		b.ops = append(b.ops, store.IndexOp{Entry: store.Entry{Key: strings.TrimPrefix(e.Key, name+"/")}, Delete: true})
	}
	b.next.Overlap = len(b.ops) == removedAtOnce
	return nil
}

// gatherBuild reads facts of the sessions that were there when the build began. What
// is appended to them meanwhile is folded too, as far as it is seen, and is left out
// when the changes are followed.
func (x *Indexer) gatherBuild(ctx context.Context, t *track) (*gathered, error) {
	at := *t.at.Build
	b := &gathered{next: progress{Position: t.at.Position}}
	if at.Session != "" {
		whole, err := x.buildSession(ctx, b, &at)
		if err != nil || !whole {
			return b, err
		}
	}
	for id, err := range x.opt.Store.Sessions(ctx, at.After) {
		if err != nil {
			return nil, err
		}
		at.Session, at.Through = id, 0
		whole, err := x.buildSession(ctx, b, &at)
		if err != nil || !whole {
			return b, err
		}
	}
	b.next.Build, b.next.Overlap = nil, true
	return b, nil
}

// buildSession reads facts of one session, and reports whether there is room for more.
func (x *Indexer) buildSession(ctx context.Context, b *gathered, at *build) (more bool, err error) {
	head, err := x.opt.Store.Head(ctx, at.Session)
	if err != nil {
		return false, err
	}
	last := min(head.Sequence, at.Through+uint64(max(x.opt.MaxFacts-b.count(), 1)))
	if err := x.readSpan(ctx, b, &span{at.Session, at.Through + 1, last}); err != nil {
		return false, err
	}
	b.read += int(last - at.Through)
	b.ops = append(b.ops, store.IndexOp{Entry: store.Entry{Key: at.Session, Value: binary.BigEndian.AppendUint64(nil, last)}})
	if at.Through = last; last == head.Sequence {
		at.After, at.Session, at.Through = at.Session, "", 0
	}
	b.next.Build = &build{at.After, at.Session, at.Through}
	return b.count() < x.opt.MaxFacts, nil
}

// readSpan appends the facts of a part of a session. Those that were removed are left out.
func (x *Indexer) readSpan(ctx context.Context, b *gathered, s *span) error {
	if s.first > s.last {
		return nil
	}
	facts, hot := x.hot.takeSpan(s)
	if len(facts) > 0 {
		x.noteOwner(s.sessionID, facts[0].Payload)
	}
	owner, err := x.owner(ctx, s.sessionID)
	deleted := fault.KindOf(err) == fault.NotFound
	if err != nil && !deleted {
		return err
	}
	if hot {
		b.facts = slices.Grow(b.facts, len(facts))
		for i := range facts {
			if !deleted || facts[i].Type == event.TypeSessionDeleted {
				b.facts = append(b.facts, Fact{SessionID: s.sessionID, Account: owner.Account, Workspace: owner.Workspace, Event: &facts[i]})
			}
		}
		return nil
	}
	for after := s.first - 1; after < s.last; {
		removed, err := x.readRecords(ctx, b, s, after, owner, deleted)
		if err != nil || removed <= after {
			return err
		}
		after = removed
	}
	return nil
}

// readRecords appends facts after a sequence. If there are removed ones in the way it
// returns the last of these.
func (x *Indexer) readRecords(ctx context.Context, b *gathered, s *span, after uint64, owner Owner, deleted bool) (removed uint64, err error) {
	for rec, err := range x.opt.Store.Read(ctx, s.sessionID, store.Range{After: after, Before: s.last + 1}) {
		if gone, ok := errors.AsType[*store.TrimmedError](err); ok {
			return gone.Through, nil
		}
		if errors.Is(err, store.ErrCorrupt) {
			x.opt.Logger.Warn("damaged facts are not in the index; run agentd verify", "sessionId", s.sessionID, "error", err)
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		x.addRecord(b, s, rec, owner, deleted)
	}
	return 0, nil
}

// addRecord appends a fact, if a projection wants to know it.
func (x *Indexer) addRecord(b *gathered, s *span, rec store.Record, owner Owner, deleted bool) {
	t := typeOf(rec.Data)
	if !x.types[t] || (deleted && t != event.TypeSessionDeleted) {
		return
	}
	e, err := event.Decode(rec.Data)
	if err != nil {
		x.opt.Logger.Warn("a fact is not in the index: it can't be decoded; run agentd verify", "sessionId", s.sessionID, "sequence", rec.Sequence, "error", err)
		return
	}
	short := EventOf(e)
	b.facts = append(b.facts, Fact{SessionID: s.sessionID, Account: owner.Account, Workspace: owner.Workspace, Event: &short})
}

// typeOf returns the type of a stored fact without decoding it.
func typeOf(data []byte) event.Type {
	if rest, ok := bytes.CutPrefix(data, []byte(`{"type":"`)); ok {
		if name, _, ok := bytes.Cut(rest, []byte(`"`)); ok {
			return event.Type(name)
		}
	}
	var e event.Event
	if _, err := event.DecodeHeader(data, &e); err != nil {
		return ""
	}
	return e.Type
}

// maxOwners is how many owners of sessions are remembered.
const maxOwners = 1 << 16

func (x *Indexer) owner(ctx context.Context, sessionID string) (Owner, error) {
	if o, ok := x.owners[sessionID]; ok {
		return o, nil
	}
	if sessionID == event.RuntimeSession {
		return Owner{}, nil
	}
	o, err := x.opt.Owner(ctx, sessionID)
	if err != nil {
		return Owner{}, err
	}
	x.keepOwner(sessionID, o)
	return o, nil
}

// noteOwner keeps the owner that a session's first fact names, so that the store isn't asked
// for what was just written or read.
func (x *Indexer) noteOwner(sessionID string, first event.Payload) {
	created, ok := first.(*event.SessionCreated)
	if !ok {
		return
	}
	o := Owner{Account: created.Account}
	if created.Workspace != nil {
		o.Workspace = created.Workspace.Root
	}
	x.keepOwner(sessionID, o)
}

func (x *Indexer) keepOwner(sessionID string, o Owner) {
	if len(x.owners) >= maxOwners {
		clear(x.owners)
	}
	x.owners[sessionID] = o
}
