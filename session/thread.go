package session

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"agentd/command"
	"agentd/event"
	"agentd/state"
)

func (r *request) getThreadRead(ctx context.Context, p *command.GetThreadRead) (*state.ThreadReadModel, error) {
	var model *state.ThreadReadModel
	err := r.viewSessionAt(ctx, p.SessionID, p.AtSequence, nil, func(st *state.Session) error {
		if model = st.ThreadRead(p.ThreadID); model == nil {
			_, err := findThread(st, p.ThreadID)
			return err
		}
		if r.m.opt.Place != nil {
			model.Fill(r.m.opt.Place(st, st.Thread(p.ThreadID)))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return model, nil
}

// Snapshot returns the wire form of a session, with what the runtime knows of where
// its commands run. The session's lock is held, as in [Manager.ViewAs].
func (m *Manager) Snapshot(st *state.Session) *state.SessionSnapshot {
	snap := st.Snapshot()
	if m.opt.Place == nil {
		return snap
	}
	for _, t := range snap.Threads {
		thread := st.Thread(t.ThreadID)
		if thread == nil {
			thread = &state.Thread{}
		}
		t.Fill(m.opt.Place(st, thread))
	}
	main := st.MainThread()
	if main == nil {
		main = &state.Thread{}
	}
	snap.Fill(m.opt.Place(st, main))
	return snap
}

// resumeThread lets a blocked thread go on. What a thread waits for (an answer)
// or does already is not changed by it: a thread that is blocked and also waits for an
// answer goes on with the answer alone from then on.
func (r *request) resumeThread(ctx context.Context, p *command.ResumeThread) (*command.ResumeThreadResult, error) {
	return mutate(ctx, r, p.SessionID, false, func(tx *Tx) (*command.ResumeThreadResult, error) {
		t, err := findThread(tx.State, p.ThreadID)
		if err != nil {
			return nil, err
		}
		res := &command.ResumeThreadResult{Recovered: []string{}}
		blocked := t.Block
		if blocked != nil {
			if blocked.Code != "" {
				res.Recovered = append(res.Recovered, blocked.Code)
			}
			r.unblock(tx, t)
		}
		switch {
		case blocked != nil && len(pendingOf(t)) == 0:
			res.Status, res.Reason = "resumed", blocked.Reason
		case len(pendingOf(t)) > 0:
			res.Status = "blocked"
			res.Reason = fmt.Sprintf("the thread waits for an answer to %s; use respond_action", strings.Join(pendingOf(t), ", "))
		case t.Active != nil:
			res.Status, res.Reason = "nothing_to_resume", fmt.Sprintf("turn %s is %s", t.Active.TurnID, t.Active.Phase)
		default:
			res.Status, res.Reason = "nothing_to_resume", "no turn is open"
		}
		return res, nil
	})
}

// unblock lifts what keeps a thread from going on.
func (r *request) unblock(tx *Tx, t *state.Thread) {
	tx.Emit(event.Event{Type: event.TypeThreadUpdated, Scope: event.Scope{ThreadID: t.ThreadID}, Payload: &event.ThreadUpdated{
		Status: "resumed", Reason: "resume_thread", ChangedBy: r.actor(),
	}})
	if wholeWithout(tx.State, t) {
		tx.Emit(event.Event{Type: event.TypeSessionUpdated, Payload: &event.SessionUpdated{
			Status: "open", Reason: "what a restart left unknown was looked at", ChangedBy: r.actor(),
		}})
	}
}

// wholeWithout reports whether a session that a restart degraded has no other thread that
// is blocked.
func wholeWithout(st *state.Session, resumed *state.Thread) bool {
	return st.Status == "degraded" && !slices.ContainsFunc(st.Threads, func(t *state.Thread) bool { return t != resumed && t.Block != nil })
}

// pendingOf returns the actions that the thread's turn waits for.
func pendingOf(t *state.Thread) []string {
	if t.Active == nil {
		return nil
	}
	return t.Active.Waiting
}
