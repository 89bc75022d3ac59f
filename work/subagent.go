package work

import (
	"context"
	"errors"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
)

// Statuses of a child beyond those that end it.
const (
	childRunning     = "running"
	childWaiting     = "waiting"
	childBlocked     = "blocked"
	childIdle        = "idle"
	childInterrupted = "interrupted"
	childCompleted   = "completed"
	childFailed      = "failed"
	childClosed      = "closed"
)

// asWork is what the facts of children and jobs are emitted as: turns are
// submitted and ended as by a session's own commands.
const asWork = event.ByWork | event.BySession

// byRuntime is the actor when there is no other.
func byRuntime() *event.Actor { return &event.Actor{Kind: "runtime"} }

// errGone says that a child ended so long ago that its thread was archived.
func errGone(id string) error {
	return fault.New(fault.Conflict, "subagent %s ended long ago and its thread is archived; spawn another", id)
}

// sendSubagentInput steers a child that works and gives another turn to one that
// doesn't.
func (w *Work) sendSubagentInput(ctx context.Context, caller command.Caller, p *command.SendSubagentInput) (*command.SubagentResult, error) {
	return changeChild(ctx, w, caller, p, p.SubagentID, func(tx *session.Tx, a *state.Subagent, t *state.Thread) (*command.SubagentResult, error) {
		if a.PeerTaskID != "" {
			return nil, fault.New(fault.Conflict, "subagent %s is the peer %s, which accepts no messages besides its task; answer its questions with respond_action, or spawn another", a.SubagentID, a.Peer)
		}
		if a.Status == childClosed {
			return nil, fault.New(fault.Conflict, "subagent %s is closed; use resume_subagent first", a.SubagentID)
		}
		return w.giveInput(tx, a, t, session.ActorOf(caller), p.Input)
	})
}

// giveInput emits the facts of an input to a child.
func (w *Work) giveInput(tx *session.Tx, a *state.Subagent, t *state.Thread, by *event.Actor, input event.Raw) (*command.SubagentResult, error) {
	var res *command.SubmitTurnResult
	var err error
	if t.Active != nil && t.Active.Status == state.TurnRunning && t.Active.Interrupt == nil {
		res, err = tx.Steer(by, t, input)
	} else {
		res, err = tx.Submit(by, t, "subagent", &command.SubmitTurn{Input: input})
	}
	if err != nil {
		return nil, err
	}
	scope := event.Scope{ThreadID: t.ThreadID, TurnID: res.TurnID, TaskID: res.TaskID, RunID: res.RunID, SubagentID: a.SubagentID}
	clean := w.m.Redact(input)
	said := &event.SubagentMessage{From: by, TurnID: res.TurnID}
	if len(clean) <= factBytes {
		said.Input = clean
	} else {
		said.MessageRef = tx.Blob(clean, "application/json")
	}
	tx.Emit(event.Event{Type: event.TypeSubagentInput, Scope: scope, Payload: said})
	if a.Status != childRunning {
		tx.Emit(event.Event{Type: event.TypeSubagentStatus, Scope: scope, Payload: &event.SubagentStatus{Status: childRunning, Reason: "input"}})
	}
	return &command.SubagentResult{SubagentID: a.SubagentID, ThreadID: t.ThreadID, TurnID: res.TurnID, Status: childRunning}, nil
}

// resumeSubagent lets a blocked, interrupted or closed child go on. One that does
// or did its work is left as it is.
func (w *Work) resumeSubagent(ctx context.Context, caller command.Caller, p *command.ResumeSubagent) (*command.SubagentResult, error) {
	return changeChild(ctx, w, caller, p, p.SubagentID, func(tx *session.Tx, a *state.Subagent, t *state.Thread) (*command.SubagentResult, error) {
		by := session.ActorOf(caller)
		res := &command.SubagentResult{SubagentID: a.SubagentID, ThreadID: t.ThreadID, Status: a.Status}
		scope := event.Scope{ThreadID: t.ThreadID, SubagentID: a.SubagentID}
		switch {
		case a.PeerTaskID != "":
			return res, resumePeerChild(tx, a, by)
		case t.Block != nil:
			tx.Emit(event.Event{Type: event.TypeThreadUpdated, Scope: scope, Payload: &event.ThreadUpdated{
				Status: "resumed", Reason: "resume_subagent", ChangedBy: by,
			}})
			res.Status = childRunning
		case a.Status == childInterrupted, a.Status == childClosed && cutOff(t):
			return w.giveInput(tx, a, t, by, goOn)
		case a.Status == childClosed:
			res.Status = childIdle
		default:
			return res, nil
		}
		tx.Emit(event.Event{Type: event.TypeSubagentStatus, Scope: scope, Payload: &event.SubagentStatus{Status: res.Status, Reason: "resumed"}})
		return res, nil
	})
}

