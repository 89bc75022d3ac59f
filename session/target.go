package session

import (
	"context"
	"sync/atomic"

	"agentd/command"
	"agentd/event"
	"agentd/state"
)

// Target is the session that a command writes to: one that is there, or a new one.
type Target struct {
	SessionID string
	// opens is what a new one is opened with.
	opens *command.CreateSession
}

// NewTarget is a session that does not exist yet.
func (m *Manager) NewTarget(title string) Target {
	return Target{m.NewID(event.PrefixSession), &command.CreateSession{Title: title}}
}

type madeUp struct{}

// newSessionID makes up the id of a session. Under the context that it returns, the first claim
// of the session relies on no other node having it.
func (m *Manager) newSessionID(ctx context.Context) (string, context.Context) {
	return m.NewID(event.PrefixSession), withMadeUp(ctx)
}

func withMadeUp(ctx context.Context) context.Context {
	first := &atomic.Bool{}
	first.Store(true)
	return context.WithValue(ctx, madeUp{}, first)
}

// takeMadeUp reports whether a session's id was made up for the command, the first time.
func takeMadeUp(ctx context.Context) bool {
	first, _ := ctx.Value(madeUp{}).(*atomic.Bool)
	return first != nil && first.CompareAndSwap(true, false)
}

// WriteTo is [Write] that opens the session, if it is a new one, in the same decision: where
// that fails, as one does whose id something of another node has by then, no session is left
// behind. The decision finds the session opened.
func WriteTo[R any](ctx context.Context, m *Manager, caller command.Caller, p command.Params, to Target, by event.Emitter, decide func(*Tx) (*R, error)) (*R, error) {
	if to.opens == nil {
		return Write(ctx, m, caller, p, to.SessionID, by, decide)
	}
	if err := to.opens.Validate(); err != nil {
		return nil, err
	}
	r, err := m.request(caller, p)
	if err != nil {
		return nil, err
	}
	r.by = by | event.BySession
	opens := *to.opens
	if opens.Workspace, err = m.resolveWorkspace(r.workspaceOf(nil)); err != nil {
		return nil, err
	}
	return mutate(withMadeUp(ctx), r, to.SessionID, true, func(tx *Tx) (*R, error) {
		if tx.State.Sequence == 0 {
			r.emitSessionOpened(tx, &opens, "")
			if err := tx.foldOpened(); err != nil {
				return nil, err
			}
		}
		return decide(tx)
	})
}

// foldOpened has the rest of the decision made on a state that has what was emitted so far.
func (tx *Tx) foldOpened() error {
	st := state.New(tx.w.id)
	for i := range tx.facts {
		e := tx.facts[i]
		e.SessionID, e.RuntimeID, e.Time, e.Sequence = tx.w.id, tx.w.m.opt.RuntimeID, tx.now, st.Sequence+1
		if _, err := st.Apply(&e); err != nil {
			return err
		}
	}
	st.Sequence = 0 // the facts are still to come
	tx.State = st
	return nil
}
