package index

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"time"

	"agentd/event"
	"agentd/fault"
	"agentd/store"
)

// ClaimedSession is the id under which nodes agree who folds. It has no facts, and no
// caller can choose it.
const ClaimedSession = "/index"

// kindState: projection name → how far it has come.
const kindState = "index_state"

// Fact is a fact that a projection wants to know, with whose it is.
type Fact struct {
	SessionID string
	// Account owns the session, Workspace is the folder that it was created in, if one was named.
	Account, Workspace string
	// Event is shared between projections: it must not be changed.
	Event *Event
}

// Event is what projections use of an event. Those of some seconds are kept until they are
// folded, and an event's envelope takes far more room.
type Event struct {
	Type             event.Type
	Sequence         uint64
	Time             time.Time
	TurnID, ActionID string
	Payload          event.Payload
}

// EventOf returns what projections use of an event.
func EventOf(e *event.Event) Event {
	return Event{Type: e.Type, Sequence: e.Sequence, Time: e.Time, TurnID: e.TurnID, ActionID: e.ActionID, Payload: e.Payload}
}

// Batch is what is folded at once.
type Batch struct {
	// Facts come in the order of their sequences within a session.
	Facts []Fact
	// Fresh says that the stored entries may have changed since the last Fold, or that
	// what it returned may not have been stored: what a projection remembers of them is
	// worth nothing.
	Fresh bool
}

// Reader reads what is stored, as it is before the batch.
type Reader interface {
	store.Contents
	// Get returns one index entry's value, or [store.ErrNotFound].
	Get(ctx context.Context, kind, key string) ([]byte, error)
	// Scan yields index entries. See [store.Store].
	Scan(ctx context.Context, s store.Scan) iter.Seq2[store.Entry, error]
}

// Projection derives index entries from facts.
type Projection interface {
	// Name names the projection and is the kind of all its entries. A projection that
	// changes what it writes changes its name, and is then built anew.
	Name() string
	// Types are the types of the facts that it folds; others are not even decoded.
	Types() []event.Type
	// Fold returns the changes to the entries that follow from a batch. It is called
	// again with the same facts if they could not be stored.
	Fold(ctx context.Context, b *Batch, read Reader) ([]store.IndexOp, error)
}

// Maintainer is implemented by a projection that keeps its entries in order between folds.
type Maintainer interface {
	Projection
	// Maintain returns changes that don't follow from new facts, such as the merging of
	// many small entries into one. It is called when everything is folded, again and
	// again until it returns none. Each call should be short: queries wait for it.
	Maintain(ctx context.Context, read Reader, fresh bool) ([]store.IndexOp, error)
}

// Owner says whose a session is.
type Owner struct{ Account, Workspace string }

// Options configure an [Indexer]. Store and Owner are required.
type Options struct {
	Store store.Store
	// Owner returns whose a session is. A fault of kind not found says that the session
	// was deleted: its facts are skipped.
	Owner func(ctx context.Context, sessionID string) (Owner, error)
	// Projections are folded together.
	Projections []Projection
	// Former are the names of projections of earlier versions, whose entries are removed.
	Former []string
	// Delay is how long facts may wait for others, so that they are folded together;
	// default 2 s.
	Delay time.Duration
	// MaxFacts is how many facts are folded at once at most; default 8192.
	MaxFacts int
	// Logger defaults to one that discards.
	Logger *slog.Logger
}

// Indexer keeps the entries of projections up to date.
type Indexer struct {
	opt   Options
	types map[event.Type]bool
	// wanted are the types of each projection.
	wanted map[string]map[event.Type]bool

	wake    chan struct{} // capacity 1: there are new facts
	hurry   chan struct{} // capacity 1: a waiter came
	stop    context.CancelFunc
	stopped chan struct{}

	hot hotFacts

	mu      sync.Mutex
	waiters []chan error
	// settlers wait until the entries are in order, too.
	settlers []chan error
	pending  int // facts since the last pass
	running  bool

	// What follows is for the one goroutine.

	epoch uint64 // of the claim; 0 without one
	tidy  bool   // the projections had nothing left to put in order
	// formerGone says that the entries of earlier versions were looked for and removed.
	formerGone bool
	states     map[string]*progress
	fresh      map[string]bool
	owners     map[string]Owner
	// selected is scratch: the facts that a projection gets.
	selected []Fact
}

