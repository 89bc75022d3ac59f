package main

import (
	"context"
	"fmt"

	"agentd/event"
	"agentd/store"
	"agentd/telemetry"
)

// maxFollowed bounds the sessions whose open work is kept in memory; one that
// comes back is read again from its beginning.
const maxFollowed = 1024

// followPage is how many facts are read at once.
const followPage = 256

// stretch is a range of sequences that this process wrote, both ends included.
type stretch struct{ first, last uint64 }

// followed is a session's projection.
type followed struct {
	projector *telemetry.Projector
	// next is the sequence that was not read yet.
	next uint64
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
}

// session returns the projection of a session.
func (f *projection) session(id string) *followed {
	s := f.sessions[id]
	if s == nil {
		if len(f.sessions) >= maxFollowed {
			f.evict()
		}
		s = &followed{projector: telemetry.New(id, f.options...), next: 1}
		f.sessions[id] = s
	}
	f.uses++
	s.used = f.uses
	return s
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
	delete(f.sessions, oldest)
}

// read projects a stretch of a session. What is before it and was not read yet is
// looked at for the work that it left open, but gives nothing: it is the telemetry
// of an earlier process or of another node.
func (f *projection) read(ctx context.Context, id string, s stretch, yield func(telemetry.Output)) error {
	x := f.session(id)
	for x.next <= s.last {
		n, err := f.page(ctx, id, x, s, yield)
		if err != nil {
			delete(f.sessions, id) // it is read again from the beginning
			return err
		}
		if n == 0 {
			x.next = s.last + 1 // retention removed the rest
		}
	}
	return nil
}

func (f *projection) page(ctx context.Context, id string, x *followed, s stretch, yield func(telemetry.Output)) (n int, err error) {
	for rec, err := range f.store.Read(ctx, id, store.Range{After: x.next - 1, Before: s.last + 1, Limit: followPage}) {
		if err != nil {
			return n, fmt.Errorf("read session %s: %w", id, err)
		}
		n++
		x.next = rec.Sequence + 1
		out, err := project(x.projector, rec.Data)
		if err != nil {
			continue // a fact of a type that this version doesn't know
		}
		if rec.Sequence >= s.first {
			yield(out)
		}
	}
	return n, nil
}

// project decodes and projects a fact. Those that telemetry shows nothing of, which
// are most of them, are not decoded.
func project(p *telemetry.Projector, data []byte) (telemetry.Output, error) {
	var head event.Event
	if _, err := event.DecodeHeader(data, &head); err != nil {
		return telemetry.Output{}, err
	}
	if !telemetry.Shows(head.Type) {
		return telemetry.Output{}, nil
	}
	e, err := event.Decode(data)
	if err != nil {
		return telemetry.Output{}, err
	}
	return p.Apply(e), nil
}
