package turnview

import (
	"cmp"
	"encoding/json"

	"agentd/event"
	"agentd/tool/toolkind"
)

// Read folds an event as it was stored or delivered. One that can't be read here,
// because a newer release wrote it, changes nothing.
func (v *View) Read(data []byte) []Change {
	e, err := event.Decode(data)
	if err != nil {
		return nil
	}
	return v.Fold(e)
}

// Fold applies an event and returns what it changes.
func (v *View) Fold(e *event.Event) []Change {
	f := &fold{v: v, e: e, agent: e.SubagentID}
	if v.End != nil || !f.concerns() {
		return nil
	}
	if v.ThreadID == "" && v.TurnID != "" && f.agent == "" {
		v.ThreadID = e.ThreadID
	}
	f.event()
	return f.out
}

// CloseOpen ends all parts that are open, for an adapter that stops before the turn
// does.
func (v *View) CloseOpen() []Change {
	f := &fold{v: v}
	f.closeParts(func(*Call) bool { return true })
	return f.out
}

// fold applies one event.
type fold struct {
	v     *View
	e     *event.Event
	agent string
	out   []Change
}

func (f *fold) emit(c Change) {
	c.apply(f.v)
	f.out = append(f.out, c)
}

// isOwnEvent reports whether the event is of the turn itself, not of a subagent.
func (f *fold) isOwnEvent() bool {
	return f.agent == "" && (f.v.TurnID == f.e.TurnID || f.v.TurnID == "" && (f.v.ThreadID == "" || f.e.ThreadID == "" || f.e.ThreadID == f.v.ThreadID))
}

// concerns reports whether the event is part of the story: of the turn, of its thread,
// or of a subagent. A view that follows a session hears of all actions.
func (f *fold) concerns() bool {
	switch f.e.Payload.(type) {
	case *event.ThreadUpdated:
		return f.agent == "" && f.e.ThreadID == f.v.ThreadID
	case *event.ActionRequired, *event.ActionResolved:
		return f.agent != "" || f.isOwnEvent() || f.v.TurnID == ""
	}
	return f.agent != "" && f.v.WithSubagents || f.isOwnEvent()
}

func (f *fold) event() {
	switch p := f.e.Payload.(type) {
	case *event.ModelRequested:
		f.closeCall(p.ModelRequestID)
		f.emit(ModelAsked{f.agent, p.ModelRequestID, p.Step, p.Attempt, p.Purpose})
	case *event.ModelDelta:
		f.appendToPart(f.e.ModelRequestID, Text, p.Text)
	case *event.ReasoningDelta:
		f.appendToPart(f.e.ModelRequestID, Reasoning, p.Text)
	case *event.ModelCompleted:
		f.answered(p)
	case *event.ModelFailed:
		f.closeCall(p.ModelRequestID)
		f.emit(ModelFailed{f.agent, p})
	case *event.ActionRequired:
		f.introduce()
		f.emit(ActionAsked{Action{f.agent, f.e.ActionID, f.e.TurnID, f.e.ToolCallID, p}})
	case *event.ActionResolved:
		f.emit(ActionClosed{f.e.ActionID})
	case *event.ThreadUpdated:
		f.threadUpdated(p)
	case *event.PolicyChanged:
		if p.Source == "session" && p.Mode != "" {
			f.emit(ModeSet{p.Mode})
		}
	case *event.SubagentSpawned:
		c := SubagentStarted{ID: f.agent, Name: p.Nickname, Role: p.Role, Parent: p.ParentSubagentID}
		if f.e.ToolCallID != event.NotApplicable {
			c.ToolCallID = f.e.ToolCallID
		}
		f.began(c)
	case *event.SubagentEnded:
		if s := f.v.Subagent(f.agent); s != nil && s.Open {
			f.closeParts(func(c *Call) bool { return c.Agent == f.agent })
			f.emit(SubagentEnded{f.agent, p})
		}
	case *event.TurnCompleted:
		f.ended(Ended{Completed: p})
	case *event.TurnFailed:
		f.ended(Ended{Failed: p})
	default:
		f.tool()
	}
}

// introduce tells of a subagent that began before the first event that was seen.
func (f *fold) introduce() { f.began(SubagentStarted{ID: f.agent}) }

func (f *fold) began(c SubagentStarted) {
	if s := f.v.Subagent(c.ID); f.v.WithSubagents && c.ID != "" && (s == nil || !s.Open) {
		f.emit(c)
	}
}

