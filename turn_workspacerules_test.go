package agentd_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
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
	k.write(loop.RulesFile, "["+denyRule+`,{"decision":"ask","tool":"shell"}]`)
	k.completes(k.submit("sess_a", "and again"))
	if changed := payloads[*event.PolicyChanged](k, "sess_a"); len(changed) != 2 || len(changed[1].Rules) != 4 || changed[1].Held != nil {
		t.Errorf("%+v", changed)
	}
}

// held counts the warnings that something in the file of a workspace doesn't count.
func (k *kit) held(sessionID string) int {
	n := 0
	for _, p := range payloads[*event.RuntimeNotice](k, sessionID) {
		if p.Code == "workspace_rules_held" {
			n++
		}
	}
	return n
}

// TestNobodyLoosensTheRules but a person: a rule that was known stays when it is gone
// from the file, in the session, in new ones and after a restart, until somebody
// accepts what the file says.
func TestNobodyLoosensTheRules(t *testing.T) {
	for name, after := range map[string]string{"emptied": "[]", "weakened": `[{"decision":"ask","tool":"write_file","match":"other/**"}]`, "removed": ""} {
		t.Run(name, func(t *testing.T) {
			k := newKitWith(t, all(mode("bypass"), withRules(false)),
				writing("vendor/a", "x"), says("done"), writing("vendor/a", "x"), says("done"))
			k.write(loop.RulesFile, "["+denyRule+"]")
			k.completes(k.submit("sess_a", "go"))
			if after == "" {
				if err := os.Remove(filepath.Join(k.dir, loop.RulesFile)); err != nil {
					t.Fatal(err)
				}
			} else {
				k.write(loop.RulesFile, after)
			}
			k.completes(k.submit("sess_a", "again"))
			k.completes(k.submit("sess_b", "elsewhere"))
			for _, id := range []string{"sess_a", "sess_b"} {
				judged := payloads[*event.PermissionEvaluated](k, id)
				if last := judged[len(judged)-1]; last.Decision != "deny" || k.file("vendor/a") != "-" || k.held(id) != 1 {
					t.Errorf("%s: %+v, %d warnings", id, last, k.held(id))
				}
				changed := payloads[*event.PolicyChanged](k, id)
				if last := changed[len(changed)-1]; !slices.Contains(last.Held, "gone: deny write_file vendor/**") {
					t.Errorf("%s: %+v", id, last)
				}
			}
			do[command.PolicyResult](k, &command.SetPolicy{SessionID: "sess_a", AcceptWorkspace: true, Reason: "it is not generated any more"})
			k.completes(k.submit("sess_b", "at last"))
			if k.file("vendor/a") != "x" || k.held("sess_b") != 1 {
				t.Errorf("%q: it was accepted", k.file("vendor/a"))
			}
			accepted := payloads[*event.PolicyChanged](k, "sess_a")
			if last := accepted[len(accepted)-1]; last.ChangedBy == nil || len(last.Held) != 0 || !strings.Contains(last.Reason, "not generated") {
				t.Errorf("%+v", last)
			}
		})
	}
}

// TestKnownRulesSurviveARestart: a new runtime over the same store knows them, for
// sessions that it has never seen.
func TestKnownRulesSurviveARestart(t *testing.T) {
	k := newKitWith(t, all(mode("bypass"), withRules(false)), says("done"))
	k.write(loop.RulesFile, "["+denyRule+"]")
	k.completes(k.submit("sess_a", "go"))
	k.write(loop.RulesFile, "[]")
	k.close()
	k.open()
	do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_b"})
	res := do[command.EvaluatePermissionResult](k, &command.EvaluatePermission{SessionID: "sess_b", ToolName: "write_file", Input: event.Raw(`{"path":"vendor/x","content":""}`)})
	if res.PermissionDecision.Decision != "deny" {
		t.Errorf("%+v", res.PermissionDecision)
	}
	do[command.PolicyResult](k, &command.SetPolicy{AcceptWorkspace: true})
	res = do[command.EvaluatePermissionResult](k, &command.EvaluatePermission{SessionID: "sess_b", ToolName: "write_file", Input: event.Raw(`{"path":"vendor/x","content":""}`)})
	if res.PermissionDecision.Decision == "deny" {
		t.Errorf("it was accepted: %+v", res.PermissionDecision)
	}
}

// TestAllowsThatAppearDontCount: where workspaces are trusted, an allow rule counts if
// it was there when the workspace was first seen, not if a program may have written it.
func TestAllowsThatAppearDontCount(t *testing.T) {
	k := newKitWith(t, withRules(true), writing("a", "x"), says("done"), writing("b", "x"), says("done"))
	for _, id := range []string{"sess_a", "sess_b"} { // nothing is there for the first
		r := k.submit(id, "go")
		action, _ := k.required(id, 1)
		k.respond(action, "deny")
		k.completes(r)
		k.write(loop.RulesFile, "["+allowRule+"]")
	}
	if k.file("a") == "x" || k.held("sess_b") != 1 {
		t.Errorf("%q, %d warnings", k.file("a"), k.held("sess_b"))
	}
	do[command.PolicyResult](k, &command.SetPolicy{SessionID: "sess_b", AcceptWorkspace: true})
	k.completes(k.submit("sess_b", "go on"))
	if k.file("b") != "x" {
		t.Error("it was accepted")
	}
}

// TestMendedRulesAreNotHeld: what stood for a broken file goes with it.
func TestMendedRulesAreNotHeld(t *testing.T) {
	k := newKitWith(t, all(mode("bypass"), withRules(false)), says("done"), writing("b", "x"), says("done"))
	k.write(loop.RulesFile, "[{")
	k.completes(k.submit("sess_a", "go"))
	if msg := refused(k, &command.SetPolicy{SessionID: "sess_a", AcceptWorkspace: true}, fault.Conflict); !strings.Contains(msg, loop.RulesFile) {
		t.Error(msg)
	}
	k.write(loop.RulesFile, "["+denyRule+"]")
	k.completes(k.submit("sess_a", "go"))
	if k.file("b") != "x" || k.held("sess_a") != 0 {
		t.Errorf("%q, %d warnings", k.file("b"), k.held("sess_a"))
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
