package command

import (
	"time"

	"agentd/event"
)

// ProjectRule is a rule that a person kept for a project by answering an action.
type ProjectRule struct {
	// RuleID names it, for forget_project_rule.
	RuleID string `json:"ruleId"`
	// Workspace is the project, the folder that the rule holds in.
	Workspace string `json:"workspace"`
	// Account whose sessions it holds for.
	Account string `json:"account,omitempty"`
	// Rule that holds.
	Rule event.PolicyRule `json:"rule"`
	// KeptAt is when it was kept.
	KeptAt time.Time `json:"keptAt"`
	// KeptBy is who answered.
	KeptBy *event.Actor `json:"keptBy,omitempty"`
	// SessionID of the action that was answered.
	SessionID string `json:"sessionId"`
	// ActionID of the action that was answered.
	ActionID string `json:"actionId"`
}

// ListProjectRules lists the rules that were kept for projects.
type ListProjectRules struct {
	Page
	// Workspace keeps the rules of one project.
	Workspace string `json:"workspace,omitempty" max:"4096"`
}

// Command implements [Params].
func (*ListProjectRules) Command() Name                   { return "list_project_rules" }
func (*ListProjectRules) returns(*ListProjectRulesResult) {}

// Validate implements [Params].
func (p *ListProjectRules) Validate() error { return check(p) }

// ListProjectRulesResult is a page of rules.
type ListProjectRulesResult struct {
	// Rules of this page.
	Rules []ProjectRule `json:"rules"`
	// Total counts the rules that the filters keep, over all pages.
	Total int64 `json:"total"`
	// NextCursor is the cursor of the next page; absent on the last.
	NextCursor string `json:"nextCursor,omitempty"`
}

// ForgetProjectRule removes a rule that was kept for a project.
type ForgetProjectRule struct {
	Mutation
	// RuleID of the rule.
	RuleID string `json:"ruleId" check:"id"`
	// Reason for people.
	Reason string `json:"reason,omitempty" max:"10000"`
}

// Command implements [Params].
func (*ForgetProjectRule) Command() Name                    { return "forget_project_rule" }
func (*ForgetProjectRule) returns(*ForgetProjectRuleResult) {}

// Validate implements [Params].
func (p *ForgetProjectRule) Validate() error { return check(p) }

// ForgetProjectRuleResult is the rule that was removed.
type ForgetProjectRuleResult struct {
	// Forgotten is the rule as it was.
	Forgotten ProjectRule `json:"forgotten"`
}
