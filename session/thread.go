package session

import (
	"context"
	"fmt"
	"strings"

	"agentd/command"
	"agentd/event"
	"agentd/state"
)

func (r *request) getThreadRead(ctx context.Context, p *command.GetThreadRead) (*state.ThreadReadModel, error) {
	var model *state.ThreadReadModel
	err := r.view(ctx, p.SessionID, func(st *state.Session) error {
		if model = st.ThreadRead(p.ThreadID); model == nil {
			_, err := findThread(st, p.ThreadID)
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return model, nil
}

// resumeThread lets a blocked thread go on. What a thread waits for (an answer)
// or does already is not changed by it.
func (r *request) resumeThread(ctx context.Context, p *command.ResumeThread) (*command.ResumeThreadResult, error) {
	return mutate(ctx, r, p.SessionID, false, func(tx *Tx) (*command.ResumeThreadResult, error) {
		t, err := findThread(tx.State, p.ThreadID)
		if err != nil {
			return nil, err
		}
		res := &command.ResumeThreadResult{Recovered: []string{}}
		switch {
		case t.Block != nil && len(pendingOf(t)) == 0:
			res.Status, res.Reason = "resumed", t.Block.Reason
			if t.Block.Code != "" {
				res.Recovered = append(res.Recovered, t.Block.Code)
			}
			tx.Emit(event.Event{Type: event.TypeThreadUpdated, Scope: event.Scope{ThreadID: t.ThreadID}, Payload: &event.ThreadUpdated{
				Status: "resumed", Reason: "resume_thread", ChangedBy: r.actor(),
			}})
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

// pendingOf returns the actions that the thread's turn waits for.
func pendingOf(t *state.Thread) []string {
	if t.Active == nil {
		return nil
	}
	return t.Active.Waiting
}
