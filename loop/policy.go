package loop

import (
	"agentd/event"
	"agentd/permission"
	"agentd/state"
	"agentd/tool"
)

// Narrow says which permission mode a child of a thread gets that asks for one, or
// for none. False says that it would be wider than its parent's, which is then
// what is returned.
func (l *Loop) Narrow(s *state.Session, parent *state.Thread, asked string) (mode string, ok bool) {
	above := l.modeOf(s, parent, parent.Active)
	switch {
	case asked == "":
		return above, true
	case permission.IsWider(asked, above):
		return above, false
	}
	return asked, true
}

// modeOf is the permission mode that holds for a turn; see [Configuration.ModeOf].
func (l *Loop) modeOf(s *state.Session, t *state.Thread, turn *state.Turn) string {
	return l.Configuration().ModeOf(s, t, turn)
}

// rulesOf are the rules that hold in a session: the host's and its own.
func (l *Loop) rulesOf(s *state.Session) []event.PolicyRule { return l.Configuration().rulesOf(s) }

// grantsOf are the approvals that hold for the whole session.
func grantsOf(s *state.Session) []permission.Grant {
	var out []permission.Grant
	for _, g := range s.Permission.Grants {
		if x, ok := permission.GrantFrom(g.GrantID, g.ToolName, g.Scope, g.ExpiresAt); ok {
			out = append(out, x)
		}
	}
	return out
}

// toolSelection says which tools a turn may use, and how each stands.
func (l *Loop) toolSelection(s *state.Session, t *state.Thread, turn *state.Turn) tool.Selection {
	return l.selectionIn(l.modeOf(s, t, turn), s, t, turn)
}

func (l *Loop) selectionIn(mode string, s *state.Session, t *state.Thread, turn *state.Turn) tool.Selection {
	sel := tool.Selection{
		Escalate: l.mayEscalate(mode), Planning: l.mayPlan(mode, t, turn), Policy: l.policyOf(mode, l.rulesOf(s)), Extra: expectedTools(s, l.opt.Clock()),
	}
	if turn != nil && turn.Options != nil {
		sel.Tools = turn.Options.Tools
	}
	if t != nil && t.SubagentID != "" {
		if sub := s.Subagents.Find(t.SubagentID); sub != nil && sub.Isolation != nil {
			sel.Within = sub.Isolation.Tools
		}
	}
	if turn != nil {
		if task := s.Tasks.Find(turn.TaskID); task != nil && task.Constraints != nil && len(task.Constraints.Tools) > 0 {
			sel.Within = append(sel.Within, task.Constraints.Tools...)
		}
	}
	return sel
}

// policyOf says how each tool stands under a policy.
func (l *Loop) policyOf(mode string, rules []event.PolicyRule) func(event.ToolInfo) (policy, reason string) {
	return func(info event.ToolInfo) (string, string) {
		if e, ok := l.opt.Tools.Get(info.ToolName); ok {
			if a, ok := e.Tool.(tool.Availability); ok {
				if yes, why := a.Available(); !yes {
					return tool.PolicyUnavailable, why
				}
			}
		}
		return l.inventoryPolicy(mode, rules, info)
	}
}

// standingKey is all that the standing of a tool of our own depends on where there
// are no rules.
type standingKey struct {
	mode, tool, owner string
	reads             bool
}

// inventoryPolicy is [permission.Inventory], remembered for our own tools where no rules
// hold: a turn asks for each tool whenever the model calls one.
func (l *Loop) inventoryPolicy(mode string, rules []event.PolicyRule, info event.ToolInfo) (policy, reason string) {
	if len(rules) > 0 || info.Policy != "" || (info.RuntimeOwner != "" && info.RuntimeOwner != "local") {
		return permission.Inventory(mode, rules, info)
	}
	k := standingKey{mode, info.ToolName, info.RuntimeOwner, info.IsReadOnly}
	if known, ok := l.standings.Load(k); ok {
		found := known.([2]string)
		return found[0], found[1]
	}
	policy, reason = permission.Inventory(mode, rules, info)
	l.standings.Store(k, [2]string{policy, reason})
	return policy, reason
}

// Follow takes over what another node recorded in the runtime's own session.
func (l *Loop) Follow(facts []event.Event) { l.committedPolicy(facts) }

// FollowState takes over all that is recorded there.
func (l *Loop) FollowState(s *state.Session) {
	if stored, at := recordedHost(s); at > 0 {
		l.takeStoredHost(stored, at)
	}
	for i := range s.Permission.Policies {
		if p := &s.Permission.Policies[i]; p.Source == "workspace" && p.Workspace != "" {
			l.pins.set(p.Workspace, p.Rules, p.Sequence)
		}
	}
}

// committedPolicy takes over the host's policy from facts of the runtime's session.
func (l *Loop) committedPolicy(facts []event.Event) {
	for i := range facts {
		p, ok := facts[i].Payload.(*event.PolicyChanged)
		switch {
		case !ok:
		case p.Source == "host":
			l.takeStoredHost(storedHost(p.Mode, p.ModeOrigin, p.Rules), facts[i].Sequence)
		case p.Source == "workspace" && p.Workspace != "":
			l.pins.set(p.Workspace, p.Rules, facts[i].Sequence)
		}
	}
}
