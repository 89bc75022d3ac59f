package loop

import (
	"time"
)

// setAlarm has the thread looked at again at a time; the zero time takes it back.
func (l *Loop) setAlarm(k key, at time.Time) {
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
	a.timer = time.AfterFunc(at.Sub(l.opt.Clock()), func() { l.ringAlarm(k, a) })
	l.alarms[k] = a
}

// alarm is when a thread is looked at again.
type alarm struct {
	at    time.Time
	timer *time.Timer
}

// ringAlarm stops what is under way and has the thread looked at, unless the alarm was
// taken back while it went off: what is under way then is something else.
func (l *Loop) ringAlarm(k key, a *alarm) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.alarms[k] != a {
		return
	}
	delete(l.alarms, k)
	l.wakeLocked(k, errDeadline)
}
