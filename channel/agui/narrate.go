package agui

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"agentd/channel/turnview"
	"agentd/event"
)

// narrator says what becomes of a turn in the protocol's words. It sends nothing: what
// it said is taken from it.
type narrator struct {
	threadID, runID string
	// view is the turn that the run is about.
	view turnview.View

	out   []object
	ended bool
	// step is the open step of the turn.
	step string
}

// drainEvents returns what is to be sent.
func (n *narrator) drainEvents() []object {
	out := n.out
	n.out = nil
	return out
}

// emit adds an event; who is the subagent that it belongs to, if it does.
func (n *narrator) emit(who string, o object) {
	if who != "" {
		o["subagentRunId"] = n.childID(who)
	}
	n.out = append(n.out, o)
}

// childID names one invocation of a subagent: a run's events name each once.
func (n *narrator) childID(id string) string {
	if s := n.view.Subagent(id); s != nil && s.Run > 1 {
		return fmt.Sprintf("%s.%d", id, s.Run)
	}
	return id
}

// Ids of messages that follow from others.
func reasoningID(requestID string) string { return requestID + ".reasoning" }
func resultID(toolCallID string) string   { return toolCallID + ".result" }

// argumentsText are a call's arguments as text.
func argumentsText(raw event.Raw) string {
	if len(raw) == 0 {
		return "{}"
	}
	return string(raw)
}

// narrateChange tells a change of the turn.
func (n *narrator) narrateChange(c turnview.Change) {
	switch c := c.(type) {
	case turnview.ModelAsked:
		if c.Agent == "" && turnview.Speaks(c.Purpose) {
			n.nextStep(fmt.Sprintf("step %d", c.Step))
		}
	case turnview.PartOpened:
		kind, role, id := messageOf(c.PartRef)
		if c.Kind == turnview.Reasoning {
			n.emit(c.Agent, object{"type": "REASONING_START", "messageId": id})
		}
		n.emit(c.Agent, object{"type": kind + "_START", "messageId": id, "role": role})
	case turnview.PartGrown:
		kind, _, id := messageOf(c.PartRef)
		n.emit(c.Agent, object{"type": kind + "_CONTENT", "messageId": id, "delta": c.Content})
	case turnview.PartClosed:
		kind, _, id := messageOf(c.PartRef)
		n.emit(c.Agent, object{"type": kind + "_END", "messageId": id})
		if c.Kind == turnview.Reasoning {
			n.emit(c.Agent, object{"type": "REASONING_END", "messageId": id})
		}
	case turnview.ToolCalled:
		if c.CallID != "" { // another is in a message that came before the run
			n.emit(c.Agent, object{"type": "TOOL_CALL_START", "toolCallId": c.ToolCallID, "toolCallName": c.Name, "parentMessageId": c.CallID})
			n.emit(c.Agent, object{"type": "TOOL_CALL_ARGS", "toolCallId": c.ToolCallID, "delta": argumentsText(c.Args)})
			n.emit(c.Agent, object{"type": "TOOL_CALL_END", "toolCallId": c.ToolCallID})
		}
	case turnview.ToolEnded:
		n.emit(c.Agent, object{"type": "TOOL_CALL_RESULT", "messageId": resultID(c.ToolCallID), "toolCallId": c.ToolCallID, "content": c.Preview(), "role": "tool"})
	case turnview.PlanSet:
		n.emit("", object{"type": "ACTIVITY_SNAPSHOT", "messageId": n.view.TurnID + ".plan", "activityType": "PLAN", "content": object{"items": c.Items}, "replace": true})
		n.emit("", object{"type": "STATE_DELTA", "delta": []object{{"op": "add", "path": "/agentd/plan", "value": c.Items}}})
	case turnview.ModeSet:
		n.emit("", object{"type": "STATE_DELTA", "delta": []object{{"op": "add", "path": "/agentd/permissionMode", "value": c.Mode}}})
	case turnview.SubagentStarted:
		n.child(&c)
	case turnview.SubagentEnded:
		n.childEnded(&c)
	case turnview.Ended:
		n.turnEnded(&c)
	}
}

// messageOf is a part as a message of the protocol.
func messageOf(p turnview.PartRef) (kind, role, id string) {
	if p.Kind == turnview.Reasoning {
		return "REASONING_MESSAGE", "reasoning", reasoningID(p.CallID)
	}
	return "TEXT_MESSAGE", "assistant", p.CallID
}

