package loop_test

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
	"agentd/internal/runtimetest"
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
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("bypass"), withRules(false)), runtimetest.WritesFile("vendor/a", "x"), runtimetest.WritesFile("b", "x"), runtimetest.Says("done"))
	k.WriteFile(loop.RulesFile, "["+denyRule+"]")
	k.Completes(k.Submit("sess_a", "go"))
	judged := runtimetest.Payloads[*event.PermissionEvaluated](k, "sess_a")
	if k.ReadFile("vendor/a") != "-" || k.ReadFile("b") != "x" || judged[0].Decision != "deny" || !strings.HasPrefix(judged[0].RuleRefs[0], "workspace:") || !strings.Contains(judged[0].DecisionReason, "generated") {
		t.Errorf("%q %q %+v", k.ReadFile("vendor/a"), k.ReadFile("b"), judged[0])
	}
	changed := runtimetest.Payloads[*event.PolicyChanged](k, "sess_a")
	if len(changed) != 1 || changed[0].Source != "workspace" {
		t.Errorf("%+v", changed)
	}
	policy := runtimetest.Do[command.PolicyResult](k, &command.GetPolicy{SessionID: "sess_a"})
	if len(policy.Rules) != 3 || policy.Rules[0].Source != "workspace" {
		t.Errorf("%+v", policy.Rules)
	}
	k.Completes(k.Submit("sess_a", "again"))
	if n := k.CountFacts("sess_a", event.TypePolicyChanged); n != 1 {
		t.Errorf("%d facts for what didn't change", n)
	}
	k.WriteFile(loop.RulesFile, "["+denyRule+`,{"decision":"ask","tool":"shell"}]`)
	k.Completes(k.Submit("sess_a", "and again"))
	if changed := runtimetest.Payloads[*event.PolicyChanged](k, "sess_a"); len(changed) != 2 || len(changed[1].Rules) != 4 || changed[1].Held != nil {
		t.Errorf("%+v", changed)
	}
}

// held counts the warnings that something in the file of a workspace doesn't count.
func held(k *runtimetest.Kit, sessionID string) int {
	n := 0
	for _, p := range runtimetest.Payloads[*event.RuntimeNotice](k, sessionID) {
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
			k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("bypass"), withRules(false)),
				runtimetest.WritesFile("vendor/a", "x"), runtimetest.Says("done"), runtimetest.WritesFile("vendor/a", "x"), runtimetest.Says("done"))
			k.WriteFile(loop.RulesFile, "["+denyRule+"]")
			k.Completes(k.Submit("sess_a", "go"))
			if after == "" {
				if err := os.Remove(filepath.Join(k.Dir, loop.RulesFile)); err != nil {
					t.Fatal(err)
				}
			} else {
				k.WriteFile(loop.RulesFile, after)
			}
			k.Completes(k.Submit("sess_a", "again"))
			k.Completes(k.Submit("sess_b", "elsewhere"))
			for _, id := range []string{"sess_a", "sess_b"} {
				judged := runtimetest.Payloads[*event.PermissionEvaluated](k, id)
				if last := judged[len(judged)-1]; last.Decision != "deny" || k.ReadFile("vendor/a") != "-" || held(k, id) != 1 {
					t.Errorf("%s: %+v, %d warnings", id, last, held(k, id))
				}
				changed := runtimetest.Payloads[*event.PolicyChanged](k, id)
				if last := changed[len(changed)-1]; !slices.Contains(last.Held, "gone: deny write_file vendor/**") {
					t.Errorf("%s: %+v", id, last)
				}
			}
			runtimetest.Do[command.PolicyResult](k, &command.SetPolicy{SessionID: "sess_a", AcceptWorkspace: true, Reason: "it is not generated any more"})
			k.Completes(k.Submit("sess_b", "at last"))
			if k.ReadFile("vendor/a") != "x" || held(k, "sess_b") != 1 {
				t.Errorf("%q: it was accepted", k.ReadFile("vendor/a"))
			}
			accepted := runtimetest.Payloads[*event.PolicyChanged](k, "sess_a")
			if last := accepted[len(accepted)-1]; last.ChangedBy == nil || len(last.Held) != 0 || !strings.Contains(last.Reason, "not generated") {
				t.Errorf("%+v", last)
			}
		})
	}
}

// TestKnownRulesSurviveARestart: a new runtime over the same store knows them, for
// sessions that it has never seen.
func TestKnownRulesSurviveARestart(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("bypass"), withRules(false)), runtimetest.Says("done"))
	k.WriteFile(loop.RulesFile, "["+denyRule+"]")
	k.Completes(k.Submit("sess_a", "go"))
	k.WriteFile(loop.RulesFile, "[]")
	k.Close()
	k.Open()
	runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_b"})
	res := runtimetest.Do[command.EvaluatePermissionResult](k, &command.EvaluatePermission{SessionID: "sess_b", ToolName: "write_file", Input: event.Raw(`{"path":"vendor/x","content":""}`)})
	if res.PermissionDecision.Decision != "deny" {
		t.Errorf("%+v", res.PermissionDecision)
	}
	runtimetest.Do[command.PolicyResult](k, &command.SetPolicy{AcceptWorkspace: true})
	res = runtimetest.Do[command.EvaluatePermissionResult](k, &command.EvaluatePermission{SessionID: "sess_b", ToolName: "write_file", Input: event.Raw(`{"path":"vendor/x","content":""}`)})
	if res.PermissionDecision.Decision == "deny" {
		t.Errorf("it was accepted: %+v", res.PermissionDecision)
	}
}

