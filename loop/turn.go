package loop

import (
	"context"
	"encoding/json"
	"fmt"

	"agentd/command"
	"agentd/event"
	"agentd/session"
	"agentd/state"
	"agentd/store"
)

func scopeOf(t *state.Thread, turn *state.Turn) event.Scope {
	return event.Scope{ThreadID: t.ThreadID, TurnID: turn.TurnID, TaskID: turn.TaskID, RunID: turn.RunID, SubagentID: t.SubagentID}
}

// implicit reports whether the turn's task exists only for the turn and so ends with it.
func implicit(tx *session.Tx, turn *state.Turn) bool {
	task := tx.State.Tasks.Find(turn.TaskID)
	return task != nil && task.TaskKind == "turn"
}

func startTurn(tx *session.Tx, t *state.Thread, e StartTurn) {
	turn := t.Turn(e.TurnID)
	scope := scopeOf(t, turn)
	if t.Active == nil {
		tx.Emit(session.QueueStarted(t, turn.TurnID))
	}
	tx.Emit(event.Event{Type: event.TypeTaskAttemptStarted, Scope: scope, Payload: &event.TaskAttemptStarted{
		Status: "running", AttemptCount: 1, Reason: "first", Worker: &event.Worker{Kind: "agent", ThreadID: t.ThreadID},
	}})
	if implicit(tx, turn) {
		tx.Emit(event.Event{Type: event.TypeTaskStarted, Scope: scope, Payload: &event.TaskStatusChanged{Status: "running"}})
	}
	tx.Emit(event.Event{Type: event.TypeTurnStarted, Scope: scope, Payload: &event.TurnStarted{
		Status: state.TurnRunning, AttemptCount: 1, QueueWaitMs: tx.Now().Sub(turn.SubmittedAt).Milliseconds(),
	}})
}

func completeTurn(tx *session.Tx, t *state.Thread, e CompleteTurn) {
	turn := t.Active
	scope := scopeOf(t, turn)
	usage := turn.Usage
	tx.Emit(event.Event{Type: event.TypeTurnCompleted, Scope: scope, Payload: &event.TurnCompleted{
		Status: state.TurnCompleted, Outcome: e.Outcome, Steps: turn.Step, DurationMs: elapsed(tx, turn), Usage: &usage, CostUSD: turn.CostUSD,
	}})
	tx.Emit(event.Event{Type: event.TypeTaskAttemptCompleted, Scope: scope, Payload: &event.TaskAttemptCompleted{
		Status: "completed", DurationMs: elapsed(tx, turn),
	}})
	if implicit(tx, turn) {
		tx.Emit(event.Event{Type: event.TypeTaskCompleted, Scope: scope, Payload: &event.TaskCompleted{
			Status: "completed", DeliveryState: &event.DeliveryState{Status: "delivered", Target: "thread"},
		}})
	}
}

func elapsed(tx *session.Tx, turn *state.Turn) int64 {
	if turn.StartedAt.IsZero() {
		return 0
	}
	return tx.Now().Sub(turn.StartedAt).Milliseconds()
}

func failTurn(tx *session.Tx, t *state.Thread, e FailTurn) {
	endTurn(tx, t, state.TurnFailed, e.Category, &event.Failure{Message: e.Message, Category: e.Category})
}