// nextStep ends a step and begins another; a model that is asked again is still in
// the same.
func (n *narrator) nextStep(name string) {
	if n.step == name {
		return
	}
	n.endStep()
	n.step = name
	n.emit("", object{"type": "STEP_STARTED", "stepName": name})
}

func (n *narrator) endStep() {
	if n.step != "" {
		n.emit("", object{"type": "STEP_FINISHED", "stepName": n.step})
		n.step = ""
	}
}

func (n *narrator) child(c *turnview.SubagentStarted) {
	o := object{"type": "SUBAGENT_STARTED", "name": cmp.Or(c.Name, c.Role, "subagent")}
	if c.Role != "" {
		o["description"] = c.Role
	}
	if s := n.view.Subagent(c.Parent); s != nil && s.Open {
		o["parentSubagentRunId"] = n.childID(c.Parent)
	}
	if c.ToolCallID != "" {
		o["parentToolCallId"] = c.ToolCallID
	}
	n.emit(c.ID, o)
}

func (n *narrator) childEnded(c *turnview.SubagentEnded) {
	if c.Status != "failed" {
		n.emit(c.ID, object{"type": "SUBAGENT_FINISHED", "outcome": object{"type": "success"}})
		return
	}
	why := c.Reason
	if c.Error != nil {
		why = c.Error.Message
	}
	n.emit(c.ID, object{"type": "SUBAGENT_ERROR", "message": cmp.Or(why, "it failed")})
}

// approvalSchema is what answers a request for permission.
const approvalSchema = `{"type":"object","properties":{"approved":{"type":"boolean"},"scope":{"type":"string","enum":["once","session"]},"reason":{"type":"string"}},"required":["approved"]}`

// permissionSchema is what answers a request for permission: it offers as scopes what
// the action does.
func permissionSchema(a *turnview.Action) event.Raw {
	scopes := []string{"once"}
	if !a.OnceOnly {
		scopes = append(scopes, "session")
	}
	scope := object{"type": "string"}
	if len(a.KeepRules) > 0 {
		scopes = append(scopes, "project")
		scope["description"] = "project: always in this project: " + turnview.RulesText(a.KeepRules)
	}
	scope["enum"] = scopes
	b, err := json.Marshal(object{"type": "object", "required": []string{"approved"}, "properties": object{
		"approved": object{"type": "boolean"}, "scope": scope, "reason": object{"type": "string"},
	}})
	if err != nil {
		return event.Raw(approvalSchema) // texts always encode
	}
	return b
}

// planApproval is the type of an action that asks whether a plan is carried out.
const planApproval = "plan_approval"

// planSchema is what answers a plan: a yes or a no and, with what the plan's own
// schema offers, in which mode it is carried out.
func planSchema(offered event.Raw) event.Raw {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if len(offered) > 0 {
		_ = json.Unmarshal(offered, &s) // one without members offers nothing
	}
	members := object{"approved": object{"type": "boolean"}, "reason": object{"type": "string"}}
	for name, member := range s.Properties {
		members[name] = member
	}
	b, err := json.Marshal(object{"type": "object", "properties": members, "required": []string{"approved"}})
	if err != nil {
		return event.Raw(approvalSchema) // what was decoded encodes again
	}
	return b
}

// interrupt is an action in the protocol's words.
func (n *narrator) interrupt(a *turnview.Action) object {
	o := object{"id": a.ID, "reason": a.ActionType}
	if n.view.Subagent(a.Agent) != nil {
		o["subagentRunId"] = n.childID(a.Agent)
	}
	about := object{"decisions": a.Decisions}
	for name, value := range map[string]string{"message": a.Prompt, "toolCallId": a.ToolCallID} {
		if value != "" {
			o[name] = value
		}
	}
	schema := a.Schema
	switch {
	case a.ActionType == planApproval:
		schema = planSchema(a.Schema)
	case !a.WantsValue():
		schema = permissionSchema(a)
	}
	if len(schema) > 0 && schema[0] == '{' {
		o["responseSchema"] = schema
	}
	if !a.ExpiresAt.IsZero() {
		o["expiresAt"] = a.ExpiresAt.UTC().Format(time.RFC3339Nano)
	}
	if a.ToolName != "" {
		about["toolName"] = a.ToolName
	}
	if len(a.SafeArgs) > 0 {
		about["arguments"] = a.SafeArgs
	}
	if a.Reason != "" {
		about["why"] = a.Reason
	}
	o["metadata"] = about
	return o
}
