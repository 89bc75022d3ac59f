package loop

import (
	"strings"
	"time"

	"agentd/event"
	"agentd/permission"
	"agentd/session"
	"agentd/state"
	"agentd/tool"
	"agentd/tool/toolkind"
)

// permissionRefusal is the error of a call that was asked about and not allowed.
func (r *toolRun) permissionRefusal(tx *session.Tx) *tool.Error {
	err := tool.Errorf(tool.Denied, "the call was not allowed")
	if a := tx.State.Actions.Find(r.call.ActionID); a != nil {
		switch a.ActionType {
		case planAction:
			return planRefusal(a)
		case credentialAction:
			return noCredential(a)
		}
		switch {
		case a.Status == state.ActionExpired:
			err.Message = "the request for permission was not answered in time"
		case a.DecisionReason != "":
			err.Message = "the call was not allowed: " + a.DecisionReason
		case a.DecisionSource == "human":
			err.Message = "the user did not allow the call"
		case a.DecisionSource == "peer":
			err.Message = "the peer that gave the task did not allow the call"
		}
	}
	err.Advice = "Do not try the same in another way; ask what to do instead or go on without it."
	return err
}

// decisionEnds is when a decision stops to hold: an ask that wasn't answered in time,
// an allow by an earlier approval with that approval; zero if nothing ends it.
func (l *Loop) decisionEnds(tx *session.Tx, d *permission.Decision) time.Time {
	if d.Decision == permission.Ask && l.opt.ActionTimeout > 0 {
		return tx.Now().Add(l.opt.ActionTimeout)
	}
	for i := range tx.State.Permission.Grants {
		if g := &tx.State.Permission.Grants[i]; d.GrantID != "" && g.GrantID == d.GrantID {
			return g.ExpiresAt
		}
	}
	return time.Time{}
}

// emitRequest asks for permission.
func (r *toolRun) emitRequest(tx *session.Tx, d *permission.Decision, p *event.PermissionEvaluated) {
	kind, why := "tool_permission", p.DecisionReason
	switch {
	case d.NeedsOutside:
		kind = "sandbox_escape"
	case r.entry.Kind() == toolkind.PresentPlan:
		kind = planAction
	}
	if reason, asked := tool.Escalation(r.input); asked && r.entry.Kind() == toolkind.Shell {
		why += "; the model says: " + r.l.redactText(tool.Preview(reason, 500))
	}
	r.emitAction(tx, kind, why, d, p)
}

// emitAction emits the request and the action of a call that waits for permission.
func (r *toolRun) emitAction(tx *session.Tx, kind, why string, d *permission.Decision, p *event.PermissionEvaluated) {
	actionID := p.ApprovalActionID
	scope := r.scope
	scope.ActionID = actionID
	if kind == "sandbox_escape" {
		if plan, err := r.l.planCommand(r.place, lifted, false); err == nil && len(plan.Exposed) > 0 {
			why += "; outside of it the runtime's own data can't be hidden: " + strings.Join(plan.Exposed, "; ")
		}
	}
	tx.Emit(event.Event{Type: event.TypePermissionRequested, Scope: scope, Payload: &event.PermissionRequested{
		ToolName: r.request.ToolName, ActionID: actionID, Reason: why, RuleRefs: p.RuleRefs, AskedOf: "human", SubagentID: r.scope.SubagentID,
	}})
	a := &event.ActionRequired{
		ActionType: kind, Prompt: r.actionPrompt(), Decisions: permissionAnswers(), Scope: p.Scope,
		ToolName: r.request.ToolName, SafeArgs: p.SafeArgs, InputRef: p.InputRef, Reason: why, RuleRefs: p.RuleRefs, Destructive: p.Destructive,
		OnceOnly: !d.SessionScope,
	}
	switch kind {
	case planAction:
		a.Schema = planAnswer
	case "tool_permission":
		a.KeepRules, a.KeepFor = r.keepRules(tx)
	}
	if after := r.l.opt.ActionTimeout; after > 0 {
		a.ExpiresAt, a.OnTimeout = tx.Now().Add(after), "deny"
	}
	tx.Emit(event.Event{Type: event.TypeActionRequired, Scope: scope, Payload: a})
}

// keepRules are the rules that an answer for the project would keep, and that project.
// None is offered whose text looks like a secret.
func (r *toolRun) keepRules(tx *session.Tx) (rules []event.PolicyRule, project string) {
	t := tx.State.Thread(r.k.thread)
	if t == nil || t.Active == nil || r.entry == nil {
		return nil, ""
	}
	call := &Call{ToolCallID: r.call.ToolCallID, Tool: r.entry.Info, Input: r.input, Opinion: r.opinion}
	rules = permission.KeepRules(r.l.Configuration().Question(tx.State, t, call, &r.confined, r.disk, tx.Now()))
	for _, rule := range rules {
		if r.l.redactText(rule.Match) != rule.Match {
			return nil, ""
		}
	}
	if len(rules) == 0 {
		return nil, ""
	}
	return rules, r.place.root
}

// actionPrompt says in one line what the call would do.
func (r *toolRun) actionPrompt() string {
	clean, _ := r.l.redactJSON(r.input)
	if r.entry.Kind() == toolkind.PresentPlan {
		return "Approve this plan?\n\n" + tool.Preview(tool.PlanText(clean), planPreview)
	}
	in, _ := toolkind.ReadArguments(clean) // a tool without these fields shows its whole input
	switch {
	case in.Command != "":
		return "Run: " + tool.Preview(in.Command, 500)
	case in.Path != "":
		return "Allow " + r.request.ToolName + " on " + in.Path + "?"
	}
	return "Allow " + r.request.ToolName + " " + tool.Preview(string(clean), 300) + "?"
}

// permissionAnswers are the answers that a request for permission offers, which
// resolve_permission takes.
func permissionAnswers() []string { return event.EnumValues("@permissionAnswer") }
