package agentd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/session"
	"agentd/state"
)

// act carries an act out through the command that it was.
func (x *acting) act(ctx context.Context, a *evidence.CaseAct) error {
	switch a.Kind {
	case evidence.ActSteer:
		o := event.TurnOptions{QueuePolicy: "steer", ExpectedTurnID: x.turns[a.TurnID]}
		return x.command(ctx, &command.SubmitTurn{SessionID: x.p.session, Input: a.Input, Options: &o})
	case evidence.ActInterrupt:
		return x.interrupt(ctx, a)
	case evidence.ActQueued:
		return x.queued(ctx, a)
	case evidence.ActPolicy:
		return x.policy(ctx, a)
	case evidence.ActCompact:
		if err := x.findThread(ctx); err != nil {
			return err
		}
		x.wg.Go(func() { // it ends when the model has answered; how is a fact
			_, _ = x.p.r.Do(ctx, command.Local(), &command.CompactThread{SessionID: x.p.session, ThreadID: x.thread})
		})
		return nil
	case evidence.ActRollback:
		if err := x.findThread(ctx); err != nil {
			return err
		}
		return x.command(ctx, &command.RollbackThread{
			SessionID: x.p.session, ThreadID: x.thread, ToTurnID: x.turns[a.TurnID], ToStart: a.TurnID == "", Files: a.Files, Force: a.Force,
		})
	case evidence.ActModels:
		offer, err := x.p.offer(a.Models)
		if err == nil {
			x.p.r.loop.SetOffer(offer)
		}
		return err
	case evidence.ActDeadline:
		x.pass(turnTime)
		return nil
	case evidence.ActTime:
		x.ahead.Add(int64(grantTime + time.Hour))
		return nil
	}
	return errors.New("the case has an act that this program doesn't know")
}

func (x *acting) command(ctx context.Context, p command.Params) error {
	_, err := x.p.r.Do(ctx, command.Local(), p)
	return err
}

// findThread finds the thread that the turns are in, also before the first.
func (x *acting) findThread(ctx context.Context) error {
	return x.p.r.View(ctx, x.p.session, func(s *state.Session) error {
		if t := s.MainThread(); t != nil {
			x.thread = t.ThreadID
		}
		return nil
	})
}

func (x *acting) interrupt(ctx context.Context, a *evidence.CaseAct) error {
	turnID := x.turns[a.TurnID]
	if a.Cause == "" {
		return x.command(ctx, &command.InterruptTurn{SessionID: x.p.session, TurnID: turnID, Reason: a.Reason})
	}
	return x.p.r.manager.Emit(ctx, x.p.session, event.BySession, func(tx *session.Tx) error { // as the runtime does
		t := tx.State.Thread(x.thread)
		if t == nil || t.Active == nil || t.Active.TurnID != turnID {
			return nil
		}
		tx.Emit(event.Event{
			Type: event.TypeTurnInterruptRequested, Scope: event.Scope{ThreadID: x.thread, TurnID: turnID, TaskID: t.Active.TaskID, RunID: t.Active.RunID},
			Payload: &event.TurnInterruptRequested{Reason: a.Reason, Queue: "keep", Cause: a.Cause},
		})
		return nil
	})
}

// queued submits a turn behind the one that runs and takes it back.
func (x *acting) queued(ctx context.Context, a *evidence.CaseAct) error {
	i := slices.IndexFunc(x.p.c.Turns, func(t *evidence.CaseTurn) bool { return t.TurnID == a.TurnID })
	if i < 0 {
		return fmt.Errorf("the case has no turn %s", a.TurnID)
	}
	t := x.p.c.Turns[i]
	res, err := x.p.r.Do(ctx, command.Local(), &command.SubmitTurn{SessionID: x.p.session, Input: t.Input, Options: x.p.turnOptions(t)})
	if err != nil {
		return err
	}
	return x.command(ctx, &command.InterruptTurn{SessionID: x.p.session, TurnID: res.(*command.SubmitTurnResult).TurnID, Reason: a.Reason})
}

// policy sets the policy of a source. That of a workspace comes from no command: the
// loop reads it when a turn starts.
func (x *acting) policy(ctx context.Context, a *evidence.CaseAct) error {
	p := a.Policy
	if p == nil {
		return errors.New("the case doesn't say which policy was set")
	}
	rules := append([]event.PolicyRule{}, p.Rules...)
	if p.Source == "session" {
		return x.command(ctx, &command.SetPolicy{SessionID: x.p.session, Mode: p.Mode, Rules: rules, Reason: a.Reason})
	}
	return x.p.r.manager.Emit(ctx, x.p.session, event.BySession|event.ByLoop, func(tx *session.Tx) error {
		tx.Emit(event.Event{Type: event.TypePolicyChanged, Payload: &event.PolicyChanged{Source: p.Source, Mode: p.Mode, Rules: rules, Held: p.Held, Reason: a.Reason}})
		return nil
	})
}
