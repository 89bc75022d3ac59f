package atif

import (
	"fmt"

	"agentd/event"
)

// govern puts what was decided about a call into the call's extra.
func (s *story) govern(e *event.Event) {
	s.noteDenial(e)
	c := s.called(e.ToolCallID)
	if c == nil {
		return
	}
	switch p := e.Payload.(type) {
	case *event.PermissionEvaluated:
		c.Extra["permission"] = Extra{
			"decision": p.Decision, "decision_source": p.DecisionSource, "decision_reason": p.DecisionReason, "rule_refs": p.RuleRefs,
			"destructive": p.Destructive, "permission_mode": p.PermissionMode, "event_id": e.ID,
		}
	case *event.PermissionResolved:
		c.Extra["approval"] = Extra{
			"decision": p.Decision, "decision_source": p.DecisionSource, "decision_reason": p.DecisionReason, "action_id": p.ActionID,
			"scope": p.Scope, "event_id": e.ID,
		}
	case *event.SandboxApplied:
		if p.HookRunID != "" {
			return // the boundary of a hook's program, not of the call
		}
		c.Extra["sandbox"] = Extra{"mode": p.Mode, "network": p.Network, "enforcement": p.Enforcement, "event_id": e.ID}
	case *event.SandboxViolation:
		c.appendExtra("sandbox_violations", Extra{"boundary": p.Boundary, "path": p.Path, "detail": p.Detail, "event_id": e.ID})
	case *event.HookCompleted:
		c.appendExtra("hooks", Extra{"point": p.Point, "handler": p.HandlerRef, "decision": p.Decision, "reason": p.Reason, "event_id": e.ID})
	case *event.HookFailed:
		c.appendExtra("hooks", Extra{"point": p.Point, "handler": p.HandlerRef, "error_category": p.ErrorCategory, "failure": p.FailureBehavior, "event_id": e.ID})
	case *event.ToolArgs:
		if p.Source != "" && p.Source != "model" {
			c.Extra["arguments_rewritten_by"] = p.Source
		}
	}
}

// noteDenial remembers the calls that must not have an effect.
func (s *story) noteDenial(e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.PermissionEvaluated:
		s.x.denied[e.ToolCallID] = p.Decision == "deny"
	case *event.PermissionResolved:
		s.x.denied[e.ToolCallID] = p.Decision != "allow"
	}
}

// appendExtra appends to a list in a call's extra.
func (c *ToolCall) appendExtra(name string, x Extra) {
	list, _ := c.Extra[name].([]Extra)
	c.Extra[name] = append(list, x)
}

// spawned refers to the trajectory of a child: in the result of the call that
// spawned it, else in a step of its own.
func (s *story) spawned(e *event.Event, p *event.SubagentSpawned) {
	ref := SubagentRef{TrajectoryID: e.SubagentID, SessionID: s.x.scope.SessionID, Extra: Extra{"thread_id": p.ChildThreadID, "event_id": e.ID}}
	if s.called(e.ToolCallID) != nil {
		s.open.refs[e.ToolCallID] = append(s.open.refs[e.ToolCallID], ref)
		return
	}
	s.aside(&Step{
		Source: SourceSystem, Timestamp: eventTime(e), Message: *Text("A subagent was spawned."), Extra: Extra{"event_id": e.ID, "role": p.Role},
		Observation: &Observation{Results: []*Result{{SubagentRefs: []SubagentRef{ref}}}},
	})
}

// compacted is the step in which a summary took the place of what came before.
func (s *story) compacted(e *event.Event, p *event.CompactionCompleted) {
	summary := p.SummaryPreview
	if raw, ok := s.x.read(p.SummaryRef, 1<<20); ok {
		summary = string(raw)
	}
	one := int64(1)
	s.aside(&Step{
		Source: SourceSystem, Timestamp: eventTime(e), LLMCallCount: &one,
		Message:     *Text(fmt.Sprintf("The conversation was replaced by a summary (%s).", p.Trigger)),
		Observation: &Observation{Results: []*Result{{Content: Text(summary), Extra: Extra{"summary_ref": p.SummaryRef}}}},
		Extra: Extra{"event_id": e.ID, "context_management": Extra{
			"type": "compaction", "boundary": "replace", "compaction_id": p.CompactionID, "trigger": p.Trigger,
			"affected_turns": p.AffectedTurns, "tokens_before": p.TokensBefore, "tokens_after": p.TokensAfter,
		}},
	})
}
