package mcpserver

import (
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd/command"
	"agentd/event"
)

// outcome is how a turn stands, as run_turn and wait_turn answer.
type outcome struct {
	ref   turnRef
	watch *watch
	// status is set while the turn isn't over: running or action_required.
	status  string
	actions []command.ActionRecord
}

// outcomeBody is its wire form.
type outcomeBody struct {
	Status           string                 `json:"status"`
	SessionID        string                 `json:"sessionId"`
	ThreadID         string                 `json:"threadId,omitempty"`
	TurnID           string                 `json:"turnId"`
	TaskID           string                 `json:"taskId,omitempty"`
	RunID            string                 `json:"runId,omitempty"`
	Answer           string                 `json:"answer,omitempty"`
	StructuredOutput event.Raw              `json:"structuredOutput,omitempty"`
	FailureCategory  string                 `json:"failureCategory,omitempty"`
	Error            *event.Failure         `json:"error,omitempty"`
	Steps            int64                  `json:"steps,omitempty"`
	DurationMs       int64                  `json:"durationMs,omitempty"`
	CostUSD          float64                `json:"costUSD,omitempty"`
	Actions          []command.ActionRecord `json:"actions,omitempty"`
}

// outcomeSchema describes outcomeBody.
func outcomeSchema() map[string]any {
	text := func(says string) map[string]any { return map[string]any{"type": "string", "description": says} }
	return map[string]any{
		"type": "object", "required": []any{"status", "sessionId", "turnId"},
		"properties": map[string]any{
			"status": map[string]any{
				"type": "string", "enum": []any{"completed", "failed", "cancelled", "running", "action_required"},
				"description": "How the turn stands. action_required: answer the actions with respond_action, then call wait_turn.",
			},
			"sessionId": text("The turn's session; pass it again to go on in the same conversation."),
			"threadId":  text("The turn's thread."), "turnId": text("The turn."), "taskId": text("The turn's task."), "runId": text("The task's run."),
			"answer":           text("The agent's answer."),
			"structuredOutput": map[string]any{"description": "The answer as data, if the turn had an output schema."},
			"failureCategory":  text("Why the turn failed, for programs."),
			"error":            map[string]any{"type": "object", "description": "Why the turn failed."},
			"steps":            map[string]any{"type": "integer", "description": "Model calls of the turn."},
			"durationMs":       map[string]any{"type": "integer"},
			"costUSD":          map[string]any{"type": "number"},
			"actions": map[string]any{
				"type": "array", "items": map[string]any{"type": "object"},
				"description": "What the turn waits for, each with actionId, prompt and the decisions that it offers.",
			},
		},
	}
}

// result returns the outcome as a tool's result. A turn that failed is a tool that
// failed.
func (o *outcome) result() *mcp.CallToolResult {
	w := o.watch
	b := outcomeBody{
		Status: o.status, SessionID: o.ref.Session, ThreadID: w.ThreadID, TurnID: o.ref.Turn, TaskID: w.taskID, RunID: w.runID,
		Answer: w.answer, Actions: o.actions,
	}
	text := w.answer
	failed := w.End != nil && w.End.Failed != nil
	switch {
	case failed:
		f := w.End.Failed
		b.Status, b.Steps, b.DurationMs, b.CostUSD = f.Status, f.Steps, f.DurationMs, f.CostUSD
		b.FailureCategory, b.Error = f.FailureCategory, f.Error
		text = "The turn " + f.Status + ": " + f.FailureCategory + ": " + w.End.Reason()
	case w.End != nil:
		c := w.End.Completed
		b.Status, b.Steps, b.DurationMs, b.CostUSD = c.Status, c.Steps, c.DurationMs, c.CostUSD
		b.StructuredOutput = c.StructuredOutput
	case o.status == "action_required":
		text = o.waitsFor()
	default:
		text = "The turn " + o.ref.Turn + " of the session " + o.ref.Session + " still runs; " + waitTurn + " waits for it."
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}, StructuredContent: b, IsError: failed}
}

// waitsFor says what has to be answered.
func (o *outcome) waitsFor() string {
	var b strings.Builder
	b.WriteString("The turn waits. Answer with respond_action, then call " + waitTurn + ":")
	for i := range o.actions {
		a := &o.actions[i]
		b.WriteString("\n- " + a.ActionID + ": " + promptOf(a) + " (" + strings.Join(a.Decisions, ", ") + ")")
	}
	return b.String()
}