// cancelTurn ends an interrupted turn with all that it had open.
func cancelTurn(tx *session.Tx, t *state.Thread, e CancelTurn) {
	turn := t.Active
	scope := scopeOf(t, turn)
	reason := e.Reason
	if reason == "" {
		reason = "interrupted"
	}
	if c := turn.Call; c != nil && c.Status == state.CallRunning {
		s := scope
		s.ModelRequestID = c.ModelRequestID
		tx.Emit(event.Event{Type: event.TypeModelFailed, Scope: s, Payload: interrupted(c, reason)})
	}
	for _, id := range turn.Waiting {
		s := scope
		s.ActionID = id
		tx.Emit(event.Event{Type: event.TypeActionResolved, Scope: s, Payload: &event.ActionResolved{
			Decision: "cancel", Status: "cancelled", DecisionSource: "runtime", Reason: reason,
		}})
	}
	for _, tool := range turn.Tools {
		if tool.Status == state.ToolRunning {
			s := scope
			s.ToolCallID, s.StepID = tool.ToolCallID, tool.StepID
			tx.Emit(event.Event{Type: event.TypeToolFailed, Scope: s, Payload: &event.ToolFailed{
				ToolName: tool.ToolName, ErrorCategory: "interrupted", Message: reason,
			}})
		}
	}
	endTurn(tx, t, state.TurnCancelled, "interrupted", &event.Failure{Message: reason, Category: "interrupted", Retryable: true})
}

// endTurn emits the end of a turn that didn't succeed, of its attempt and of its
// implicit task.
func endTurn(tx *session.Tx, t *state.Thread, status, category string, why *event.Failure) {
	turn := t.Active
	scope := scopeOf(t, turn)
	usage := turn.Usage
	tx.Emit(event.Event{Type: event.TypeTurnFailed, Scope: scope, Payload: &event.TurnFailed{
		Status: status, Outcome: category, FailureCategory: category, Error: why,
		Steps: turn.Step, DurationMs: elapsed(tx, turn), Usage: &usage, CostUSD: turn.CostUSD,
	}})
	if turn.Status == state.TurnRunning {
		tx.Emit(event.Event{Type: event.TypeTaskAttemptFailed, Scope: scope, Payload: &event.TaskAttemptFailed{
			Status: status, FailureCategory: category, Error: why, Retryable: why.Retryable, DurationMs: elapsed(tx, turn),
		}})
	}
	if !implicit(tx, turn) {
		return
	}
	ended := event.Event{Type: event.TypeTaskFailed, Scope: scope, Payload: &event.TaskStatusChanged{Status: "failed", StatusReason: why.Message, Error: why}}
	if status == state.TurnCancelled {
		ended.Type, ended.Payload = event.TypeTaskCancelled, &event.TaskStatusChanged{Status: "cancelled", StatusReason: why.Message}
	}
	tx.Emit(ended)
}

// startTool begins a tool call. The one tool of this build is request_input,
// which asks the user and waits; any other is refused, and the model is told so.
func (l *Loop) startTool(tx *session.Tx, t *state.Thread, e StartTool) error {
	turn := t.Active
	call, err := l.requestedCall(tx, turn, e.ToolCallID)
	if err != nil {
		return err
	}
	scope := scopeOf(t, turn)
	scope.ToolCallID, scope.StepID = e.ToolCallID, tx.NewID(event.PrefixStep)
	tx.Emit(event.Event{Type: event.TypeToolStarted, Scope: scope, Payload: &event.ToolStarted{
		ToolName: call.ToolName, SafeArgs: call.Arguments, Policy: "allowed", RuntimeOwner: "local", IsReadOnly: true, InterruptBehavior: "cancel",
	}})
	if call.ToolName != "request_input" {
		tx.Emit(event.Event{Type: event.TypeToolFailed, Scope: scope, Payload: &event.ToolFailed{
			ToolName: call.ToolName, ErrorCategory: "unavailable", Message: "there is no tool " + call.ToolName,
			Advice: "use request_input, or answer without a tool",
		}})
		return nil
	}
	args, ok := parseQuestion(call.Arguments)
	if !ok {
		tx.Emit(event.Event{Type: event.TypeToolFailed, Scope: scope, Payload: &event.ToolFailed{
			ToolName: call.ToolName, ErrorCategory: "invalid_input", Message: "the arguments are not an object with prompt and schema",
		}})
		return nil
	}
	scope.ActionID = tx.NewID(event.PrefixAction)
	tx.Emit(event.Event{Type: event.TypeActionRequired, Scope: scope, Payload: &event.ActionRequired{
		ActionType: "structured_input", Prompt: args.Prompt, Schema: args.Schema, Decisions: []string{"submit", "cancel"}, ToolName: call.ToolName,
	}})
	return nil
}