// appendToPart adds to the part that is open, after closing another and opening it.
func (f *fold) appendToPart(callID string, kind PartKind, content string) {
	call := f.v.Call(callID)
	if content == "" || call != nil && !Speaks(call.Purpose) {
		return
	}
	f.introduce()
	ref := PartRef{f.agent, callID, kind}
	if call == nil || !call.speaking(kind) {
		f.closeParts(func(c *Call) bool { return c.Agent == f.agent || c.ID == callID })
		f.emit(PartOpened{ref})
	}
	f.emit(PartGrown{ref, content})
}

// speaking reports whether a part of the kind is open.
func (c *Call) speaking(kind PartKind) bool {
	n := len(c.Parts)
	return n > 0 && c.Parts[n-1].Open && c.Parts[n-1].Kind == kind
}

func (f *fold) closeCall(id string) { f.closeParts(func(c *Call) bool { return c.ID == id }) }

func (f *fold) closeParts(of func(*Call) bool) {
	for i := range f.v.Calls {
		if c := &f.v.Calls[i]; of(c) && (c.speaking(Text) || c.speaking(Reasoning)) {
			f.emit(PartClosed{PartRef{c.Agent, c.ID, c.Parts[len(c.Parts)-1].Kind}})
		}
	}
}

// answered ends a model call. What wasn't streamed is shown at once.
func (f *fold) answered(p *event.ModelCompleted) {
	call := f.v.Call(p.ModelRequestID)
	if !Speaks(p.Purpose) || call != nil && !Speaks(call.Purpose) {
		return
	}
	if p.Message != nil && (call == nil || call.text() == "") {
		f.appendToPart(p.ModelRequestID, Text, p.Message.Text)
	}
	f.closeCall(p.ModelRequestID)
	if p.Message != nil {
		for i := range p.Message.ToolCalls {
			t := &p.Message.ToolCalls[i]
			f.called(t.ToolCallID, p.ModelRequestID, t.ToolName, t.Arguments)
		}
	}
	f.emit(ModelAnswered{f.agent, p})
}

// called tells of a tool call, the first time that it is heard of.
func (f *fold) called(id, callID, name string, args event.Raw) {
	if f.v.Tool(id) == nil {
		f.introduce()
		f.emit(ToolCalled{f.agent, id, callID, name, args})
	}
}

// tool takes in what becomes of a tool call.
func (f *fold) tool() {
	id := f.e.ToolCallID
	switch p := f.e.Payload.(type) {
	case *event.ToolStarted:
		f.called(id, "", p.ToolName, p.SafeArgs)
		if p.Runs() {
			f.emit(ToolStarted{f.agent, id})
		}
	case *event.ToolProgress:
		if p.Phase == event.PhaseRunning {
			f.called(id, "", p.ToolName, nil)
			f.emit(ToolStarted{f.agent, id})
		}
		if p.Message != "" {
			f.called(id, "", p.ToolName, nil)
			f.emit(ToolProgressed{f.agent, id, p.Message})
		}
	case *event.ProcessOutput:
		if p.Text != "" && f.v.Tool(id) != nil {
			f.emit(ToolWrote{f.agent, id, p.Text})
		}
	case *event.ToolResult:
		f.called(id, "", p.ToolName, nil)
		f.emit(ToolEnded{Agent: f.agent, ToolCallID: id, Result: p})
		if items := PlanOf(p); items != nil && f.agent == "" {
			f.emit(PlanSet{items})
		}
	case *event.ToolFailed:
		f.called(id, "", p.ToolName, nil)
		f.emit(ToolEnded{Agent: f.agent, ToolCallID: id, Failure: p})
	}
}

// PlanOf returns the plan that a result sets; nil if it sets none.
func PlanOf(p *event.ToolResult) []PlanItem {
	var plan struct {
		Items []PlanItem `json:"items"`
	}
	if toolkind.Of(p.ToolName) != toolkind.UpdatePlan || json.Unmarshal(p.StructuredContent, &plan) != nil {
		return nil
	}
	return plan.Items
}

// threadUpdated keeps account of whether the thread goes on. One that waits for actions
// isn't blocked: they say what it waits for.
func (f *fold) threadUpdated(p *event.ThreadUpdated) {
	switch {
	case p.Status == "blocked" && len(p.ActionIDs) == 0:
		f.emit(BlockChanged{&Blocked{cmp.Or(p.Reason, "it waits"), p.Code}})
	case p.Status != "blocked" && f.v.Blocked != nil:
		f.emit(BlockChanged{})
	}
}

func (f *fold) ended(end Ended) {
	if f.agent == "" {
		f.closeParts(func(*Call) bool { return true })
		f.emit(end)
	}
}
