package loop

import (
	"context"
	"time"

	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
	"agentd/store/storefault"
)

// Bounds of the time after which a thread is looked at again whose session could not be
// reached.
const (
	firstReturn = 250 * time.Millisecond
	lastReturn  = 5 * time.Second
)

// giveUp ends what a thread can't go on with, and says why; it reports whether it
// did, and the thread can go on with what comes next. Where the store doesn't
// take that either, the facts are as they were: the thread is looked at again after a
// while, for as long as the store is away.
func (l *Loop) giveUp(k key, err error) bool {
	kind := fault.KindOf(err)
	if storefault.Passes(err) { // what was read past the session has the store's own errors
		kind = fault.Unavailable
	}
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

// noteGone leaves a thread to the node that has its session now.
func (l *Loop) noteGone(k key) {
	l.opt.Logger.Info("another node has the session of a thread now", "sessionId", k.session, "threadId", k.thread)
	l.setAlarm(k, time.Time{})
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
	l.returns[k] = min(n+1, 10) // its doublings are beyond the last return
	l.mu.Unlock()
	l.setAlarm(k, l.opt.Clock().Add(min(firstReturn<<n, lastReturn)))
}
