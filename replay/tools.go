package replay

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentd/event"
	"agentd/loop"
	"agentd/state"
	"agentd/tool"
	"agentd/tool/toolkind"
)

// inventoryEntry finds a tool in the inventory of a thread; nil if it isn't there or the
// inventory can't be read.
func (w *walk) inventoryEntry(t *state.Thread, name string) *tool.Entry {
	if t.Inventory == nil || t.Inventory.InventoryRef == "" {
		return nil
	}
	ref := t.Inventory.InventoryRef
	if _, known := w.tools[ref]; !known {
		var list []event.ToolInfo
		w.tools[ref] = nil
		if w.decodeRef("tool inventory", ref, &list) {
			w.tools[ref] = map[string]*tool.Entry{}
			for _, info := range list {
				w.tools[ref][info.ToolName] = tool.EntryOf(info)
			}
		}
	}
	return w.tools[ref][name]
}

// inGroup compares the calls that are judged next with the one that a fact is about.
func (w *walk) inGroup(e *event.Event, t *state.Thread) bool {
	next := w.nextEffect(e)
	at := callIndex(t, e.ToolCallID)
	if g, ok := next.(loop.RunTools); ok && g.TurnID == e.TurnID && at >= g.From && at < g.To {
		return true
	}
	w.reportDifference(e, describeEffect(next), fmt.Sprintf("the judgement of call %d", at+1))
	return false
}

// callIndex is the place of a call in the last answer; -1 if it isn't there.
func callIndex(t *state.Thread, toolCallID string) int {
	if t.Active == nil {
		return -1
	}
	return slices.IndexFunc(t.Active.Tools, func(c *state.ToolCall) bool { return c.ToolCallID == toolCallID })
}

// stateOf is the state of the call that a fact is about; nil if it has none.
func stateOf(e *event.Event, t *state.Thread) *state.ToolCall {
	if i := callIndex(t, e.ToolCallID); i >= 0 {
		return t.Active.Tools[i]
	}
	return nil
}

// checkAsked compares the request for a call with what the model's answer says.
func (w *walk) checkAsked(e *event.Event, p *event.ToolStarted) {
	c := w.toolCallOf(e)
	if c == nil {
		return // the answer is not in the facts
	}
	if c.request.ToolName != p.ToolName {
		w.reportDifference(e, "a call of "+c.request.ToolName, "a call of "+p.ToolName)
		return
	}
	if len(p.SafeArgs) == 0 {
		return
	}
	if asked := w.arguments(e.ToolCallID); asked != nil && !bytes.Equal(compactJSON(asked), compactJSON(p.SafeArgs)) {
		w.reportDifference(e, "a call with "+string(asked), "a call with "+string(p.SafeArgs))
	}
}

// checkStart checks the start of a call against what is next, and against the word on
// whether it may run.
func (w *walk) checkStart(e *event.Event, t *state.Thread) {
	c := stateOf(e, t)
	if c == nil || !w.hasConfiguration() || !w.inGroup(e, t) {
		return
	}
	if c.Decision != "allow" {
		w.reportDifference(e, "no start: the decision is "+cmp.Or(c.Decision, "none"), "the start of the call")
	}
}

// checkResult refuses a result of a call that waited for an answer which it didn't get.
func (w *walk) checkResult(e *event.Event, t *state.Thread) {
	c := stateOf(e, t)
	if c == nil || c.ActionID == "" || toolkind.Of(c.ToolName) == toolkind.SpawnAgent || !w.hasConfiguration() {
		return
	}
	a := w.s.Actions.Find(c.ActionID)
	if a == nil {
		return
	}
	if failed := w.decide.ClientFailure(a, c); failed != nil {
		w.reportDifference(e, "a failure: "+failed.Message, "a result")
	} else if a.Decision != "submit" && a.Decision != "allow" {
		w.reportDifference(e, "a failure: the answer was "+cmp.Or(a.Decision, "none"), "a result")
	}
}

// checkClientFailure checks the failure of a call that a client was to carry out against
// what the client answered.
func (w *walk) checkClientFailure(e *event.Event, t *state.Thread, p *event.ToolFailed) {
	c := stateOf(e, t)
	if c == nil || c.ActionID == "" || toolkind.Of(c.ToolName) == toolkind.SpawnAgent {
		return
	}
	a := w.s.Actions.Find(c.ActionID)
	if a == nil || a.ActionType != state.ActionClientTool || a.Status == state.ActionPending {
		return
	}
	failed := w.decide.ClientFailure(a, c)
	switch {
	case failed == nil && slices.Contains([]string{tool.Denied, tool.Timeout, tool.Lost}, p.ErrorCategory):
		w.reportDifference(e, "the client's result", "a failure: "+p.Message)
	case failed != nil && failed.Category != p.ErrorCategory && p.ErrorCategory != tool.Interrupted:
		w.reportDifference(e, "a failure of category "+failed.Category, "one of category "+p.ErrorCategory)
	}
}

// checkRefusal checks the refusal of a call's input against its tool's schema. Other
// refusals are decisions of their own, or depend on what was there.
func (w *walk) checkRefusal(e *event.Event, t *state.Thread, p *event.ToolFailed) {
	c := stateOf(e, t)
	if c == nil || c.Status != state.ToolRequested || c.Decision != "" || p.ErrorCategory != tool.InvalidInput || !w.hasConfiguration() || !w.inGroup(e, t) {
		return
	}
	entry, input := w.inventoryEntry(t, c.ToolName), w.arguments(e.ToolCallID)
	if entry == nil || input == nil {
		return
	}
	var refused *tool.Error
	if err := w.checkInput(t, entry, input, &loop.RecordedDisk{}); !errors.As(err, &refused) {
		w.reportDifference(e, "an input that the tool takes", "a refusal: "+p.Message)
		return
	}
	// What is offered of a command doesn't say how a wish to leave the sandbox is refused,
	// and a message may have had secrets taken out.
	_, escalates := tool.Escalation(input)
	if refused.Category != p.ErrorCategory || refused.Message != p.Message && !escalates && !strings.Contains(p.Message, "[redacted:") {
		w.reportDifference(e, "a refusal: "+refused.Message, "a refusal: "+p.Message)
	}
}

// checkInput checks an input against its tool, as the loop does before it decides.
func (w *walk) checkInput(t *state.Thread, entry *tool.Entry, input event.Raw, disk loop.Disk) error {
	return w.configuration.CheckInput(w.s, t, &entry.Info, func(in event.Raw) error { return w.decide.Validate(entry, in) }, input, disk)
}

// arguments are those that the model gave a call; nil if they can't be known.
func (w *walk) arguments(toolCallID string) event.Raw {
	c := w.calls[toolCallID]
	switch {
	case c == nil:
		return nil
	case c.request.ArgumentsRef != "":
		b, err := w.rec.Content(c.request.ArgumentsRef)
		if err != nil {
			w.missing["arguments of a call: "+err.Error()] = true
			return nil
		}
		return b
	case len(c.request.Arguments) == 0:
		return event.Raw("{}")
	}
	return c.request.Arguments
}

// compactJSON is JSON without the space between its parts; what is no JSON stays.
func compactJSON(v event.Raw) []byte {
	var b bytes.Buffer
	if json.Compact(&b, v) != nil {
		return v
	}
	return b.Bytes()
}
