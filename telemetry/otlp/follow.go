package otlp

import (
	"context"
	"errors"
	"fmt"

	"agentd/store"
	"agentd/telemetry"
)

// maxFollowed bounds the sessions whose open work is kept in memory; one that
// comes back is read again from its beginning.
const maxFollowed = 1024

// followPage is how many facts are read at once.
const followPage = 256

// stretch is a range of sequences that is to be read, both ends included. From own on
// this process wrote them; 0 says that it wrote none.
type stretch struct{ first, last, own uint64 }

// join is what two stretches cover together.
func (s stretch) join(t stretch) stretch {
	j := stretch{first: min(s.first, t.first), last: max(s.last, t.last), own: s.own}
	if t.own > 0 && (j.own == 0 || t.own < j.own) {
		j.own = t.own
	}
	return j
}

// markEvery is how many facts without a span are read before a position is kept
// all the same.
const markEvery = 1000

// followed is a session's projection.
type followed struct {
	projector *telemetry.Projector
	// next is the sequence that was not read yet; what is not after sent was given to
	// the collector by an earlier process, or by this one.
	next, sent uint64
	// marked is the newest position that was told; idle and wasIdle are the two newest
	// facts after which nothing was open.
	marked, idle, wasIdle uint64
	// used orders sessions by their last use.
	used uint64
}

// projection reads what was committed and projects it. It is for one goroutine.
type projection struct {
	store store.Store
	// options are those of the projectors.
	options  []telemetry.Option
	sessions map[string]*followed
	uses     uint64
	// position is where an earlier process got to; nil if that isn't known.
	position func(ctx context.Context, sessionID string) (position, bool, error)
	// left is how far sessions were read that were forgotten since.
	left map[string]uint64
}

// maxLeft bounds the forgotten sessions that are remembered.
const maxLeft = 1 << 16

// session returns the projection of a session.
func (f *projection) session(ctx context.Context, id string, first uint64) (*followed, error) {
	s := f.sessions[id]
	if s == nil {
		if len(f.sessions) >= maxFollowed {
			f.evict()
		}
		s = &followed{projector: telemetry.New(id, f.options...), next: 1, sent: first - 1}
		if err := f.resume(ctx, id, s); err != nil {
			return nil, err
		}
		f.sessions[id] = s
	}
	f.uses++
	s.used = f.uses
	return s, nil
}

// resume finds where a session that isn't in memory goes on.
func (f *projection) resume(ctx context.Context, id string, s *followed) error {
	if f.position != nil {
		pos, ok, err := f.position(ctx, id)
		if err != nil {
			return err
		}
		if ok {
			s.next, s.sent, s.marked, s.idle, s.wasIdle = pos.From+1, pos.Sent, pos.Sent, pos.From, pos.From
		}
	}
	s.sent = max(s.sent, f.left[id])
	delete(f.left, id)
	return nil
}

// forget takes a session out of memory.
func (f *projection) forget(id string) {
	if f.left == nil || len(f.left) >= maxLeft {
		f.left = map[string]uint64{} // some of it may be sent twice
	}
	f.left[id] = f.sessions[id].next - 1
	delete(f.sessions, id)
}

// evict forgets the session that was not used for longest, if possible one without
// open work.
func (f *projection) evict() {
	oldest := ""
	better := func(a, b *followed) bool {
		if idle := a.projector.Open() == 0; idle != (b.projector.Open() == 0) {
			return idle
		}
		return a.used < b.used
	}
	for id, s := range f.sessions {
		if oldest == "" || better(s, f.sessions[oldest]) {
			oldest = id
		}
	}
	f.forget(oldest)
}

// read projects a stretch of a session. What is before it and was not read yet is
// looked at for the work that it left open, but gives nothing. It returns how far the
// session's telemetry has got.
func (f *projection) read(ctx context.Context, id string, s stretch, yield func(out telemetry.Output, own bool)) (marked, error) {
	x, err := f.session(ctx, id, s.first)
	if err != nil {
		return marked{}, err
	}
	gave := false
	for x.next <= s.last {
		n, err := f.readPage(ctx, id, x, s, func(out telemetry.Output, own bool) {
			gave = gave || len(out.Spans) > 0
			yield(out, own)
		})
		if err != nil {
			f.forget(id) // what follows is read again
			return marked{}, err
		}
		if n == 0 {
			x.next = s.last + 1 // retention removed the rest
		}
	}
	x.sent = max(x.sent, x.next-1)
	m := marked{session: id, at: x.advanceMark(gave)}
	if x.projector.Idle() {
		m.through = x.sent
	}
	return m, nil
}

// advanceMark returns the position that is reached, if something was given out or it is far
// from the last one.
func (x *followed) advanceMark(gave bool) *position {
	if at := x.next - 1; x.projector.Idle() && at > x.idle {
		x.wasIdle, x.idle = x.idle, at
	}
	if !gave && x.sent < x.marked+markEvery {
		return nil
	}
	x.marked = x.sent
	return &position{Sent: x.sent, From: x.wasIdle}
}

// readPage projects the next facts of a stretch and returns how many there were.
func (f *projection) readPage(ctx context.Context, id string, x *followed, s stretch, yield func(telemetry.Output, bool)) (n int, err error) {
	for rec, err := range f.store.Read(ctx, id, store.Range{After: x.next - 1, Before: s.last + 1, Limit: followPage}) {
		if removed, ok := errors.AsType[*store.TrimmedError](err); ok && removed.Through >= x.next {
			x.next = removed.Through + 1
			return f.readPage(ctx, id, x, s, yield)
		}
		if err != nil {
			return n, fmt.Errorf("read session %s: %w", id, err)
		}
		n++
		x.next = rec.Sequence + 1
		out, err := x.projector.ApplyEncoded(rec.Data)
		if err != nil {
			continue // a fact of a type that this version doesn't know
		}
		if rec.Sequence > x.sent {
			yield(out, s.own > 0 && rec.Sequence >= s.own)
		}
	}
	return n, nil
}
