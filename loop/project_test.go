package loop_test

import (
	"slices"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/transfer"
)

// keepFor answers the session's n-th question for the project.
func keepFor(k *runtimetest.Kit, sessionID string, n int) (*event.ActionRequired, *command.RespondActionResult) {
	k.Helper()
	id, a := k.WaitForAction(sessionID, n)
	return a, runtimetest.Do[command.RespondActionResult](k, &command.RespondAction{ActionID: id, Decision: "allow", Scope: "project"})
}

// writesWhen writes a file when a word is said.
func writesWhen(word, path string) []script.Answer {
	writes, says := runtimetest.WritesFile(path, "x"), runtimetest.Says("done")
	writes.When, says.When = &script.When{Contains: word}, &script.When{Contains: word}
	return []script.Answer{writes, says}
}

// TestKeptForTheProject: an answer for the project keeps the rule that was shown, for
// the other sessions there, over a restart, until it is forgotten. Facts say all of it.
func TestKeptForTheProject(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.InMode("default"),
		slices.Concat(writesWhen("one", "src/a"), writesWhen("two", "src/b"), writesWhen("three", "src/c"), writesWhen("four", "docs/d"), writesWhen("five", "src/e"))...)
	first := k.Submit("sess_a", "one")
	a, answer := keepFor(k, "sess_a", 1)
	if len(a.KeepRules) != 1 || a.KeepRules[0].Match != "src/**" || a.KeepRules[0].Decision != "allow" || a.KeepFor == "" {
		t.Fatalf("offered %+v for %q", a.KeepRules, a.KeepFor)
	}
	if len(answer.KeptRules) != 1 || answer.KeptRules[0].Rule != a.KeepRules[0] || answer.KeptRules[0].Workspace != a.KeepFor || answer.KeptRules[0].SessionID != "sess_a" {
		t.Fatalf("kept %+v", answer.KeptRules)
	}
	k.Completes(first)
	k.Completes(k.Submit("sess_a", "two")) // the same session

	k.Close()
	k.Open()
	k.Completes(k.Submit("sess_b", "three")) // another, after a restart
	judged := runtimetest.Payloads[*event.PermissionEvaluated](k, "sess_b")
	if len(judged) != 1 || judged[0].Decision != "allow" || judged[0].DecisionSource != "rule" || judged[0].RuleRefs[0] != "project:allow write_file (src/**)" {
		t.Errorf("%+v", judged[0])
	}
	changed := runtimetest.Payloads[*event.PolicyChanged](k, "sess_b")
	if len(changed) != 1 || changed[0].Source != "project" || len(changed[0].Rules) != 1 {
		t.Errorf("%+v", changed)
	}
	if p := runtimetest.Do[command.PolicyResult](k, &command.GetPolicy{SessionID: "sess_b"}); len(p.Rules) != 1 || p.Rules[0].Source != "project" {
		t.Errorf("the policy has %+v", p.Rules)
	}
	other := k.Submit("sess_b", "four") // another folder asks
	id, _ := k.WaitForAction("sess_b", 1)
	k.Respond(id, "deny")
	k.Completes(other)

	list := runtimetest.Do[command.ListProjectRulesResult](k, &command.ListProjectRules{Workspace: a.KeepFor})
	if len(list.Rules) != 1 {
		t.Fatalf("listed %+v", list.Rules)
	}
	forget := &command.ForgetProjectRule{RuleID: list.Rules[0].RuleID}
	if res := runtimetest.Do[command.ForgetProjectRuleResult](k, forget); res.Forgotten.Rule != a.KeepRules[0] {
		t.Errorf("forgot %+v", res.Forgotten)
	}
	runtimetest.Refused(k, forget, fault.NotFound)
	last := k.Submit("sess_b", "five")
	id, _ = k.WaitForAction("sess_b", 2)
	k.Respond(id, "allow")
	k.Completes(last)
	if changed := runtimetest.Payloads[*event.PolicyChanged](k, "sess_b"); len(changed) != 2 || len(changed[1].Rules) != 0 {
		t.Errorf("%+v", changed)
	}
	if told := runtimetest.Payloads[*event.PolicyChanged](k, event.RuntimeSession); len(told) != 1 || told[0].Source != "project" || told[0].Workspace != a.KeepFor {
		t.Errorf("the runtime's session has %+v", told)
	}
}

