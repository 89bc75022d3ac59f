package server

import (
	"encoding/json"
	"fmt"
	"time"

	"agentd/channel/turnview"
	"agentd/event"
	"agentd/tool/toolkind"
)

// ItemEvent is one step in the life of an item: the unit of view=items. It
// carries the sequence of the event that it is derived from; several may come
// from one event.
type ItemEvent struct {
	// Type is item.started, item.updated or item.completed.
	Type string `json:"type"`
	// SchemaVersion is that of our own types: the standard's list has no items.
	SchemaVersion string    `json:"schemaVersion"`
	RuntimeID     string    `json:"runtimeId"`
	Sequence      uint64    `json:"sequence"`
	Timestamp     time.Time `json:"timestamp"`
	SessionID     string    `json:"sessionId"`
	ThreadID      string    `json:"threadId,omitempty"`
	TurnID        string    `json:"turnId,omitempty"`
	TaskID        string    `json:"taskId,omitempty"`
	RunID         string    `json:"runId,omitempty"`
	StepID        string    `json:"stepId,omitempty"`
	ToolCallID    string    `json:"toolCallId,omitempty"`
	ActionID      string    `json:"actionId,omitempty"`
	ProcessID     string    `json:"processId,omitempty"`
	// SubagentID is set on the items of a child.
	SubagentID string `json:"subagentId,omitempty"`
	// EventID and EventType name the event that it is derived from.
	EventID   string     `json:"eventId"`
	EventType event.Type `json:"eventType"`
	// Payload is the item, where every envelope has what it says.
	Payload *Item `json:"payload"`
}

// Item is something that a client shows: a message, a tool call, a command. It
// begins with item.started, or, where an event says all at once, is there with
// item.completed alone.
type Item struct {
	// ItemID is the same in all steps of an item.
	ItemID string `json:"itemId"`
	// Kind is user_message, agent_message, reasoning, tool_call, plan, command,
	// file_change, action, subagent, compaction or error.
	Kind string `json:"kind"`
	// Status is in_progress, completed, failed or cancelled.
	Status string `json:"status"`
	// Title for people: a tool's name, a path.
	Title string `json:"title,omitempty"`
	// Text is the whole of a completed item's text; Delta is what an update adds.
	Text  string `json:"text,omitempty"`
	Delta string `json:"delta,omitempty"`
	// Data is the payload of the event, or, for a file change, that change.
	Data json.RawMessage `json:"data,omitempty"`
}

// The types of item events and the statuses of items.
const (
	itemStarted   = "item.started"
	itemUpdated   = "item.updated"
	itemCompleted = "item.completed"

	inProgress = "in_progress"
	completed  = "completed"
	failed     = "failed"
	cancelled  = "cancelled"
)

var itemTypes = []string{itemStarted, itemUpdated, itemCompleted}

func (i *ItemEvent) json() []byte { return mustMarshal(i) }

// itemsOf derives the item events of one stored event. It looks at nothing else,
// so a client may begin anywhere.
func itemsOf(data []byte) ([]ItemEvent, error) {
	var e event.Event
	payload, err := event.DecodeHeader(data, &e)
	if err != nil {
		return nil, fmt.Errorf("server: items: %w", err)
	}
	if !hasItems(e.Type) {
		return nil, nil
	}
	if err := e.DecodePayload(payload); err != nil {
		return nil, fmt.Errorf("server: items: %w", err)
	}
	d := derivation{e: &e, payload: payload}
	d.derive()
	return d.out, nil
}

// hasItems spares the decoding of payloads from which nothing is derived.
func hasItems(t event.Type) bool {
	d, ok := event.Lookup(t)
	if !ok {
		return false
	}
	//exhaustive:ignore // the families from which items are derived; no other is shown
	switch d.Family {
	case event.FamilyTurn, event.FamilyModel, event.FamilyReasoning, event.FamilyTool, event.FamilyProcess,
		event.FamilyAction, event.FamilySubagent, event.FamilyContext, event.FamilyRuntime:
		return true
	default:
		return false
	}
}

// derivation makes the item events of one event.
type derivation struct {
	e       *event.Event
	payload []byte
	out     []ItemEvent
}

