package work

import (
	"context"
	"maps"
	"slices"
	"time"
)

// partEvery is how often a node looks for sessions that it no longer has.
const partEvery = time.Minute

// partWithLost forgets, until the scheduler is closed, the tasks of sessions that other nodes
// have now. Nothing tells this node what becomes of them, and they would take the room of
// others for ever.
func (w *Work) partWithLost() {
	tick := time.NewTicker(partEvery)
	defer tick.Stop()
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-tick.C:
		}
		if err := w.partOnce(w.ctx); err != nil && w.ctx.Err() == nil {
			w.opt.Logger.Warn("tasks of sessions that went to other nodes could not be looked for", "error", err)
		}
	}
}

func (w *Work) partOnce(ctx context.Context) error {
	if !w.book.beginParting(w.slots.sessions()) {
		return nil
	}
	ours, err := w.m.Left(ctx)
	if err != nil {
		return err
	}
	w.book.partWith(ours, w.slots.drop)
	w.book.wake() // there may be room now
	return nil
}

// beginParting notes the sessions that tasks are known of, here and in others. It reports
// whether there are any.
func (b *book) beginParting(others []string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.silent = map[string]bool{}
	for _, id := range b.open {
		b.silent[id] = true
	}
	for _, id := range others {
		b.silent[id] = true
	}
	return len(b.silent) > 0
}

// partWith forgets the sessions that were noted and aren't this node's, except those that it
// has heard of since: they came back. It holds the lock while it calls drop, so that recovering
// such a session can't overlap with forgetting it.
func (b *book) partWith(ours []string, drop func(sessionID string)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ours {
		delete(b.silent, id)
	}
	for id := range b.silent {
		delete(b.due, id)
		delete(b.stopping, id)
		delete(b.parted, id)
		drop(id)
	}
	maps.DeleteFunc(b.open, func(taskID, sessionID string) bool {
		if b.silent[sessionID] {
			delete(b.seen, taskID)
			delete(b.unreachable, taskID)
		}
		return b.silent[sessionID]
	})
	maps.DeleteFunc(b.threads, func(_, taskID string) bool { return b.open[taskID] == "" })
	b.silent = nil
}

// sessions returns those whose tasks have room, or wait for it.
func (s *slots) sessions() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat(s.ring, slices.Collect(maps.Keys(s.perSession)))
}

// drop forgets a session: its tasks run, or wait, elsewhere.
func (s *slots) drop(sessionID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for taskID, p := range s.held {
		if p.sessionID == sessionID {
			s.release(s.held, taskID)
		}
	}
	delete(s.waiting, sessionID)
	s.ring = slices.DeleteFunc(s.ring, func(id string) bool { return id == sessionID })
}