// New returns an indexer that does nothing until [Indexer.Start].
func New(opt Options) *Indexer {
	if opt.Delay == 0 {
		opt.Delay = 2 * time.Second
	}
	if opt.MaxFacts == 0 {
		opt.MaxFacts = 8192
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	x := &Indexer{
		opt: opt, types: map[event.Type]bool{event.TypeSessionDeleted: true}, wanted: map[string]map[event.Type]bool{},
		wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1), stopped: make(chan struct{}),
		states: map[string]*progress{}, fresh: map[string]bool{}, owners: map[string]Owner{},
	}
	for _, p := range opt.Projections {
		of := map[event.Type]bool{}
		for _, t := range p.Types() {
			of[t], x.types[t] = true, true
		}
		x.wanted[p.Name()] = of
	}
	return x
}

// Start begins to follow the store. It may be called once.
func (x *Indexer) Start(ctx context.Context) {
	ctx, x.stop = context.WithCancel(context.WithoutCancel(ctx))
	x.mu.Lock()
	x.running = true
	x.mu.Unlock()
	go x.follow(ctx)
}

// Close ends what [Indexer.Start] began and waits for it. What is not folded yet is
// folded after the next start.
func (x *Indexer) Close() {
	if x.stop == nil {
		return
	}
	x.stop()
	<-x.stopped
}

// Committed implements session.Observer: it says that there are new facts. Their payloads
// must not be changed afterwards.
func (x *Indexer) Committed(sessionID string, facts []event.Event) {
	x.hot.addBatch(sessionID, facts, x.types)
	x.mu.Lock()
	first := x.pending == 0
	x.pending += len(facts)
	many := x.pending >= x.opt.MaxFacts
	x.mu.Unlock()
	switch {
	case many:
		ring(x.hurry)
	case first:
		ring(x.wake) // those that follow are folded with it
	}
}

func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// CatchUp returns when everything that was durable at the time of the call is in the
// index, so that a query reads what its caller wrote.
func (x *Indexer) CatchUp(ctx context.Context) error {
	// Mostly there is nothing to do; then no one has to wait until entries are in order.
	if current, err := x.isCurrent(ctx); err != nil || current {
		return err
	}
	return x.waitIn(ctx, &x.waiters)
}

// Settle is [Indexer.CatchUp], and also waits until the projections have put their
// entries in order. It is for measurements.
func (x *Indexer) Settle(ctx context.Context) error { return x.waitIn(ctx, &x.settlers) }

// waitIn waits in a line until the goroutine answers it.
func (x *Indexer) waitIn(ctx context.Context, line *[]chan error) error {
	done := make(chan error, 1)
	x.mu.Lock()
	if !x.running {
		x.mu.Unlock()
		return errStopping
	}
	*line = append(*line, done)
	x.mu.Unlock()
	ring(x.hurry)
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// follow folds until ctx ends.
func (x *Indexer) follow(ctx context.Context) {
	defer close(x.stopped)
	defer x.endWaiters()
	ring(x.wake) // what an earlier process left
	timer := time.NewTimer(0)
	defer timer.Stop()
	var due <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			x.releaseClaim(context.WithoutCancel(ctx))
			return
		case <-x.wake:
			if due == nil {
				timer.Reset(x.opt.Delay)
				due = timer.C
			}
			continue
		case <-due:
		case <-x.hurry:
		}
		due = nil
		waiters := x.takeWaiters()
		err := x.pass(ctx, len(waiters) > 0 || x.hasSettlers())
		for _, w := range waiters {
			w <- err
		}
		if err == nil {
			err = x.maintain(ctx)
		}
		if err != nil || x.tidy {
			x.answerSettlers(err)
		} else {
			ring(x.wake) // it was put off for a query
		}
		if err != nil && ctx.Err() == nil {
			x.opt.Logger.Warn("the index could not be brought up to date; it is tried again", "error", err)
			timer.Reset(x.opt.Delay)
			due = timer.C
		}
	}
}

func (x *Indexer) takeWaiters() []chan error {
	x.mu.Lock()
	defer x.mu.Unlock()
	waiters := x.waiters
	x.waiters, x.pending = nil, 0
	return waiters
}

// endWaiters answers those who wait when nothing is folded any more.
func (x *Indexer) endWaiters() {
	x.mu.Lock()
	x.running = false
	x.mu.Unlock()
	for _, w := range x.takeWaiters() {
		w <- errStopping
	}
	x.answerSettlers(errStopping)
}

func (x *Indexer) hasSettlers() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.settlers) > 0
}

func (x *Indexer) answerSettlers(err error) {
	x.mu.Lock()
	settlers := x.settlers
	x.settlers = nil
	x.mu.Unlock()
	for _, w := range settlers {
		w <- err
	}
}

var errStopping = fault.Stopping(nil)
