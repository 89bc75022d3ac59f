// Package loop runs turns.
//
// # Contract
//
// [Policy.Next] decides what a thread does next, as a pure function of its folded
// facts. A [Loop] does it: each effect yields facts, appended through the
// session's writer, and the facts yield the next effect. The loop has no memory
// of its own; what it keeps (which threads are being worked on, what a model was
// told so far, how to stop a call that is under way) can be lost at any moment,
// and [Loop.Recover] turns what was in flight into facts before Next decides as
// always.
//
// # Concurrency
//
// At most one goroutine works on a thread; it decides again, under the writer's
// lock, that its effect is still the next one before it records anything. The
// Loop observes the manager: a fact that may give a thread something to do wakes
// its goroutine. [Loop.Close] stops all of them and waits.
package loop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"agentd/admission"
	"agentd/event"
	"agentd/fault"
	"agentd/hook"
	"agentd/internal/place"
	"agentd/model"
	"agentd/session"
	"agentd/state"
	"agentd/store"
	"agentd/tool"
)

// Options configure a [Loop]. Store, Models and Providers are required; every
// other field has a default.
type Options struct {
	// Store is where conversations are derived from.
	Store store.Store
	// Models that turns can be routed to, and the providers that they belong to.
	Models    []model.Info
	Providers []model.Provider
	// DefaultModel is what a turn that names none uses, as provider/model; Fallback
	// are the models to try next.
	DefaultModel string
	Fallback     []string
	// Budget bounds what a session may cost.
	Budget model.Budget
	// Backoff says how long to wait between tries.
	Backoff model.Backoff
	// Tools are what an agent can do; default the built-ins.
	Tools *tool.Registry
	// Subagents says that spawn_agent is available: the work scheduler runs it.
	Subagents bool
	// Workspace is the folder of sessions that name none; default the current one.
	Workspace string
	// Data are the folders that the runtime keeps its own files in. No session may work
	// in one of them, or above one unless it is a direct child.
	Data []string
	// DataInside lets workspaces hold one of them at any depth, as a home folder holds
	// the user's own. The sandbox covers it, and pins the folders above it where the
	// kernel has namespaces; without them it can't hide it, as in every workspace that
	// has the data inside.
	DataInside bool
	// Places keeps workspaces and hidden paths by identity. The tools and the vault
	// should have the same one; default a new one.
	Places *place.Places
	// Instructions stand above every conversation; a default is built in.
	Instructions string
	// Host is the permission policy of the host.
	Host HostPolicy
	// ParseRules reads the permission rules of a workspace's [RulesFile]; nil leaves
	// the file alone. TrustRules takes its allow rules, too.
	ParseRules func(content []byte) ([]event.PolicyRule, error)
	TrustRules bool
	// NobodyToAsk says that no person can answer: what would ask is denied.
	NobodyToAsk bool
	// ActionTimeout ends unanswered questions; 0 means never.
	ActionTimeout time.Duration
	// Outputs bounds what is kept of tools' outputs.
	Outputs Outputs
	// Governance are the parts that confine, watch and undo what tools do.
	Governance
	// Policy holds the limits of turns; the zero value means [DefaultPolicy].
	Policy Policy
	// Recovery is auto (default) or manual: then nothing goes on after a restart
	// until resume_thread.
	Recovery string
	// FlushEvery is how long pieces of an answer are gathered into one fact; the
	// first piece goes out at once. Default 25 ms.
	FlushEvery time.Duration
	// MaxRunning bounds the threads of one account that are worked on at once; default 1024.
	// Those of all accounts are bounded by twice as many, and a few of each account are
	// worked on whatever the others have.
	MaxRunning int
	// MaxTranscripts bounds the conversations that are kept in memory; default 1024.
	MaxTranscripts int
	// Logger defaults to one that discards.
	Logger *slog.Logger
	// Clock defaults to time.Now, Random to a source of its own.
	Clock  func() time.Time
	Random func() float64
}

