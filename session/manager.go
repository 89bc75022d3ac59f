package session

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"agentd/admission"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/quota"
	"agentd/state"
	"agentd/store"
)

// Options configure a [Manager]. Store and RuntimeID are required; every other
// field has a default.
type Options struct {
	// Store keeps the facts.
	Store store.Store
	// RuntimeID is written into every fact.
	RuntimeID string
	// Clock defaults to time.Now. Facts carry its time in microseconds.
	Clock func() time.Time
	// IDs makes ids; it defaults to a source on Clock.
	IDs *event.IDs
	// Logger defaults to one that discards.
	Logger *slog.Logger
	// Observer is notified of durable facts; nil is allowed.
	Observer Observer
	// CheckTurn refuses invalid options of a turn, such as an unknown model; nil
	// accepts all.
	CheckTurn func(*event.TurnOptions) error
	// Submitting is asked before a turn is submitted and may refuse it; nil accepts all.
	Submitting func(context.Context, command.Caller, *command.SubmitTurn) error
	// ResolveWorkspace returns the workspace of a new session as it is stored, or
	// refuses it; it is asked also for a session that names none. Nil takes all as
	// they are given.
	ResolveWorkspace func(*event.Workspace) (*event.Workspace, error)
	// Locator says which sessions' files this node of several reaches; nil if all nodes
	// have the same.
	Locator Locator
	// CheckAnswer checks an answer against the schema of its action; nil accepts all.
	// The params of its errors are paths in the answer.
	CheckAnswer func(schema, answer event.Raw) error
	// Place says where the commands of a thread run, which facts alone don't; nil
	// leaves that unknown. It is called with the session's lock held.
	Place func(*state.Session, *state.Thread) *state.Place
	// Admission says when more work is refused; its defaults are those of the package.
	Admission admission.Options
	// Redact takes secrets out of what callers send before it is stored; nil keeps
	// everything.
	Redact func(event.Raw) event.Raw
	// TraceFacts writes the ids of the trace and the span that telemetry shows a fact in
	// into each fact. Without it facts carry only what callers sent.
	TraceFacts bool
	// IdleAfter is how long a session stays in memory unused; default one minute.
	IdleAfter time.Duration
	// MaxLoaded bounds the sessions in memory that are not in use; default 4096.
	MaxLoaded int
	// SnapshotEvery is the least number of facts between two snapshots of a
	// session's state; default 256.
	SnapshotEvery int
	// MaxQueue bounds the turns that wait in one thread; default 1000.
	MaxQueue int
	// InlineBytes is the largest input that is kept in the fact itself; what is
	// larger goes behind a reference. Default 4096.
	InlineBytes int
	// ExpireAfter is how long outputs of tools and processes are kept that nothing
	// refers to; 0 is for ever. The value of today decides, also for outputs that
	// were stored under another one.
	ExpireAfter time.Duration
	// RetainEvents is how long the events of a session at rest are kept after its
	// last one; 0 is for ever.
	RetainEvents time.Duration
	// Quotas bound what each account may use; the zero value bounds nothing.
	Quotas quota.Policy
	// TailEvents bounds the newest facts that are kept in memory for subscribers
	// of a session in use; default 256.
	TailEvents int
}

