package loop

import (
	"encoding/json"

	"agentd/event"
	"agentd/permission"
	"agentd/session"
	"agentd/state"
	"agentd/store"
	"agentd/tool/toolkind"
)

// The life of a tool call in facts:
//
//	tool.started                  the model asks for it; written with the answer
//	tool.args                     a hook rewrote its input
//	permission.evaluated, …       it is decided about, and a person may be asked
//	sandbox.applied               the boundary that it gets
//	tool.progress, phase running  it runs from here on: before, nothing has happened
//	tool.progress, phase lost     nothing runs it any more; it only reads and is decided about anew
//	tool.result or tool.failed    the end
//
// The first and the last are there exactly once, and all carry the same step.

// emitAsked records the tool calls of an answer.
func (c *call) emitAsked(tx *session.Tx) {
	for i := range c.tools {
		r := &c.tools[i]
		scope := c.scope
		scope.ModelRequestID, scope.ToolCallID, scope.StepID = "", r.ToolCallID, tx.NewID(event.PrefixStep)
		p := askedCall(r.ToolName, c.inventory)
		switch {
		case r.ArgumentsRef != "":
			p.InputRef = r.ArgumentsRef
		case len(r.Arguments) > c.l.opt.Outputs.InlineBytes:
			p.InputRef = tx.Blob(r.Arguments, "application/json")
		case len(r.Arguments) == 0:
			p.SafeArgs = event.Raw("{}")
		default:
			p.SafeArgs = r.Arguments
		}
		tx.Emit(event.Event{Type: event.TypeToolStarted, Scope: scope, Payload: p})
	}
}

// askedCall is the start of a call, as far as it follows from the turn's inventory.
func askedCall(name string, inv *state.ToolInventory) *event.ToolStarted {
	t := inv.Find(name)
	return &event.ToolStarted{
		ToolName: name, Policy: event.PolicyPending, RuntimeOwner: t.RuntimeOwner, IsReadOnly: t.IsReadOnly, IsDestructive: t.IsDestructive,
		IsConcurrencySafe: t.SideBySide, InterruptBehavior: t.InterruptBehavior,
	}
}

// emitBegin records what comes before a call is decided about: its start if an older
// version recorded the answer without it, and the input that a hook made of the model's.
func (r *toolRun) emitBegin(tx *session.Tx, t *state.Thread) {
	if r.call.StartSequence == 0 {
		p := askedCall(r.request.ToolName, t.Inventory)
		if p.InputRef = r.request.ArgumentsRef; p.InputRef == "" {
			p.SafeArgs, p.InputRef = r.inlineArgs(tx, r.request.Arguments)
		}
		tx.Emit(event.Event{Type: event.TypeToolStarted, Scope: r.scope, Payload: p})
	}
	if r.rewritten != "" {
		p := &event.ToolArgs{ToolName: r.request.ToolName, InputRef: r.rewritten, Source: "hook"}
		if args, ref := r.safeArgs(tx); ref == "" {
			p.SafeArgs = args
		}
		tx.Emit(event.Event{Type: event.TypeToolArgs, Scope: r.scope, Payload: p})
	}
}

// emitRunning records the boundary of a call that may run, and that it runs from now on.
func (r *toolRun) emitRunning(tx *session.Tx) {
	r.l.emitPlace(tx, r)
	policy := "allowed"
	if r.call.Decision == permission.Allow {
		policy = "asked"
	}
	if p := r.l.callBoundary(r); p != nil {
		if r.entry.Kind() == toolkind.Shell {
			p.EnvironmentID = r.l.environmentRef(tx)
		}
		r.links.SandboxEventID = tx.EmitNamed(event.Event{Type: event.TypeSandboxApplied, Scope: r.scope, Payload: p})
		if policy == "allowed" && p.Mode != "none" && p.Mode != "danger_full_access" {
			policy = "sandboxed"
		}
	}
	r.running.sequence = tx.Sequence()
	r.running.id = tx.EmitNamed(event.Event{Type: event.TypeToolProgress, Scope: r.scope, Payload: &event.ToolProgress{
		ToolName: r.request.ToolName, Phase: event.PhaseRunning, Policy: policy, AttemptCount: r.call.Attempts + 1, Links: linksOf(r.links),
	}})
	if r.entry.Kind().LoopOwned() || r.clientTool() != nil {
		r.emitOwned(tx)
		return
	}
	r.started = true
}

// environmentRef is where the names of the variables are that a command sees; their
// values are kept nowhere.
func (l *Loop) environmentRef(tx *session.Tx) string {
	content, stored := l.knownEnvironment(tx.State)
	if stored != "" || content == nil {
		return stored
	}
	return tx.Blob(content, "application/json")
}

// knownEnvironment describes the variables, and says where the same was stored with the
// session's last command; empty if it wasn't.
func (l *Loop) knownEnvironment(st *state.Session) (content []byte, ref string) {
	content, err := json.Marshal(map[string][]string{"variables": l.envNames()})
	if err != nil {
		return nil, "" // texts always encode
	}
	if s := st.Permission.Sandbox; s != nil && s.EnvironmentRef == store.RefOf(sum(content)) {
		return content, s.EnvironmentRef
	}
	return content, ""
}

// linksOf is nil for a call that rests on nothing yet.
func linksOf(l event.ToolLinks) *event.ToolLinks {
	c := state.ToolCall{Links: l}
	return c.LinksOf()
}

// emitCutOff ends a call that the end of its turn cuts off. One of an older version may
// have no start.
func emitCutOff(tx *session.Tx, t *state.Thread, c *state.ToolCall, failed *event.ToolFailed) {
	scope := toolScope(t, t.Active, c)
	if c.StartSequence == 0 {
		if c.StepID == "" {
			scope.StepID = tx.NewID(event.PrefixStep)
		}
		tx.Emit(event.Event{Type: event.TypeToolStarted, Scope: scope, Payload: askedCall(c.ToolName, t.Inventory)})
	}
	failed.Links = c.LinksOf()
	tx.Emit(event.Event{Type: event.TypeToolFailed, Scope: scope, Payload: failed})
}