// Loop executes the effects of all threads.
type Loop struct {
	opt Options
	m   *session.Manager

	providers   map[string]model.Provider
	limiter     *model.Limiter
	transcripts *transcripts
	host        atomic.Pointer[hostPolicy]
	hostMu      sync.Mutex // held while host is replaced
	offer       atomic.Pointer[Offer]
	config      atomic.Pointer[configured] // made of host and offer
	confined    atomic.Pointer[storedConfinement]
	plans       plans
	pins        pins
	homes       homes
	clients     clientNames
	standings   sync.Map // standingKey → policy and reason
	// commands says that what runs commands was asked for, so it must be closed.
	commands atomic.Bool

	ctx    context.Context //nolint:containedctx // the loop's life, ended by Close
	cancel context.CancelCauseFunc
	// tools is the life of tool calls: when the loop closes they get a while to end.
	tools    context.Context //nolint:containedctx // as ctx
	endTools context.CancelCauseFunc
	slots    *admission.Slots
	wg       sync.WaitGroup

	// paused says that no further step is begun.
	paused atomic.Bool

	mu      sync.Mutex
	closed  bool
	runners map[key]*runner
	alarms  map[key]*alarm
	// returns counts how often in a row a thread could not be looked at.
	returns map[key]int
	// calls holds the model calls that this process makes, by request id.
	calls map[string]struct{}
	// held has the threads that a request gave something to do and that are not looked
	// at before it was answered, by request id.
	delayed map[string]*delayedTurns
	// stops holds who is ending which process, and why, until the end is a fact.
	stops map[string]stop
	// inputs are what processes got of commands whose facts could not be recorded.
	inputs inputs
	// recording holds, for each process of this run, what is closed once its end is a fact.
	recording map[string]chan struct{}
}

type key struct{ session, thread string }

// stopGrace is how long tool calls may take to end when the runtime stops.
const stopGrace = 10 * time.Second

// Limits returns the limits of turns that hold.
func (l *Loop) Limits() Policy { return l.opt.Policy }

// runner is the work on one thread.
type runner struct {
	// again says that a fact came after the runner looked.
	again bool
	// interrupt stops what is under way, if something is.
	interrupt context.CancelCauseFunc
	// soon waits for facts that were decided and need not be durable yet.
	soon func() error
	// answer is the runner's newest model answer.
	answer keptAnswer
}

var (
	errInterrupted = errors.New("the turn was interrupted")
	errDeadline    = errors.New("the turn's time limit has passed")
	errStopping    = errors.New("the runtime is stopping")
	// errMoved says that the effect is not the next one any more.
	errMoved = errors.New("loop: the thread moved on")
)

// New returns a loop that works on nothing until Start.
func New(opt Options) (*Loop, error) {
	if err := opt.defaults(); err != nil {
		return nil, err
	}
	l := &Loop{
		opt: opt, providers: map[string]model.Provider{}, limiter: model.NewLimiter(model.LimiterOptions{Clock: opt.Clock}),
		transcripts: newTranscripts(opt.Store, opt.MaxTranscripts),
		runners:     map[key]*runner{}, alarms: map[key]*alarm{}, returns: map[key]int{}, calls: map[string]struct{}{}, stops: map[string]stop{}, recording: map[string]chan struct{}{}, delayed: map[string]*delayedTurns{}, slots: admission.NewSlots(2*opt.MaxRunning, opt.MaxRunning),
	}
	var err error
	if l.homes, err = newHomes(&l.opt); err != nil {
		return nil, err
	}
	if why := l.homes.refuse(l.homes.workspace); why != "" {
		opt.Logger.Warn("sessions must name a workspace", "workspace", l.homes.workspace, "reason", why)
	}
	l.opt.Policy.PostSampling = l.hasHooks(hook.PostSampling, "")
	l.opt.Policy.WaitForResources = l.opt.Policy.WaitForResources && !opt.NobodyToAsk
	for _, p := range opt.Providers {
		l.providers[p.Name()] = p
	}
	l.SetOffer(Offer{Models: opt.Models, DefaultModel: opt.DefaultModel, Fallback: opt.Fallback})
	l.host.Store(newHostPolicy(opt.Host, HostPolicy{}))
	l.plans.byPlace = map[planKey]madePlan{}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	l.tools, l.endTools = context.WithCancelCause(context.Background())
	return l, nil
}

