package session

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"agentd/event"
	"agentd/store"
)

// maxGroup bounds the batches of one commit, so that the first of many waiters
// doesn't wait for the encoding of all the others.
const maxGroup = 1024

// journal commits the batches of many sessions together.
//
// There is no committing goroutine. Whoever enqueues while nobody leads becomes
// the leader: it commits everything that is queued, again and again until its own
// batch is done, and then hands over to the first who waits. With one session
// that is a plain call into the store; with many, a group grows while the group
// before is being made durable.
type journal struct {
	store     store.Store
	published func(*pending)

	tally tally

	// lastGroup is the size of the group before; it belongs to the leader.
	lastGroup int

	mu      sync.Mutex
	queue   []*pending
	leading bool
}

// pending is a batch on its way to the store.
type pending struct {
	batch store.Batch
	facts []event.Event
	// Most batches have one fact: it lives here, in one allocation with the rest.
	oneFact   [1]event.Event
	oneRecord [1]store.Record
	err       error
	done      bool
	// wake gets true when the waiter is to lead, false when its batch is done.
	wake chan bool
	// settled is closed once the outcome is known; it is made when somebody else
	// than the waiter wants to know, and guarded by the writer's lock, as is known.
	settled chan struct{}
	known   bool
}

// wakes keeps channels for reuse: each gets at most one value, which is received.
var wakes = sync.Pool{New: func() any { return make(chan bool, 1) }}

func newJournal(s store.Store, published func(*pending)) *journal {
	return &journal{store: s, published: published}
}

// enqueue adds a batch. Batches of one session are committed in the order in
// which they were enqueued. The caller must call finish with the result.
func (j *journal) enqueue(p *pending) (lead bool) {
	p.wake = wakes.Get().(chan bool)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.queue = append(j.queue, p)
	if j.leading {
		return false
	}
	j.leading = true
	return true
}

// finish returns when the batch is durable or has failed.
func (j *journal) finish(p *pending, lead bool) error {
	if !lead {
		lead = <-p.wake
	}
	if lead {
		j.lead(p)
	}
	wakes.Put(p.wake)
	return p.err
}

func (j *journal) lead(own *pending) {
	for !own.done {
		j.gather()
		group := j.take()
		j.lastGroup = len(group)
		// Neighbours in the store are written next to each other, which is cheaper.
		// The sort is stable: a session's batches stay in order.
		slices.SortStableFunc(group, func(a, b *pending) int { return strings.Compare(a.batch.SessionID, b.batch.SessionID) })
		batches := make([]*store.Batch, len(group))
		for i, p := range group {
			batches[i] = &p.batch
		}
		// A commit that began is not given up: its outcome must be known.
		began := time.Now()
		errs := j.store.Append(context.Background(), batches)
		took := time.Since(began)
		for i, p := range group {
			p.err, p.done = errs[i], true
			if p.err == nil {
				j.published(p)
			}
		}
		j.tally.committed(group, took)
		for _, p := range group {
			if p != own {
				p.wake <- false
			}
		}
	}
	j.handOver()
}

// gather lets others run for a moment while fewer than half as many wait as were
// in the group before: most of those who were just answered come back at once,
// and one commit for all of them is cheaper than two. With one session nobody
// else is expected, and nothing is waited for.
func (j *journal) gather() {
	const turns = 32
	for range turns {
		if 2*j.waiting() >= j.lastGroup {
			return
		}
		runtime.Gosched()
	}
}

// take removes the next group from the queue.
func (j *journal) take() []*pending {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.queue) <= maxGroup {
		group := j.queue
		j.queue = nil
		return group
	}
	group := j.queue[:maxGroup:maxGroup]
	j.queue = j.queue[maxGroup:]
	return group
}

func (j *journal) handOver() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.queue) == 0 {
		j.leading = false
		return
	}
	j.queue[0].wake <- true
}
