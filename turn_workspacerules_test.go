package agentd_test

import (
	"encoding/json"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/loop"
)

// withRules lets workspaces bring rules along, as JSON.
func withRules(trust bool) func(*agentd.Options) {
	return func(o *agentd.Options) {
		o.Loop.TrustRules = trust
		o.Loop.ParseRules = func(content []byte) ([]event.PolicyRule, error) {
			var rules []event.PolicyRule
			return rules, json.Unmarshal(content, &rules)
		}
	}
}

const (
	denyRule  = `{"decision":"deny","tool":"write_file","match":"vendor/**","reason":"it is generated"}`
	allowRule = `{"decision":"allow","tool":"write_file"}`
)

// TestWorkspaceDenies: the rules of a workspace hold in every mode, and decisions
// name them.
func TestWorkspaceDenies(t *testing.T) {
	k := newKitWith(t, all(mode("bypass"), withRules(false)), writing("vendor/a", "x"), writing("b", "x"), says("done"))
	k.write(loop.RulesFile, "["+denyRule+"]")
	k.completes(k.submit("sess_a", "go"))
	judged := payloads[*event.PermissionEvaluated](k, "sess_a")
	if k.file("vendor/a") != "-" || k.file("b") != "x" || judged[0].Decision != "deny" || !strings.HasPrefix(judged[0].RuleRefs[0], "workspace:") || !strings.Contains(judged[0].DecisionReason, "generated") {
		t.Errorf("%q %q %+v", k.file("vendor/a"), k.file("b"), judged[0])
	}
	changed := payloads[*event.PolicyChanged](k, "sess_a")
	if len(changed) != 1 || changed[0].Source != "workspace" {
		t.Errorf("%+v", changed)
	}
	policy := do[command.PolicyResult](k, &command.GetPolicy{SessionID: "sess_a"})
	if len(policy.Rules) != 3 || policy.Rules[0].Source != "workspace" {
		t.Errorf("%+v", policy.Rules)
	}
	k.completes(k.submit("sess_a", "again"))
	if n := k.count("sess_a", event.TypePolicyChanged); n != 1 {
		t.Errorf("%d facts for what didn't change", n)
	}
	k.write(loop.RulesFile, "[]")
	k.completes(k.submit("sess_a", "and again"))
	if n := k.count("sess_a", event.TypePolicyChanged); n != 2 {
		t.Errorf("%d facts", n)
	}
}

// TestWorkspaceCantAllow: a rule that comes with what somebody checked out must not
// open anything, unless the host says so.
func TestWorkspaceCantAllow(t *testing.T) {
	for _, trust := range []bool{false, true} {
		k := newKitWith(t, withRules(trust), writing("a", "x"), says("done"))
		k.write(loop.RulesFile, "["+allowRule+","+denyRule+"]")
		r := k.submit("sess_a", "go")
		if !trust {
			action, _ := k.required("sess_a", 1)
			k.respond(action, "deny")
		}
		k.completes(r)
		if (k.file("a") == "x") != trust {
			t.Errorf("trust %v: %q", trust, k.file("a"))
		}
		warned := 0
		for _, p := range payloads[*event.RuntimeNotice](k, "sess_a") {
			if p.Code == "workspace_rules_ignored" {
				warned++
			}
		}
		if (warned == 1) == trust {
			t.Errorf("trust %v: warned %d times", trust, warned)
		}
	}
}

// TestBrokenWorkspaceRulesAsk: what they would have denied isn't known.
func TestBrokenWorkspaceRulesAsk(t *testing.T) {
	k := newKitWith(t, all(mode("bypass"), withRules(false)), writing("a", "x"), says("done"))
	k.write(loop.RulesFile, "[{")
	r := k.submit("sess_a", "go")
	action, p := k.required("sess_a", 1)
	if !strings.Contains(p.Reason, loop.RulesFile) {
		t.Errorf("%+v", p)
	}
	k.respond(action, "allow")
	k.completes(r)
}

// TestAgentAsksBeforeItChangesTheRules that it is held to.
func TestAgentAsksBeforeItChangesTheRules(t *testing.T) {
	k := newKitWith(t, all(mode("bypass"), withRules(false)), writing(loop.RulesFile, "[]"), says("done"))
	k.write(loop.RulesFile, "["+denyRule+"]")
	r := k.submit("sess_a", "go")
	action, _ := k.required("sess_a", 1)
	k.respond(action, "deny")
	k.completes(r)
	if k.file(loop.RulesFile) == "[]" {
		t.Error("it was changed")
	}
}

// TestEvaluationKnowsTheWorkspace before any turn ran.
func TestEvaluationKnowsTheWorkspace(t *testing.T) {
	k := newKitWith(t, withRules(false))
	k.write(loop.RulesFile, "["+denyRule+"]")
	do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
	res := do[command.EvaluatePermissionResult](k, &command.EvaluatePermission{SessionID: "sess_a", ToolName: "write_file", Input: event.Raw(`{"path":"vendor/x","content":""}`)})
	if res.PermissionDecision.Decision != "deny" {
		t.Errorf("%+v", res.PermissionDecision)
	}
}
