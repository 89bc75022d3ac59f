// Package work carries work beyond a turn: tasks with attempts and a graph,
// subagents, jobs, schedules.
//
// # Contract
//
// Everything that is known of tasks, subagents and jobs is in the facts of their
// session; [Work] decides, as a function of the folded state, what is due next
// (an attempt to start, a retry, a task that is lost, an item of a job) and records
// it. What it keeps in memory can be lost at any moment: [Work.Recover] finds open
// work through the index and goes on from the facts. The work of the runtime
// itself is done by turns: a task, a subagent or an item gets a thread of its own
// and a turn in it, and the loop runs it as any other.
//
// # Concurrency
//
// Work observes the manager: [Work.Committed] only notes what has to be looked
// at. One goroutine looks at tasks and starts attempts, with as many helpers as
// there are attempts to start; another looks at subagents and jobs. Two looks at
// the same task do no harm: each decides under the writer's lock of its session.
// [Work.Close] stops all of them and waits.
package work

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/session"
	"agentd/state"
)

// Options configure [Work]. Do is required; every other field has a default.
type Options struct {
	// Limits bound what runs at once.
	Limits Limits
	// Narrow says which permission mode a child of a thread gets that asks for one
	// (or for none); false says that it would be wider than its parent's, which is
	// then what is returned. If nil a child gets what it asks for.
	Narrow func(s *state.Session, parent *state.Thread, asked string) (mode string, ok bool)
	// Recovery is auto (default) or manual: then what would go on by itself after a
	// restart is held until it is resumed.
	Recovery string
	// Logger defaults to one that discards.
	Logger *slog.Logger
	// Clock defaults to time.Now, Random to a source of its own.
	Clock  func() time.Time
	Random func() float64
	// Do carries out commands of all parts of the runtime: schedules start their runs
	// through it, and what is stopped with a task is stopped through it. Required.
	Do func(context.Context, command.Caller, command.Params) (any, error)
	// CheckTurn refuses constraints that no turn could run with; nil accepts all.
	CheckTurn func(*event.TurnOptions) error
	// CheckOutput refuses a reported output that doesn't satisfy its job's schema; nil
	// accepts all. The params of its errors are paths in the output.
	CheckOutput func(schema, output event.Raw) error
	// Peers are the other agents that work can be given to. If nil, the caller of the
	// commands about the work of peers speaks to them.
	Peers Peers
	// Redact takes secrets out of what callers send before it is stored; nil keeps
	// everything.
	Redact func(event.Raw) event.Raw
}

// Limits bound what runs at once. Zero means the default.
type Limits struct {
	// Runtime, Session and Account bound the runtime's own attempts at once: of
	// all, of one session, of one account. Defaults 64, 16, 32.
	Runtime, Session, Account int
	// Depth and Width bound subagents: generations below a thread, and children of
	// one thread at once. Defaults 4 and 16.
	Depth, Width int
}

// Work is the scheduler of all work beyond turns.
type Work struct {
	opt Options
	m   *session.Manager
	// waits are those who wait for a child.
	waits watchers
	// jobs are those that are worked on here.
	jobs jobRuns
	// crons are the schedules that are watched here.
	crons cronRuns

	ctx    context.Context //nolint:containedctx // its life, ended by Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu sync.Mutex
	// due holds the sessions that have something to look at, with the facts that
	// say so; woken tells the goroutine that looks.
	due   map[string][]event.Event
	woken chan struct{}

	// What the scheduler of tasks keeps; see schedule.go. graph is locked by code that
	// adds an edge between tasks.
	book   *book
	slots  *slots
	timers *timers
	graph  sync.Mutex
}

