package session

import (
	"context"
	"encoding/hex"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/state"
	"agentd/store"
)

// forkThread opens a session whose history is that of another up to a point. The
// history is referred to, not copied: the first fact names the place and the hash
// of the chain there.
func (r *request) forkThread(ctx context.Context, p *command.ForkThread) (*command.ForkThreadResult, error) {
	made := false
	end := r.m.forks.beginFork(p.SessionID)
	defer func() { end(made) }()
	source := &event.SessionCreated{}
	if err := r.viewSession(ctx, p.SessionID, func(st *state.Session) error {
		t, err := findThread(st, p.ThreadID)
		if err != nil {
			return err
		}
		if p.AtSequence > st.Sequence {
			return fault.Param("atSequence", "session %s ends at %d", p.SessionID, st.Sequence)
		}
		source = &event.SessionCreated{
			Title: st.Title, Account: st.Account, Workspace: st.Workspace, Place: forkedPlace(st.Place), PermissionMode: st.PermissionMode, Metadata: st.Metadata,
			CreatedBy:  r.actor(),
			ForkedFrom: &event.ForkPoint{SessionID: p.SessionID, ThreadID: t.ThreadID, Sequence: p.AtSequence},
		}
		return nil
	}); err != nil {
		return nil, err
	}
	if err := r.m.checkWhole(ctx, p.SessionID); err != nil {
		return nil, err
	}
	hash, err := r.hashAt(ctx, p.SessionID, p.AtSequence)
	if err != nil {
		return nil, err
	}
	source.ForkedFrom.Hash = hash
	past, err := r.inheritedTurns(ctx, source.ForkedFrom)
	if err != nil {
		return nil, err
	}
	id := r.m.NewID(event.PrefixSession)
	made = true // or it isn't known: then the origin is better kept
	return mutate(ctx, r, id, true, func(tx *Tx) (*command.ForkThreadResult, error) {
		if err := r.m.announceFork(ctx, p.SessionID, id); err != nil {
			return nil, err
		}
		threadID := tx.NewID(event.PrefixThread)
		tx.Emit(event.Event{Type: event.TypeSessionCreated, Payload: source})
		tx.Emit(event.Event{Type: event.TypeThreadStarted, Scope: event.Scope{ThreadID: threadID}, Payload: &event.ThreadStarted{
			Role: "fork", ParentThreadID: p.ThreadID,
		}})
		tx.Emit(event.Event{Type: event.TypeHistoryWindowLoaded, Scope: event.Scope{ThreadID: threadID}, Payload: &event.HistoryWindowLoaded{
			FromSequence: 1, ToSequence: p.AtSequence, Reason: "forked from session " + p.SessionID,
			Turns: past.turns, MoreTurns: past.more,
		}})
		return &command.ForkThreadResult{SessionID: id, ThreadID: threadID}, nil
	})
}

// checkWhole refuses to fork a session without its beginning.
func (m *Manager) checkWhole(ctx context.Context, sessionID string) error {
	oldest, err := m.Oldest(ctx, sessionID)
	if err == nil && oldest > 1 {
		err = fault.New(fault.Conflict, "the events of session %s through %d were removed by retention, so a fork would have no history to refer to", sessionID, oldest-1)
	}
	return err
}

// hashAt returns the hash of a session's chain at a fact.
func (r *request) hashAt(ctx context.Context, sessionID string, sequence uint64) (string, error) {
	for rec, err := range r.m.opt.Store.Read(ctx, sessionID, store.Range{After: sequence - 1, Limit: 1}) {
		if err != nil {
			return "", storeFault(err)
		}
		return hex.EncodeToString(rec.Hash[:]), nil
	}
	return "", fault.New(fault.NotFound, "session %s has no fact %d", sessionID, sequence)
}
