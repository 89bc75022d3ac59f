package work

import (
	"context"
	"encoding/json"
	"fmt"

	"agentd/event"
	"agentd/internal/clip"
	"agentd/session"
	"agentd/state"
)

// saidBytes bounds the text that a fact shows of something longer.
const saidBytes = 240

// childStanding is how a child should be said to stand.
type childStanding struct {
	status, reason string
	// turn is the turn that says so; its end is recorded once.
	turn *state.Turn
	// said is what a peer said at its end, failed why it didn't come to one.
	said   string
	failed *event.Failure
}

// why is why the child's work failed.
func (n *childStanding) why() *event.Failure {
	if n.turn != nil {
		return n.turn.Error
	}
	return n.failed
}

// childStandingOf decides how a child stands, from the state alone; false says that
// there is nothing to record.
func childStandingOf(s *state.Session, a *state.Subagent) (childStanding, bool) {
	t := s.Thread(a.ThreadID)
	if t == nil || a.Status == childClosed {
		return childStanding{}, false
	}
	if a.PeerTaskID != "" {
		return peerChildStanding(s, a)
	}
	var now childStanding
	switch {
	case t.Block != nil:
		now = childStanding{status: childBlocked, reason: t.Block.Reason, turn: t.Active}
	case t.Active != nil && len(t.Active.Waiting) > 0:
		now = childStanding{status: childWaiting, reason: "waits for an answer to " + t.Active.Waiting[0], turn: t.Active}
	case t.Busy():
		now = childStanding{status: childRunning, reason: "", turn: t.Active}
	case len(t.Recent) == 0:
		return childStanding{}, false
	default:
		return endOf(a, t.Recent[len(t.Recent)-1])
	}
	return now, now.status != a.Status || now.reason != a.Reason && now.status != childRunning
}

// endOf says how the last turn of a child that does nothing ended, unless that was
// told already.
func endOf(a *state.Subagent, last *state.Turn) (childStanding, bool) {
	if last.TurnID == a.LastTurnID {
		return childStanding{}, false
	}
	switch last.Status {
	case state.TurnCompleted:
		return childStanding{status: childCompleted, reason: "", turn: last}, true
	case state.TurnCancelled:
		reason := "interrupted"
		if last.Error != nil {
			reason = last.Error.Message
		}
		return childStanding{status: childInterrupted, reason: reason, turn: last}, true
	}
	return childStanding{status: childFailed, reason: last.FailureCategory, turn: last}, true
}

// settleChild records how a child stands, if that changed.
func (w *Work) settleChild(ctx context.Context, sessionID, id string) error {
	var now childStanding
	var due bool
	var answerAt uint64
	if err := w.m.View(ctx, sessionID, func(s *state.Session) error {
		if a := s.Subagents.Find(id); a != nil {
			if now, due = childStandingOf(s, a); due && now.turn != nil {
				answerAt = now.turn.AnswerSequence
			}
		}
		return nil
	}); err != nil || !due {
		return ignoreMissing(err)
	}
	text := now.said
	if now.status == childCompleted && answerAt > 0 {
		var err error
		if text, err = w.readAnswer(ctx, sessionID, answerAt); err != nil {
			return err
		}
	}
	err := w.m.Emit(ctx, sessionID, asWork, func(tx *session.Tx) error {
		a := tx.State.Subagents.Find(id)
		if a == nil {
			return nil
		}
		again, due := childStandingOf(tx.State, a)
		if !due || again.status != now.status || again.turn != now.turn {
			return nil // the facts that changed it are looked at next
		}
		w.emitStanding(tx, a, again, text)
		return nil
	})
	if err != nil {
		return fmt.Errorf("work: subagent %s: %w", id, err)
	}
	return nil
}

// readAnswer reads the text of a model's answer.
func (w *Work) readAnswer(ctx context.Context, sessionID string, sequence uint64) (string, error) {
	e, err := w.readFact(ctx, sessionID, sequence)
	if err != nil {
		return "", err
	}
	if p, ok := e.Payload.(*event.ModelCompleted); ok {
		return w.answerText(ctx, p)
	}
	return "", nil
}

// answerText returns the text of an answer, from where it is.
func (w *Work) answerText(ctx context.Context, p *event.ModelCompleted) (string, error) {
	m, err := p.Whole(func(ref string) ([]byte, error) { return w.readBlob(ctx, ref) })
	if err != nil || m == nil {
		return "", err
	}
	return m.Text, nil
}