func (o *Options) setDefaults() {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.IDs == nil {
		o.IDs = event.NewIDs(o.Clock, nil)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	for _, d := range []struct {
		field *int
		value int
	}{{&o.MaxLoaded, 4096}, {&o.SnapshotEvery, 256}, {&o.MaxQueue, 1000}, {&o.InlineBytes, 4096}, {&o.TailEvents, 256}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if o.IdleAfter == 0 {
		o.IdleAfter = time.Minute
	}
}

// Observer learns of facts once they are durable.
type Observer interface {
	// Committed is called for each batch, in order within a session, by the
	// goroutine that leads the journal. It must return at once, must not call the
	// manager and must not keep the slice: it is used again.
	Committed(sessionID string, facts []event.Event)
}

// Manager owns the writers of all sessions of one runtime.
type Manager struct {
	opt     Options
	journal *journal
	topics  topics
	cursors cursorKey
	outputs outputs
	// owners has those of the sessions that were made or read lately.
	owners recent[owner]
	// summaries are those that lists showed lately.
	summaries summaryCache
	projects  projectCache
	// readingRules is for stores that other nodes write to, where rules are read each time.
	readingRules jointReads[[]command.ProjectRule]
	scratch      sync.Pool // of *[]byte, for encoding facts
	forks        forkGuard
	// repeats keeps calls apart that may be the same one.
	repeats lanes
	quotas  quota.Book
	// nodeID is the name of this node, once it is known; bases guards what changes those of
	// accounts, see changeBases.
	nodeID atomic.Pointer[string]
	bases  sync.Mutex
	live   liveNodes
	// counting ends with the manager; sessions are counted under it.
	counting     context.Context //nolint:containedctx // it is the manager's own
	stopCounting context.CancelFunc
	// opened is when the manager began: older sessions are those of earlier processes.
	opened time.Time
	// standings guards standingsKnown, see loadStandings.
	standings      sync.Mutex
	standingsKnown bool

	// draining says that this node leaves sessions to the others, drained that it has none
	// left with work.
	draining, drained atomic.Bool
	// shared is the store if several nodes have it open, else nil.
	shared store.Shared

	mu      sync.Mutex
	writers map[string]*writer
	// strays are the sessions whose facts could not be written, see [Manager.Strays].
	strays map[string]struct{}
	// strayed is told when one is added.
	strayed chan struct{}
	sweeps  uint64 // counts time for idle writers: asking the clock at each use would cost more
	closed  bool

	// limits are the quotas by their origin, retention is the run that was asked for.
	limits    limitBook
	retention retentionBook

	stop    chan struct{}
	stopped sync.WaitGroup
}

// New returns a manager over a store. Close releases it; the store stays open.
func New(opt Options) *Manager {
	opt.setDefaults()
	m := &Manager{opt: opt, writers: map[string]*writer{}, strays: map[string]struct{}{}, strayed: make(chan struct{}, 1), stop: make(chan struct{})}
	m.shared, _ = opt.Store.(store.Shared)
	m.journal = newJournal(opt.Store, opt.Admission, m.batchPublished)
	m.journal.settled = m.projects.wrote
	m.scratch.New = func() any { return new([]byte) }
	m.topics.init(opt.TailEvents)
	if m.shared != nil {
		m.topics.begins = m.shared.Awaited
		m.shared.Await(func() bool { return m.topics.followed.Load() > 0 })
	}
	m.opened = m.Now()
	m.owners.keep = 1 << 14
	m.SetQuotas(opt.Quotas)
	if err := m.ReadLimits(context.Background()); err != nil {
		opt.Logger.Warn("the quotas that were set could not be read: those of the configuration hold", "error", err)
	}
	m.counting, m.stopCounting = context.WithCancel(context.Background())
	m.stopped.Go(m.sweepIdle)
	m.stopped.Go(func() { m.topics.wakeSubscribers(m.stop) })
	if m.topics.hinted.reader, _ = opt.Store.(store.SpanReader); m.topics.hinted.reader != nil {
		m.untilStop(m.topics.readHinted)
	}
	if opt.ExpireAfter > 0 {
		m.untilStop(m.expireOutputs)
	}
	if opt.RetainEvents > 0 {
		m.untilStop(m.retainEvents)
	}
	if m.shared != nil {
		m.untilStop(m.followNotes)
		m.untilStop(m.keepShares)
	}
	return m
}

// untilStop runs do with a context that ends with the manager, which waits for it.
func (m *Manager) untilStop(do func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	m.stopped.Go(func() { <-m.stop; cancel() })
	m.stopped.Go(func() { do(ctx) })
}

// Close stops the manager's goroutines, writes the snapshots that are due and
// gives the claims back. Commands fail from now on.
func (m *Manager) Close(ctx context.Context) error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	writers := make([]*writer, 0, len(m.writers))
	for _, w := range m.writers {
		writers = append(writers, w)
	}
	m.mu.Unlock()
	close(m.stop)
	m.stopCounting()
	m.stopped.Wait()
	var errs []error
	for _, w := range writers {
		errs = append(errs, w.retireSession(ctx, true))
	}
	m.journal.close()
	m.topics.close()
	if m.shared != nil && len(m.quotas.Accounts()) > 0 {
		if err := m.foldShares(ctx); err != nil {
			m.opt.Logger.Debug("what accounts use on this node stays an entry of its own", "error", err)
		}
	}
	return errors.Join(errs...)
}

// RuntimeID returns the id that facts carry.
func (m *Manager) RuntimeID() string { return m.opt.RuntimeID }

// Now returns the manager's time as facts carry it.
func (m *Manager) Now() time.Time { return m.opt.Clock().UTC().Truncate(time.Microsecond) }

// NewID returns a new id.
func (m *Manager) NewID(p event.Prefix) string { return m.opt.IDs.New(p) }

// Loaded returns the number of sessions in memory.
func (m *Manager) Loaded() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.writers)
}

