package agui

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"agentd/command"
	"agentd/event"
)

// narrator decides what facts mean for the front end. It sends nothing: what it
// decided is taken from it.
type narrator struct {
	threadID, runID string
	// turnID is the turn that the run is about.
	turnID string

	out   []object
	ended bool
	// step is the open step of the turn; text and reasoning are the open messages,
	// by the speaker: "" is the agent, others are subagents.
	step            string
	text, reasoning map[string]string
	// silent are model requests that aren't a turn's own, spoken those of which
	// something was told.
	silent, spoken map[string]bool
	// children are the subagents that are open, in the order in which they began;
	// gone counts how often each ended.
	children []string
	gone     map[string]int
	waiting  []object
	// main is the turn's thread here, blocked why it doesn't go on.
	main, blocked string
	usage         []*event.ModelCompleted
}

func newNarrator(threadID, runID string) *narrator {
	return &narrator{
		threadID: threadID, runID: runID, text: map[string]string{}, reasoning: map[string]string{},
		silent: map[string]bool{}, spoken: map[string]bool{}, gone: map[string]int{},
	}
}

func (n *narrator) over() bool { return n.ended }

// take returns what is to be sent.
func (n *narrator) take() []object {
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
	if again := n.gone[id]; again > 0 {
		return fmt.Sprintf("%s.%d", id, again+1)
	}
	return id
}

// Ids of messages that follow from others.
func reasoningID(requestID string) string { return requestID + ".reasoning" }
func resultID(toolCallID string) string   { return toolCallID + ".result" }

// arguments are a call's arguments as text.
func arguments(raw event.Raw) string {
	if len(raw) == 0 {
		return "{}"
	}
	return string(raw)
}

// fact takes one fact.
func (n *narrator) fact(e *event.Event) {
	if n.ended || (e.SubagentID == "" && e.TurnID != n.turnID && !isThread(e)) {
		return
	}
	who := e.SubagentID
	switch p := e.Payload.(type) {
	case *event.SubagentSpawned:
		n.child(who, p.Role, p.Nickname, p.ParentSubagentID, e.ToolCallID)
	case *event.SubagentEnded:
		n.childEnded(who, p)
	case *event.ActionRequired:
		n.waiting = append(n.waiting, n.interrupt(who, e, p))
	case *event.ActionResolved:
		n.waiting = slices.DeleteFunc(n.waiting, func(o object) bool { return o["id"] == e.ActionID })
	case *event.ThreadUpdated:
		if who == "" && e.ThreadID == n.main {
			n.block(p)
		}
	case *event.TurnCompleted:
		if who == "" {
			n.completed(p)
		}
	case *event.TurnFailed:
		if who == "" {
			n.failed(p)
		}
	default:
		n.model(who, e)
		n.tool(who, e)
	}
}

// block notes whether the turn's thread goes on. One that was blocked may have gone
// on since: settle tells what came last.
func (n *narrator) block(p *event.ThreadUpdated) {
	switch {
	case p.Status != "blocked":
		n.blocked = ""
	case len(p.ActionIDs) == 0:
		n.blocked = "the turn is blocked: " + p.Reason + "; resume_thread lets it go on"
	}
}

func isThread(e *event.Event) bool { return e.Type == event.TypeThreadUpdated }

// model tells what a model says.
func (n *narrator) model(who string, e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.ModelRequested:
		if p.Purpose == "compaction" || p.Purpose == "classification" {
			n.silent[p.ModelRequestID] = true
		} else if who == "" {
			n.nextStep(fmt.Sprintf("step %d", p.Step))
		}
	case *event.ModelDelta:
		n.say(who, e.ModelRequestID, p.Text)
	case *event.ReasoningDelta:
		n.think(who, e.ModelRequestID, p.Text)
	case *event.ModelFailed:
		n.hush(who)
	case *event.ModelCompleted:
		if n.silent[p.ModelRequestID] {
			return
		}
		n.usage = append(n.usage, p)
		if p.Message != nil && !n.spoken[p.ModelRequestID] {
			n.say(who, p.ModelRequestID, p.Message.Text)
		}
		n.hush(who)
		if p.Message != nil {
			n.calls(who, p)
		}
	}
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

func (n *narrator) say(who, id, text string) {
	if text == "" || n.silent[id] {
		return
	}
	n.present(who)
	n.endThought(who)
	n.spoken[id] = true
	if n.text[who] != id {
		n.hush(who)
		n.text[who] = id
		n.emit(who, object{"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"})
	}
	n.emit(who, object{"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": text})
}

func (n *narrator) think(who, id, text string) {
	if text == "" || n.silent[id] {
		return
	}
	n.present(who)
	id = reasoningID(id)
	if n.reasoning[who] != id {
		n.hush(who)
		n.reasoning[who] = id
		n.emit(who, object{"type": "REASONING_START", "messageId": id})
		n.emit(who, object{"type": "REASONING_MESSAGE_START", "messageId": id, "role": "reasoning"})
	}
	n.emit(who, object{"type": "REASONING_MESSAGE_CONTENT", "messageId": id, "delta": text})
}

func (n *narrator) endThought(who string) {
	if id := n.reasoning[who]; id != "" {
		delete(n.reasoning, who)
		n.emit(who, object{"type": "REASONING_MESSAGE_END", "messageId": id})
		n.emit(who, object{"type": "REASONING_END", "messageId": id})
	}
}

