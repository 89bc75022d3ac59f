package acp

import (
	"encoding/json"

	"agentd/channel/turnview"
	"agentd/command"
	"agentd/event"
)

// translator decides what a fact means for the client. It sends nothing and asks
// no one: the same facts give the same updates, live and when a session is loaded.
type translator struct {
	// root is the folder that paths are relative to.
	root string
	// client is what may be sent.
	client clientCapabilities
	// own reports turns whose input the client knows because it sent it.
	own func(turnID string) bool
	// earlier returns the content that a file had before a call, if it is known.
	earlier func(toolCallID string) (string, bool)

	// view is the turn that runs, or that ran last.
	view turnview.View
	// window is the size of the model's context, 0 if it isn't known; used is what
	// the last request took of it.
	window, used int64
}

// updates returns the updates that a fact leads to, and what the fact changes in the
// turn. Facts of subagents are their own affair: the call that started one tells what
// came of it.
func (t *translator) updates(e *event.Event) ([]update, []turnview.Change) {
	if t.view.End != nil {
		t.view = turnview.View{ThreadID: t.view.ThreadID, Actions: t.view.Actions}
	}
	changes := t.view.Fold(e)
	if e.SubagentID != "" || e.ThreadID != "" && e.ThreadID != t.view.ThreadID {
		return nil, changes
	}
	out := t.aside(e)
	for _, c := range changes {
		out = append(out, t.translateChange(c)...)
	}
	return out, changes
}

// aside translates facts that are no part of the turn's own story.
func (t *translator) aside(e *event.Event) []update {
	switch p := e.Payload.(type) {
	case *event.TurnSubmitted:
		if !t.own(e.TurnID) {
			return userChunks(e.TurnID, p.Input, p.Preview)
		}
	case *event.TurnSteered:
		return userChunks("", p.Input, p.Preview)
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
	}
	return nil
}

// translateChange translates a change of the turn.
func (t *translator) translateChange(c turnview.Change) []update {
	switch c := c.(type) {
	case turnview.PartGrown:
		kind := "agent_message_chunk"
		if c.Kind == turnview.Reasoning {
			kind = "agent_thought_chunk"
		}
		return []update{&chunk{kind, c.CallID, textContent(c.Content)}}
	case turnview.ModelAnswered:
		if t.used = c.Usage.InputTokens + c.Usage.OutputTokens; t.window > 0 {
			return []update{&usageUpdate{SessionUpdate: "usage_update", Used: t.used, Size: t.window}}
		}
	case turnview.PlanSet:
		return []update{planToUpdate(c.Items)}
	default:
		return t.tool(c)
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

// stopReason says in the protocol's words how the turn ended; an error says why it
// failed.
func (t *translator) stopReason() (string, error) {
	switch end := t.view.End; {
	case end.Category() == "interrupted":
		return "cancelled", nil
	case end.Category() == "step_limit":
		return "max_turn_requests", nil
	case end.Failed != nil:
		why := end.Reason()
		if end.Failed.Error != nil && end.Failed.Error.Advice != "" {
			why += "; " + end.Failed.Error.Advice
		}
		return "", &rpcError{Code: codeInternal, Message: "the turn failed: " + why, Data: jsonObject("failureCategory", end.Category())}
	}
	if last := t.view.Last(); last != nil && (last.Answer.StopReason == "max_tokens" || last.Answer.StopReason == "refusal") {
		return last.Answer.StopReason, nil
	}
	return "end_turn", nil
}
