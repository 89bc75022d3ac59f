package session

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"agentd/admission"
	"agentd/event"
	"agentd/store"
)

// maxGroup bounds the batches of one commit, so that the first of many waiters
// doesn't wait for the encoding of all the others.
const maxGroup = 1024

// runtimeAccount stands for the account of the runtime's own session, which has none.
const runtimeAccount = "\x00runtime"

// journal commits the batches of many sessions together.
//
// There is no committing goroutine. A caller that enqueues while there is no leader becomes
// the leader: it commits everything that is queued, again and again until its own
// batch is done, and then hands over to the first who waits. With one session
// that is a plain call into the store; with many, a group grows while the group
// before is being made durable.
//
// A batch that no caller waits for makes no caller the leader: it goes with the next group,
// or by itself if none comes soon.
type journal struct {
	store     store.Store
	published func(*pending)
	// settled is called for each batch once the store has taken or refused it.
	settled func(*store.Batch)
	// gate is told how long writes take.
	gate *admission.Gate
	// lag is how late the last one that was sampled went on after its group was durable.
	lag atomic.Int64

	tally tally
	spare sync.Pool // of *pending
	rooms sync.Pool // of *room

	// What belongs to the leader: how long the last commit took, and scratch.
	lastTook time.Duration
	group    []*pending
	batches  []*store.Batch
	// quantum bounds what one account has in a group, taken counts it.
	quantum *admission.Quantum
	taken   map[string]int

	gathering gathering

	mu      sync.Mutex
	queue   []*pending
	leading bool
	// enough is how many have to wait until the leader that gathers is told; 0 if none does.
	enough int
	// armed says that straggler will commit batches that no caller waits for, hurried
	// that a caller waits for them after all.
	armed     bool
	hurried   bool
	straggler *time.Timer
	flushing  sync.WaitGroup
}

// lingers is how long a batch that no caller waits for may stay in the queue.
const lingers = time.Millisecond

// pending is a batch on its way to the store. It is used again: it is large, and
// one for each fact would be half of what the collector has to do.
type pending struct {
	batch store.Batch
	facts []event.Event
	// room is where the facts lie.
	room *room
	// Most batches have one fact: its record lives here, in one allocation with the rest.
	oneRecord [1]store.Record
	err       error
	done      bool
	// wake gets true when the waiter is to lead, false when its batch is done.
	wake chan bool
	// settled is closed once the outcome is known; it is made when another goroutine
	// than the waiter wants to know, and guarded by the writer's lock, as is known.
	settled chan struct{}
	known   bool
	// unattended says that no caller waits: the journal closes settled by itself, after
	// it has called after.
	unattended bool
	after      func()
	// charge is what the batch adds to the use of an account.
	charge charge
	// account is whose session it is.
	account string
	// woken is when its waiter was told, if how late that goes on is sampled.
	woken time.Time
}

// room holds the facts of a batch until they are durable and all observers were notified.
// Facts are large, and a decision adds them one by one.
type room struct{ facts []event.Event }

// Rooms are made for fewFacts; one that grew beyond manyFacts isn't kept.
const fewFacts, manyFacts = 4, 64

func newJournal(s store.Store, admit admission.Options, published func(*pending)) *journal {
	j := &journal{
		store: s, published: published,
		gate: admission.New(admit), quantum: admission.NewQuantum(maxGroup), taken: map[string]int{},
	}
	j.straggler = time.AfterFunc(time.Hour, j.late)
	j.straggler.Stop()
	j.gathering = newGathering()
	j.spare.New = func() any { return &pending{wake: make(chan bool, 1)} }
	j.rooms.New = func() any { return &room{facts: make([]event.Event, 0, fewFacts)} }
	return j
}

// begin returns an empty batch.
func (j *journal) begin() *pending {
	p := j.spare.Get().(*pending)
	p.room = j.rooms.Get().(*room)
	return p
}

// recycle takes back a batch that nothing else refers to. Its channel is empty:
// whatever was sent was received.
func (j *journal) recycle(p *pending) {
	j.vacate(p)
	*p = pending{wake: p.wake}
	j.spare.Put(p)
}

// vacate takes back the room of a batch whose facts are no longer read.
func (j *journal) vacate(p *pending) {
	r := p.room
	p.room, p.facts = nil, nil
	if r == nil || cap(r.facts) > manyFacts {
		return
	}
	clear(r.facts)
	r.facts = r.facts[:0]
	j.rooms.Put(r)
}

// enqueue adds a batch. Batches of one session are committed in the order in
// which they were enqueued. The caller must call finish with the result.
func (j *journal) enqueue(p *pending) (lead bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.queueUp(p)
	if j.leading {
		return false
	}
	j.leading = true
	return true
}

// enqueueUnattended adds a batch that the caller doesn't wait for.
func (j *journal) enqueueUnattended(p *pending) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.queueUp(p)
	if !j.leading {
		j.arm(lingers)
	}
}