func (o *Options) defaults() error {
	if o.FlushEvery == 0 {
		o.FlushEvery = 25 * time.Millisecond
	}
	for _, d := range []*int{&o.MaxRunning, &o.MaxTranscripts} {
		if *d == 0 {
			*d = 1024
		}
	}
	if o.Policy.MaxSteps == 0 {
		o.Policy = DefaultPolicy()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	if o.Workspace == "" {
		o.Workspace = "."
	}
	if o.Places == nil {
		o.Places = &place.Places{}
	}
	if o.Instructions == "" {
		o.Instructions = instructions
	}
	o.Outputs.defaults()
	if o.Tools == nil {
		r, err := tool.NewRegistry(tool.Builtins(&tool.Options{Hidden: o.Sandbox.Hidden, Places: o.Places})...)
		if err != nil {
			return fmt.Errorf("loop: %w", err)
		}
		o.Tools = r
	}
	return nil
}

// Places returns what keeps workspaces and hidden paths by identity, for all parts
// of the runtime.
func (l *Loop) Places() *place.Places { return l.opt.Places }

// Start binds the loop to the manager that it observes and takes over the host's
// policy that was set by command, and what is known of the rules of workspaces.
func (l *Loop) Start(ctx context.Context, m *session.Manager) error {
	l.mu.Lock()
	l.m = m
	l.mu.Unlock()
	err := m.Read(ctx, event.RuntimeSession, func(s *state.Session) error {
		l.FollowState(s)
		return nil
	})
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return fmt.Errorf("loop: the host's policy: %w", err)
	}
	return l.limitStoredMode(ctx)
}

// Close lets what is under way reach its next durable fact, and starts nothing
// more: a model call is cut off, recorded as interrupted, and asked again at the
// next start; a tool call may end until ctx does, then it is stopped. Processes in
// the background are ended.
func (l *Loop) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	l.mu.Lock()
	l.closed = true
	for k, t := range l.alarms {
		t.timer.Stop()
		delete(l.alarms, k)
	}
	l.mu.Unlock()
	l.cancel(errStopping)
	stop := context.AfterFunc(ctx, func() { l.endTools(errStopping) })
	defer stop()
	var err error
	if l.commands.Load() {
		err = l.closeProcesses(ctx)
	}
	l.wg.Wait()
	l.endTools(errStopping)
	return err
}

// closeProcesses ends the processes in the background at once, the others with
// their calls.
func (l *Loop) closeProcesses(ctx context.Context) error {
	for _, info := range l.processManager().List() {
		if p := l.processManager().Get(info.ProcessID); info.Background && p != nil {
			l.wg.Go(func() { _ = p.Terminate(ctx, time.Second) }) // its follower records how it ended
		}
	}
	l.wg.Wait()
	return l.processManager().Close(context.WithoutCancel(ctx))
}

// Committed implements [session.Observer]: it wakes the threads that may have
// something to do.
func (l *Loop) Committed(sessionID string, facts []event.Event) {
	l.transcripts.offer(sessionID, facts)
	if sessionID == event.RuntimeSession {
		l.committedPolicy(facts)
	}
	for i := range facts {
		if archives(&facts[i]) {
			l.transcripts.forget(key{sessionID, facts[i].ThreadID})
			continue
		}
		if endsSpawn(&facts[i]) {
			l.wakeThread(key{sessionID, facts[i].ThreadID}, nil)
			continue
		}
		switch facts[i].Type { //nolint:exhaustive // the rest gives a thread nothing to do
		case event.TypeTurnSubmitted:
			l.wakeAfter(facts[i].RequestID, key{sessionID, facts[i].ThreadID})
		case event.TypeTurnSteered, event.TypeActionResolved, event.TypeThreadUpdated,
			event.TypeHistoryRollbackCompleted:
			l.wakeThread(key{sessionID, facts[i].ThreadID}, nil)
		case event.TypeContextCompactionStarted:
			if p, ok := facts[i].Payload.(*event.CompactionStarted); ok && p.Trigger == "requested" {
				l.wakeThread(key{sessionID, facts[i].ThreadID}, nil)
			}
		case event.TypeTurnInterruptRequested:
			l.wakeThread(key{sessionID, facts[i].ThreadID}, errInterrupted)
		case event.TypeChannelDisconnected:
			l.committedChannel(sessionID, &facts[i])
		}
	}
}

