// Package loop runs turns.
//
// # Contract
//
// [Next] decides what a thread does next, as a pure function of its folded facts.
// A [Loop] does it: each effect yields facts, appended through the session's
// writer, and the facts yield the next effect. The loop has no memory of its own;
// what it keeps (which threads are being worked on, how to stop a call that is
// under way) can be lost at any moment, and [Loop.Recover] turns what was in
// flight into facts before Next decides as always.
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
	"sync"
	"time"

	"agentd/event"
	"agentd/fault"
	"agentd/model"
	"agentd/session"
	"agentd/state"
	"agentd/store"
)

// Options configure a [Loop]. Provider and Model are required.
type Options struct {
	// Store is where the inputs of turns are read from.
	Store store.Store
	// Provider answers, Model is what it is asked for.
	Provider model.Provider
	Model    string
	// Recovery is auto (default) or manual: then nothing goes on after a restart
	// until resume_thread.
	Recovery string
	// FlushEvery is how long pieces of an answer are gathered into one fact; the
	// first piece goes out at once. Default 25 ms.
	FlushEvery time.Duration
	// MaxRunning bounds the threads that are worked on at once; default 1024.
	MaxRunning int
	// Logger defaults to one that discards.
	Logger *slog.Logger
}

// Loop executes the effects of all threads.
type Loop struct {
	opt Options
	m   *session.Manager

	ctx    context.Context //nolint:containedctx // the loop's life, ended by Close
	cancel context.CancelCauseFunc
	slots  chan struct{}
	wg     sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	runners map[key]*runner
	// calls holds the model calls that this process makes, by request id.
	calls map[string]struct{}
}

type key struct{ session, thread string }

// runner is the work on one thread.
type runner struct {
	// again says that a fact came after the runner looked.
	again bool
	// interrupt stops the model call that is under way, if one is.
	interrupt context.CancelCauseFunc
}

var (
	errInterrupted = errors.New("the turn was interrupted")
	errStopping    = errors.New("the runtime is stopping")
	// errMoved says that the effect is not the next one any more.
	errMoved = errors.New("loop: the thread moved on")
)

// New returns a loop that works on nothing until Start.
func New(opt Options) *Loop {
	if opt.FlushEvery == 0 {
		opt.FlushEvery = 25 * time.Millisecond
	}
	if opt.MaxRunning == 0 {
		opt.MaxRunning = 1024
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Loop{opt: opt, runners: map[key]*runner{}, calls: map[string]struct{}{}, slots: make(chan struct{}, opt.MaxRunning)}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	return l
}

// Start binds the loop to the manager that it observes.
func (l *Loop) Start(m *session.Manager) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.m = m
}

// Close interrupts what is under way, waits for it, and starts nothing more. A
// model call that was cut off is recorded as interrupted and asked again at the
// next start.
func (l *Loop) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel(errStopping)
	l.wg.Wait()
}

// Committed implements [session.Observer]: it wakes the threads that may have
// something to do.
func (l *Loop) Committed(sessionID string, facts []event.Event) {
	for i := range facts {
		switch facts[i].Type { //nolint:exhaustive // the rest gives a thread nothing to do
		case event.TypeTurnSubmitted, event.TypeTurnSteered, event.TypeActionResolved, event.TypeThreadUpdated:
			l.wake(key{sessionID, facts[i].ThreadID}, false)
		case event.TypeTurnInterruptRequested:
			l.wake(key{sessionID, facts[i].ThreadID}, true)
		}
	}
}

// wake has somebody look at the thread.
func (l *Loop) wake(k key, interrupt bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.runners[k]; r != nil {
		r.again = true
		if interrupt && r.interrupt != nil {
			r.interrupt(errInterrupted)
		}
		return
	}
	if l.closed {
		return
	}
	l.runners[k] = &runner{}
	l.wg.Go(func() { l.run(k) })
}

// run works on a thread until it has nothing to do.
func (l *Loop) run(k key) {
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	case <-l.ctx.Done():
		l.leave(k)
		return
	}
	for l.ctx.Err() == nil {
		done, err := l.step(k)
		if err != nil && !errors.Is(err, errMoved) {
			l.report(k, err)
			l.leave(k)
			return
		}
		if done && l.leaveIfQuiet(k) {
			return
		}
	}
	l.leave(k)
}

// leave ends the work on a thread.
func (l *Loop) leave(k key) {
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
	return true
}

// report logs why the work on a thread stopped. Its facts are as they were: the
// next wake or start takes it up again.
func (l *Loop) report(k key, err error) {
	if fault.KindOf(err) == fault.Unavailable && l.ctx.Err() != nil {
		return
	}
	l.opt.Logger.Error("work on a thread stopped", "sessionId", k.session, "threadId", k.thread, "error", err)
}

// step does the thread's next effect; done says that there is none.
func (l *Loop) step(k key) (done bool, err error) {
	l.mu.Lock()
	l.runners[k].again = false
	l.mu.Unlock()
	var next Effect
	if err := l.m.View(l.ctx, k.session, func(s *state.Session) error {
		next = Next(s, k.thread)
		return nil
	}); err != nil {
		return false, err
	}
	switch e := next.(type) {
	case Nothing:
		return true, nil
	case CallModel:
		return false, l.callModel(k, e)
	default:
		return false, l.record(k, e)
	}
}

// record appends the facts of an effect that needs nothing but the state.
func (l *Loop) record(k key, e Effect) error {
	return l.emit(k, e, func(tx *session.Tx, t *state.Thread) error {
		switch e := e.(type) {
		case StartTurn:
			startTurn(tx, t, e)
		case StartTool:
			return l.startTool(tx, t, e)
		case FinishTool:
			finishTool(tx, t, e)
		case CompleteTurn:
			completeTurn(tx, t, e)
		case FailTurn:
			failTurn(tx, t, e)
		case CancelTurn:
			cancelTurn(tx, t, e)
		case Nothing, CallModel:
			return fmt.Errorf("loop: %T is not recorded", e)
		}
		return nil
	})
}

// emit appends facts if the effect is still the next one.
func (l *Loop) emit(k key, e Effect, decide func(*session.Tx, *state.Thread) error) error {
	return l.m.Emit(l.ctx, k.session, event.ByLoop, func(tx *session.Tx) error {
		if Next(tx.State, k.thread) != e {
			return errMoved
		}
		return decide(tx, tx.State.Thread(k.thread))
	})
}