// emitStanding records how a child stands; if its work ended, what it said, and
// the end of the call that waits for it.
func (w *Work) emitStanding(tx *session.Tx, a *state.Subagent, now childStanding, text string) {
	scope := event.Scope{ThreadID: a.ThreadID, SubagentID: a.SubagentID}
	if now.turn != nil {
		scope.TurnID, scope.TaskID, scope.RunID = now.turn.TurnID, now.turn.TaskID, now.turn.RunID
	}
	switch now.status {
	case childCompleted:
		makeRoom(tx)
		emitCompleted(tx, a, scope, text)
	case childFailed:
		makeRoom(tx)
		why := now.why()
		tx.Emit(event.Event{Type: event.TypeSubagentFailed, Scope: scope, Payload: &event.SubagentEnded{
			Status: childFailed, Reason: now.reason, Error: why, Usage: usageOf(a), CostUSD: a.CostUSD,
		}})
		failCall(tx, a, "execution", "the agent failed: "+messageOf(why, now.reason))
	default:
		tx.Emit(event.Event{Type: event.TypeSubagentStatus, Scope: scope, Payload: &event.SubagentStatus{Status: now.status, Reason: now.reason}})
		if now.status == childInterrupted {
			failCall(tx, a, "interrupted", "the agent was interrupted: "+now.reason)
		}
	}
}

func messageOf(f *event.Failure, otherwise string) string {
	if f != nil {
		return f.Message
	}
	return otherwise
}

// emitCompleted records the answer of a child and gives it to the waiting call.
func emitCompleted(tx *session.Tx, a *state.Subagent, scope event.Scope, text string) {
	said := &event.SubagentMessage{TurnID: scope.TurnID, From: &event.Actor{Kind: "agent", ID: a.SubagentID}}
	if text != "" {
		said.MessageRef = tx.Blob([]byte(text), "text/plain; charset=utf-8")
	}
	said.Text = clip.Prefix(text, factBytes)
	tx.Emit(event.Event{Type: event.TypeSubagentOutput, Scope: scope, Payload: said})
	tx.Emit(event.Event{Type: event.TypeSubagentCompleted, Scope: scope, Payload: &event.SubagentEnded{
		Status: childCompleted, MessageRef: said.MessageRef, Preview: clip.Prefix(text, saidBytes), Usage: usageOf(a), CostUSD: a.CostUSD,
	}})
	call := waitingCall(tx.State, a)
	if call == nil {
		return
	}
	structured, _ := json.Marshal(map[string]string{"subagentId": a.SubagentID, "threadId": a.ThreadID, "status": childCompleted}) //nolint:errchkjson // strings always encode
	res := &event.ToolResult{
		ToolName: spawnAgent, Status: "ok", Preview: clip.Prefix(text, saidBytes), DurationMs: tx.Now().Sub(a.SpawnedAt).Milliseconds(), StructuredContent: structured,
		Links: linksOfCall(tx.State, call),
	}
	if len(text) > saidBytes {
		res.OutputRef, res.SizeBytes, res.MediaType = said.MessageRef, int64(len(text)), "text/plain; charset=utf-8"
	}
	tx.Emit(event.Event{Type: event.TypeToolResult, Scope: *call, Payload: res})
}

// waitingCall is the scope of the call that waits for a child; nil if none does.
func waitingCall(s *state.Session, a *state.Subagent) *event.Scope {
	if a.ToolCallID == "" {
		return nil
	}
	return callScope(s, a.ParentThreadID, a.ToolCallID)
}

// failCall ends the call that waits for a child, if one does.
func failCall(tx *session.Tx, a *state.Subagent, category, message string) {
	call := waitingCall(tx.State, a)
	if call == nil {
		return
	}
	tx.Emit(event.Event{Type: event.TypeToolFailed, Scope: *call, Payload: &event.ToolFailed{
		ToolName: spawnAgent, ErrorCategory: category, Message: message, Retryable: category == "interrupted",
		DurationMs: tx.Now().Sub(a.SpawnedAt).Milliseconds(), Links: linksOfCall(tx.State, call),
	}})
}

// makeRoom puts away the thread of the child that leaves the working set when
// another ends: the state holds only so many.
func makeRoom(tx *session.Tx) {
	ended := tx.State.Subagents.Recent
	if len(ended) < state.KeepSubagents {
		return
	}
	a := ended[0]
	t := tx.State.Thread(a.ThreadID)
	if t == nil || t.Busy() {
		return
	}
	scope := event.Scope{ThreadID: a.ThreadID, SubagentID: a.SubagentID}
	if a.Status != childClosed {
		tx.Emit(event.Event{Type: event.TypeSubagentClosed, Scope: scope, Payload: &event.SubagentEnded{
			Status: childClosed, Reason: "it ended long ago", Usage: usageOf(a), CostUSD: a.CostUSD, MessageRef: a.LastMessageRef, Preview: a.LastMessage,
		}})
	}
	tx.Emit(event.Event{Type: event.TypeThreadUpdated, Scope: scope, Payload: &event.ThreadUpdated{Status: "archived", Reason: "the subagent ended long ago"}})
}