// archives reports whether a thread leaves the working set with the fact.
func archives(e *event.Event) bool {
	p, ok := e.Payload.(*event.ThreadUpdated)
	return ok && p.Status == "archived"
}

// wakeThread makes the loop look at the thread. What is under way is stopped if there is
// a cause.
func (l *Loop) wakeThread(k key, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wakeLocked(k, cause)
}

func (l *Loop) wakeLocked(k key, cause error) {
	if r := l.runners[k]; r != nil {
		r.again = true
		if cause != nil && r.interrupt != nil {
			r.interrupt(cause)
		}
		return
	}
	if l.closed || l.paused.Load() {
		return
	}
	l.runners[k] = &runner{}
	l.wg.Go(func() { l.runThread(k) })
}

// runThread works on a thread until it has nothing to do.
func (l *Loop) runThread(k key) {
	account := l.accountOf(k.session)
	if !l.slots.Enter(l.ctx, account, k.session) {
		l.leaveThread(k)
		return
	}
	defer l.slots.Leave(account)
	roomy(false)
	for l.ctx.Err() == nil && !l.paused.Load() {
		done, err := l.stepThread(k)
		if done || moved(err) {
			// What the thread was found in may have come of facts that were never stored.
			if failed := l.awaitPending(k); failed != nil {
				done, err = false, failed
			}
		}
		gone := session.OwnedElsewhere(err)
		if gone {
			l.noteGone(k)
		} else if err != nil && !moved(err) && !l.giveUp(k, err) {
			l.leaveThread(k)
			return
		}
		// A session that another node has may have come back meanwhile, and was to be looked at.
		if (done || gone) && l.leaveIfQuiet(k) {
			return
		}
	}
	l.leaveThread(k)
}

// moved says that the thread is to be looked at again: its next effect is another
// one, or an interrupt came in between.
func moved(err error) bool { return errors.Is(err, errMoved) || errors.Is(err, context.Canceled) }

// leaveThread ends the work on a thread.
func (l *Loop) leaveThread(k key) {
	l.mu.Lock()
	delete(l.runners, k)
	l.mu.Unlock()
}

// leaveIfQuiet ends the work unless a fact came since the runner looked.
func (l *Loop) leaveIfQuiet(k key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.runners[k]
	if r.again {
		r.again = false
		return false
	}
	delete(l.runners, k)
	delete(l.returns, k)
	return true
}

// stepThread does the thread's next effect; done says that there is none.
func (l *Loop) stepThread(k key) (done bool, err error) {
	l.mu.Lock()
	l.runners[k].again = false
	l.mu.Unlock()
	var next Effect
	var at time.Time
	var left, ahead bool
	look := func(s *state.Session) error {
		if l.m.IsAway(s) {
			next = Nothing{} // its files are elsewhere, and so is its work
			return nil
		}
		next = l.opt.Policy.Next(s, k.thread, l.opt.Clock())
		at = wakeAt(s, k.thread)
		if _, idle := next.(Nothing); idle {
			left = l.leftAlone(s, k.thread)
		}
		ahead = l.beginsWithAFact(k, s, next)
		return nil
	}
	err = l.m.Peek(l.ctx, k.session, look)
	if err == nil && !ahead {
		err = l.m.View(l.ctx, k.session, look)
	}
	if err != nil {
		return false, err
	}
	l.setAlarm(k, at)
	switch e := next.(type) {
	case Nothing:
		if left {
			return false, l.recover(l.ctx, k.session)
		}
		return true, nil
	case StartTurn:
		return false, l.startTurn(k, e)
	case Prepare:
		return false, l.prepareTurn(k, e)
	case CallModel:
		return false, l.callModel(k, e, e)
	case RunTools:
		return false, l.runTools(k, e, ahead)
	case CheckOutput:
		return false, l.checkOutput(k, e)
	case Compact:
		return false, l.runCompaction(k, e)
	case TellHooks:
		return false, l.tellHooks(k, e)
	case FinishTool:
		return false, l.finishTool(k, e)
	case CompleteTurn:
		return false, l.completeTurn(k, e)
	default:
		return false, l.recordEffect(k, e)
	}
}

