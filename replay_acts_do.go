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
	if a.SubagentID != "" {
		return x.p.others.act(ctx, a)
	}
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
		thread, err := x.threadOf(ctx, a.Thread)
		if err != nil {
			return err
		}
		x.compact(ctx, thread)
		return nil
	case evidence.ActRollback:
		thread, err := x.threadOf(ctx, a.Thread)
		if err != nil {
			return err
		}
		return x.command(ctx, &command.RollbackThread{
			SessionID: x.p.session, ThreadID: thread, ToTurnID: x.turns[a.TurnID], ToStart: a.TurnID == "", Files: a.Files, Force: a.Force,
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

// compact asks for a compaction. It ends when the model has answered; how is a fact.
func (x *acting) compact(ctx context.Context, threadID string) {
	x.compacting.Add(1)
	x.wg.Go(func() {
		_, _ = x.p.r.Do(ctx, command.Local(), &command.CompactThread{SessionID: x.p.session, ThreadID: threadID})
		x.compacting.Add(-1)
		x.held.tell()
	})
}

func (x *acting) command(ctx context.Context, p command.Params) error {
	_, err := x.p.r.Do(ctx, command.Local(), p)
	return err
}

// threadOf returns the thread that is one of the recording, and starts it if it isn't
// there.
func (x *acting) threadOf(ctx context.Context, recorded string) (id string, err error) {
	if id = x.threads[recorded]; id != "" {
		return id, nil
	}
	if recorded != "" {
		id, err = x.anotherThread(ctx)
	} else {
		err = x.p.r.View(ctx, x.p.session, func(s *state.Session) error {
			if t := s.MainThread(); t != nil {
				id = t.ThreadID
			}
			return nil
		})
	}
	x.threads[recorded] = id
	return id, err
}

// leave has what comes in a thread of the recording from now on come in another: a turn
// is at this one that never ends.
func (x *acting) leave(ctx context.Context, recorded string) error {
	id, err := x.anotherThread(ctx)
	x.threads[recorded] = id
	return err
}

// anotherThread starts a thread, as whoever works in threads of their own does.
func (x *acting) anotherThread(ctx context.Context) (id string, err error) {
	err = x.p.r.manager.Emit(ctx, x.p.session, event.BySession, func(tx *session.Tx) error {
		id = tx.NewID(event.PrefixThread)
		tx.Emit(event.Event{Type: event.TypeThreadStarted, Scope: event.Scope{ThreadID: id}, Payload: &event.ThreadStarted{Role: "task"}})
		return nil
	})
	return id, err
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