// New returns a scheduler that looks at nothing until Start.
func New(opt Options) *Work {
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if opt.Clock == nil {
		opt.Clock = time.Now
	}
	if opt.Random == nil {
		opt.Random = rand.Float64
	}
	w := &Work{opt: opt, due: map[string][]event.Event{}, woken: make(chan struct{}, 1)}
	w.book, w.slots, w.timers = newBook(), newSlots(opt.Limits), newTimers()
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// Start binds the scheduler to the manager that it observes and begins to look.
func (w *Work) Start(m *session.Manager) {
	w.m = m
	w.book.up = m.Now()
	w.wg.Go(w.runLoop)
	w.wg.Go(w.runScheduler)
	if m.IsShared() {
		w.wg.Go(w.partWithLost)
	}
}

// Close stops looking and waits.
func (w *Work) Close() {
	w.cancel()
	w.wg.Wait()
}

// Register registers the handlers of the commands about tasks, the work of peers,
// subagents, jobs and schedules.
func (w *Work) Register(t *command.Table) {
	command.Handle(t, w.createTask)
	command.Handle(t, w.updateTask)
	command.Handle(t, w.startTask)
	command.Handle(t, w.retryTask)
	command.Handle(t, w.appendProgress)
	command.Handle(t, w.completeTask)
	command.Handle(t, w.failTask)
	command.Handle(t, w.pauseTask)
	command.Handle(t, w.resumeTask)
	command.Handle(t, w.cancelTask)
	command.Handle(t, w.archiveTask)
	command.HandleKept(t, w.linkTasks, w.linkedTasks)
	command.HandleKept(t, w.unlinkTasks, w.unlinkedTasks)
	command.HandleReadModel(t, w.getTask)
	command.HandleReadModel(t, w.listTasks)

	command.Handle(t, w.getPeerWork)
	command.Handle(t, w.linkPeerTask)
	command.Handle(t, w.updatePeerTask)

	command.Handle(t, w.spawnSubagent)
	command.Handle(t, w.sendSubagentInput)
	command.Handle(t, w.waitSubagents)
	command.Handle(t, w.resumeSubagent)
	command.Handle(t, w.closeSubagent)
	command.Handle(t, w.listSubagents)

	command.Handle(t, w.createJob)
	command.HandleKept(t, w.startJob, keepJobAnswer[*command.StartJob](w))
	command.Handle(t, w.getJob)
	command.Handle(t, w.listJobs)
	command.HandleKept(t, w.cancelJob, keepJobAnswer[*command.CancelJob](w))
	command.HandleKept(t, w.retryJobItem, keepJobAnswer[*command.RetryJobItem](w))
	command.HandleKept(t, w.reportJobItem, keepJobAnswer[*command.ReportJobItem](w))

	command.Handle(t, w.createSchedule)
	command.Handle(t, w.listSchedules)
	command.Handle(t, w.runSchedule)
	command.Handle(t, w.pauseSchedule)
	command.Handle(t, w.resumeSchedule)
	command.Handle(t, w.deleteSchedule)
}

// Committed implements [session.Observer]: it notes what has to be looked at.
func (w *Work) Committed(sessionID string, facts []event.Event) {
	w.book.recordFacts(sessionID, facts)
	n, jobs := 0, w.jobs.running.Load() > 0
	for i := range facts {
		if concernsScheduler(&facts[i], jobs) {
			n++
		}
	}
	if n == 0 {
		return
	}
	w.mu.Lock()
	due := slices.Grow(w.due[sessionID], n)
	for i := range facts {
		if concernsScheduler(&facts[i], jobs) {
			due = append(due, facts[i])
		}
	}
	w.due[sessionID] = due
	w.mu.Unlock()
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// concernsScheduler reports whether a fact may give the scheduler something to do. Most are of
// turns that no child, no job and no schedule has to do with, and nothing is woken.
func concernsScheduler(e *event.Event, jobs bool) bool {
	return subagentConcerns(e) || jobConcerns(e.Type, jobs) || cronConcerns(e)
}

// runLoop looks at what is due until the scheduler is closed.
func (w *Work) runLoop() {
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-w.woken:
		}
		w.mu.Lock()
		due := w.due
		w.due = map[string][]event.Event{}
		w.mu.Unlock()
		for sessionID, facts := range due {
			for _, look := range []func(context.Context, string, []event.Event) error{w.lookAtSubagents, w.lookAtJobs, w.lookAtSchedules} {
				if err := look(w.ctx, sessionID, facts); err != nil && w.ctx.Err() == nil && !session.LostSession(err, sessionID) {
					w.m.Stray(sessionID)
					w.opt.Logger.Error("pending work could not be checked", "sessionId", sessionID, "error", err)
				}
			}
		}
	}
}

// Recover takes up the open work of a session after a restart. The loop has
// recovered its threads before.
func (w *Work) Recover(ctx context.Context, sessionID string) error {
	for _, part := range []func(context.Context, string) error{w.recoverTasks, w.recoverSubagents, w.recoverJobs, w.recoverSchedules} {
		if err := part(ctx, sessionID); err != nil {
			return err
		}
	}
	return nil
}
