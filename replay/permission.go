package replay

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"agentd/event"
	"agentd/hook"
	"agentd/loop"
	"agentd/permission"
	"agentd/state"
	"agentd/tool"
)

// toolCall is what facts say of a tool call beside its state.
type toolCall struct {
	request event.ToolCallRequest
	turnID  string
	// hooks are what those of a point said, by the point.
	hooks map[string]*verdict
	// opinion is what the hooks said when the call was decided about.
	opinion *permission.Opinion
}

// verdict is what the hooks of a point say together.
type verdict struct {
	// first is the hook that was asked first, over says that no other comes.
	first, rewritten string
	over             bool
	outcome          hook.Outcome
}

// toolCallOf is the call that a fact is about; nil if it is about none.
func (w *walk) toolCallOf(e *event.Event) *toolCall { return w.calls[e.ToolCallID] }

// hookStarted begins a verdict. Hooks that were cut off are asked again from the
// first one on.
func (c *toolCall) hookStarted(p *event.HookStarted) {
	if c == nil {
		return
	}
	if v := c.hooks[p.Point]; v == nil || v.over || v.first == p.HandlerRef {
		c.hooks[p.Point] = &verdict{first: p.HandlerRef, outcome: hook.Outcome{Decision: hook.Continue}}
	}
}

func (c *toolCall) hookCompleted(p *event.HookCompleted) {
	if c == nil || c.hooks[p.Point] == nil {
		return
	}
	v := c.hooks[p.Point]
	v.over = p.Last
	if p.UpdatedInputRef != "" {
		v.rewritten = p.UpdatedInputRef
	}
	if hook.Stricter(p.Decision, v.outcome.Decision) {
		v.outcome = hook.Outcome{Decision: p.Decision, Reason: p.Reason, HandlerRef: p.HandlerRef}
	}
}

func (c *toolCall) hookFailed(p *event.HookFailed) {
	if c == nil || c.hooks[p.Point] == nil {
		return
	}
	v := c.hooks[p.Point]
	if p.ErrorCategory == "lost" { // no one waited for it: it is asked again
		delete(c.hooks, p.Point)
		return
	}
	v.over = p.Last
	if p.FailureBehavior == hook.FailClosed {
		v.outcome = hook.Outcome{Decision: hook.Block, HandlerRef: p.HandlerRef, Failed: true}
	}
}

// answered says that a person has decided about the call: hooks have no say any more.
func (c *toolCall) answered() {
	if c != nil {
		c.opinion = nil
	}
}

// judged is what the hooks said about a call that is decided about for the first time.
func (c *toolCall) judged(opinion func(hook.Outcome) *permission.Opinion) *permission.Opinion {
	var out *permission.Opinion
	for _, point := range []hook.Point{hook.PreToolUse, hook.PermissionRequest} {
		if v := c.hooks[string(point)]; v != nil {
			if said := opinion(v.outcome); said != nil {
				out = said
			}
		}
	}
	return out
}

// rewritten reports whether a hook put another input in the place of the model's.
func (c *toolCall) rewritten() bool {
	v := c.hooks[string(hook.PreToolUse)]
	return v != nil && v.rewritten != ""
}

// checkPermission decides about a call again.
func (w *walk) checkPermission(e *event.Event, t *state.Thread, p *event.PermissionEvaluated) {
	c, s := w.toolCallOf(e), stateOf(e, t)
	if c == nil || s == nil || !w.hasConfiguration() {
		return // it only was a query what would be decided, or the call is not in the facts
	}
	running := s.Status == state.ToolRunning // it hit the sandbox
	if !running && !w.inGroup(e, t) {
		return
	}
	entry, input, ok := w.subject(e, t, p, c)
	if !ok {
		return
	}
	disk := &loop.RecordedDisk{Lookups: p.Lookups}
	refused := ""
	if !running {
		var refusal *tool.Error
		err := w.checkInput(t, entry, input, disk)
		switch errors.As(err, &refusal); {
		case refusal != nil && refusal.Category == tool.SandboxViolation:
			refused = refusal.Message
		case err != nil && !c.rewritten():
			w.reportDifference(e, "a refusal: "+err.Error(), "a decision about the call")
			return
		case permission.WasRefused(p):
			refused = p.DecisionReason // for a workspace that isn't here to be looked at
		}
	}
	if s.Decision == "" {
		c.opinion = c.judged(w.decide.Opinion)
	}
	q := w.configuration.Question(w.s, t, &loop.Call{ToolCallID: e.ToolCallID, Tool: entry.Info, Input: input, Opinion: c.opinion}, w.confinement, disk, e.Time)
	q.Outside, q.Refused = q.Outside || running, refused
	if w.opt.Mode != "" {
		q.Mode = w.opt.Mode
	}
	w.compareDecision(e, p, w.decide.Decide(q))
}

// subject is what a decision is about: the tool, and the input that the fact shows,
// which must be the model's unless a hook put another in its place.
func (w *walk) subject(e *event.Event, t *state.Thread, p *event.PermissionEvaluated, c *toolCall) (*tool.Entry, event.Raw, bool) {
	entry := w.inventoryEntry(t, p.ToolName)
	if entry == nil || w.confinement == nil {
		w.missing["what a permission was decided by"] = true
		return nil, nil, false
	}
	input := p.SafeArgs
	if p.InputRef != "" {
		b, err := w.rec.Content(p.InputRef)
		if err != nil {
			w.missing["the input of a call: "+err.Error()] = true
			return nil, nil, false
		}
		input = b
	}
	if asked := w.arguments(e.ToolCallID); asked != nil && !c.rewritten() && !bytes.Equal(compactJSON(asked), compactJSON(input)) {
		w.reportDifference(e, "a decision about "+string(asked), "a decision about "+string(input))
		return nil, nil, false
	}
	return entry, input, true
}

// compareDecision checks a decision against the recorded one. What it says in words may have
// had secrets taken out.
func (w *walk) compareDecision(e *event.Event, p *event.PermissionEvaluated, d permission.Decision) {
	text := func(p *event.PermissionEvaluated) string {
		out := p.Decision + " by " + decidedBy(p) + ", mode " + p.PermissionMode
		if p.Destructive {
			out += ", destructive"
		}
		if p.GrantID != "" {
			out += ", " + p.GrantID
		}
		return out
	}
	tried := w.opt.Mode != "" || w.opt.Change != nil
	expected, was := text(&d.PermissionEvaluated), text(p)
	if d.Decision == p.Decision && (tried || expected == was && d.DecisionSource == p.DecisionSource) {
		return
	}
	x := w.reportDifference(e, expected, was)
	x.Permission = &PermissionChange{ToolName: p.ToolName, Recorded: p.Decision, Decision: d.Decision, By: decidedBy(&d.PermissionEvaluated)}
	if d.Decision != p.Decision {
		x.Says = fmt.Sprintf("%s: %s would be %s instead of %s (%s)", x.Of, p.ToolName, d.Decision, p.Decision, x.Permission.By)
	}
}

// decidedBy names what decided.
func decidedBy(p *event.PermissionEvaluated) string {
	if len(p.RuleRefs) > 0 {
		return strings.Join(p.RuleRefs, " ")
	}
	return p.DecisionSource
}
