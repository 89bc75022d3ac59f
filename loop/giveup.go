package loop

import (
	"context"
	"time"

	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
)

// Bounds of looking again at a thread whose session could not be reached.
const (
	maxReturns  = 10
	firstReturn = time.Second
	lastReturn  = time.Minute
)

// giveUp ends what a thread can't go on with, and says why; it reports whether it
// did, and the thread can go on with what comes next. Where the store doesn't
// take that either, the facts are as they were: the thread is looked at again
// after a while, a bounded number of times, and at the next wake or start.
func (l *Loop) giveUp(k key, err error) bool {
	kind := fault.KindOf(err)
	if (kind == fault.Unavailable && l.ctx.Err() != nil) || kind == fault.NotFound {
		return false
	}
	l.opt.Logger.Error("work on a thread stopped", "sessionId", k.session, "threadId", k.thread, "error", err)
	if kind == fault.Unavailable {
		l.comeBack(k)
		return false
	}
	ended := false
	failed := l.m.Emit(context.WithoutCancel(l.ctx), k.session, event.ByLoop, func(tx *session.Tx) error {
		ended = l.abandonTurn(tx, tx.State.Thread(k.thread), l.redactText(err.Error()))
		return nil
	})
	if failed != nil {
		l.opt.Logger.Error("the end of a turn could not be recorded", "sessionId", k.session, "threadId", k.thread, "error", failed)
		l.comeBack(k)
		return false
	}
	return ended
}

// abandonTurn records the end of what the thread would do next. A turn that waits for
// its start would keep those behind it waiting.
func (l *Loop) abandonTurn(tx *session.Tx, t *state.Thread, why string) bool {
	if t == nil {
		return false
	}
	switch e := l.opt.Policy.Next(tx.State, t.ThreadID, l.opt.Clock()).(type) {
	case StartTurn:
		if t.Active == nil {
			tx.Emit(session.QueueStarted(t, e.TurnID))
		}
		l.endTurn(tx, t, t.Turn(e.TurnID), state.TurnFailed, "internal", &event.Failure{Message: why, Category: "internal"})
		return true
	case Compact:
		if e.CompactionID != "" {
			tx.Emit(event.Event{Type: event.TypeContextCompactionFailed, Scope: compactionScope(t, e.TurnID), Payload: &event.CompactionFailed{
				CompactionID: e.CompactionID, Trigger: e.Trigger, Attempt: e.Attempt, Error: event.Failure{Message: why, Category: "internal"},
			}})
			return true
		}
	}
	if t.Active == nil || t.Active.Status != state.TurnRunning {
		return false
	}
	l.emitTurnFailed(tx, t, FailTurn{t.Active.TurnID, "internal", why})
	return true
}

// comeBack has the thread looked at again after a while.
func (l *Loop) comeBack(k key) {
	l.mu.Lock()
	n := l.returns[k]
	l.returns[k] = n + 1
	l.mu.Unlock()
	if n >= maxReturns {
		return
	}
	l.setAlarm(k, l.opt.Clock().Add(min(firstReturn<<n, lastReturn)))
}
