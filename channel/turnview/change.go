package turnview

import (
	"slices"

	"agentd/event"
)

// Change is what an event changes in a view. The set is closed.
type Change interface{ apply(v *View) }

// Apply makes a change that another view of the same turn returned.
func (v *View) Apply(c Change) { c.apply(v) }

// ModelAsked begins a model call. Of one that doesn't speak nothing but its failure
// follows.
type ModelAsked struct {
	Agent, CallID string
	Step, Attempt int64
	Purpose       string
}

// PartRef names a part: the newest of its kind in its call.
type PartRef struct {
	Agent, CallID string
	Kind          PartKind
}

// PartOpened begins a text or a reasoning. One agent has one open part at most.
type PartOpened struct{ PartRef }

// PartGrown adds to the open part.
type PartGrown struct {
	PartRef
	Content string
}

// PartClosed ends it.
type PartClosed struct{ PartRef }

// ModelAnswered ends a model call well, after what it said and the tools it calls.
type ModelAnswered struct {
	Agent string
	*event.ModelCompleted
}

// ModelFailed ends a model call without an answer; it may be asked again.
type ModelFailed struct {
	Agent string
	*event.ModelFailed
}

// ToolCalled tells of a tool call for the first time.
type ToolCalled struct {
	Agent, ToolCallID, CallID, Name string
	Args                            event.Raw
}

// ToolStarted says that a tool call is carried out.
type ToolStarted struct{ Agent, ToolCallID string }

// ToolProgressed is a sign of life of a tool.
type ToolProgressed struct{ Agent, ToolCallID, Message string }

// ToolWrote is a piece of a tool's output.
type ToolWrote struct{ Agent, ToolCallID, Output string }

// ToolEnded ends a tool call, with a result or a failure.
type ToolEnded struct {
	Agent, ToolCallID string
	Result            *event.ToolResult
	Failure           *event.ToolFailed
}

// Preview is what is shown of the result or the failure.
func (c ToolEnded) Preview() string {
	if c.Failure != nil {
		return c.Failure.Message
	}
	return c.Result.Preview
}

// PlanSet gives the agent's whole plan.
type PlanSet struct{ Items []PlanItem }

// ModeSet gives the session another permission mode.
type ModeSet struct{ Mode string }

// ActionAsked says that something waits for an answer.
type ActionAsked struct{ Action }

// ActionClosed says that it doesn't wait any more.
type ActionClosed struct{ ActionID string }

// BlockChanged says whether the thread goes on.
type BlockChanged struct{ Blocked *Blocked }

// SubagentStarted tells of a subagent for the first time since it began. All but the
// id is empty if its beginning wasn't seen.
type SubagentStarted struct{ ID, Name, Role, Parent, ToolCallID string }

// SubagentEnded says that a subagent has done its work, or failed.
type SubagentEnded struct {
	ID string
	*event.SubagentEnded
}

// Ended is the end of the turn: one of the two is set.
type Ended struct {
	Completed *event.TurnCompleted
	Failed    *event.TurnFailed
}

// Usage is what the turn used as a whole, as far as it is known.
func (c Ended) Usage() event.Usage {
	var u *event.Usage
	if c.Completed != nil {
		u = c.Completed.Usage
	} else {
		u = c.Failed.Usage
	}
	if u == nil {
		return event.Usage{}
	}
	return *u
}

// Category is why the turn failed, for programs; empty if it didn't.
func (c Ended) Category() string {
	if c.Failed == nil {
		return ""
	}
	return c.Failed.FailureCategory
}

// Reason is why the turn failed, for people; empty if it didn't.
func (c Ended) Reason() string {
	switch {
	case c.Failed == nil:
		return ""
	case c.Failed.Error != nil:
		return c.Failed.Error.Message
	}
	return c.Failed.Outcome
}

func (c ModelAsked) apply(v *View) {
	*v.findOrAddCall(c.Agent, c.CallID) = Call{Agent: c.Agent, ID: c.CallID, Purpose: c.Purpose}
}

func (v *View) findOrAddCall(agent, id string) *Call {
	if v.Call(id) == nil {
		v.Calls = append(v.Calls, Call{Agent: agent, ID: id})
	}
	return v.Call(id)
}

func (c PartOpened) apply(v *View) {
	call := v.findOrAddCall(c.Agent, c.CallID)
	call.Parts = append(call.Parts, Part{Kind: c.Kind, Open: true})
}

func (c PartGrown) apply(v *View) {
	parts := v.Call(c.CallID).Parts
	last := &parts[len(parts)-1]
	last.Content = append(last.Content, c.Content...)
}

func (c PartClosed) apply(v *View) {
	parts := v.Call(c.CallID).Parts
	parts[len(parts)-1].Open = false
}

func (c ModelAnswered) apply(v *View) {
	call := v.findOrAddCall(c.Agent, c.ModelRequestID)
	call.Answer, call.Failed = c.ModelCompleted, false
}

func (c ModelFailed) apply(v *View) { v.findOrAddCall(c.Agent, c.ModelRequestID).Failed = true }

func (c ToolCalled) apply(v *View) {
	v.Tools = append(v.Tools, Tool{Agent: c.Agent, ID: c.ToolCallID, CallID: c.CallID, Name: c.Name, Args: c.Args})
}

func (ToolStarted) apply(*View)    {}
func (ToolProgressed) apply(*View) {}
func (ToolEnded) apply(*View)      {}
func (ModeSet) apply(*View)        {}

func (c ToolWrote) apply(v *View) {
	t := v.Tool(c.ToolCallID)
	t.Output = append(t.Output, c.Output...)
	if over := len(t.Output) - MaxOutput; over > 0 {
		t.Output = slices.Clone(t.Output[over:])
	}
}

func (c PlanSet) apply(v *View)     { v.Plan = c.Items }
func (c ActionAsked) apply(v *View) { v.Actions = append(v.Actions, c.Action) }

func (c ActionClosed) apply(v *View) {
	v.Actions = slices.DeleteFunc(v.Actions, func(a Action) bool { return a.ID == c.ActionID })
}

func (c BlockChanged) apply(v *View) { v.Blocked = c.Blocked }

func (c SubagentStarted) apply(v *View) {
	s := v.Subagent(c.ID)
	if s == nil {
		v.Subagents = append(v.Subagents, Subagent{ID: c.ID})
		s = v.Subagent(c.ID)
	}
	s.Run, s.Open = s.Run+1, true
}

func (c SubagentEnded) apply(v *View) { v.Subagent(c.ID).Open = false }

func (c Ended) apply(v *View) { v.End = &c }
