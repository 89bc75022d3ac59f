package agentd

import (
	"context"

	"agentd/command"
)

// moveSession gives a session another place and goes on with it there.
func (r *Runtime) moveSession(ctx context.Context, caller command.Caller, p *command.MoveSession) (*command.MoveSessionResult, error) {
	res, err := r.loop.MoveSession(ctx, caller, p)
	if err != nil {
		return nil, err
	}
	if r.manager.IsShared() {
		r.takeUpAll(context.WithoutCancel(ctx), []string{p.SessionID})
	}
	return res, nil
}
