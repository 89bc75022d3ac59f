// Package trial runs benchmark trials in the sessions of a runtime: it starts and ends
// them, records their scores, exports them and compares two configurations.
//
// # Contract
//
// A trial is a turn, or several of one thread, that a benchmark asked for. Everything
// about it is facts of its session: a trial that was open when a process ended is taken
// up again by [Runner.Recover]. A trial ends once: with its turn, when its time is
// over, when it can't go on, or when the caller says so. Scores come from outside; this
// package computes what they say ([command.CompareBenchmarkRuns]) and decides nothing.
//
// # Concurrency
//
// A [Runner] has one goroutine, from Start to Close, which ends trials. Its methods may
// be called by many.
package trial

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"agentd/command"
	"agentd/proof"
	"agentd/session"
	"agentd/store"
)

// Options configure a [Runner]. Store, Do and Logger are required.
type Options struct {
	// Store is where the facts of sessions are.
	Store store.Store
	// Do carries out commands of other parts of the runtime: a trial whose time is over
	// interrupts its turn.
	Do func(context.Context, command.Caller, command.Params) (any, error)
	// Logger is told of trials that could not be ended.
	Logger *slog.Logger
	// RuntimeID is written into packs.
	RuntimeID string
	// DefaultModel is the model of turns that name none, Sandbox the mode that commands
	// are confined in, BudgetUSD what a session may cost, or 0. All three are recorded
	// with each trial.
	DefaultModel string
	Sandbox      string
	BudgetUSD    float64
}

// Runner runs the trials of one runtime, and ends them. All that it keeps of them can be
// lost; the facts say which trials are open.
type Runner struct {
	opt     Options
	manager *session.Manager
	// proof writes and signs what is exported of a trial's facts.
	proof *proof.Reporter

	ctx    context.Context //nolint:containedctx // its life, ended by Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu sync.Mutex
	// open are the sessions with open trials, due those to look at, at the times of
	// the next look.
	open map[string]bool
	due  map[string]bool
	at   map[string]time.Time
	// woken tells the goroutine that something is due.
	woken chan struct{}
}

// New returns a runner that does nothing until Start.
func New(opt Options) *Runner {
	r := &Runner{opt: opt, open: map[string]bool{}, due: map[string]bool{}, at: map[string]time.Time{}, woken: make(chan struct{}, 1)}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// Start binds the runner to the sessions that it observes, and begins to end trials.
func (r *Runner) Start(m *session.Manager, p *proof.Reporter) {
	r.manager, r.proof = m, p
	r.wg.Go(r.endTrials)
}

// Close stops ending trials and waits. Those that are open are found so at the next
// start.
func (r *Runner) Close() {
	r.cancel()
	r.wg.Wait()
}

// Register registers the handlers of the commands about benchmark trials.
func (r *Runner) Register(t *command.Table) {
	command.Handle(t, r.startTrial)
	command.Handle(t, r.recordReward)
	command.Handle(t, r.endTrial)
	command.HandleKept(t, r.exportTrial, r.trialAnswer)
	command.Handle(t, r.compareTrials)
	command.Handle(t, r.listTrials)
}
