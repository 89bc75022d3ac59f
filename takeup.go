package agentd

import (
	"context"

	"agentd/state"
)

// TakeUp takes up what an earlier process, or another node, left unfinished in one session:
// what was in flight becomes facts, and what is safe goes on, first turns and then the work
// that is made of them. It does nothing to a session that is well.
func (r *Runtime) TakeUp(ctx context.Context, sessionID string) error {
	if err := r.loop.TakeUp(ctx, sessionID); err != nil {
		return err
	}
	if err := r.channels.TakeUp(ctx, sessionID); err != nil {
		return err
	}
	if err := r.work.Recover(ctx, sessionID); err != nil {
		return err
	}
	if err := r.trials.Recover(ctx, sessionID); err != nil {
		return err
	}
	if r.opt.TakenUp != nil {
		r.opt.TakenUp(sessionID)
	}
	return nil
}

// Own makes this node the owner of a session, as a command that changes it does. The error
// names the node that owns it, if another one does.
func (p Port) Own(ctx context.Context, sessionID string) error {
	return p.explain(ctx, p.manager.View(ctx, sessionID, func(*state.Session) error { return nil }))
}