// TestKeptForOneProjectAndOneAccount: neither another folder nor another account has the
// rule, sees it or can remove it.
func TestKeptForOneProjectAndOneAccount(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.InMode("default"), runtimetest.WritesFile("src/a", "1"), runtimetest.Says("done"))
	elsewhere := t.TempDir()
	runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_there", Workspace: &event.Workspace{Root: elsewhere}})
	stranger := runtimetest.ClientOf("stranger")
	runtimetest.DoAs[command.CreateSessionResult](k, stranger, &command.CreateSession{SessionID: "sess_stranger"})
	first := k.Submit("sess_a", "one")
	a, answer := keepFor(k, "sess_a", 1)
	k.Completes(first)
	input := event.Raw(`{"path":"src/b","content":"x"}`)
	for id, want := range map[string]string{"sess_a": "allow", "sess_there": "ask", "sess_stranger": "ask"} {
		for _, dry := range []bool{true, false} {
			d := runtimetest.Do[command.EvaluatePermissionResult](k, &command.EvaluatePermission{SessionID: id, ToolName: "write_file", Input: input, DryRun: dry})
			if d.PermissionDecision.Decision != want {
				t.Errorf("%s: %s, want %s (%s)", id, d.PermissionDecision.Decision, want, d.PermissionDecision.DecisionReason)
			}
		}
	}
	if list := runtimetest.DoAs[command.ListProjectRulesResult](k, stranger, &command.ListProjectRules{}); len(list.Rules) != 0 {
		t.Errorf("a stranger sees %+v", list.Rules)
	}
	runtimetest.RefusedAs(k, stranger, &command.ForgetProjectRule{RuleID: answer.KeptRules[0].RuleID}, fault.NotFound)
	if list := runtimetest.Do[command.ListProjectRulesResult](k, &command.ListProjectRules{Workspace: elsewhere}); len(list.Rules) != 0 || a.KeepFor == elsewhere {
		t.Errorf("%s has %+v", elsewhere, list.Rules)
	}
}

// TestKeptOnlyWhatIsOffered: the scope project is for an allow of a question that offers
// it; what destroys, leaves the sandbox, is asked by a rule or isn't a permission doesn't.
func TestKeptOnlyWhatIsOffered(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.InMode("default"), runtimetest.CallsTool("request_input", map[string]any{"prompt": "Which?"}), runtimetest.WritesFile("locked/a", "1"),
		runtimetest.WritesFile("src/a", "1"), runtimetest.Says("done"))
	runtimetest.Do[command.PolicyResult](k, &command.SetPolicy{Rules: []event.PolicyRule{{Decision: "ask", Tool: "write_file", Match: "locked/**"}}})
	turn := k.Submit("sess_a", "one")
	input, _ := k.WaitForAction("sess_a", 1)
	runtimetest.Refused(k, &command.RespondAction{ActionID: input, Decision: "submit", Payload: event.Raw(`"x"`), Scope: "project"}, fault.InvalidParams)
	runtimetest.Do[command.RespondActionResult](k, &command.RespondAction{ActionID: input, Decision: "submit", Payload: event.Raw(`"x"`)})
	locked, a := k.WaitForAction("sess_a", 2)
	if len(a.KeepRules) != 0 {
		t.Errorf("offers %+v", a.KeepRules)
	}
	if why := runtimetest.Refused(k, &command.RespondAction{ActionID: locked, Decision: "allow", Scope: "project"}, fault.InvalidParams); !strings.Contains(why, "keepRules") {
		t.Error(why)
	}
	k.Respond(locked, "deny")
	open, a := k.WaitForAction("sess_a", 3)
	if len(a.KeepRules) != 1 {
		t.Errorf("offers %+v", a.KeepRules)
	}
	runtimetest.Refused(k, &command.RespondAction{ActionID: open, Decision: "deny", Scope: "project"}, fault.InvalidParams)
	k.Respond(open, "allow")
	k.Completes(turn)
	// It was answered once; that isn't an answer for the project.
	runtimetest.Refused(k, &command.RespondAction{ActionID: open, Decision: "allow", Scope: "project"}, fault.Conflict)
	if list := runtimetest.Do[command.ListProjectRulesResult](k, &command.ListProjectRules{}); len(list.Rules) != 0 {
		t.Errorf("kept %+v", list.Rules)
	}
}

// TestImportedSessionBringsNoRules: what a session from elsewhere says was kept for its
// project doesn't hold here.
func TestImportedSessionBringsNoRules(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.InMode("default"), runtimetest.WritesFile("src/a", "1"), runtimetest.Says("done"))
	first := k.Submit("sess_a", "one")
	keepFor(k, "sess_a", 1)
	k.Completes(first)
	file := k.ExportSession("sess_a")

	there := runtimetest.NewWith(t, runtimetest.InMode("default"), runtimetest.WritesFile("src/b", "1"), runtimetest.Says("done"))
	if _, err := there.ImportSession(file, transfer.ImportOptions{AllowPolicy: true}); err != nil {
		t.Fatal(err)
	}
	d := runtimetest.Do[command.EvaluatePermissionResult](there, &command.EvaluatePermission{SessionID: "sess_a", ToolName: "write_file", Input: event.Raw(`{"path":"src/b","content":"x"}`)})
	if d.PermissionDecision.Decision != "ask" {
		t.Errorf("%s: %s", d.PermissionDecision.Decision, d.PermissionDecision.DecisionReason)
	}
}