// beginsWithAFact reports whether an effect does nothing before it has recorded a
// fact, and so all facts before it. Such an effect may be begun on facts that are on
// their way to the store; the others are begun on what is there.
func (l *Loop) beginsWithAFact(k key, s *state.Session, e Effect) bool {
	switch e := e.(type) {
	case CallModel:
		return true
	case CompleteTurn:
		return !l.hasHooks(hook.Stop, "")
	case RunTools:
		return l.knowsCalls(k, s, e)
	default:
		return false
	}
}

// recordEffect appends the facts of an effect that needs nothing but the state.
func (l *Loop) recordEffect(k key, e Effect) error {
	return l.emitIfNext(k, e, func(tx *session.Tx, t *state.Thread) error {
		switch e := e.(type) {
		case FinishTool:
			finishTool(tx, t, e)
		case AskResume:
			l.askResume(tx, t)
		case Fallback:
			l.emitFallback(tx, t, e)
		case FailTurn:
			l.emitTurnFailed(tx, t, e)
		case CancelTurn:
			l.cancelTurn(tx, t, e)
		case ExpireAction:
			expireAction(tx, e)
		case Nothing, StartTurn, Prepare, CallModel, RunTools, CheckOutput, Compact, TellHooks, CompleteTurn:
			return fmt.Errorf("loop: %T is not recorded", e)
		}
		return nil
	})
}

// emitIfNext appends facts if the effect is still the next one, at the time that the facts
// carry: so it is for a replay too.
func (l *Loop) emitIfNext(k key, e Effect, decide func(*session.Tx, *state.Thread) error) error {
	return l.m.Emit(l.ctx, k.session, event.ByLoop, func(tx *session.Tx) error {
		if l.opt.Policy.Next(tx.State, k.thread, tx.Now()) != e {
			return errMoved
		}
		return decide(tx, tx.State.Thread(k.thread))
	})
}

// emitSoon is emit for facts that nothing outside depends on: those of the next
// effect take them along.
func (l *Loop) emitSoon(k key, e Effect, decide func(*session.Tx, *state.Thread) error) error {
	return l.decideSoon(l.ctx, k, func(tx *session.Tx) error {
		if l.opt.Policy.Next(tx.State, k.thread, tx.Now()) != e {
			return errMoved
		}
		return decide(tx, tx.State.Thread(k.thread))
	})
}

// decideSoon decides facts and remembers that they are under way.
func (l *Loop) decideSoon(ctx context.Context, k key, decide func(*session.Tx) error) error {
	wait, err := l.m.EmitSoon(ctx, k.session, event.ByLoop, decide)
	if wait != nil {
		l.mu.Lock()
		l.runners[k].soon = wait
		l.mu.Unlock()
	}
	return err
}

// awaitPending waits for the facts that are under way.
func (l *Loop) awaitPending(k key) error {
	l.mu.Lock()
	wait := l.runners[k].soon
	l.runners[k].soon = nil
	l.mu.Unlock()
	if wait == nil {
		return nil
	}
	return wait()
}

// interruptible returns a context that an interrupt of the thread's turn ends.
// done must be called. An interrupt that was requested before is found by Next,
// which is asked again before anything is recorded.
func (l *Loop) interruptible(life context.Context, k key) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(life)
	l.mu.Lock()
	l.runners[k].interrupt = cancel
	l.mu.Unlock()
	return ctx, func() {
		l.mu.Lock()
		l.runners[k].interrupt = nil
		l.mu.Unlock()
		cancel(nil)
	}
}

// markOwnCall remembers which calls this process makes, so that recovery doesn't take
// one of them for a call that was cut off.
func (l *Loop) markOwnCall(id string, on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if on {
		l.calls[id] = struct{}{}
	} else {
		delete(l.calls, id)
	}
}

func (l *Loop) isOurs(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.calls[id]
	return ok
}
