package loop

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"

	"agentd/event"
	"agentd/permission"
	"agentd/session"
	"agentd/state"
)

// RulesFile is where a workspace keeps permission rules of its own.
const RulesFile = ".agentd-permissions.yaml"

// adoptRules makes the rules of a turn's workspace facts of the session, if they
// aren't. They come with what somebody checked out, so they may only narrow what is
// allowed, unless the host trusts its workspaces.
func (l *Loop) adoptRules(k key, turnID string) error {
	if l.opt.ParseRules == nil {
		return nil
	}
	var root string
	if err := l.m.View(l.ctx, k.session, func(s *state.Session) error {
		t := s.Thread(k.thread)
		if t == nil || t.Turn(turnID) == nil {
			return errMoved
		}
		root = l.workplace(s, t, t.Turn(turnID)).root
		return nil
	}); err != nil {
		return err
	}
	return l.adoptRulesOf(l.ctx, k.session, root)
}

// adoptRulesOf is adoptRules for a session and a folder.
func (l *Loop) adoptRulesOf(ctx context.Context, sessionID, root string) error {
	rules, ignored := l.workspaceRules(root)
	known := false
	if err := l.m.View(ctx, sessionID, func(s *state.Session) error {
		known = sameRules(workspacePolicy(s), rules)
		return nil
	}); err != nil || known {
		return err
	}
	return l.m.Emit(ctx, sessionID, event.BySession|event.ByLoop, func(tx *session.Tx) error {
		if sameRules(workspacePolicy(tx.State), rules) {
			return nil
		}
		tx.Emit(event.Event{Type: event.TypePolicyChanged, Payload: &event.PolicyChanged{
			Source: "workspace", Rules: append([]event.PolicyRule{}, rules...), Reason: "what " + RulesFile + " says",
		}})
		if ignored > 0 {
			tx.Emit(event.Event{Type: event.TypeRuntimeWarning, Payload: &event.RuntimeNotice{
				Code: "workspace_rules_ignored", Message: fmt.Sprintf("%d allow rules of %s don't count: a workspace may only deny and ask", ignored, RulesFile),
				Advice: "put them into the configuration, or set workspace.trustRules",
			}})
		}
		return nil
	})
}

func workspacePolicy(s *state.Session) []event.PolicyRule {
	for _, p := range s.Permission.Policies {
		if p.Source == "workspace" {
			return p.Rules
		}
	}
	return nil
}

func sameRules(a, b []event.PolicyRule) bool {
	return len(a) == len(b) && (len(a) == 0 || reflect.DeepEqual(a, b))
}

// workspaceRules reads the rules of a workspace. A file that can't be used asks
// about everything: what it would have denied isn't known.
func (l *Loop) workspaceRules(root string) (rules []event.PolicyRule, ignored int) {
	content, err := readRules(root)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0
	case err == nil:
		var all []event.PolicyRule
		if all, err = l.opt.ParseRules(content); err == nil {
			all, err = permission.ParseRules("workspace", all)
		}
		for _, r := range all {
			if r.Decision == permission.Allow && !l.opt.TrustRules {
				ignored++
				continue
			}
			r.Reason = l.redactText(r.Reason)
			rules = append(rules, r)
		}
	}
	if err != nil {
		return []event.PolicyRule{{
			RuleID: "unreadable", Decision: permission.Ask, Tool: "*", Source: "workspace",
			Reason: l.redactText(RulesFile + " can't be used: " + reason(err)),
		}}, 0
	}
	for _, name := range []string{"write_file", "edit_file"} {
		rules = append(rules, event.PolicyRule{
			RuleID: "rules_file_" + name, Decision: permission.Ask, Tool: name, Match: RulesFile, Source: "workspace",
			Reason: "it holds the rules of the workspace",
		})
	}
	return rules, ignored
}

func readRules(root string) ([]byte, error) {
	dir, err := os.OpenRoot(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("the workspace can't be read: %w", err)
	}
	defer func() { _ = dir.Close() }() // it was only read
	return readSmall(dir, RulesFile)
}
