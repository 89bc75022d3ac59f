package loop

import (
	"context"
	"errors"
	"fmt"

	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
)

// Recover takes up the sessions that had unfinished work when the process
// stopped: what was in flight becomes facts, then Next decides as always. A
// session that can't be recovered is reported and doesn't hold up the others.
func (l *Loop) Recover(ctx context.Context) error {
	ids, err := l.m.Open(ctx)
	if err != nil {
		return fmt.Errorf("loop: recover: %w", err)
	}
	var errs []error
	for _, id := range ids {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := l.recover(ctx, id); err != nil {
			l.opt.Logger.Error("session could not be recovered", "sessionId", id, "error", err)
			errs = append(errs, fmt.Errorf("session %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

func (l *Loop) recover(ctx context.Context, sessionID string) error {
	var threads []string
	err := l.m.Emit(ctx, sessionID, event.ByLoop, func(tx *session.Tx) error {
		threads = threads[:0]
		var recovered []string
		for _, t := range tx.State.Threads {
			if t.Active == nil && len(t.Queue) == 0 {
				continue
			}
			threads = append(threads, t.ThreadID)
			recovered = append(recovered, l.recoverThread(tx, t)...)
			if l.opt.Recovery == "manual" && t.Block == nil {
				tx.Emit(event.Event{Type: event.TypeThreadUpdated, Scope: event.Scope{ThreadID: t.ThreadID}, Payload: &event.ThreadUpdated{
					Status: "blocked", Code: "recovery_manual", Reason: "the runtime was restarted and recovery is manual; use resume_thread",
				}})
			}
		}
		if len(recovered) > 0 {
			tx.Emit(event.Event{Type: event.TypeHistoryReconstructed, Payload: &event.HistoryReconstructed{
				ReplayedEvents: int64(tx.State.Sequence), Reason: "the runtime was restarted", Recovered: recovered,
			}})
		}
		return nil
	})
	if fault.KindOf(err) == fault.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	for _, id := range threads {
		l.wake(key{sessionID, id}, false)
	}
	return nil
}

// recoverThread records the end of what was in flight.
func (l *Loop) recoverThread(tx *session.Tx, t *state.Thread) []string {
	if t.Active == nil || t.Active.Call == nil || t.Active.Call.Status != state.CallRunning || l.isOurs(t.Active.Call.ModelRequestID) {
		return nil
	}
	c := t.Active.Call
	scope := scopeOf(t, t.Active)
	scope.ModelRequestID = c.ModelRequestID
	tx.Emit(event.Event{Type: event.TypeModelFailed, Scope: scope, Payload: interrupted(c, "the runtime stopped during the call")})
	return []string{"model call " + c.ModelRequestID + " of turn " + t.Active.TurnID + " was interrupted and is asked again"}
}