// queueUp puts a batch into the queue, and tells a leader that gathers when it has enough. The
// lock is held.
func (j *journal) queueUp(p *pending) {
	j.queue = append(j.queue, p)
	if j.enough > 0 && len(j.queue) >= j.enough {
		j.enough = 0
		j.gathering.full <- struct{}{}
	}
}

// arm schedules a commit in case no caller commits before. The lock is held.
func (j *journal) arm(after time.Duration) {
	switch {
	case !j.armed:
		j.armed = true
		j.flushing.Add(1)
		j.straggler.Reset(after)
	case after == 0 && j.straggler.Stop():
		j.straggler.Reset(0)
	}
}

// late commits what no caller has committed.
func (j *journal) late() {
	defer j.flushing.Done()
	j.mu.Lock()
	j.armed = false
	j.mu.Unlock()
	j.hurry()
}

// hurry has the unattended batches committed: now, or right after the
// group that is under way.
func (j *journal) hurry() {
	j.mu.Lock()
	if j.leading || len(j.queue) == 0 {
		j.hurried = j.leading
		j.mu.Unlock()
		return
	}
	j.leading = true
	j.mu.Unlock()
	j.round(nil)
	j.handOver()
}

// close waits for what looks after the last batches. Nothing may be enqueued.
func (j *journal) close() { j.flushing.Wait() }

// finish returns when the batch is durable or has failed.
func (j *journal) finish(p *pending, lead bool) error {
	if !lead {
		lead = <-p.wake
		if !p.woken.IsZero() {
			j.lag.Store(int64(time.Since(p.woken)))
		}
	}
	if lead {
		j.lead(p)
	}
	return p.err
}

func (j *journal) lead(own *pending) {
	for !own.done {
		j.round(own)
	}
	j.handOver()
}

// round commits what is queued and tells those who wait, but for the leader.
func (j *journal) round(own *pending) {
	j.gather()
	j.takeGroup()
	j.commit()
	j.committed()
	for _, p := range slices.Backward(j.group) {
		if p != own && !p.unattended {
			p.woken = time.Now()
			break
		}
	}
	for _, p := range j.group {
		switch {
		case p.unattended:
			if p.after != nil {
				p.after()
			}
			j.vacate(p)
			close(p.settled)
		case p != own:
			p.wake <- false // from here on p is its waiter's
		}
	}
	clear(j.group)
}

// commit writes the group and tells of what is durable.
func (j *journal) commit() {
	// Neighbours in the store are written next to each other, which is cheaper.
	// The sort is stable: a session's batches stay in order.
	slices.SortStableFunc(j.group, func(a, b *pending) int { return strings.Compare(a.batch.SessionID, b.batch.SessionID) })
	j.batches = j.batches[:0]
	for _, p := range j.group {
		j.batches = append(j.batches, &p.batch)
	}
	// A commit that began is not given up: its outcome must be known.
	began := time.Now()
	j.gate.Begin()
	errs := j.store.Append(context.Background(), j.batches)
	j.gate.End()
	took := time.Since(began)
	j.lastTook = took
	for i, p := range j.group {
		p.err, p.done = errs[i], true
		j.settled(&p.batch)
		p.charge.settle(p.err)
		if p.err == nil {
			j.published(p)
		}
	}
	j.tally.committed(j.group, took)
	clear(j.batches)
}

// takeGroup moves the next group out of the queue. While several accounts write, one of them
// has a bounded part of it; the rest stays, in its order.
func (j *journal) takeGroup() {
	if lag := j.lag.Swap(0); lag > 0 {
		j.quantum.Adjust(j.lastTook, time.Duration(lag))
	}
	now := time.Now()
	share := j.quantum.Size(now)
	clear(j.taken)
	j.group = j.group[:0]
	j.mu.Lock()
	defer j.mu.Unlock()
	rest := 0
	for _, p := range j.queue {
		if len(j.group) < maxGroup && j.taken[p.account] < share {
			j.taken[p.account]++
			j.group = append(j.group, p)
			continue
		}
		j.queue[rest] = p
		rest++
	}
	for account := range j.taken {
		if account != runtimeAccount {
			j.quantum.See(account, now)
		}
	}
	clear(j.queue[rest:])
	j.queue = j.queue[:rest]
	if rest == 0 && j.armed && j.straggler.Stop() {
		j.armed = false
		j.flushing.Done()
	}
}

// handOver makes the first who waits the leader.
func (j *journal) handOver() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, p := range j.queue {
		if !p.unattended {
			p.wake <- true
			return
		}
	}
	j.leading = false
	switch {
	case len(j.queue) == 0:
	case j.hurried:
		j.arm(0)
	default:
		j.arm(lingers)
	}
	j.hurried = false
}
