package evidence

import (
	"encoding/json"
	"slices"

	"agentd/event"
)

// shellTool is the tool that runs commands, categoryViolation the failure of one that
// hit a boundary.
const (
	shellTool         = "shell"
	categoryViolation = "sandbox_violation"
)

// What follows is what a recording can't bring back. Each limit is found in the
// facts, so that a case never promises more than it holds.

// bounds notes what happened beside the answers and can't be made to happen again.
func (r *recording) bounds(e *event.Event) { //nolint:cyclop // a table
	switch p := e.Payload.(type) {
	case *event.PermissionEvaluated:
		r.judged(e, p)
	case *event.CompactionStarted:
		if r.scope.TurnID != "" {
			r.limit("what was said before the turn was compacted in it")
		}
	case *event.SandboxApplied:
		r.confined(e, p)
	}
}

// judged takes what a decision says about what held.
func (r *recording) judged(e *event.Event, p *event.PermissionEvaluated) {
	r.decided = true
	if p.ToolName == shellTool {
		if r.shells == nil {
			r.shells = map[string]bool{}
		}
		r.shells[e.ToolCallID] = true
		if r.c.Environment.Sandbox == nil && asksForMore(r.args[e.ToolCallID]) {
			// Whoever is judged on leaving the sandbox was in one.
			r.c.Environment.Sandbox = &CaseSandbox{Mode: "workspace_write", Filesystem: true, Network: true}
		}
	}
	if r.scope.TurnID != "" && p.DecisionSource == "human" && p.Decision == "allow" && p.ApprovalActionID == "" {
		r.limit("a permission that was given before the turn held")
	}
}

// asksForMore reports whether the arguments of a command ask to leave the sandbox.
func asksForMore(arguments event.Raw) bool {
	var x struct {
		Escalate json.RawMessage `json:"escalate"`
	}
	return json.Unmarshal(arguments, &x) == nil && len(x.Escalate) > 0
}

// confined takes what confined a command. What ran outside of the sandbox says
// nothing about it.
func (r *recording) confined(e *event.Event, p *event.SandboxApplied) {
	if !r.shells[e.ToolCallID] || p.Mode == "none" || p.HookRunID != "" || r.sandboxed {
		return
	}
	r.sandboxed = true
	r.c.Environment.Sandbox = &CaseSandbox{
		Mode: p.Mode, Filesystem: p.Enforcement.Filesystem != "none",
		Network: p.Network == "allow" || p.Enforcement.Network != "none", WriteRoots: p.WriteRoots,
	}
}

func (r *recording) ended(turnID string) {
	if t := r.turns[turnID]; t != nil {
		t.ended = true
	}
}

// failed notes failures that come from the clock or from what things cost.
func (r *recording) failed(p *event.TurnFailed) {
	switch p.FailureCategory {
	case "internal":
		r.limit("the runtime itself failed")
	case "quota_blocked":
		r.spent()
	}
}

// inventory takes the tools of a turn, with their schemas if they can be read.
func (r *recording) inventory(turnID string, p *event.ToolCatalogResolved) {
	list := p.Tools
	var full []event.ToolInfo
	if r.read(p.InventoryRef, &full) {
		list = full
	}
	if len(list) == 0 && p.ToolCount > 0 {
		r.limit("which tools a turn had is only behind its reference")
	}
	var names []string
	for i := range list {
		t := list[i]
		if t.RuntimeOwner == "client" {
			if names = append(names, t.ToolName); !r.offers(t.ToolName) {
				r.limit("tools of a connected peer are not run again")
			}
			continue
		}
		if known, ok := r.tools[t.ToolName]; ok && len(t.InputSchema) == 0 {
			t.InputSchema, t.Description = known.InputSchema, known.Description
		}
		r.tools[t.ToolName] = t
		names = append(names, t.ToolName)
	}
	if t := r.turns[turnID]; t != nil { // a turn whose mode changes is offered others
		for _, n := range t.Tools {
			if !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
		t.Tools = names
	}
}

// selected keeps the context window of the model that was chosen.
func (r *recording) selected(p *event.RoutingDecision) {
	if r.window == 0 {
		return
	}
	if r.c.Environment.Windows == nil {
		r.c.Environment.Windows = map[string]int64{}
	}
	r.c.Environment.Windows[p.SelectedProvider+"/"+p.SelectedModel] = r.window
	r.window = 0
}

// arguments puts the arguments into an answer that lie behind references. What is
// no JSON is returned beside it.
func (r *recording) arguments(m *event.ModelMessage) (_ *event.ModelMessage, malformed map[string]string) {
	if m == nil || !slices.ContainsFunc(m.ToolCalls, func(c event.ToolCallRequest) bool { return c.ArgumentsRef != "" }) {
		return m, nil
	}
	whole := *m
	whole.ToolCalls = slices.Clone(m.ToolCalls)
	for i := range whole.ToolCalls {
		c := &whole.ToolCalls[i]
		if c.ArgumentsRef == "" {
			continue
		}
		text := r.summary(c.ArgumentsRef)
		switch {
		case text == nil:
			r.limit("large arguments are only behind their reference")
		case json.Valid([]byte(text.Text)):
			c.Arguments = event.Raw(text.Text)
		default:
			if malformed == nil {
				malformed = map[string]string{}
			}
			malformed[c.ToolCallID] = text.Text
		}
	}
	return &whole, malformed
}

// summary reads the answer to a compaction, which is text behind a reference.
func (r *recording) summary(ref string) *event.ModelMessage {
	if ref == "" || r.content == nil {
		return nil
	}
	b, err := r.content(ref)
	if err != nil {
		return nil
	}
	return &event.ModelMessage{Text: string(b)}
}

// read decodes what is behind a reference.
func (r *recording) read(ref string, into any) bool {
	if ref == "" || r.content == nil {
		return false
	}
	b, err := r.content(ref)
	return err == nil && json.Unmarshal(b, into) == nil
}
