package session

import (
	"context"
	"encoding/hex"
	"errors"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/state"
	"agentd/store"
)

// Register registers the handlers of the commands that a session's facts alone answer.
func (m *Manager) Register(t *command.Table) {
	handleCommand(t, m, (*request).createSession)
	handleCommand(t, m, (*request).listSessions)
	handleCommand(t, m, (*request).updateSession)
	handleCommand(t, m, (*request).deleteSession)
	handleCommand(t, m, (*request).updateThread)
	command.HandleReadModel(t, withRequest(m, (*request).getSession))
	command.HandleReadModel(t, withRequest(m, (*request).getThreadRead))
	handleCommand(t, m, (*request).resumeThread)
	handleCommand(t, m, (*request).submitTurn)
	handleCommand(t, m, (*request).interruptTurn)
	handleCommand(t, m, (*request).removeQueuedTurn)
	handleCommand(t, m, (*request).promoteQueuedTurn)
	handleCommand(t, m, (*request).respondAction)
	handleBulk(t, m)
	handleAdmin(t, m)
	handleCommand(t, m, (*request).listActions)
	handleCommand(t, m, (*request).resolvePermission)
	handleCommand(t, m, (*request).findID)
	handleCommand(t, m, (*request).listProjectRules)
	handleCommand(t, m, (*request).forgetProjectRule)
	handleCommand(t, m, (*request).forkThread)
	handleCommand(t, m, (*request).listProcesses)
	handleCommand(t, m, (*request).listArtifacts)
	handleCommand(t, m, (*request).getQuotas)
	handleCommand(t, m, (*request).getPeerTask)
	handleCommand(t, m, (*request).listPeerTasks)
	handleCommand(t, m, (*request).settlePeerTask)
	handleCommand(t, m, (*request).setPeerPush)
	handleCommand(t, m, (*request).removePeerPush)
	handleCommand(t, m, (*request).reportPeerPush)
	handleCommand(t, m, (*request).listPeerPushes)
}

func handleCommand[P command.Returning[R], R any](t *command.Table, m *Manager, do func(*request, context.Context, P) (*R, error)) {
	command.Handle(t, withRequest(m, do))
}

// withRequest makes a method of a request the handler of a command.
func withRequest[P command.Params, R any](m *Manager, do func(*request, context.Context, P) (*R, error)) func(context.Context, command.Caller, P) (*R, error) {
	return func(ctx context.Context, caller command.Caller, p P) (*R, error) {
		req, err := m.request(caller, p)
		if err != nil {
			return nil, err
		}
		return do(req, ctx, p)
	}
}

func (m *Manager) request(caller command.Caller, p command.Params) (*request, error) {
	req := &request{m: m, caller: caller, by: event.BySession}
	if d, ok := command.Lookup(p.Command()); ok {
		req.endsWork = d.EndsWork
	}
	if mut, ok := p.(command.Mutating); ok && mut.Key() != "" {
		digest, err := command.Digest(p)
		if err != nil {
			return nil, fault.Wrap(fault.Internal, err, "the parameters could not be compared")
		}
		req.key, req.digest = caller.Account+"/"+mut.Key(), hex.EncodeToString(digest[:])
	}
	return req, nil
}

// Write runs the decision of a command that another package carries out. The
// caller's rights, the idempotency key and the correlation ids are dealt with as
// for the commands of this package.
func Write[R any](ctx context.Context, m *Manager, caller command.Caller, p command.Params, sessionID string, by event.Emitter, decide func(*Tx) (*R, error)) (*R, error) {
	req, err := m.request(caller, p)
	if err != nil {
		return nil, err
	}
	req.by = by
	create := sessionID == event.RuntimeSession
	return mutate(ctx, req, sessionID, create, func(tx *Tx) (*R, error) {
		if create && tx.State.Sequence == 0 {
			openRuntime(tx)
		}
		return decide(tx)
	})
}

// ViewAs is Read for a caller: a session that it may not see is not found.
func (m *Manager) ViewAs(ctx context.Context, caller command.Caller, sessionID string, view func(*state.Session) error) error {
	return (&request{m: m, caller: caller}).viewSession(ctx, sessionID, view)
}

