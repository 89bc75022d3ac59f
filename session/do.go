package session

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/state"
	"agentd/store"
)

// Do carries out a command and returns its result, a pointer to the command's
// result struct. Its facts are durable when it returns. Errors are faults.
func (m *Manager) Do(ctx context.Context, caller command.Caller, p command.Params) (any, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	req, err := m.request(caller, p)
	if err != nil {
		return nil, err
	}
	return req.dispatch(ctx, p)
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

// Repeated returns the first result of a command that was given before with the
// same idempotency key, or nil. A command that does more than one write asks
// before it begins.
func Repeated[R any](ctx context.Context, m *Manager, caller command.Caller, p command.Params) (*R, error) {
	req, err := m.request(caller, p)
	if err != nil {
		return nil, err
	}
	return repeated[R](ctx, req)
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

// ViewAs is View for a caller: a session that it may not see is not found.
func (m *Manager) ViewAs(ctx context.Context, caller command.Caller, sessionID string, view func(*state.Session) error) error {
	return (&request{m: m, caller: caller}).view(ctx, sessionID, view)
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
}

func (r *request) dispatch(ctx context.Context, p command.Params) (any, error) {
	switch p := p.(type) {
	case *command.CreateSession:
		return r.createSession(ctx, p)
	case *command.ListSessions:
		return r.listSessions(ctx, p)
	case *command.GetSession:
		return r.getSession(ctx, p)
	case *command.GetThreadRead:
		return r.getThreadRead(ctx, p)
	case *command.ResumeThread:
		return r.resumeThread(ctx, p)
	case *command.SubmitTurn:
		return r.submitTurn(ctx, p)
	case *command.InterruptTurn:
		return r.interruptTurn(ctx, p)
	case *command.RemoveQueuedTurn:
		return r.removeQueuedTurn(ctx, p)
	case *command.PromoteQueuedTurn:
		return r.promoteQueuedTurn(ctx, p)
	case *command.RespondAction:
		return r.respondAction(ctx, p)
	case *command.ListActions:
		return r.listActions(ctx, p)
	case *command.ResolvePermission:
		return r.resolvePermission(ctx, p)
	case *command.ForkThread:
		return r.forkThread(ctx, p)
	case *command.ListProcesses:
		return r.listProcesses(ctx, p)
	case *command.GetQuotas:
		return r.getQuotas(ctx, p)
	}
	if do := r.peerCommand(ctx, p); do != nil {
		return do()
	}
	return nil, fault.New(fault.Unavailable, "%s is not available in this build", p.Command())
}

// firstResult is what the index keeps under an idempotency key.
type firstResult struct {
	Digest string          `json:"digest"`
	Result json.RawMessage `json:"result"`
	// Answer is what the caller was told, for a command whose answer is made from the
	// result after its write; see [Answered].
	Answer json.RawMessage `json:"answer,omitempty"`
}

// told is what a repeated call gets.
func (f *firstResult) told() json.RawMessage {
	if f.Answer != nil {
		return f.Answer
	}
	return f.Result
}

// Answered keeps the answer to a command that was made from the result of its [Write],
// such as a view of what the write led to, for repeated calls. It returns the answer
// that counts: the one that was kept first.
func Answered[R any](ctx context.Context, m *Manager, caller command.Caller, p command.Params, sessionID string, answer *R) (*R, error) {
	r, err := m.request(caller, p)
	if err != nil || r.key == "" {
		return answer, err
	}
	told := answer
	err = m.write(ctx, sessionID, r.by, false, func(tx *Tx) error {
		v, found, err := tx.Lookup(kindKey, r.key)
		if err != nil || !found {
			return err
		}
		first, err := r.first(v)
		if err != nil {
			return err
		}
		if first.Answer != nil {
			told, err = decodeTold[R](first)
			return err
		}
		if first.Answer, err = json.Marshal(answer); err == nil {
			v, err = json.Marshal(first)
		}
		if err != nil {
			return fault.Wrap(fault.Internal, err, "the answer could not be kept")
		}
		tx.index = append(tx.index, store.IndexOp{Entry: store.Entry{Kind: kindKey, Key: r.key, Value: v}})
		return nil
	})
	if err != nil {
		return nil, storeFault(err)
	}
	return told, nil
}

// mutate runs a decision that yields a result, once for each idempotency key.
func mutate[R any](ctx context.Context, r *request, sessionID string, create bool, decide func(*Tx) (*R, error)) (*R, error) {
	if result, err := repeated[R](ctx, r); result != nil || err != nil {
		return result, err
	}
	var result *R
	err := r.m.write(ctx, sessionID, r.by, create, func(tx *Tx) error {
		if err := r.visible(tx.State); err != nil {
			return err
		}
		if err := r.checkStorage(tx); err != nil {
			return err
		}
		var err error
		if result, err = decide(tx); err != nil {
			return err
		}
		r.stamp(tx)
		return r.remember(tx, result)
	})
	if errors.Is(err, store.ErrExists) {
		// Somebody else was first with the same key, in another session.
		if first, err := repeated[R](ctx, r); first != nil || err != nil {
			return first, err
		}
	}
	if err != nil {
		return nil, err
	}
	return result, nil
}

// repeated returns the first result of the call's idempotency key, or nil.
func repeated[R any](ctx context.Context, r *request) (*R, error) {
	if r.key == "" {
		return nil, nil
	}
	v, err := r.m.opt.Store.Get(ctx, kindKey, r.key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, storeFault(err)
	}
	first, err := r.first(v)
	if err != nil {
		return nil, err
	}
	return decodeTold[R](first)
}

// first reads what is kept under the call's idempotency key.
func (r *request) first(v []byte) (*firstResult, error) {
	first := &firstResult{}
	if err := json.Unmarshal(v, first); err != nil {
		return nil, errKept(err)
	}
	if first.Digest != r.digest {
		return nil, fault.New(fault.Conflict, "the idempotency key was used with other parameters")
	}
	return first, nil
}

func decodeTold[R any](first *firstResult) (*R, error) {
	told := new(R)
	if err := json.Unmarshal(first.told(), told); err != nil {
		return nil, errKept(err)
	}
	return told, nil
}

func errKept(err error) error {
	return storeFault(fmt.Errorf("%w: idempotency key: %w", store.ErrCorrupt, err))
}

// remember binds the idempotency key to the result, in the same write as the facts.
func (r *request) remember(tx *Tx, result any) error {
	if r.key == "" {
		return nil
	}
	b, err := json.Marshal(result)
	if err == nil {
		b, err = json.Marshal(firstResult{Digest: r.digest, Result: b})
	}
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the result could not be kept")
	}
	tx.Claim(kindKey, r.key, b)
	return nil
}

// stamp writes the caller's correlation ids into the decision's facts.
func (r *request) stamp(tx *Tx) {
	for i := range tx.facts {
		e := &tx.facts[i]
		e.RequestID, e.TraceID, e.SpanID = r.caller.RequestID, r.caller.TraceID, r.caller.SpanID
	}
}

// visible reports a session that the caller may not see as not found.
func (r *request) visible(st *state.Session) error {
	if st.Sequence > 0 && (!r.caller.Sees(st.Account) || (st.SessionID == event.RuntimeSession && !r.caller.Admin)) {
		return fault.New(fault.NotFound, "there is no session %s", st.SessionID)
	}
	return nil
}

// view reads a session that the caller may see.
func (r *request) view(ctx context.Context, sessionID string, view func(*state.Session) error) error {
	return r.m.View(ctx, sessionID, func(st *state.Session) error {
		if err := r.visible(st); err != nil {
			return err
		}
		return view(st)
	})
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