// TestAllowsThatAppearDontCount: where workspaces are trusted, an allow rule counts if
// it was there when the workspace was first seen, not if a program may have written it.
func TestAllowsThatAppearDontCount(t *testing.T) {
	k := runtimetest.NewWith(t, withRules(true), runtimetest.WritesFile("a", "x"), runtimetest.Says("done"), runtimetest.WritesFile("b", "x"), runtimetest.Says("done"))
	for _, id := range []string{"sess_a", "sess_b"} { // nothing is there for the first
		r := k.Submit(id, "go")
		action, _ := k.WaitForAction(id, 1)
		k.Respond(action, "deny")
		k.Completes(r)
		k.WriteFile(loop.RulesFile, "["+allowRule+"]")
	}
	if k.ReadFile("a") == "x" || held(k, "sess_b") != 1 {
		t.Errorf("%q, %d warnings", k.ReadFile("a"), held(k, "sess_b"))
	}
	runtimetest.Do[command.PolicyResult](k, &command.SetPolicy{SessionID: "sess_b", AcceptWorkspace: true})
	k.Completes(k.Submit("sess_b", "go on"))
	if k.ReadFile("b") != "x" {
		t.Error("it was accepted")
	}
}

// TestMendedRulesAreNotHeld: what stood for a broken file goes with it.
func TestMendedRulesAreNotHeld(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("bypass"), withRules(false)), runtimetest.Says("done"), runtimetest.WritesFile("b", "x"), runtimetest.Says("done"))
	k.WriteFile(loop.RulesFile, "[{")
	k.Completes(k.Submit("sess_a", "go"))
	if msg := runtimetest.Refused(k, &command.SetPolicy{SessionID: "sess_a", AcceptWorkspace: true}, fault.Conflict); !strings.Contains(msg, loop.RulesFile) {
		t.Error(msg)
	}
	k.WriteFile(loop.RulesFile, "["+denyRule+"]")
	k.Completes(k.Submit("sess_a", "go"))
	if k.ReadFile("b") != "x" || held(k, "sess_a") != 0 {
		t.Errorf("%q, %d warnings", k.ReadFile("b"), held(k, "sess_a"))
	}
}

// TestWorkspaceCantAllow: a rule that comes with what somebody checked out must not
// open anything, unless the host says so.
func TestWorkspaceCantAllow(t *testing.T) {
	for _, trust := range []bool{false, true} {
		k := runtimetest.NewWith(t, withRules(trust), runtimetest.WritesFile("a", "x"), runtimetest.Says("done"))
		k.WriteFile(loop.RulesFile, "["+allowRule+","+denyRule+"]")
		r := k.Submit("sess_a", "go")
		if !trust {
			action, _ := k.WaitForAction("sess_a", 1)
			k.Respond(action, "deny")
		}
		k.Completes(r)
		if (k.ReadFile("a") == "x") != trust {
			t.Errorf("trust %v: %q", trust, k.ReadFile("a"))
		}
		warned := 0
		for _, p := range runtimetest.Payloads[*event.RuntimeNotice](k, "sess_a") {
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
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("bypass"), withRules(false)), runtimetest.WritesFile("a", "x"), runtimetest.Says("done"))
	k.WriteFile(loop.RulesFile, "[{")
	r := k.Submit("sess_a", "go")
	action, p := k.WaitForAction("sess_a", 1)
	if !strings.Contains(p.Reason, loop.RulesFile) {
		t.Errorf("%+v", p)
	}
	k.Respond(action, "allow")
	k.Completes(r)
}

// TestAgentAsksBeforeItChangesTheRules that it is held to.
func TestAgentAsksBeforeItChangesTheRules(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("bypass"), withRules(false)), runtimetest.WritesFile(loop.RulesFile, "[]"), runtimetest.Says("done"))
	k.WriteFile(loop.RulesFile, "["+denyRule+"]")
	r := k.Submit("sess_a", "go")
	action, _ := k.WaitForAction("sess_a", 1)
	k.Respond(action, "deny")
	k.Completes(r)
	if k.ReadFile(loop.RulesFile) == "[]" {
		t.Error("it was changed")
	}
}

// TestEvaluationKnowsTheWorkspace before any turn ran.
func TestEvaluationKnowsTheWorkspace(t *testing.T) {
	k := runtimetest.NewWith(t, withRules(false))
	k.WriteFile(loop.RulesFile, "["+denyRule+"]")
	runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
	res := runtimetest.Do[command.EvaluatePermissionResult](k, &command.EvaluatePermission{SessionID: "sess_a", ToolName: "write_file", Input: event.Raw(`{"path":"vendor/x","content":""}`)})
	if res.PermissionDecision.Decision != "deny" {
		t.Errorf("%+v", res.PermissionDecision)
	}
}