// OwnAs is View for a caller, for what only the node can tell that owns the session, such
// as what is in its workspace.
func (m *Manager) OwnAs(ctx context.Context, caller command.Caller, sessionID string, view func(*state.Session) error) error {
	r, seen := &request{m: m, caller: caller}, false
	err := m.View(ctx, sessionID, func(st *state.Session) error {
		if err := r.checkVisible(sessionID, st); err != nil {
			return err
		}
		seen = true
		return view(st)
	})
	if err != nil && !seen {
		return r.hideForeign(ctx, sessionID, err)
	}
	return err
}

// ActorOf is the caller as facts name it.
func ActorOf(caller command.Caller) *event.Actor { return (&request{caller: caller}).actor() }

// request is one call of a command.
type request struct {
	m      *Manager
	caller command.Caller
	// by is what the facts are emitted as.
	by event.Emitter
	// endsWork says that the command is carried out also when storage is used up.
	endsWork bool
	// key and digest are set when the call has an idempotency key.
	key, digest string
	// whole names the job and the task that a submitted turn is a part of.
	whole event.Scope
}

// mutate runs a decision that yields a result and keeps it under the idempotency key. A
// call that was made before doesn't get here, unless another node carried it out in the
// meantime.
func mutate[R any](ctx context.Context, r *request, sessionID string, create bool, decide func(*Tx) (*R, error)) (*R, error) {
	var result *R
	seen := false
	if r.endsWork {
		ctx = Anywhere(ctx)
	}
	err := r.m.writeDecision(ctx, sessionID, r.by, create, func(tx *Tx) error {
		if err := r.checkVisible(sessionID, tx.State); err != nil {
			return err
		}
		seen = true
		if err := r.checkStorage(tx); err != nil {
			return err
		}
		var err error
		if result, err = decide(tx); err != nil {
			return err
		}
		r.stampFacts(tx)
		return r.rememberResult(tx, result)
	})
	if errors.Is(err, store.ErrExists) {
		// Another call with the same key was first.
		first := new(R)
		if found, err := r.readFirst(ctx, first); err != nil || found {
			return first, err
		}
	}
	if err != nil && !seen {
		err = r.hideForeign(ctx, sessionID, err)
	}
	if err != nil {
		return nil, err
	}
	return result, nil
}

// hideForeign returns what a caller is told whose command didn't get as far as the session:
// which node has it, that this one can't have it now, or that it isn't there. The former two
// are for those who may see the session; to others there is none, and no node is asked in
// their name.
func (r *request) hideForeign(ctx context.Context, sessionID string, err error) error {
	if r.caller.Admin || fault.KindOf(err) == fault.NotFound {
		return err
	}
	account, unknown := r.m.Account(ctx, sessionID)
	if foreign := unknown == nil && !r.caller.Sees(account); foreign || sessionID == event.RuntimeSession {
		return noSession(sessionID)
	}
	return err
}

// stampFacts writes the caller's correlation ids into the decision's facts.
func (r *request) stampFacts(tx *Tx) {
	for i := range tx.facts {
		e := &tx.facts[i]
		e.RequestID, e.TraceID, e.SpanID = r.caller.RequestID, r.caller.TraceID, r.caller.SpanID
	}
}

// checkVisible reports a session that the caller may not see as not found. The runtime's own
// is the admin's also before its first fact.
func (r *request) checkVisible(sessionID string, st *state.Session) error {
	foreign := st.Sequence > 0 && !r.caller.Sees(st.Account)
	if foreign || (sessionID == event.RuntimeSession && !r.caller.Admin) {
		return noSession(sessionID)
	}
	return nil
}

// viewSession reads a session that the caller may see. It claims nothing.
func (r *request) viewSession(ctx context.Context, sessionID string, view func(*state.Session) error) error {
	return r.m.Read(ctx, sessionID, func(st *state.Session) error {
		if err := r.checkVisible(sessionID, st); err != nil {
			return err
		}
		return view(st)
	})
}

// viewSessionAt is viewSession for a session as it was after a fact; nil is as it is now.
// The newest facts through that one are left in a window, which may be nil.
func (r *request) viewSessionAt(ctx context.Context, sessionID string, sequence *uint64, w *factWindow, view func(*state.Session) error) error {
	if sequence == nil {
		return r.viewSession(ctx, sessionID, view)
	}
	st, err := r.stateAt(ctx, sessionID, *sequence, w)
	if err != nil {
		return err
	}
	return view(st)
}

// actor returns the caller as facts name it.
func (r *request) actor() *event.Actor {
	a := r.caller.Actor
	if a.Kind == "" {
		a.Kind = "unknown"
	}
	if a.Account == "" {
		a.Account = r.caller.Account
	}
	return &a
}
