package session

import (
	"context"
	"errors"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/store"
)

// Content belongs to the sessions that may read it, and so to their accounts. A
// reference is a hash, and may be known to those who don't have the content. Two things
// keep it from leading there: [Manager.Admit] refuses a command whose input refers to
// what its caller may not read, and what a part of the runtime reads for a session, or
// puts into an export of it, it reads through [Manager.Contents].

// Admit implements [command.Repeats]. What another account may read is refused like what
// isn't there.
func (m *Manager) Admit(ctx context.Context, caller command.Caller, p command.Params) error {
	used, err := command.UsedRefs(p)
	if err != nil {
		return err
	}
	for _, u := range used {
		blob, _, err := m.Output(ctx, caller, u.Ref)
		if f, ok := errors.AsType[*fault.Error](err); ok && f.Kind == fault.NotFound {
			return fault.Param(u.Param, "%s", f.Detail)
		}
		if err != nil {
			return err
		}
		if err := blob.Close(); err != nil {
			return storeFault(err)
		}
		if err := m.holdContent(ctx, u.Param, u.Ref); err != nil {
			return err
		}
	}
	return nil
}

// holdContent keeps other nodes of a shared store from deleting what a command refers to
// before its facts do.
func (m *Manager) holdContent(ctx context.Context, param, ref string) error {
	if m.shared == nil {
		return nil
	}
	err := m.shared.HoldBlob(ctx, ref)
	if errors.Is(err, store.ErrNotFound) {
		return fault.Param(param, "there is no output %s", ref)
	}
	if err != nil {
		return storeFault(err)
	}
	return nil
}

// Contents returns what opens the references that the account of a session may read, and
// no others: what is read for a session is shown to those who see it.
func (m *Manager) Contents(sessionID string) store.Contents { return contentsOf{m, sessionID} }

type contentsOf struct {
	m         *Manager
	sessionID string
}

// OpenBlob implements [store.Contents].
func (c contentsOf) OpenBlob(ctx context.Context, ref string) (store.Blob, error) {
	reader, err := c.m.ReaderFor(ctx, c.sessionID)
	if err != nil {
		return nil, err
	}
	blob, _, err := c.m.Output(ctx, reader, ref)
	return blob, err
}

// ReaderFor returns the caller that sees what the account of a session sees.
func (m *Manager) ReaderFor(ctx context.Context, sessionID string) (command.Caller, error) {
	if sessionID == event.RuntimeSession {
		return command.Local(), nil
	}
	account, err := m.Account(ctx, sessionID)
	if err != nil {
		return command.Caller{}, err
	}
	return command.Caller{Account: account, Actor: event.Actor{Kind: "system"}}, nil
}
