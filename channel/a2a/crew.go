package a2a

import (
	"context"
	"errors"

	"agentd/fault"
)

// crew is who looks at tasks. Each account has a line and workers of its own, so
// that a place that hangs holds up its own account alone; all of them together are
// bounded, and then lines wait their turn.
type crew struct {
	lines map[string]*line
	// workers is how many there are; waiting are the lines that found none free.
	workers int
	waiting []*line
}

// line is the tasks of one account that are to be looked at, each at most once.
type line struct {
	account string
	queue   []*told
	workers int
	waits   bool
}

// add puts a task into its account's line.
func (c *crew) add(x *told) *line {
	l := c.lines[x.account]
	if l == nil {
		l = &line{account: x.account}
		c.lines[x.account] = l
	}
	l.queue = append(l.queue, x)
	return l
}

// hire gives a line another worker, if it has use for one; the caller holds the
// teller's lock.
func (t *teller) hire(l *line) {
	switch {
	case t.ctx == nil || t.ctx.Err() != nil || len(l.queue) == 0 || l.workers >= t.s.opt.Push.Workers || l.waits:
	case t.crew.workers >= t.s.opt.Push.AllWorkers:
		l.waits = true
		t.crew.waiting = append(t.crew.waiting, l)
	default:
		l.workers++
		t.crew.workers++
		ctx := t.ctx
		t.all.Go(func() { t.work(ctx, l) })
	}
}

// work looks at the tasks of a line until there is nothing to do, or another line
// waits for a worker.
func (t *teller) work(ctx context.Context, l *line) {
	for x := t.nextTask(ctx, l, true); x != nil; x = t.nextTask(ctx, l, false) {
		wait, done, err := t.deliverDueUpdates(ctx, x)
		switch f, ok := errors.AsType[*fault.Error](err); {
		case err == nil || ctx.Err() != nil:
		case ok && f.Elsewhere != "":
			// The node that has the session tells of it; if that one is gone, we do later.
			wait = t.s.opt.Push.MaxBackoff
		default:
			t.s.opt.Logger.Warn("push notifications for an A2A task failed", "taskId", x.rec.TaskID, "error", err)
			wait = t.s.opt.Push.MaxBackoff
		}
		t.returnTask(x, wait, done && err == nil)
	}
}

// nextTask returns the next task of a line; nil dismisses the worker. One that has just
// been hired does at least one thing.
func (t *teller) nextTask(ctx context.Context, l *line, fresh bool) *told {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(l.queue) == 0 || ctx.Err() != nil || (!fresh && len(t.crew.waiting) > 0) {
		t.dismiss(l)
		return nil
	}
	x := l.queue[0]
	l.queue = l.queue[1:]
	x.queued, x.busy = false, true
	t.hire(l) // more of them have something to do
	return x
}

// dismiss takes a worker from a line and gives it to the one that waits longest.
func (t *teller) dismiss(l *line) {
	l.workers--
	t.crew.workers--
	for len(t.crew.waiting) > 0 && t.crew.workers < t.s.opt.Push.AllWorkers {
		next := t.crew.waiting[0]
		t.crew.waiting = t.crew.waiting[1:]
		next.waits = false
		t.hire(next)
		t.crew.drop(next)
	}
	t.hire(l)
	t.crew.drop(l)
}

// drop forgets a line that has nothing to do.
func (c *crew) drop(l *line) {
	if l.workers == 0 && len(l.queue) == 0 && !l.waits {
		delete(c.lines, l.account)
	}
}