// hush ends the messages that a speaker has open.
func (n *narrator) hush(who string) {
	n.endThought(who)
	if id := n.text[who]; id != "" {
		delete(n.text, who)
		n.emit(who, object{"type": "TEXT_MESSAGE_END", "messageId": id})
	}
}

// calls tells the tool calls that a model asks for.
func (n *narrator) calls(who string, p *event.ModelCompleted) {
	for i := range p.Message.ToolCalls {
		n.present(who)
		c := &p.Message.ToolCalls[i]
		n.emit(who, object{"type": "TOOL_CALL_START", "toolCallId": c.ToolCallID, "toolCallName": c.ToolName, "parentMessageId": p.ModelRequestID})
		n.emit(who, object{"type": "TOOL_CALL_ARGS", "toolCallId": c.ToolCallID, "delta": arguments(c.Arguments)})
		n.emit(who, object{"type": "TOOL_CALL_END", "toolCallId": c.ToolCallID})
	}
}

// tool tells what became of tool calls.
func (n *narrator) tool(who string, e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.ToolResult:
		n.result(who, e.ToolCallID, p.Preview)
		if items := planOf(p); items != nil && who == "" {
			n.plan(items)
		}
	case *event.ToolFailed:
		n.result(who, e.ToolCallID, p.Message)
	case *event.PolicyChanged:
		if p.Source == "session" && p.Mode != "" {
			n.emit("", object{"type": "STATE_DELTA", "delta": []object{{"op": "add", "path": "/agentd/permissionMode", "value": p.Mode}}})
		}
	}
}

func (n *narrator) result(who, id, content string) {
	n.present(who)
	n.emit(who, object{"type": "TOOL_CALL_RESULT", "messageId": resultID(id), "toolCallId": id, "content": content, "role": "tool"})
}

// plan tells what the agent is about to do, as an activity and in the state.
func (n *narrator) plan(items []object) {
	n.emit("", object{"type": "ACTIVITY_SNAPSHOT", "messageId": n.turnID + ".plan", "activityType": "PLAN", "content": object{"items": items}, "replace": true})
	n.emit("", object{"type": "STATE_DELTA", "delta": []object{{"op": "add", "path": "/agentd/plan", "value": items}}})
}

// planOf returns the plan that a result sets; nil if it sets none.
func planOf(p *event.ToolResult) []object {
	var plan struct {
		Items []object `json:"items"`
	}
	if p.ToolName != "update_plan" || json.Unmarshal(p.StructuredContent, &plan) != nil {
		return nil
	}
	return plan.Items
}

// present tells of a subagent that this run hasn't heard of: it began before.
func (n *narrator) present(who string) {
	if who != "" && !slices.Contains(n.children, who) {
		n.child(who, "", "", "", "")
	}
}

func (n *narrator) child(id, role, nickname, parent, toolCallID string) {
	if slices.Contains(n.children, id) {
		return
	}
	n.children = append(n.children, id)
	o := object{"type": "SUBAGENT_STARTED", "name": firstOf(nickname, role, "subagent")}
	if role != "" {
		o["description"] = role
	}
	if slices.Contains(n.children, parent) {
		o["parentSubagentRunId"] = n.childID(parent)
	}
	if toolCallID != "" && toolCallID != event.NotApplicable {
		o["parentToolCallId"] = toolCallID
	}
	n.emit(id, o)
}

func firstOf(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}

func (n *narrator) childEnded(id string, p *event.SubagentEnded) {
	if !slices.Contains(n.children, id) {
		return
	}
	n.hush(id)
	if p.Status == "failed" {
		why := p.Reason
		if p.Error != nil {
			why = p.Error.Message
		}
		n.emit(id, object{"type": "SUBAGENT_ERROR", "message": firstOf(why, "it failed")})
	} else {
		n.emit(id, object{"type": "SUBAGENT_FINISHED", "outcome": object{"type": "success"}})
	}
	n.forget(id)
}

func (n *narrator) forget(id string) {
	n.gone[id]++
	n.children = slices.DeleteFunc(n.children, func(x string) bool { return x == id })
}

// interrupt is an action in the protocol's words.
func (n *narrator) interrupt(who string, e *event.Event, p *event.ActionRequired) object {
	o := interruptOf(&command.ActionRecord{
		ActionID: e.ActionID, ToolCallID: e.ToolCallID, ActionType: p.ActionType, Prompt: p.Prompt, Schema: p.Schema,
		Decisions: p.Decisions, ToolName: p.ToolName, SafeArgs: p.SafeArgs, Reason: p.Reason, ExpiresAt: p.ExpiresAt,
	})
	if who != "" {
		n.present(who)
		o["subagentRunId"] = n.childID(who)
	}
	return o
}

// approvalSchema is what answers a request for permission.
const approvalSchema = `{"type":"object","properties":{"approved":{"type":"boolean"},"scope":{"type":"string","enum":["once","session"]},"reason":{"type":"string"}},"required":["approved"]}`

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

func interruptOf(a *command.ActionRecord) object {
	o := object{"id": a.ActionID, "reason": a.ActionType}
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
	case !slices.Contains(a.Decisions, "submit"):
		schema = event.Raw(approvalSchema)
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
