package state

import (
	"slices"
	"strings"

	"agentd/event"
)

// toolStarted folds the request for a call. In the facts of older versions it is the
// call's beginning, once for each attempt.
func (f *fold) toolStarted(p *event.ToolStarted) {
	c := f.toolCall(p.ToolName)
	if c == nil {
		return
	}
	if c.StartSequence == 0 {
		f.turn().ToolCount++
	}
	c.StepID, c.Policy, c.IsReadOnly, c.StartSequence, c.ArgsSequence = f.e.StepID, p.Policy, p.IsReadOnly, f.e.Sequence, f.e.Sequence
	c.Digest = digest(p.ToolName, string(presentValue(p.SafeArgs)), p.InputRef)
	if p.Runs() {
		if c.Status == ToolFailed {
			c.Lost++
		}
		c.begin()
	} else {
		c.Asked = true
	}
}

// begin takes note that the call runs from now on.
func (c *ToolCall) begin() {
	c.Attempts++
	c.Decision, c.ActionID = "", "" // they were used: an action from now on is one that the call itself asked for
	c.Status = ToolRunning
}

// toolProgress folds the phases of a call; its signs of life change nothing.
func (f *fold) toolProgress(p *event.ToolProgress) {
	switch p.Phase {
	case event.PhaseRunning:
		if c := f.toolCall(p.ToolName); c != nil {
			c.begin()
			setIf(&c.Policy, p.Policy)
		}
	case event.PhaseLost:
		if c := f.toolCall(p.ToolName); c != nil {
			c.Lost++
			c.Status, c.Decision, c.ActionID, c.HeldToRead = ToolRequested, "", "", false // it is judged anew
		}
	}
}

// toolArgs folds arguments that took the place of those asked for.
func (f *fold) toolArgs(p *event.ToolArgs) {
	if c := f.toolCall(p.ToolName); c != nil {
		c.ArgsSequence = f.e.Sequence
	}
}

// callConfined notes the boundary of the call that a fact is about.
func (f *fold) callConfined(p *event.SandboxApplied) {
	turn := f.turn()
	if turn == nil {
		return
	}
	for _, c := range turn.Tools {
		if c.ToolCallID == f.e.ToolCallID {
			c.Links.SandboxEventID, c.HeldToRead = f.e.ID, holdsToRead(p)
		}
	}
}

// holdsToRead reports whether a boundary proves that what ran within it changed nothing
// and told nobody anything: the kernel enforces all of it. What lacks may be a bound on
// resources alone.
func holdsToRead(p *event.SandboxApplied) bool {
	const none = "none"
	return p.Mode == "read_only" && p.Network == "deny" && len(p.WriteRoots) == 0 &&
		p.Enforcement.Filesystem != none && p.Enforcement.Network != none && p.Enforcement.Processes != none &&
		!slices.ContainsFunc(p.NotEnforced, func(lack string) bool { return !strings.HasPrefix(lack, "limits: ") })
}

// CanRepeat reports whether nothing is different after the call was made once more.
func (c *ToolCall) CanRepeat() bool { return c.IsReadOnly || c.HeldToRead }

// callDecided notes the decision about a call. A call of an older version has its step
// from it: there was no fact of the call before.
func (f *fold) callDecided(c *ToolCall, p *event.PermissionEvaluated) {
	c.Decision = p.Decision
	c.Links.PermissionEventID = f.e.ID
	setIf(&c.Links.ApprovalActionID, p.ApprovalActionID)
	if c.StepID == "" && isKnown(f.e.StepID) {
		c.StepID = f.e.StepID
	}
}

// LinksOf returns what facts of the call name; nil if that is nothing.
func (c *ToolCall) LinksOf() *event.ToolLinks {
	if c.Links == (event.ToolLinks{}) {
		return nil
	}
	links := c.Links
	return &links
}