func (d *derivation) addItem(step string, it Item) {
	if it.Data == nil {
		it.Data = d.payload
	}
	d.out = append(d.out, ItemEvent{
		Type: step, SchemaVersion: event.SchemaExtension, RuntimeID: d.e.RuntimeID,
		Sequence: d.e.Sequence, Timestamp: d.e.Time, SessionID: d.e.SessionID, ThreadID: d.e.ThreadID,
		TurnID: d.e.TurnID, TaskID: d.e.TaskID, RunID: d.e.RunID, StepID: d.e.StepID, ToolCallID: d.e.ToolCallID,
		ActionID: d.e.ActionID, ProcessID: d.e.ProcessID, SubagentID: d.e.SubagentID, EventID: d.e.ID, EventType: d.e.Type,
		Payload: &it,
	})
}

// derive dispatches on the payload: each kind of item has a function of its own.
func (d *derivation) derive() {
	switch p := d.e.Payload.(type) {
	case *event.TurnSubmitted:
		d.addItem(itemCompleted, Item{ItemID: d.e.TurnID, Kind: "user_message", Status: completed, Text: p.Preview})
	case *event.TurnSteered:
		d.addItem(itemCompleted, Item{ItemID: d.e.ID, Kind: "user_message", Status: completed, Text: p.Preview})
	case *event.TurnFailed:
		d.addItem(itemCompleted, Item{ItemID: d.e.TurnID + ":error", Kind: "error", Status: p.Status, Title: p.FailureCategory, Text: failureText(p.Error)})
	case *event.RuntimeNotice:
		d.addItem(itemCompleted, Item{ItemID: d.e.ID, Kind: "error", Status: completed, Title: p.Code, Text: p.Message})
	case *event.ModelRequested, *event.ModelDelta, *event.ModelCompleted, *event.ModelFailed:
		d.message(p)
	case *event.ReasoningDelta, *event.ReasoningSummary:
		d.reasoning(p)
	case *event.ToolStarted, *event.ToolArgs, *event.ToolProgress, *event.ToolResult, *event.ToolFailed:
		d.toolCall(p)
	case *event.ProcessStarted, *event.ProcessOutput, *event.ProcessInput, *event.ProcessCompleted, *event.ProcessFailed, *event.ProcessTerminated:
		d.command(p)
	case *event.ActionRequired, *event.ActionResolved:
		d.action(p)
	case *event.SubagentSpawned, *event.SubagentStatus, *event.SubagentMessage, *event.SubagentEnded:
		d.subagent(p)
	case *event.CompactionStarted, *event.CompactionCompleted, *event.CompactionFailed:
		d.compaction(p)
	}
}

func failureText(f *event.Failure) string {
	if f == nil {
		return ""
	}
	return f.Message
}

// message derives the agent's message, one for each model call of a turn.
func (d *derivation) message(p event.Payload) {
	it := Item{ItemID: d.e.ModelRequestID, Kind: "agent_message", Status: inProgress}
	switch p := p.(type) {
	case *event.ModelRequested:
		if turnview.Speaks(p.Purpose) {
			d.addItem(itemStarted, it)
		}
	case *event.ModelDelta:
		it.Delta = p.Text
		d.addItem(itemUpdated, it)
	case *event.ModelCompleted:
		if !turnview.Speaks(p.Purpose) {
			return
		}
		if p.Message != nil && p.Message.Reasoning != "" {
			d.addItem(itemCompleted, Item{ItemID: d.reasoningID(), Kind: "reasoning", Status: completed, Text: p.Message.Reasoning, Data: json.RawMessage("{}")})
		}
		it.ItemID, it.Status, it.Text = p.ModelRequestID, completed, p.Preview
		if p.Message != nil && p.Message.Text != "" {
			it.Text = p.Message.Text
		}
		d.addItem(itemCompleted, it)
	case *event.ModelFailed:
		it.ItemID, it.Status, it.Text = p.ModelRequestID, failed, p.PartialText
		if p.ErrorCategory == "interrupted" {
			it.Status = cancelled
		}
		d.addItem(itemCompleted, it)
	}
}

func (d *derivation) reasoningID() string { return d.e.ModelRequestID + ":reasoning" }

// reasoning derives the thinking that comes before a message.
func (d *derivation) reasoning(p event.Payload) {
	it := Item{ItemID: d.reasoningID(), Kind: "reasoning", Status: inProgress}
	switch p := p.(type) {
	case *event.ReasoningDelta:
		if p.Index == 0 {
			d.addItem(itemStarted, it)
		}
		it.Delta = p.Text
		d.addItem(itemUpdated, it)
	case *event.ReasoningSummary:
		it.Status, it.Text = completed, p.Text
		d.addItem(itemCompleted, it)
	}
}