// acquireWriter returns the session's writer, in use until release.
func (m *Manager) acquireWriter(sessionID string) (*writer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, fault.Stopping(errStopped)
	}
	w := m.writers[sessionID]
	if w == nil {
		w = &writer{m: m, id: sessionID}
		m.writers[sessionID] = w
	}
	w.users++
	return w, nil
}

func (m *Manager) releaseWriter(w *writer) {
	m.mu.Lock()
	w.users--
	w.lastUsed = m.sweeps
	if w.users == 0 && w.away.Load() && m.writers[w.id] == w && !m.closed {
		delete(m.writers, w.id)
		m.leaveStanding(w.id)
		m.stopped.Go(func() { m.letGo(w) })
	}
	m.mu.Unlock()
}

// dropWriter forgets a writer that failed or is empty, so that the next command loads
// the session anew.
func (m *Manager) dropWriter(w *writer) {
	m.mu.Lock()
	if m.writers[w.id] == w {
		delete(m.writers, w.id)
		m.leaveStanding(w.id)
	}
	m.mu.Unlock()
}

// Emit decides facts for a session that exists and appends them. It is how the
// loop, the scheduler and other parts of the runtime write; by says which part
// it is. The decision runs under the writer's lock: it must be quick, and it may
// be run again if another node took the session over in the meantime. Emit returns
// when the facts are durable.
func (m *Manager) Emit(ctx context.Context, sessionID string, by event.Emitter, decide func(*Tx) error) error {
	return m.writeDecision(ctx, sessionID, by, false, decide)
}

// EmitSoon is [Manager.Emit] for facts that nothing outside depends on yet: it
// returns when they are decided, and they become durable with the next facts of the
// session, or by themselves after a moment. A caller that sees a later fact, or
// the state, sees it after them. If they could not be stored, the session goes on
// as if they had never been, and wait says why; it waits for the outcome.
func (m *Manager) EmitSoon(ctx context.Context, sessionID string, by event.Emitter, decide func(*Tx) error) (wait func() error, err error) {
	err = m.useWriter(sessionID, func(w *writer) error {
		p, err := w.doSoon(ctx, by, decide)
		if p != nil {
			wait = func() error { return w.awaitOutcome(p) }
		}
		return err
	})
	return wait, m.refuseAtQuota(ctx, sessionID, err)
}

// Peek is [Manager.View] without the wait: what it sees may never become durable.
// It is for deciding what to do next, where a decision of [Manager.Emit] stands
// before anything is done.
func (m *Manager) Peek(ctx context.Context, sessionID string, view func(*state.Session) error) error {
	return m.useWriter(sessionID, func(w *writer) error { return w.peekState(ctx, view) })
}

