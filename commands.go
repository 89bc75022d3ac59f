package agentd

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"

	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/fault"
	"agentd/redact"
	"agentd/session"
	"agentd/state"
	"agentd/tool"
	"agentd/transfer"
)

// Do carries out a command and returns a pointer to its result. Errors are faults.
func (r *Runtime) Do(ctx context.Context, caller command.Caller, p command.Params) (any, error) {
	return r.commands.Do(ctx, caller, p)
}

// registerCommands fills the table of commands: every part registers its own.
func (r *Runtime) registerCommands() error {
	t := command.NewTable(command.TableOptions{
		Repeats: r.manager,
		Redact:  func(p command.Params) (command.Params, error) { return RedactParams(r.opt.Loop.Redact, p) },
	})
	r.manager.Register(t)
	r.loop.Register(t)
	r.work.Register(t)
	r.channels.Register(t)
	r.proof.Register(t)
	r.trials.Register(t)
	r.reads.Register(t)
	r.registerAdmin(t)
	r.registerReplays(t)
	r.commands = t
	return t.CheckComplete()
}

// RedactParams takes secrets out of what a caller sends, before any part of the runtime
// sees it: what no part sees, no part stores. The parameters come back as they are if
// they hold none, or if there is no redactor.
func RedactParams(r *redact.Redactor, p command.Params) (command.Params, error) {
	if r == nil {
		return p, nil
	}
	return command.Redact(p, command.Redactor{
		Text: func(s string) string {
			clean, _ := r.Text(s)
			return clean
		},
		JSON: func(v event.Raw) event.Raw {
			clean, _ := r.JSON(v)
			return clean
		},
	})
}

// beforeTurn refuses a turn that couldn't run where it is meant to, and has one that is
// accepted wait until its caller was told so.
func (r *Runtime) beforeTurn(ctx context.Context, caller command.Caller, p *command.SubmitTurn) error {
	if err := r.checkCwd(ctx, caller, p); err != nil {
		return err
	}
	if caller.Answer != nil && caller.RequestID != "" {
		caller.Answer.Then(r.loop.DelayTurns(caller.RequestID))
	}
	return nil
}

// checkCwd refuses a turn whose folder isn't in its session's workspace: it would be
// done elsewhere than its caller thinks.
func (r *Runtime) checkCwd(ctx context.Context, caller command.Caller, p *command.SubmitTurn) error {
	if p.Options == nil || !filepath.IsAbs(p.Options.Cwd) {
		return nil
	}
	check := func(s *state.Session) error { return r.loop.CheckCwd(s, p.Options.Cwd) }
	err := error(fault.New(fault.NotFound, "there is no session"))
	if p.SessionID != "" {
		err = r.ViewAs(ctx, caller, p.SessionID, check)
	}
	if fault.KindOf(err) == fault.NotFound {
		return check(&state.Session{}) // a new one, and one of others, has the runtime's workspace
	}
	return err
}

// ViewAs reads a session's state for a caller, to whom sessions of other accounts aren't there;
// see [session.Manager.OwnAs].
func (r *Runtime) ViewAs(ctx context.Context, caller command.Caller, sessionID string, view func(*state.Session) error) error {
	return r.manager.OwnAs(ctx, caller, sessionID, view)
}

// View is [Runtime.ViewAs] for the program itself.
func (r *Runtime) View(ctx context.Context, sessionID string, view func(*state.Session) error) error {
	return r.manager.View(ctx, sessionID, view)
}

// CheckDocument checks what a caller sends against a schema. The fields of its error, a
// [fault.Error], are the places in the document that don't fit.
func CheckDocument(schema, doc event.Raw) error {
	err := tool.ValidateOutput(schema, doc)
	misfit, ok := errors.AsType[*tool.Error](err)
	if !ok {
		return err
	}
	out := fault.New(fault.InvalidParams, "%s", misfit.Message)
	for _, m := range misfit.Misfits {
		out.Fields = append(out.Fields, fault.Field{Param: m.At, Detail: m.Says})
	}
	return out
}

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
