package loop

import (
	"context"
	"slices"

	"agentd/command"
	"agentd/event"
	"agentd/permission"
	"agentd/session"
	"agentd/state"
)

// projectRulesOf are the rules of the project as the session's facts have them.
func projectRulesOf(s *state.Session) []event.PolicyRule {
	for i := range s.Permission.Policies {
		if p := &s.Permission.Policies[i]; p.Source == permission.SourceProject && p.Workspace == "" {
			return p.Rules
		}
	}
	return nil
}

// adoptProject makes the rules that people kept for a session's project facts of the
// session, if they aren't: a decision rests on facts alone. It is done before calls are
// decided about, so that a rule holds, and one that was forgotten doesn't, from the next
// call on. What a session brought along from elsewhere is replaced. It doesn't wait for facts
// that are on their way to the store: what it adds comes after them, and so does a decision.
func (l *Loop) adoptProject(ctx context.Context, sessionID string) error {
	if sessionID == "" || sessionID == event.RuntimeSession {
		return nil
	}
	var account, root string
	var own []event.PolicyRule
	if err := l.m.Peek(ctx, sessionID, func(s *state.Session) error {
		account, root, own = s.Account, l.Configuration().rootOf(s), projectRulesOf(s)
		return nil
	}); err != nil {
		return err
	}
	kept, err := l.m.ProjectRules(ctx, account, root)
	if err != nil || slices.Equal(own, kept) {
		return err
	}
	return l.m.Emit(ctx, sessionID, event.BySession|event.ByLoop, func(tx *session.Tx) error {
		if slices.Equal(projectRulesOf(tx.State), kept) {
			return nil
		}
		tx.Emit(event.Event{Type: event.TypePolicyChanged, Payload: &event.PolicyChanged{
			Source: permission.SourceProject, Rules: append([]event.PolicyRule{}, kept...), Reason: "what people kept for the project",
		}})
		return nil
	})
}

// adoptProjectAs is adoptProject for a caller that asks about a session.
func (l *Loop) adoptProjectAs(ctx context.Context, caller command.Caller, sessionID string) error {
	if sessionID == "" || sessionID == event.RuntimeSession {
		return nil
	}
	if err := l.m.See(ctx, caller, sessionID); err != nil {
		return err
	}
	return l.adoptProject(command.PassOver(ctx), sessionID)
}

// withProject are the rules of a session with those that are kept for its project by
// now.
func (l *Loop) withProject(ctx context.Context, s *state.Session, rules []event.PolicyRule) ([]event.PolicyRule, error) {
	if s.SessionID == "" || s.SessionID == event.RuntimeSession {
		return rules, nil
	}
	kept, err := l.m.ProjectRules(ctx, s.Account, l.Configuration().rootOf(s))
	if err != nil {
		return nil, err
	}
	own := slices.DeleteFunc(slices.Clone(rules), func(r event.PolicyRule) bool { return r.Source == permission.SourceProject })
	return append(own, kept...), nil
}
