package command

import "agentd/event"

// SuggestPolicy looks for rules that would have saved questions. Nothing is written.
type SuggestPolicy struct {
	// SessionID restricts it to one session; else it is about all that the caller may see,
	// the newest first.
	SessionID string `json:"sessionId,omitempty" check:"id"`
	// Workspace restricts it to the sessions of one project, a folder.
	Workspace string `json:"workspace,omitempty" max:"4096" secret:"refuse"`
	// Limit is the most rules that are suggested, 0 to 100; default 10.
	Limit *int `json:"limit,omitempty" max:"100"`
}

// Command implements [Params].
func (*SuggestPolicy) Command() Name                { return "suggest_policy" }
func (*SuggestPolicy) returns(*SuggestPolicyResult) {}

// Validate implements [Params].
func (p *SuggestPolicy) Validate() error { return check(p) }

// Size is the most rules that are suggested.
func (p *SuggestPolicy) Size() int {
	if p.Limit == nil {
		return 10
	}
	return *p.Limit
}

// SuggestPolicyResult is what was found.
type SuggestPolicyResult struct {
	// Suggestions are the rules, those that save most first.
	Suggestions []PolicySuggestion `json:"suggestions"`
	// Questions counts the recorded questions that today's policy would ask again.
	Questions int64 `json:"questions"`
	// Saved counts those that the rules together would have saved.
	Saved int64 `json:"saved"`
	// Denied counts the recorded calls that were denied, by people or by the policy. None
	// of the rules allows one of them.
	Denied int64 `json:"denied"`
	// Unknown counts the questions of which the facts don't have the arguments.
	Unknown int64 `json:"unknown"`
	// Sessions counts the sessions that were looked at.
	Sessions int64 `json:"sessions"`
	// Truncated says that there are more decisions than were looked at; restrict it to a
	// session.
	Truncated bool `json:"truncated,omitempty"`
}

// PolicySuggestion is a rule that would have saved questions.
type PolicySuggestion struct {
	// Rule as a policy would have it.
	Rule event.PolicyRule `json:"rule"`
	// Saves counts the questions that the rule has a part in saving.
	Saves int64 `json:"saves"`
	// Sessions counts the sessions that they were asked in.
	Sessions int64 `json:"sessions"`
	// Examples are some of the calls.
	Examples []string `json:"examples"`
}

// TestReviewer runs a reviewer over recorded questions and compares it with the people
// who answered. It asks a model, which costs; nothing else runs, and nothing is written.
type TestReviewer struct {
	// Model of the reviewer, as provider/model; the configured reviewer's if absent.
	Model string `json:"model,omitempty" max:"256"`
	// SessionID restricts it to one session; else it is about all that the caller may see,
	// the newest first.
	SessionID string `json:"sessionId,omitempty" check:"id"`
	// Limit is the most questions that the model is asked about, 0 to 1000; default 100.
	Limit *int `json:"limit,omitempty" max:"1000"`
}

// Command implements [Params].
func (*TestReviewer) Command() Name               { return "test_reviewer" }
func (*TestReviewer) returns(*TestReviewerResult) {}

// Validate implements [Params].
func (p *TestReviewer) Validate() error { return check(p) }

// Size is the most questions that the model is asked about.
func (p *TestReviewer) Size() int {
	if p.Limit == nil {
		return defaultPage
	}
	return *p.Limit
}

// TestReviewerResult compares a reviewer with people.
type TestReviewerResult struct {
	// Model that was asked, as provider/model.
	Model string `json:"model"`
	// Questions counts the recorded questions that a person answered.
	Questions int64 `json:"questions"`
	// NotReviewable counts those that stay with the person whatever a reviewer says.
	NotReviewable int64 `json:"notReviewable"`
	// Reviewed counts those that the model was asked about.
	Reviewed int64 `json:"reviewed"`
	// Saved counts those that it would have answered: it allows what the person allowed.
	Saved int64 `json:"saved"`
	// Failed counts those that it gave no usable verdict about; the person would be asked.
	Failed int64 `json:"failed"`
	// DisagreedCount counts the disagreements.
	DisagreedCount int64 `json:"disagreedCount"`
	// Disagreed are where it allows what a person denied, first, and where it would ask
	// about what a person allowed; at most 100.
	Disagreed []ReviewDisagreement `json:"disagreed"`
	// CostUSD is what the test cost; absent if a price is unknown.
	CostUSD *float64 `json:"costUSD,omitempty"`
	// Unknown counts the questions of which the facts don't have the arguments.
	Unknown int64 `json:"unknown"`
	// Sessions counts the sessions that were looked at.
	Sessions int64 `json:"sessions"`
	// Truncated says that there are more questions than were looked at.
	Truncated bool `json:"truncated,omitempty"`
}

// ReviewDisagreement is a question that a reviewer and a person answered differently.
type ReviewDisagreement struct {
	// SessionID of the call.
	SessionID string `json:"sessionId"`
	// Sequence of the recorded decision.
	Sequence uint64 `json:"sequence"`
	// ToolCallID of the call.
	ToolCallID string `json:"toolCallId"`
	// ToolName of the tool.
	ToolName string `json:"toolName"`
	// Args of the call as recorded, if they are short.
	Args event.Raw `json:"args,omitempty"`
	// Person is what the person answered.
	Person string `json:"person" enum:"allow deny"`
	// Reviewer is what the reviewer says.
	Reviewer string `json:"reviewer" enum:"allow ask"`
	// Reason is the reviewer's.
	Reason string `json:"reason"`
}
