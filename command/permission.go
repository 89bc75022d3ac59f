package command

import (
	"agentd/event"
	"agentd/fault"
)

// EvaluatePermission asks what would be decided about a tool call. Nothing runs.
type EvaluatePermission struct {
	Mutation
	// SessionID whose policy is asked; the host's if absent, for an admin.
	SessionID string `json:"sessionId,omitempty" check:"id"`
	// ToolName of the tool.
	ToolName string `json:"toolName" max:"256" secret:"refuse"`
	// Input of the call.
	Input event.Raw `json:"input"`
	// Cwd of the call; the workspace's root if absent.
	Cwd string `json:"cwd,omitempty" max:"4096" secret:"refuse"`
	// PermissionMode to ask under; the session's if absent.
	PermissionMode string `json:"permissionMode,omitempty" enum:"@permissionMode"`
	// DryRun leaves no trace: the question isn't recorded.
	DryRun bool `json:"dryRun,omitempty"`
}

// Command implements [Params].
func (*EvaluatePermission) Command() Name                     { return "evaluate_permission" }
func (*EvaluatePermission) returns(*EvaluatePermissionResult) {}

// Validate implements [Params].
func (p *EvaluatePermission) Validate() error { return check(p) }

func (p *EvaluatePermission) scope() Role { return policyScope(p.SessionID) }

// EvaluatePermissionResult is the decision.
type EvaluatePermissionResult struct {
	// PermissionDecision is the decision with its reasons.
	PermissionDecision event.PermissionEvaluated `json:"permissionDecision"`
}

// ResolvePermission answers a request for permission as the host's policy.
type ResolvePermission struct {
	Mutation
	// ActionID is the action that waits.
	ActionID string `json:"actionId" check:"id"`
	// Decision of the host's policy.
	Decision string `json:"decision" enum:"@permissionAnswer"`
	// Reason for people.
	Reason string `json:"reason,omitempty" max:"10000"`
	// ChannelID is the channel that the answer comes through, if it does.
	ChannelID string `json:"channelId,omitempty" check:"id"`
}

// Command implements [Params].
func (*ResolvePermission) Command() Name                { return "resolve_permission" }
func (*ResolvePermission) returns(*RespondActionResult) {}

// Validate implements [Params].
func (p *ResolvePermission) Validate() error { return check(p) }

// GetPolicy returns the policy of a session, or the host's.
type GetPolicy struct {
	// SessionID of the policy; the host's if absent.
	SessionID string `json:"sessionId,omitempty" check:"id"`
}

// Command implements [Params].
func (*GetPolicy) Command() Name         { return "get_policy" }
func (*GetPolicy) returns(*PolicyResult) {}

// Validate implements [Params].
func (p *GetPolicy) Validate() error { return check(p) }

// PolicyResult is a policy: a mode and the rules that hold.
type PolicyResult struct {
	// Mode that holds where no rule does.
	Mode string `json:"mode" enum:"@permissionMode"`
	// Rules in force; the strictest match wins.
	Rules []event.PolicyRule `json:"rules"`
}

// SetPolicy changes the policy of a session, or the host's.
type SetPolicy struct {
	Mutation
	// SessionID of the policy; the host's if absent, which needs the role admin.
	SessionID string `json:"sessionId,omitempty" check:"id"`
	// Mode that holds where no rule does; stays if absent.
	Mode string `json:"mode,omitempty" enum:"@permissionMode"`
	// Rules replace those that an earlier command stored for the same policy; they
	// stay if absent. Rules of the configuration stay whatever is given, and a
	// session's rules add to the host's.
	Rules []event.PolicyRule `json:"rules,omitzero" max:"10000"`
	// AddRules joins rules to those that a command stored for the same policy, unless the
	// same are there already. Callers that change one rule use it and removeRules, not
	// rules: what others change at the same time stays.
	AddRules []event.PolicyRule `json:"addRules,omitempty" max:"10000"`
	// RemoveRules takes stored rules away: those with the same ruleId, decision, tool and
	// match. One that isn't there is passed over.
	RemoveRules []event.PolicyRule `json:"removeRules,omitempty" max:"10000"`
	// AcceptWorkspace takes the rules of the workspace as its file has them now, of
	// the session or without one of the runtime: what allows more than before counts
	// only after that. Mode and rules stay, and must be absent.
	AcceptWorkspace bool `json:"acceptWorkspace,omitempty"`
	// Reason for people.
	Reason string `json:"reason,omitempty" max:"10000"`
}

// Command implements [Params].
func (*SetPolicy) Command() Name         { return "set_policy" }
func (*SetPolicy) returns(*PolicyResult) {}

// Validate implements [Params].
func (p *SetPolicy) Validate() error {
	if err := check(p); err != nil {
		return err
	}
	changes := len(p.AddRules)+len(p.RemoveRules) > 0
	if p.AcceptWorkspace && (p.Mode != "" || p.Rules != nil || changes) {
		return fault.Param("acceptWorkspace", "accepts the rules of a file; leave out mode and rules")
	}
	if p.Rules != nil && changes {
		return fault.Param("rules", "replaces all stored rules; leave out addRules and removeRules")
	}
	return nil
}

func (p *SetPolicy) scope() Role {
	if p.AcceptWorkspace { // what is accepted applies to everyone who works in the folder
		return RoleAdmin
	}
	return policyScope(p.SessionID)
}

// policyScope is the role that a command needs which writes about a policy: more where
// the policy is the host's, whose facts no account sees or pays for.
func policyScope(sessionID string) Role {
	if sessionID == "" || sessionID == event.RuntimeSession {
		return RoleAdmin
	}
	return RoleClient
}