// question is the input of request_input.
type question struct {
	Prompt string    `json:"prompt"`
	Schema event.Raw `json:"schema"`
}

func parseQuestion(arguments event.Raw) (question, bool) {
	var q question
	err := json.Unmarshal(arguments, &q)
	return q, err == nil
}

// requestedCall finds a tool call in the answer that asked for it.
func (l *Loop) requestedCall(tx *session.Tx, turn *state.Turn, toolCallID string) (*event.ToolCallRequest, error) {
	e, err := readFact(tx.Context(), l.opt.Store, tx.State.SessionID, turn.Call.EndSequence)
	if err != nil {
		return nil, err
	}
	if done, ok := e.Payload.(*event.ModelCompleted); ok && done.Message != nil {
		for i := range done.Message.ToolCalls {
			if done.Message.ToolCalls[i].ToolCallID == toolCallID {
				return &done.Message.ToolCalls[i], nil
			}
		}
	}
	return nil, fmt.Errorf("loop: tool call %s is not in fact %d", toolCallID, turn.Call.EndSequence)
}

// readFact reads one fact.
func readFact(ctx context.Context, s store.Store, sessionID string, sequence uint64) (*event.Event, error) {
	for rec, err := range s.Read(ctx, sessionID, store.Range{After: sequence - 1, Limit: 1}) {
		if err != nil {
			return nil, fmt.Errorf("loop: read: %w", err)
		}
		return event.Decode(rec.Data)
	}
	return nil, fmt.Errorf("loop: %w: fact %d of session %s", store.ErrNotFound, sequence, sessionID)
}

// finishTool ends request_input with the answer.
func finishTool(tx *session.Tx, t *state.Thread, e FinishTool) {
	turn := t.Active
	a := tx.State.Actions.Find(e.ActionID)
	scope := scopeOf(t, turn)
	scope.ToolCallID, scope.ActionID = e.ToolCallID, e.ActionID
	for _, tool := range turn.Tools {
		if tool.ToolCallID == e.ToolCallID {
			scope.StepID = tool.StepID
		}
	}
	if a.Decision != "submit" && a.Decision != "allow" {
		tx.Emit(event.Event{Type: event.TypeToolFailed, Scope: scope, Payload: &event.ToolFailed{
			ToolName: "request_input", ErrorCategory: "denied", Message: "the user gave no answer: " + a.Decision,
		}})
		return
	}
	tx.Emit(event.Event{Type: event.TypeToolResult, Scope: scope, Payload: &event.ToolResult{
		ToolName: "request_input", Status: "ok", Preview: string(a.Payload), OutputRef: a.PayloadRef,
		DurationMs: a.ResolvedAt.Sub(a.CreatedAt).Milliseconds(), StructuredContent: a.Payload,
	}})
}

// conversation reads what was said in the turn so far.
func conversation(ctx context.Context, s store.Store, sessionID string, turn *state.Turn) ([]event.Event, error) {
	var out []event.Event
	for rec, err := range s.Read(ctx, sessionID, store.Range{After: turn.SubmittedSequence - 1}) {
		if err != nil {
			return nil, fmt.Errorf("loop: read: %w", err)
		}
		e, err := event.Decode(rec.Data)
		if err != nil {
			return nil, fmt.Errorf("loop: %w", err)
		}
		if e.TurnID == turn.TurnID {
			out = append(out, *e)
		}
	}
	return out, nil
}

// inputText returns the text of an input's parts.
func inputText(parts event.Raw) string {
	var list []command.Part
	if json.Unmarshal(parts, &list) != nil {
		return ""
	}
	text := ""
	for _, p := range list {
		if p.Text != "" && text != "" {
			text += "\n"
		}
		text += p.Text
	}
	return text
}