// writeDecision runs a decision; create says that the session need not exist.
func (m *Manager) writeDecision(ctx context.Context, sessionID string, by event.Emitter, create bool, decide func(*Tx) error) error {
	err := m.retryFenced(ctx, func() error {
		return m.useWriter(sessionID, func(w *writer) error { return w.decideAndCommit(ctx, by, create, decide) })
	})
	return m.refuseAtQuota(ctx, sessionID, err)
}

// useWriter does something with a session's writer.
func (m *Manager) useWriter(sessionID string, do func(*writer) error) error {
	for {
		w, err := m.acquireWriter(sessionID)
		if err != nil {
			return err
		}
		err = do(w)
		m.releaseWriter(w)
		if !errors.Is(err, errStale) {
			return err
		}
		// The writer failed or was unloaded in between: a new one loads the session.
		m.dropWriter(w)
	}
}

// View runs a function on a session's state and returns when all that it saw is
// durable. The function must copy what it keeps.
func (m *Manager) View(ctx context.Context, sessionID string, view func(*state.Session) error) error {
	return m.useWriter(sessionID, func(w *writer) error { return w.viewDurable(ctx, view) })
}

// batchPublished is called by the journal for each batch that is durable.
func (m *Manager) batchPublished(p *pending) {
	m.topics.publish(p.batch.SessionID, p.batch.Records)
	if len(p.facts) > 0 {
		if created, ok := p.facts[0].Payload.(*event.SessionCreated); ok {
			m.owners.put(p.batch.SessionID, ownerOf(created))
		}
	}
	if m.opt.Observer != nil && len(p.facts) > 0 {
		m.opt.Observer.Committed(p.batch.SessionID, p.facts)
	}
}

// sweepsPerIdle is how often writers are looked at in the time after which they
// are idle.
const sweepsPerIdle = 4

// sweepIdle takes idle writers out of memory.
func (m *Manager) sweepIdle() {
	tick := time.NewTicker(max(m.opt.IdleAfter/sweepsPerIdle, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-m.stop:
			return
		case <-tick.C:
			for _, w := range m.idleWriters() {
				if err := w.retireSession(context.Background(), false); err != nil {
					m.opt.Logger.Warn("an idle session could not be unloaded", "sessionId", w.id, "error", err)
				}
			}
		}
	}
}

// idleWriters takes unused writers out of the map: all that were unused
// for long, and as many more as MaxLoaded demands.
func (m *Manager) idleWriters() []*writer {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweeps++
	over := len(m.writers) - m.opt.MaxLoaded
	var out []*writer
	for id, w := range m.writers {
		if w.users > 0 || (m.sweeps-w.lastUsed <= sweepsPerIdle && over <= 0) {
			continue
		}
		over--
		delete(m.writers, id)
		if w.isOutdated() {
			m.leaveStanding(id)
		}
		out = append(out, w)
	}
	return out
}

// Hint says that another node appended to a session. It reads nothing: the caller goes on to
// the next at once. What follows from facts in the runtime's own session is the caller's to
// read, see [Manager.ReadLimits].
func (m *Manager) Hint(a store.Appended) {
	m.noteForeignAppend(a)
	m.topics.hint(a)
}

// Report records a notice in the runtime's own session, which is opened if it
// doesn't exist.
func (m *Manager) Report(ctx context.Context, t event.Type, p event.Payload) error {
	return m.WriteInRuntime(ctx, func(tx *Tx) error {
		tx.Emit(event.Event{Type: t, Payload: p})
		return nil
	})
}

// openRuntime emits the first facts of the runtime's own session.
func openRuntime(tx *Tx) {
	tx.Emit(event.Event{Type: event.TypeSessionCreated, Payload: &event.SessionCreated{
		Title: "runtime", CreatedBy: &event.Actor{Kind: "runtime"},
	}})
	tx.Emit(event.Event{Type: event.TypeThreadStarted, Scope: event.Scope{ThreadID: "thread_runtime"}, Payload: &event.ThreadStarted{
		Role: "main", Title: "runtime",
	}})
}
