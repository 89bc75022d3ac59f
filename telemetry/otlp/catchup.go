package otlp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"agentd/store"
)

// catchUpAndSchedule catches up, and returns when to do it again; nil is never.
func (e *Exporter) catchUpAndSchedule(ctx context.Context) <-chan time.Time {
	again, err := e.catchUp(ctx)
	if err != nil && ctx.Err() == nil {
		e.log.Warn("telemetry that an earlier process left can't be found", "error", err, "advice", "agentd telemetry export rebuilds it from the facts")
	}
	if again.IsZero() {
		return nil
	}
	return time.After(max(time.Until(again), e.backoff))
}

// catchUp notes what processes left that are gone. It is done before anything is
// followed; what is committed meanwhile waits. It is done again for other nodes whose
// time was not over: again is when.
func (e *Exporter) catchUp(ctx context.Context) (again time.Time, err error) {
	since, err := e.positions.firstSent(ctx, e.began)
	if err != nil {
		return again, err
	}
	if err := e.markAll(ctx, since); err != nil {
		return again, err
	}
	left, again, err := e.marks.leftovers(ctx)
	if err != nil {
		return again, err
	}
	var gone []string
	for id, keys := range left {
		if ctx.Err() != nil {
			return again, ctx.Err()
		}
		if e.hasLeftover(id) {
			continue
		}
		s, ok, err := e.positions.unsentStretch(ctx, id, since)
		if err != nil {
			return again, err
		}
		if !ok {
			gone = append(gone, keys...)
			continue
		}
		e.mu.Lock()
		e.left[id] = leftover{keys: keys, last: s.last}
		e.mu.Unlock()
		e.enqueueStretch(id, s)
	}
	return again, e.removeMarks(ctx, gone)
}

// hasLeftover reports whether the marks of a session wait for something to be sent already.
func (e *Exporter) hasLeftover(sessionID string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.left[sessionID]
	return ok
}

// leftover are marks of earlier processes: they go when everything through a fact is
// sent.
type leftover struct {
	keys []string
	last uint64
}

// markAll looks at all sessions, once in a store's life: before, they had no marks.
// Those with something to send get one, so that another end of the program before it
// is sent loses nothing.
func (e *Exporter) markAll(ctx context.Context, since time.Time) error {
	_, err := e.positions.store.Get(ctx, kindMarked, "all")
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	var ops []store.IndexOp
	for id, err := range e.positions.store.Sessions(ctx, "") {
		if err != nil || ctx.Err() != nil {
			return err
		}
		_, ok, err := e.positions.unsentStretch(ctx, id, since)
		if err != nil {
			return err
		}
		if ok {
			key := fmt.Sprintf("%s.old/%s", markName, id)
			ops = append(ops, store.IndexOp{Entry: store.Entry{Kind: kindMark, Key: key, Value: []byte(id)}})
		}
	}
	for part := range slices.Chunk(ops, marksAtOnce) {
		if err := e.positions.save(ctx, nil, part...); err != nil {
			return err
		}
	}
	return e.positions.save(ctx, nil, store.IndexOp{Entry: store.Entry{Kind: kindMarked, Key: "all"}})
}

func (e *Exporter) removeMarks(ctx context.Context, keys []string) error {
	for part := range slices.Chunk(keys, marksAtOnce) {
		if err := e.positions.save(ctx, nil, removal(part)...); err != nil {
			return err
		}
	}
	return nil
}

// recordReached notes how far a session has got, which holds once all spans before it are
// sent.
func (e *Exporter) recordReached(m marked) {
	e.mu.Lock()
	if n := len(e.queue); n > 0 {
		e.queue[n-1].marks = append(e.queue[n-1].marks, m)
	} else {
		e.reached.advance(m)
	}
	e.mu.Unlock()
	wake(e.ready)
}

// savePositions makes durable what was reached. What fails is tried again with the
// next.
func (e *Exporter) savePositions(ctx context.Context) {
	e.mu.Lock()
	r := e.reached
	e.reached = reached{}
	keys := e.settledMarks(r.settled)
	e.mu.Unlock()
	if len(r.positions) == 0 && len(keys) == 0 {
		return
	}
	first := keys[:min(len(keys), marksAtOnce)]
	err := e.positions.save(ctx, r.positions, removal(first)...)
	if err == nil {
		err = e.removeMarks(ctx, keys[len(first):])
	}
	if err != nil {
		// Marks that stay cost the next start a look, no more.
		e.log.Warn("how far telemetry has got can't be kept; some of it may be sent twice after a restart", "error", err)
		e.mu.Lock()
		r.mergeInto(&e.reached)
		e.mu.Unlock()
	}
}

// settledMarks returns the marks that can go. The lock is held.
func (e *Exporter) settledMarks(sessions map[string]uint64) []string {
	var keys []string
	for id, through := range sessions {
		if key := e.marks.settle(id, through); key != "" {
			keys = append(keys, key)
		}
		if l, ok := e.left[id]; ok && through >= l.last {
			keys = append(keys, l.keys...)
			delete(e.left, id)
		}
	}
	return keys
}

// marked is what a session has reached: a position if at is not nil, and if through
// isn't 0 everything through that fact, with nothing open.
type marked struct {
	session string
	at      *position
	through uint64
}

// reached is what can be kept.
type reached struct {
	positions map[string]position
	settled   map[string]uint64
}

// advance notes what a session has reached.
func (r *reached) advance(m marked) {
	if r.positions == nil {
		r.positions, r.settled = map[string]position{}, map[string]uint64{}
	}
	if m.at != nil {
		r.positions[m.session] = *m.at
	}
	if m.through > 0 {
		r.settled[m.session] = m.through
	}
}

// mergeInto adds what newer has nothing newer for.
func (r *reached) mergeInto(newer *reached) {
	for id, pos := range r.positions {
		if _, known := newer.positions[id]; !known {
			newer.advance(marked{session: id, at: &pos})
		}
	}
}
