package agentd

import (
	"context"
	"errors"
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

// takeUps are the sessions that are being taken up, and those that couldn't be.
type takeUps struct {
	mu      sync.Mutex
	running map[string]struct{}
	failed  map[string]failedTakeUp
	// room has a place for each that is running, freed is told when one is free again.
	room, freed chan struct{}
}

// failedTakeUp is when a session is due again, and the pause before that.
type failedTakeUp struct {
	due   time.Time
	pause time.Duration
}

func newTakeUps() takeUps {
	return takeUps{
		running: map[string]struct{}{}, failed: map[string]failedTakeUp{},
		room: make(chan struct{}, sideBySide), freed: make(chan struct{}, 1),
	}
}

// free returns for how many more there is room.
func (t *takeUps) free() int { return cap(t.room) - len(t.room) }

// begin notes that a session is taken up from now on. It reports false for one that is
// already, and for one that failed and isn't due.
func (t *takeUps) begin(id string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, running := t.running[id]; running || now.Before(t.failed[id].due) {
		return false
	}
	t.running[id] = struct{}{}
	return true
}

// end notes that a session isn't being taken up any more.
func (t *takeUps) end(id string) {
	t.mu.Lock()
	delete(t.running, id)
	t.mu.Unlock()
}

// fail notes that a session couldn't be taken up, and returns the pause until it is due again:
// each is twice the one before.
func (t *takeUps) fail(id string, now time.Time, why error) time.Duration {
	last := retryLast
	if session.Passing(why) {
		last = retryPassing
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	pause := min(max(2*t.failed[id].pause, retryFirst), last)
	t.failed[id] = failedTakeUp{now.Add(pause), pause}
	return pause
}

// forget notes that a session was taken up, or is no longer this node's to take up.
func (t *takeUps) forget(id string) {
	t.mu.Lock()
	delete(t.failed, id)
	t.mu.Unlock()
}

// takeUpSoon has sessions taken up in the background. It waits while there is no room, and for
// none of them: one that hangs is in no other's way. One that isn't due yet, or is being taken
// up, stays a stray.
func (r *Runtime) takeUpSoon(ctx context.Context, ids []string) {
	for _, id := range r.beginSoon(session.TakingUp(ctx), ids, r.takeUpOne) {
		r.manager.Stray(id)
	}
}

// beginSoon does something with sessions in the background, as soon as there is room. It
// returns those with which it doesn't: that failed and aren't due, or with which something is
// done already, or that are left when ctx ends.
func (r *Runtime) beginSoon(ctx context.Context, ids []string, do func(context.Context, string)) (left []string) {
	for i, id := range ids {
		if !r.takes.begin(id, time.Now()) {
			left = append(left, id)
			continue
		}
		select {
		case r.takes.room <- struct{}{}:
		case <-ctx.Done():
			r.takes.end(id)
			return append(left, ids[i:]...)
		}
		r.background.Go(func() {
			do(ctx, id)
			r.takes.end(id)
			<-r.takes.room
			select {
			case r.takes.freed <- struct{}{}:
			default:
			}
		})
	}
	return left
}

// takeUpAll takes sessions up side by side and returns when that is done.
func (r *Runtime) takeUpAll(ctx context.Context, ids []string) {
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
			r.takeUpOne(ctx, id)
		})
	}
	wg.Wait()
}

// takeUpOne takes a session up. One that can't be is reported, and taken up again later, each
// time after a longer pause; one that another node has is that node's.
func (r *Runtime) takeUpOne(ctx context.Context, id string) {
	err := r.TakeUp(ctx, id)
	if err != nil && ctx.Err() != nil {
		return
	}
	if err == nil || session.OwnedElsewhere(err) || errors.Is(err, store.ErrClosed) {
		r.takes.forget(id)
		if err != nil {
			r.opt.Logger.Debug("another node has the session", "sessionId", id)
		}
		return
	}
	if has, workErr := r.manager.HasWork(ctx, id); workErr == nil && !has {
		r.takes.forget(id)
		r.opt.Logger.Debug("a session without unfinished work could not be loaded", "sessionId", id, "error", err)
		return
	}
	pause := r.takes.fail(id, time.Now(), err)
	r.opt.Logger.Error("session could not be recovered; it is tried again", "sessionId", id, "after", pause.String(), "error", err)
	r.manager.Stray(id)
}