// toolCall derives a tool's call, a plan where the tool is the plan's, and the
// files that it changed.
func (d *derivation) toolCall(p event.Payload) {
	it := Item{ItemID: d.e.ToolCallID, Kind: "tool_call", Status: inProgress}
	step := itemUpdated
	switch p := p.(type) {
	case *event.ToolStarted:
		step, it.Title = itemStarted, p.ToolName
	case *event.ToolArgs:
		it.Title = p.ToolName
	case *event.ToolProgress:
		it.Title, it.Delta = p.ToolName, p.Text
	case *event.ToolResult:
		step, it.Title, it.Text, it.Status = itemCompleted, p.ToolName, p.Preview, completed
		d.fileChanges(p.ChangedFiles)
	case *event.ToolFailed:
		step, it.Title, it.Text, it.Status = itemCompleted, p.ToolName, p.Message, failed
		if p.ErrorCategory == "interrupted" {
			it.Status = cancelled
		}
	}
	if toolkind.Of(it.Title) == toolkind.UpdatePlan {
		it.Kind = "plan"
	}
	d.addItem(step, it)
}

func (d *derivation) fileChanges(changes []event.FileChange) {
	for i := range changes {
		d.addItem(itemCompleted, Item{
			ItemID: d.e.ToolCallID + ":" + changes[i].Path, Kind: "file_change", Status: completed,
			Title: changes[i].Path, Text: changes[i].Change, Data: mustMarshal(&changes[i]),
		})
	}
}

// command derives a process.
func (d *derivation) command(p event.Payload) {
	it := Item{ItemID: d.e.ProcessID, Kind: "command", Status: inProgress}
	step := itemUpdated
	switch p := p.(type) {
	case *event.ProcessStarted:
		step = itemStarted
		if len(p.Command) > 0 {
			it.Title = p.Command[len(p.Command)-1]
		}
	case *event.ProcessOutput:
		it.Delta = p.Text
	case *event.ProcessCompleted:
		step, it.Status = itemCompleted, completed
	case *event.ProcessFailed:
		step, it.Status, it.Text = itemCompleted, failed, p.Message
	case *event.ProcessTerminated:
		step, it.Status, it.Text = itemCompleted, cancelled, p.Reason
	}
	d.addItem(step, it)
}

// action derives a question that waits for an answer.
func (d *derivation) action(p event.Payload) {
	it := Item{ItemID: d.e.ActionID, Kind: "action", Status: inProgress}
	switch p := p.(type) {
	case *event.ActionRequired:
		it.Title, it.Text = p.ActionType, p.Prompt
		d.addItem(itemStarted, it)
	case *event.ActionResolved:
		it.Status, it.Title, it.Text = completed, p.ActionType, p.Decision
		if p.Status == cancelled {
			it.Status = cancelled
		}
		d.addItem(itemCompleted, it)
	}
}

// subagent derives a child, from its spawning to its end.
func (d *derivation) subagent(p event.Payload) {
	it := Item{ItemID: d.e.SubagentID, Kind: "subagent", Status: inProgress}
	switch p := p.(type) {
	case *event.SubagentSpawned:
		it.Title = p.Nickname
		if it.Title == "" {
			it.Title = p.Role
		}
		d.addItem(itemStarted, it)
	case *event.SubagentStatus:
		it.Text = p.Status
		d.addItem(itemUpdated, it)
	case *event.SubagentMessage:
		it.Delta = p.Text
		d.addItem(itemUpdated, it)
	case *event.SubagentEnded:
		it.Status, it.Text = completed, p.Preview
		if p.Status == failed {
			it.Status, it.Text = failed, failureText(p.Error)
		}
		d.addItem(itemCompleted, it)
	}
}

// compaction derives the replacement of earlier turns by a summary.
func (d *derivation) compaction(p event.Payload) {
	it := Item{Kind: "compaction", Status: inProgress}
	switch p := p.(type) {
	case *event.CompactionStarted:
		it.ItemID, it.Title = p.CompactionID, p.Trigger
		d.addItem(itemStarted, it)
	case *event.CompactionCompleted:
		it.ItemID, it.Title, it.Status, it.Text = p.CompactionID, p.Trigger, completed, p.SummaryPreview
		d.addItem(itemCompleted, it)
	case *event.CompactionFailed:
		it.ItemID, it.Title, it.Status, it.Text = p.CompactionID, p.Trigger, failed, p.Error.Message
		d.addItem(itemCompleted, it)
	}
}