// goOn is the input of an interrupted child when it is resumed.
var goOn = event.Raw(`[{"type":"text","text":"Go on with your work where you were interrupted."}]`)

// cutOff reports whether the thread's last turn was stopped before its end.
func cutOff(t *state.Thread) bool {
	return t.Active != nil || (len(t.Recent) > 0 && t.Recent[len(t.Recent)-1].Status == state.TurnCancelled)
}

// closeSubagent stops a child and its own children.
func (w *Work) closeSubagent(ctx context.Context, caller command.Caller, p *command.CloseSubagent) (*command.SubagentResult, error) {
	return changeChild(ctx, w, caller, p, p.SubagentID, func(tx *session.Tx, a *state.Subagent, _ *state.Thread) (*command.SubagentResult, error) {
		res := &command.SubagentResult{SubagentID: a.SubagentID, ThreadID: a.ThreadID, Status: childClosed}
		if a.Status == childClosed {
			return res, nil
		}
		reason := p.Reason
		if reason == "" {
			reason = "closed"
		}
		by := session.ActorOf(caller)
		for _, below := range openBelow(tx.State, a.ThreadID) {
			closeChild(tx, below, by, "its parent was closed: "+reason)
		}
		closeChild(tx, a, by, reason)
		return res, nil
	})
}

// closeChild emits the end of a child: its turns are stopped, and a call that
// waits for it fails.
func closeChild(tx *session.Tx, a *state.Subagent, by *event.Actor, reason string) {
	if t := tx.State.Thread(a.ThreadID); t != nil {
		tx.Interrupt(by, t, reason, true)
	}
	stopPeerChild(tx, a, by, reason)
	tx.Emit(event.Event{Type: event.TypeSubagentClosed, Scope: event.Scope{ThreadID: a.ThreadID, SubagentID: a.SubagentID}, Payload: &event.SubagentEnded{
		Status: childClosed, Reason: reason, Usage: usageOf(a), CostUSD: a.CostUSD, MessageRef: a.LastMessageRef, Preview: a.LastMessage,
	}})
	failCall(tx, a, "interrupted", "the subagent was closed: "+reason)
}

// openBelow returns the children below a thread that have not ended, deepest last.
func openBelow(s *state.Session, threadID string) []*state.Subagent {
	var out []*state.Subagent
	taken := map[*state.Subagent]bool{} // a chain in foreign facts may lead back
	for parents := map[string]bool{threadID: true}; len(parents) > 0; {
		next := map[string]bool{}
		for _, a := range s.Subagents.Open {
			if parents[a.ParentThreadID] && !taken[a] {
				taken[a] = true
				out = append(out, a)
				next[a.ThreadID] = true
			}
		}
		parents = next
	}
	return out
}

// changeChild runs a decision about a child that has a thread.
func changeChild(
	ctx context.Context, w *Work, caller command.Caller, p command.Params, id string,
	decide func(*session.Tx, *state.Subagent, *state.Thread) (*command.SubagentResult, error),
) (*command.SubagentResult, error) {
	sessionID, err := w.m.Locate(ctx, session.KindSubagent, id)
	if err != nil {
		return nil, err
	}
	res, err := session.Write(ctx, w.m, caller, p, sessionID, asWork, func(tx *session.Tx) (*command.SubagentResult, error) {
		a := tx.State.Subagents.Find(id)
		if a == nil {
			return nil, errGone(id)
		}
		t := tx.State.Thread(a.ThreadID)
		if t == nil {
			return nil, errGone(id)
		}
		return decide(tx, a, t)
	})
	return res, hidden(err, "subagent", id)
}

// hidden makes the refusal of a session that the caller may not see one of what
// was asked for: a caller doesn't learn where others' things are.
func hidden(err error, what, id string) error {
	var f *fault.Error
	if errors.As(err, &f) && f.Kind == fault.NotFound {
		return fault.New(fault.NotFound, "there is no %s %s", what, id)
	}
	return err
}

func usageOf(a *state.Subagent) *event.Usage {
	u := a.Usage
	return &u
}
