package takeover

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"agentd/session"
	"agentd/store"
)

const (
	// sideBySide is how many sessions are taken up side by side: their facts share the
	// journal's commits.
	sideBySide = 64
	// retryFirst and the other two bound the pause after which a session is taken up again
	// that couldn't be: retryPassing where the reason may go away by itself.
	retryFirst   = 400 * time.Millisecond
	retryPassing = 5 * time.Second
	retryLast    = 5 * time.Minute
)

// Queue has the sessions that are being taken up, and those that couldn't be.
type Queue struct {
	opt     QueueOptions
	workers sync.WaitGroup

	mu      sync.Mutex
	running map[string]struct{}
	failed  map[string]failedTakeUp
	// room has a place for each that is running, freed is told when one is free again.
	room, freed chan struct{}
}

// QueueOptions say what a queue works with; all are required.
type QueueOptions struct {
	// TakeUp takes one session up.
	TakeUp func(ctx context.Context, sessionID string) error
	// Sessions is called when a session is taken up.
	Sessions func() *session.Manager
	Logger   *slog.Logger
}

// failedTakeUp is when a session is due again, and the pause before that.
type failedTakeUp struct {
	due   time.Time
	pause time.Duration
}

// NewQueue returns a queue with nothing in it.
func NewQueue(opt QueueOptions) *Queue {
	return &Queue{
		opt: opt, running: map[string]struct{}{}, failed: map[string]failedTakeUp{},
		room: make(chan struct{}, sideBySide), freed: make(chan struct{}, 1),
	}
}

// Free returns for how many more there is room.
func (q *Queue) Free() int { return cap(q.room) - len(q.room) }

// Freed is told when there is room again for a session that is taken up soon.
func (q *Queue) Freed() <-chan struct{} { return q.freed }

// Wait returns when no session is being taken up in the background any more.
func (q *Queue) Wait() { q.workers.Wait() }

// beginTakeUp notes that a session is taken up from now on. It reports false for one that is
// already, and for one that failed and isn't due.
func (q *Queue) beginTakeUp(id string, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, running := q.running[id]; running || now.Before(q.failed[id].due) {
		return false
	}
	q.running[id] = struct{}{}
	return true
}

// endTakeUp notes that a session isn't being taken up any more.
func (q *Queue) endTakeUp(id string) {
	q.mu.Lock()
	delete(q.running, id)
	q.mu.Unlock()
}

// failTakeUp notes that a session couldn't be taken up, and returns the pause until it is due again:
// each is twice the one before.
func (q *Queue) failTakeUp(id string, now time.Time, why error) time.Duration {
	last := retryLast
	if session.Passing(why) {
		last = retryPassing
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	pause := min(max(2*q.failed[id].pause, retryFirst), last)
	q.failed[id] = failedTakeUp{now.Add(pause), pause}
	return pause
}

// forgetFailure notes that a session was taken up, or is no longer this node's to take up.
func (q *Queue) forgetFailure(id string) {
	q.mu.Lock()
	delete(q.failed, id)
	q.mu.Unlock()
}

// TakeUpSoon has sessions taken up in the background. It waits while there is no room, and for
// none of them: one that hangs is in no other's way. One that isn't due yet, or is being taken
// up, stays a stray.
func (q *Queue) TakeUpSoon(ctx context.Context, ids []string) {
	for _, id := range q.beginSoon(session.TakingUp(ctx), ids, q.takeUpOne) {
		q.opt.Sessions().Stray(id)
	}
}

// beginSoon does something with sessions in the background, as soon as there is room. It
// returns those with which it doesn't: that failed and aren't due, or with which something is
// done already, or that are left when ctx ends.
func (q *Queue) beginSoon(ctx context.Context, ids []string, do func(context.Context, string)) (left []string) {
	for i, id := range ids {
		if !q.beginTakeUp(id, time.Now()) {
			left = append(left, id)
			continue
		}
		select {
		case q.room <- struct{}{}:
		case <-ctx.Done():
			q.endTakeUp(id)
			return append(left, ids[i:]...)
		}
		q.workers.Go(func() {
			do(ctx, id)
			q.endTakeUp(id)
			<-q.room
			select {
			case q.freed <- struct{}{}:
			default:
			}
		})
	}
	return left
}

// TakeUpAll takes sessions up side by side and returns when that is done.
func (q *Queue) TakeUpAll(ctx context.Context, ids []string) {
	ctx = session.TakingUp(ctx)
	var wg sync.WaitGroup
	room := make(chan struct{}, sideBySide)
	for _, id := range ids {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			wg.Wait()
			return
		}
		wg.Go(func() {
			defer func() { <-room }()
			q.takeUpOne(ctx, id)
		})
	}
	wg.Wait()
}

// takeUpOne takes a session up. One that can't be is reported, and taken up again later, each
// time after a longer pause; one that another node has is that node's.
func (q *Queue) takeUpOne(ctx context.Context, id string) {
	err := q.opt.TakeUp(ctx, id)
	if err != nil && ctx.Err() != nil {
		return
	}
	// A store that failed takes nothing until the next start, which finds what is left.
	if err == nil || session.OwnedElsewhere(err) || errors.Is(err, store.ErrClosed) || errors.Is(err, store.ErrFailed) {
		q.forgetFailure(id)
		if err != nil {
			q.opt.Sessions().LeaveStray(id)
			q.opt.Logger.Debug("the session is not this process's to take up", "sessionId", id, "error", err)
		}
		return
	}
	if has, workErr := q.opt.Sessions().HasWork(ctx, id); workErr == nil && !has {
		q.forgetFailure(id)
		q.opt.Sessions().LeaveStray(id)
		q.opt.Logger.Debug("a session without unfinished work could not be loaded", "sessionId", id, "error", err)
		return
	}
	pause := q.failTakeUp(id, time.Now(), err)
	q.opt.Logger.Error("session could not be recovered; it is tried again", "sessionId", id, "after", pause.String(), "error", err)
	q.opt.Sessions().Stray(id)
}
