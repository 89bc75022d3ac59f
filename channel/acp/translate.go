package acp

import (
	"encoding/json"
	"slices"

	"agentd/command"
	"agentd/event"
)

// translator decides what a fact means for the client. It sends nothing and asks
// nobody: the same facts give the same updates, live and when a session is loaded.
type translator struct {
	// root is the folder that paths are relative to.
	root string
	// client is what may be sent.
	client clientCapabilities
	// own reports turns whose input the client knows because it sent it.
	own func(turnID string) bool
	// earlier returns the content that a file had before a call, if it is known.
	earlier func(toolCallID string) (string, bool)

	// silent are model requests that aren't the turn's own, spoken those of which
	// something was shown already.
	silent, spoken map[string]bool
	calls          map[string]*call
	// window is the size of the model's context, 0 if it isn't known; used is what
	// the last request took of it.
	window, used int64
	// stop is why the model stopped last.
	stop string
}

func newTranslator(root string, client clientCapabilities) *translator {
	return &translator{
		root: root, client: client, silent: map[string]bool{}, spoken: map[string]bool{}, calls: map[string]*call{},
		own: func(string) bool { return false }, earlier: func(string) (string, bool) { return "", false },
	}
}

// updates returns what the client is told of a fact. Facts of subagents are their
// own affair: the call that started one tells what came of it.
func (t *translator) updates(e *event.Event) []update {
	if e.SubagentID != "" {
		return nil
	}
	switch p := e.Payload.(type) {
	case *event.TurnSubmitted:
		if t.own(e.TurnID) {
			return nil
		}
		return userChunks(e.TurnID, p.Input, p.Preview)
	case *event.TurnSteered:
		return userChunks("", p.Input, p.Preview)
	case *event.TurnCompleted, *event.TurnFailed:
		t.silent, t.spoken, t.calls = map[string]bool{}, map[string]bool{}, map[string]*call{}
	case *event.ContextResolved:
		t.window = p.ContextWindow
	case *event.SessionUpdated:
		if p.Title != nil {
			return []update{&infoUpdate{"session_info_update", *p.Title}}
		}
	case *event.CostRecorded:
		return t.cost(p)
	case *event.RuntimeNotice:
		return t.notice(e, p)
	case *event.CompactionStarted:
		return t.compaction(p.CompactionID, "in_progress", "")
	case *event.CompactionCompleted:
		return t.compaction(p.CompactionID, "completed", "")
	case *event.CompactionFailed:
		return t.compaction(p.CompactionID, "failed", p.Error.Message)
	default:
		return append(t.model(e), t.tool(e)...)
	}
	return nil
}

// userChunks shows an input that came another way.
func userChunks(id string, input event.Raw, preview string) []update {
	var parts []command.Part
	if json.Unmarshal(input, &parts) != nil || len(parts) == 0 {
		parts = []command.Part{{Type: "text", Text: preview}} // a large one is behind a reference
	}
	var out []update
	for i := range parts {
		if c := blockOf(&parts[i]); c != nil {
			out = append(out, &chunk{"user_message_chunk", id, c})
		}
	}
	return out
}

// model translates facts of model calls.
func (t *translator) model(e *event.Event) []update {
	switch p := e.Payload.(type) {
	case *event.ModelRequested:
		if p.Purpose == "compaction" || p.Purpose == "classification" {
			t.silent[p.ModelRequestID] = true
		}
	case *event.ModelDelta:
		return t.chunk(e, "agent_message_chunk", p.Text)
	case *event.ReasoningDelta:
		return t.chunk(e, "agent_thought_chunk", p.Text)
	case *event.ModelCompleted:
		return t.completed(p)
	}
	return nil
}

func (t *translator) chunk(e *event.Event, kind, s string) []update {
	if s == "" || t.silent[e.ModelRequestID] {
		return nil
	}
	t.spoken[e.ModelRequestID] = true
	return []update{&chunk{kind, e.ModelRequestID, text(s)}}
}

// completed shows the answer of a provider that sent it in one piece, the calls
// that it asks for, and what it took.
func (t *translator) completed(p *event.ModelCompleted) []update {
	if t.silent[p.ModelRequestID] || slices.Contains([]string{"compaction", "classification"}, p.Purpose) {
		return nil
	}
	t.stop = p.StopReason
	var out []update
	if m := p.Message; m != nil {
		if !t.spoken[p.ModelRequestID] && m.Text != "" {
			out = append(out, &chunk{"agent_message_chunk", p.ModelRequestID, text(m.Text)})
		}
		for i := range m.ToolCalls {
			c := &m.ToolCalls[i]
			out = append(out, t.announce(c.ToolCallID, c.ToolName, c.Arguments)...)
		}
	}
	t.used = p.Usage.InputTokens + p.Usage.OutputTokens
	if t.window > 0 {
		out = append(out, &usageUpdate{SessionUpdate: "usage_update", Used: t.used, Size: t.window})
	}
	return out
}

func (t *translator) cost(p *event.CostRecorded) []update {
	if t.window == 0 || p.CostUSD == nil {
		return nil
	}
	return []update{&usageUpdate{"usage_update", t.used, t.window, &cost{p.SessionCostUSD, p.Currency}}}
}

func (t *translator) notice(e *event.Event, p *event.RuntimeNotice) []update {
	if !t.client.notices() {
		return nil
	}
	severity := "warning"
	if e.Type == event.TypeRuntimeError {
		severity = "error"
	}
	return []update{&noticeUpdate{"notice", severity, p.Message, p.Advice}}
}

func (t *translator) compaction(id, status, problem string) []update {
	if !t.client.compaction() {
		return nil
	}
	return []update{&compactionUpdate{"compaction_update", id, status, problem}}
}

// stopReason says in the protocol's words how a turn ended; an error says why it
// failed.
func (t *translator) stopReason(e *event.Event) (string, error) {
	if p, failed := e.Payload.(*event.TurnFailed); failed {
		switch p.FailureCategory {
		case "interrupted":
			return "cancelled", nil
		case "step_limit":
			return "max_turn_requests", nil
		}
		why := p.Outcome
		if p.Error != nil {
			why = p.Error.Message
			if p.Error.Advice != "" {
				why += "; " + p.Error.Advice
			}
		}
		return "", &rpcError{Code: codeInternal, Message: "the turn failed: " + why, Data: object("failureCategory", p.FailureCategory)}
	}
	switch t.stop {
	case "max_tokens", "refusal":
		return t.stop, nil
	}
	return "end_turn", nil
}
