package command

import "agentd/event"

// TestPolicy decides past tool calls again under another policy. Nothing runs, and
// nothing is written.
type TestPolicy struct {
	// Mode to decide under; each call's own if absent.
	Mode string `json:"mode,omitempty" enum:"@permissionMode"`
	// Rules take the place of the host's, which stay if this is absent; those of
	// sessions add to them.
	Rules []event.PolicyRule `json:"rules,omitzero" max:"10000"`
	// SessionID restricts the test to one session; else it is about all that the caller
	// may see, the newest first.
	SessionID string `json:"sessionId,omitempty" check:"id"`
	// Limit is the most changes that are listed, 0 to 1000; default 100.
	Limit *int `json:"limit,omitempty" max:"1000"`
}

// Command implements [Params].
func (*TestPolicy) Command() Name             { return "test_policy" }
func (*TestPolicy) returns(*TestPolicyResult) {}

// Validate implements [Params].
func (p *TestPolicy) Validate() error { return check(p) }

// Size is the most changes that are listed.
func (p *TestPolicy) Size() int {
	if p.Limit == nil {
		return defaultPage
	}
	return *p.Limit
}

// TestPolicyResult is what the policy would have decided otherwise.
type TestPolicyResult struct {
	// Total counts the decisions that were looked at.
	Total int64 `json:"total"`
	// Changed are the decisions that would change, in the order in which they were made;
	// at most limit.
	Changed []PolicyChange `json:"changed"`
	// ChangedCount counts all that would change.
	ChangedCount int64 `json:"changedCount"`
	// Unknown counts the decisions that can't be made again, because the facts don't
	// have the arguments.
	Unknown int64 `json:"unknown"`
	// Sessions counts the sessions that were looked at.
	Sessions int64 `json:"sessions"`
	// Truncated says that there are more decisions than one test looks at; restrict it to
	// a session.
	Truncated bool `json:"truncated,omitempty"`
}

// PolicyChange is a past decision that would change.
type PolicyChange struct {
	// SessionID of the call.
	SessionID string `json:"sessionId"`
	// Sequence of the recorded decision.
	Sequence uint64 `json:"sequence"`
	// EventID of the recorded decision.
	EventID string `json:"eventId"`
	// ToolCallID of the call.
	ToolCallID string `json:"toolCallId"`
	// ToolName of the tool.
	ToolName string `json:"toolName"`
	// Args of the call as recorded, if they are short.
	Args event.Raw `json:"args,omitempty"`
	// Before is the recorded decision.
	Before string `json:"before" enum:"@ruleDecision"`
	// BeforeReason is the recorded reason.
	BeforeReason string `json:"beforeReason,omitempty"`
	// After is what would be decided.
	After string `json:"after" enum:"@ruleDecision"`
	// Reason of what would be decided.
	Reason string `json:"reason"`
}
