package session

import (
	"context"
	"errors"
	"sync"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/store"
)

// See reports a session that isn't there, or that the caller may not see, as not
// found. It claims nothing: reading facts needs no ownership, so every node of a
// shared store answers by itself, whichever node owns the session.
//
// The runtime's own session is there from the start, for those who may see it: it
// has no fact until there is one to keep.
func (m *Manager) See(ctx context.Context, caller command.Caller, sessionID string) error {
	if sessionID == event.RuntimeSession && caller.Admin {
		return nil
	}
	account, err := m.Account(ctx, sessionID)
	if err != nil {
		return err
	}
	if !caller.Sees(account) || sessionID == event.RuntimeSession {
		return noSession(sessionID)
	}
	return nil
}

func noSession(sessionID string) error {
	return fault.New(fault.NotFound, "there is no session %s", sessionID)
}

// Account returns the account that owns a session. Its first fact says so, and
// that never changes.
func (m *Manager) Account(ctx context.Context, sessionID string) (string, error) {
	if o, ok := m.owners.get(sessionID); ok {
		return o.account, nil
	}
	account, _, err := m.Owner(ctx, sessionID)
	return account, err
}

// owner is what a session's first fact says of whose it is.
type owner struct{ account, workspace string }

func ownerOf(created *event.SessionCreated) owner {
	o := owner{account: created.Account}
	if created.Workspace != nil {
		o.workspace = created.Workspace.Root
	}
	return o
}

// Owner returns the account that owns a session, and the folder that the session was
// created in. A session that was deleted is not found.
func (m *Manager) Owner(ctx context.Context, sessionID string) (account, workspace string, err error) {
	o, known := m.owners.get(sessionID)
	if !known {
		created, err := m.firstFact(ctx, sessionID)
		if err != nil {
			return "", "", err
		}
		o = ownerOf(created)
	}
	if _, err := m.opt.Store.Get(ctx, kindDeleted, sessionID); !errors.Is(err, store.ErrNotFound) {
		if err != nil {
			return "", "", storeFault(err)
		}
		return "", "", noSession(sessionID)
	}
	m.owners.put(sessionID, o)
	return o.account, o.workspace, nil
}

// recent keeps what was asked for lately: at least so many entries, at most twice
// as many. It may be used by many goroutines.
type recent[V any] struct {
	keep int

	mu         sync.Mutex
	young, old map[string]V
}

func (r *recent[V]) get(key string) (V, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v, ok := r.young[key]; ok {
		return v, true
	}
	v, ok := r.old[key]
	if ok {
		r.add(key, v)
	}
	return v, ok
}

func (r *recent[V]) put(key string, v V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(key, v)
}

// add puts an entry among the young ones; when these are many, they become the
// old ones, and those that were old are forgotten.
func (r *recent[V]) add(key string, v V) {
	if len(r.young) >= r.keep {
		r.young, r.old = nil, r.young
	}
	if r.young == nil {
		r.young = map[string]V{}
	}
	r.young[key] = v
}

func (r *recent[V]) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.young, r.old = nil, nil
}
