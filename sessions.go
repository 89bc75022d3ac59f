package agentd

import (
	"context"
	"encoding/json"
	"io"

	"agentd/command"
	"agentd/evidence"
	"agentd/fault"
	"agentd/session"
	"agentd/transfer"
)

// ExportSession writes a whole session to a file, see [transfer.Carrier.Export].
func (r *Runtime) ExportSession(ctx context.Context, caller command.Caller, sessionID string, to io.Writer) error {
	return r.carrier.Export(ctx, caller, sessionID, to)
}

// ImportSession takes over a session that another runtime exported, see
// [transfer.Carrier.Import].
func (r *Runtime) ImportSession(ctx context.Context, caller command.Caller, from io.ReadSeeker, opt transfer.ImportOptions) (*transfer.ImportedSession, error) {
	return r.carrier.Import(ctx, caller, from, opt)
}

// TrimSession removes the first events of a session that is at rest, see
// [session.Manager.Trim]. Only an admin may: what is gone is gone for everyone.
func (r *Runtime) TrimSession(ctx context.Context, caller command.Caller, sessionID string, opt session.TrimOptions) (*session.Trimmed, error) {
	if !caller.Admin {
		return nil, fault.New(fault.Forbidden, "removed events are gone for everyone; only an admin may remove them")
	}
	return r.manager.Trim(ctx, sessionID, opt)
}

// EvidenceKeyID returns the id of the key that the runtime signs with, which a reader who
// verifies an export has to be told.
func (r *Runtime) EvidenceKeyID(ctx context.Context) (string, error) { return r.proof.KeyID(ctx) }

// caseOptions are what a case to replay has beside the facts, as it is now.
func (r *Runtime) caseOptions() (evidence.CaseOptions, error) {
	conf := r.loop.Configuration()
	content, err := json.Marshal(conf) //nolint:musttag // as the loop stores it
	return evidence.CaseOptions{Workspace: conf.Workspace, Configuration: content}, err
}
