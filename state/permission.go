package state

import (
	"slices"
	"time"

	"agentd/event"
)

// keepGrants bounds the grants of a session. A grant that was dropped is asked
// for again, which is the safe side.
const keepGrants = 100

// Permission is what the session may do and what was decided.
type Permission struct {
	// Policies holds the newest policy of each source.
	Policies []Policy `json:"policies,omitempty"`
	// Host is the host's policy as the last turn found it; nil before the first.
	Host *HostPolicy `json:"host,omitempty"`
	// Grants holds the permissions that were given for the whole session.
	Grants []Grant `json:"grants,omitempty"`
	// Decisions holds the last decisions, oldest first.
	Decisions []Decision `json:"decisions,omitempty"`
	// Counts has the number of decisions by word, over all time.
	Counts    map[string]int64 `json:"counts,omitempty"`
	Requested int64            `json:"requested,omitempty"`
	// Resolved has the number of answered requests by word.
	Resolved map[string]int64 `json:"resolved,omitempty"`

	// Reviewed has the number of reviews by verdict, ReviewCostUSD what they cost.
	Reviewed      map[string]int64 `json:"reviewed,omitempty"`
	ReviewCostUSD float64          `json:"reviewCostUSD,omitempty"`

	// Sandbox is the boundary that was applied last, in whatever thread.
	Sandbox *AppliedSandbox `json:"sandbox,omitempty"`
	// Violations holds the last hits of a boundary; ViolationCount counts all.
	Violations     []Violation `json:"violations,omitempty"`
	ViolationCount int64       `json:"violationCount,omitempty"`

	// Hooks holds the hooks under way, HookRuns the last ones that ended.
	Hooks    []*HookRun `json:"hooks,omitempty"`
	HookRuns []*HookRun `json:"hookRuns,omitempty"`
	// HookCounts has the number of ended hooks by status.
	HookCounts map[string]int64 `json:"hookCounts,omitempty"`
}

// HostPolicy is the host's policy, of which a session has no other fact than its turns'.
type HostPolicy struct {
	Mode  string             `json:"mode"`
	Rules []event.PolicyRule `json:"rules,omitempty"`
	// NobodyToAsk says that no person can answer.
	NobodyToAsk bool      `json:"nobodyToAsk,omitempty"`
	At          time.Time `json:"at"`
	Sequence    uint64    `json:"sequence"`
}

// silent reports whether the host is known to ask no one.
func (h *HostPolicy) silent() bool { return h != nil && h.NobodyToAsk }

// turnPolicy notes the policy that a turn starts under.
func (f *fold) turnPolicy(turn *Turn, p *event.TurnPolicy) {
	if p == nil {
		return
	}
	turn.Mode, turn.ModeSource = p.Mode, p.ModeSource
	f.s.Permission.Host = &HostPolicy{
		Mode: p.HostMode, Rules: firstN(p.HostRules, keepItems), NobodyToAsk: !p.InteractionAllowed && ModeAsks(p.Mode), At: f.e.Time, Sequence: f.e.Sequence,
	}
}

