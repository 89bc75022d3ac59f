package loop

import (
	"context"
	"errors"
	"time"

	"agentd/event"
	"agentd/session"
	"agentd/store"
)

// Bounds of the time between two attempts to record what is known.
const (
	firstAttempt = 20 * time.Millisecond
	lastAttempt  = time.Second
)

// emitKnown records what this process knows and what can't be found out again, such as how
// a command ended. While the store can't be reached it waits: given up, the call would
// count as lost and the thread would wait for a person. It ends when another node has the
// session, or when the loop's tools must end.
//
// The decision must find out by itself whether its facts were written already, because an
// attempt whose outcome is unknown is followed by another one.
func (l *Loop) emitKnown(sessionID string, decide func(*session.Tx) error) error {
	return l.emitUntilBack(sessionID, true, func(tx *session.Tx, _ bool) error { return decide(tx) })
}

// emitUntilBack is emitKnown for a decision that is told whether it is made again, and that
// isn't made again, unless repeats says so, if it may have been written.
func (l *Loop) emitUntilBack(sessionID string, repeats bool, decide func(tx *session.Tx, again bool) error) error {
	return l.decideUntilBack(sessionID, "a result can't be recorded and is kept until the store is back", repeats, decide)
}

// decideUntilBack is emitUntilBack with what the log says when it has to wait.
func (l *Loop) decideUntilBack(sessionID, waiting string, repeats bool, decide func(tx *session.Tx, again bool) error) error {
	wait, again := firstAttempt, false
	for {
		err := l.m.Emit(context.WithoutCancel(l.ctx), sessionID, event.ByLoop, func(tx *session.Tx) error { return decide(tx, again) })
		if err == nil || !session.Passing(err) || (!repeats && errors.Is(err, store.ErrUnknownOutcome)) {
			return err
		}
		if !again {
			l.opt.Logger.Warn(waiting, "sessionId", sessionID, "error", err)
		}
		again = true
		select {
		case <-l.tools.Done():
			return err
		case <-time.After(wait):
		}
		wait = min(2*wait, lastAttempt)
	}
}
