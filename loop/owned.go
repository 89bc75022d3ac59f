package loop

import (
	"encoding/json"

	"agentd/event"
	"agentd/session"
	"agentd/state"
	"agentd/tool"
	"agentd/tool/toolkind"
)

// emitOwned begins a tool that no implementation carries out: request_input asks,
// and the answer ends it; present_plan was approved, or it wouldn't begin; spawn_agent
// is carried out by the scheduler of work, which sees the start and ends the call
// when the child ends.
func (r *toolRun) emitOwned(tx *session.Tx) {
	kind := r.entry.Kind()
	switch {
	case kind == toolkind.RequestInput:
		r.askInput(tx)
	case kind == toolkind.PresentPlan:
		r.leavePlan(tx)
	case kind == toolkind.SpawnAgent && r.l.opt.Subagents:
	case r.clientTool() != nil:
		r.askClient(tx, r.clientTool())
	default:
		r.emitFailed(tx, tool.Errorf(tool.Unavailable, "%s is not available in this runtime", r.entry.Info.ToolName))
	}
}

// spawnsChild reports whether a call stays open until a child ends: no goroutine runs
// it, and neither a restart nor an answer ends it.
func (l *Loop) spawnsChild(c *state.ToolCall) bool {
	return l.opt.Subagents && toolkind.Of(c.ToolName) == toolkind.SpawnAgent
}

// answerEndsCall reports whether the answer to its action ends a running call.
func answerEndsCall(c *state.ToolCall) bool {
	return c.ActionID != "" && toolkind.Of(c.ToolName) != toolkind.SpawnAgent
}

// endsSpawn reports whether the fact ends a call that waited for a child.
func endsSpawn(e *event.Event) bool {
	switch p := e.Payload.(type) {
	case *event.ToolResult:
		return toolkind.Of(p.ToolName) == toolkind.SpawnAgent
	case *event.ToolFailed:
		return toolkind.Of(p.ToolName) == toolkind.SpawnAgent
	}
	return false
}

// askInput asks for an input.
func (r *toolRun) askInput(tx *session.Tx) {
	clean, _ := r.l.redactJSON(r.input)
	var q struct {
		Prompt string    `json:"prompt"`
		Schema event.Raw `json:"schema"`
	}
	if err := json.Unmarshal(clean, &q); err != nil {
		r.emitFailed(tx, tool.Errorf(tool.InvalidInput, "%v", err))
		return
	}
	if r.l.opt.NobodyToAsk {
		err := tool.Errorf(tool.Denied, "no one can be asked")
		err.Advice = "Decide by yourself, or say what you would have asked."
		r.emitFailed(tx, err)
		return
	}
	scope := r.scope
	scope.ActionID = tx.NewID(event.PrefixAction)
	a := &event.ActionRequired{
		ActionType: "structured_input", Prompt: q.Prompt, Schema: q.Schema, Decisions: []string{"submit", "cancel"}, ToolName: string(toolkind.RequestInput),
		Scope: event.Raw(`{"tool":"` + string(toolkind.RequestInput) + `"}`),
	}
	if after := r.l.opt.ActionTimeout; after > 0 {
		a.ExpiresAt, a.OnTimeout = tx.Now().Add(after), "cancel"
	}
	tx.Emit(event.Event{Type: event.TypeActionRequired, Scope: scope, Payload: a})
}

// finishTool ends request_input with the answer.
func finishTool(tx *session.Tx, t *state.Thread, e FinishTool) {
	turn := t.Active
	var scope event.Scope
	var links *event.ToolLinks
	if c := findCall(turn, e.ToolCallID); c != nil {
		scope, links = toolScope(t, turn, c), c.LinksOf()
	}
	scope.ActionID = e.ActionID
	a := tx.State.Actions.Find(e.ActionID)
	if a == nil || (a.Decision != "submit" && a.Decision != "allow") {
		why := "the question was dropped"
		if a != nil {
			why = "the user gave no answer: " + a.Decision
			if a.DecisionReason != "" {
				why += " (" + a.DecisionReason + ")"
			}
		}
		tx.Emit(event.Event{Type: event.TypeToolFailed, Scope: scope, Payload: &event.ToolFailed{
			ToolName: string(toolkind.RequestInput), ErrorCategory: tool.Denied, Message: why, Links: links,
		}})
		return
	}
	tx.Emit(event.Event{Type: event.TypeToolResult, Scope: scope, Payload: &event.ToolResult{
		ToolName: string(toolkind.RequestInput), Status: "ok", Preview: string(a.Payload), OutputRef: a.PayloadRef,
		DurationMs: a.ResolvedAt.Sub(a.CreatedAt).Milliseconds(), StructuredContent: a.Payload, Links: links,
	}})
}

// expireAction resolves an action that wasn't answered in time.
func expireAction(tx *session.Tx, e ExpireAction) {
	a := tx.State.Actions.Find(e.ActionID)
	decision := a.OnTimeout
	if decision == "" {
		decision = "cancel"
	}
	scope := event.Scope{
		ThreadID: a.ThreadID, TurnID: a.TurnID, TaskID: a.TaskID, RunID: tx.State.RunOf(a),
		ActionID: a.ActionID, StepID: a.StepID, ToolCallID: a.ToolCallID, SubagentID: a.SubagentID,
	}
	if at := endsAt(tx.State, a); !at.Equal(a.ExpiresAt) {
		loseAction(tx, a, scope)
		return
	}
	tx.Emit(event.Event{Type: event.TypeActionResolved, Scope: scope, Payload: &event.ActionResolved{
		Decision: decision, Status: "expired", DecisionSource: "timeout", ActionType: a.ActionType, Reason: "no answer arrived in time",
	}})
	if state.AsksPermission(a.ActionType) {
		tx.Emit(event.Event{Type: event.TypePermissionResolved, Scope: scope, Payload: &event.PermissionResolved{
			Decision: "timeout", DecisionSource: "default", DecisionReason: "no answer arrived in time", ActionID: a.ActionID, ToolName: a.ToolName,
		}})
	}
}
