package loop

import (
	"time"

	"agentd/state"
)

// alarm has the thread looked at again at a time; the zero time takes it back.
func (l *Loop) alarm(k key, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.alarms[k]; a != nil {
		a.timer.Stop()
		delete(l.alarms, k)
	}
	if at.IsZero() || l.closed {
		return
	}
	a := &alarm{at: at}
	a.timer = time.AfterFunc(at.Sub(l.opt.Clock()), func() { l.ring(k, a) })
	l.alarms[k] = a
}

// alarm is when a thread is looked at again.
type alarm struct {
	at    time.Time
	timer *time.Timer
}

// ring stops what is under way and has the thread looked at, unless the alarm was
// taken back while it went off: what is under way then is something else.
func (l *Loop) ring(k key, a *alarm) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.alarms[k] != a {
		return
	}
	delete(l.alarms, k)
	l.wakeLocked(k, errDeadline)
}

// Ring has a thread looked at, and what is under way stopped if its alarm is due. A
// runtime whose clock isn't the machine's calls it after the clock was moved: no timer
// knows of that.
func (l *Loop) Ring(sessionID, threadID string) {
	k := key{sessionID, threadID}
	l.mu.Lock()
	a := l.alarms[k]
	due := a != nil && !a.at.After(l.opt.Clock())
	if !due {
		l.wakeLocked(k, nil)
	}
	l.mu.Unlock()
	if due {
		a.timer.Stop()
		l.ring(k, a)
	}
}

// paced holds a thread before an effect as long as [Options.Pace] says.
func (l *Loop) paced(k key, next Effect) error {
	if l.opt.Pace == nil {
		return nil
	}
	wait := l.opt.Pace(k.thread, next)
	if wait <= 0 {
		return nil
	}
	ctx, done := l.interruptible(l.ctx, k)
	defer done()
	if err := l.still(ctx, k, next, func(*state.Session, *state.Thread) {}); err != nil {
		return err
	}
	return sleep(ctx, wait)
}
