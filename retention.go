package agentd

import (
	"context"

	"agentd/command"
	"agentd/fault"
	"agentd/session"
)

// TrimSession removes the first events of a session that is at rest, see
// [session.Manager.Trim]. Only an admin may: what is gone is gone for everybody.
func (r *Runtime) TrimSession(ctx context.Context, caller command.Caller, sessionID string, opt session.TrimOptions) (*session.Trimmed, error) {
	if !caller.Admin {
		return nil, fault.New(fault.Forbidden, "events that are removed are gone for everybody: only an admin may remove them")
	}
	return r.manager.Trim(ctx, sessionID, opt)
}