// Policy is the whole policy of one source.
type Policy struct {
	// Source says whose policy it is: host, workspace or session.
	Source string `json:"source"`
	// Mode that the source sets; absent if it sets none.
	Mode string `json:"mode,omitempty"`
	// ModeOrigin says where the host's mode comes from, as the origin of a rule does.
	ModeOrigin string `json:"modeOrigin,omitempty"`
	// Rules of the source.
	Rules []event.PolicyRule `json:"rules,omitempty"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
	// ChangedBy set it.
	ChangedBy *event.Actor `json:"changedBy,omitempty"`
	// Workspace is the folder whose rules these are, in the runtime's own session.
	Workspace string `json:"workspace,omitempty"`
	// Account is whose rules these are, of a project in the runtime's own session.
	Account string `json:"account,omitempty"`
	// Held is what the workspace's file says and doesn't count yet.
	Held []string `json:"held,omitempty"`
	// ChangedAt is when the policy was set; absent where it is the host's and no fact of the
	// session has it yet.
	ChangedAt time.Time `json:"changedAt,omitzero"`
	// Sequence of the fact that says so.
	Sequence uint64 `json:"sequence,omitempty"`
}

// Grant is a permission for the whole session.
type Grant struct {
	// GrantID is the grant's id.
	GrantID string `json:"grantId,omitempty"`
	// ActionID is the action whose answer gave it.
	ActionID string `json:"actionId,omitempty"`
	// ToolName is the tool's name.
	ToolName string `json:"toolName,omitempty"`
	// Scope is what it is for: paths, hosts, parts of a command.
	Scope event.Raw `json:"scope,omitempty"`
	// GrantedBy gave it.
	GrantedBy *event.Actor `json:"grantedBy,omitempty"`
	// ExpiresAt is when it is over by itself; absent if it stays.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// GrantedAt is when it was given.
	GrantedAt time.Time `json:"grantedAt"`
	// Sequence of the fact that says so.
	Sequence uint64 `json:"sequence"`
}

// Decision is one decision on whether something may run.
type Decision struct {
	// ThreadID is the thread that it belongs to.
	ThreadID string `json:"threadId,omitempty"`
	// TurnID is the turn that it belongs to.
	TurnID string `json:"turnId,omitempty"`
	// ToolCallID is the tool call that it belongs to, if it belongs to one.
	ToolCallID string `json:"toolCallId,omitempty"`
	// SubagentID is the child that it belongs to, if it belongs to one.
	SubagentID string `json:"subagentId,omitempty"`
	// ToolName is the tool's name.
	ToolName string `json:"toolName"`
	// Decision is allow, deny or ask.
	Decision string `json:"decision"`
	// DecisionSource says who or what decided.
	DecisionSource string `json:"decisionSource"`
	// DecisionReason says why.
	DecisionReason string `json:"decisionReason"`
	// RuleRefs are the rules that it rests on.
	RuleRefs []string `json:"ruleRefs,omitempty"`
	// Scope is what the decision is about: paths, hosts, parts of a command.
	Scope event.Raw `json:"scope,omitempty"`
	// Destructive says that something may be lost that nothing brings back.
	Destructive bool `json:"destructive,omitempty"`
	// Impact says what the call would do.
	Impact string `json:"impact,omitempty"`
	// RollbackAdvice says how it can be taken back.
	RollbackAdvice string `json:"rollbackAdvice,omitempty"`
	// PermissionMode that the decision was made in.
	PermissionMode string `json:"permissionMode,omitempty"`
	// UpdatedInputRef is where the arguments are as a hook changed them.
	UpdatedInputRef string `json:"updatedInputRef,omitempty"`
	// ApprovalActionID is the action that asks for an approval.
	ApprovalActionID string `json:"approvalActionId,omitempty"`
	// ExpiresAt is when the decision is over.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// At is when it was decided.
	At time.Time `json:"at"`
	// Sequence of the fact that says so.
	Sequence uint64 `json:"sequence"`
}

// Review is the verdict of a reviewer about a call.
type Review struct {
	// Verdict is allow, ask or failed.
	Verdict string `json:"verdict"`
	// Reason is the reviewer's own, or says what failed.
	Reason string `json:"reason,omitempty"`
	// Model that was asked, as provider/model.
	Model string `json:"model,omitempty"`
	// InputHash is that of the input that was judged.
	InputHash string `json:"inputHash,omitempty"`
}

// permissionReviewed notes the verdict about a call; the decision that follows rests on
// it.
func (f *fold) permissionReviewed(p *event.PermissionReviewed) {
	f.s.Permission.Reviewed = addCount(f.s.Permission.Reviewed, p.Verdict, 1)
	if p.CostUSD != nil && *p.CostUSD > 0 {
		f.s.Permission.ReviewCostUSD += *p.CostUSD
	}
	if c := f.toolCall(p.ToolName); c != nil {
		c.Review = &Review{Verdict: p.Verdict, Reason: p.Reason, Model: p.Provider + "/" + p.Model, InputHash: p.InputHash}
	}
}

// governance folds the facts of permissions, sandboxes, hooks and policies.
func (f *fold) governance() {
	switch p := f.e.Payload.(type) {
	case *event.PermissionEvaluated:
		f.permissionEvaluated(p)
	case *event.PermissionReviewed:
		f.permissionReviewed(p)
	case *event.PermissionRequested:
		f.s.Permission.Requested++
		if c := f.toolCall(p.ToolName); c != nil {
			// A call that ran and hit its boundary waits for permission to run again.
			c.Status, c.Decision = ToolRequested, "ask"
		}
	case *event.PermissionResolved:
		f.permissionResolved(p)
	case *event.SandboxApplied:
		f.sandboxApplied(p)
	case *event.SandboxViolation:
		f.sandboxViolation(p)
	case *event.HookStarted:
		f.hookStarted(p)
	case *event.HookCompleted:
		f.hookCompleted(p)
	case *event.HookFailed:
		f.hookFailed(p)
	case *event.PolicyChanged:
		f.policyChanged(p)
	}
}

func (f *fold) permissionEvaluated(p *event.PermissionEvaluated) {
	perm := &f.s.Permission
	if p.ConfinementRef != "" {
		f.s.ConfinementRef = p.ConfinementRef
	}
	perm.Counts = addCount(perm.Counts, p.Decision, 1)
	if c := f.toolCall(p.ToolName); c != nil {
		f.callDecided(c, p)
	}
	perm.Decisions = recent(perm.Decisions, Decision{
		ThreadID: f.e.ThreadID, TurnID: f.e.TurnID, ToolCallID: f.e.ToolCallID, SubagentID: f.e.SubagentID,
		ToolName: p.ToolName, Decision: p.Decision, DecisionSource: p.DecisionSource, DecisionReason: p.DecisionReason,
		RuleRefs: firstN(p.RuleRefs, keepItems), Scope: presentValue(p.Scope), Destructive: p.Destructive,
		Impact: p.Impact, RollbackAdvice: p.RollbackAdvice, PermissionMode: p.PermissionMode,
		UpdatedInputRef: p.UpdatedInputRef, ApprovalActionID: p.ApprovalActionID, ExpiresAt: journalTime(p.ExpiresAt),
		At: f.e.Time, Sequence: f.e.Sequence,
	}, keepRecent)
}

// permissionResolved counts the answer. One that holds for the session is a grant.
func (f *fold) permissionResolved(p *event.PermissionResolved) {
	perm := &f.s.Permission
	perm.Resolved = addCount(perm.Resolved, p.Decision, 1)
	if c := f.toolCall(p.ToolName); c != nil {
		c.Decision = p.Decision
	}
	if p.Decision != "allow" || p.Scope != "session" {
		return
	}
	g := Grant{
		GrantID: p.GrantID, ActionID: p.ActionID, ToolName: p.ToolName, GrantedBy: p.ResolvedBy,
		ExpiresAt: journalTime(p.ExpiresAt), GrantedAt: f.e.Time, Sequence: f.e.Sequence,
	}
	if a := f.s.Actions.Find(p.ActionID); a != nil {
		g.Scope = presentValue(a.Scope)
		setIf(&g.ToolName, a.ToolName)
	}
	perm.Grants = slices.DeleteFunc(perm.Grants, func(x Grant) bool {
		return !x.ExpiresAt.IsZero() && !x.ExpiresAt.After(f.e.Time)
	})
	perm.Grants = recent(perm.Grants, g, keepGrants)
}

// keepWorkspaces bounds the workspaces whose rules the runtime's session remembers.
const keepWorkspaces = 1000

// policyChanged replaces the policy of one source; the sources are few and fixed, and
// the workspaces of the runtime's session bounded.
func (f *fold) policyChanged(p *event.PolicyChanged) {
	if p.Source == "turn" {
		if turn := f.turn(); turn != nil {
			turn.PermissionMode = p.Mode
		}
		return
	}
	perm := &f.s.Permission
	policy := Policy{
		Source: p.Source, Mode: p.Mode, ModeOrigin: p.ModeOrigin, Rules: firstN(p.Rules, len(p.Rules)), Reason: p.Reason, ChangedBy: p.ChangedBy,
		Workspace: p.Workspace, Account: p.Account, Held: firstN(p.Held, keepItems), ChangedAt: f.e.Time, Sequence: f.e.Sequence,
	}
	i := slices.IndexFunc(perm.Policies, func(x Policy) bool {
		return x.Source == p.Source && x.Workspace == p.Workspace && x.Account == p.Account
	})
	if i >= 0 {
		perm.Policies[i] = policy
		return
	}
	perm.Policies = append(perm.Policies, policy)
	if p.Workspace != "" && len(perm.Policies) > keepWorkspaces {
		oldest := slices.IndexFunc(perm.Policies, func(x Policy) bool { return x.Workspace != "" })
		perm.Policies = slices.Delete(slices.Clone(perm.Policies), oldest, oldest+1)
	}
}
