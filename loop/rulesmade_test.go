package loop_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/loop"
)

// rulesMade are the warnings that rules appeared during a call, by the call.
func rulesMade(k *runtimetest.Kit, sessionID string) map[string]string {
	made := map[string]string{}
	for _, e := range k.Facts(sessionID) {
		if p, ok := e.Payload.(*event.RuntimeNotice); ok && p.Code == "workspace_rules_made" {
			made[e.ToolCallID] = p.Message
		}
	}
	return made
}

// TestRulesThatAnAgentMakesAreTold: where there is no file of rules an agent can make
// one, with a command or a tool. The call that did it is named; what the file denies
// counts, what it allows doesn't, trusted or not.
func TestRulesThatAnAgentMakesAreTold(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	for name, x := range map[string]struct {
		tool  string
		input map[string]any
	}{
		"by a command": {"shell", runtimetest.ShellArgs("echo '[" + denyRule + "," + allowRule + "]' > " + loop.RulesFile)},
		"by a tool":    {"write_file", map[string]any{"path": loop.RulesFile, "content": "[" + denyRule + "," + allowRule + "]"}},
	} {
		t.Run(name, func(t *testing.T) {
			k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("bypass"), runtimetest.WithShell, withRules(true)),
				runtimetest.CallsTool(x.tool, x.input), runtimetest.CallsTool("shell", runtimetest.ShellArgs("true")), runtimetest.Says("done"), runtimetest.WritesFile("vendor/a", "x"), runtimetest.Says("done"))
			turn := k.Submit("sess_a", "go")
			actionID, _ := k.WaitForAction("sess_a", 1) // what bounds agents asks in every mode
			k.Respond(actionID, "allow")
			k.Completes(turn)
			calls := runtimetest.Payloads[*event.ToolResult](k, "sess_a")
			made := rulesMade(k, "sess_a")
			if len(calls) != 2 || len(made) != 1 {
				t.Fatalf("%d calls, %v", len(calls), made)
			}
			for call, message := range made {
				if call == "" || !strings.Contains(message, x.tool) || indexOf(k, "sess_a", call, event.TypeRuntimeWarning) > indexOf(k, "sess_a", call, event.TypeToolResult) {
					t.Errorf("%s: %s", call, message)
				}
			}
			k.Completes(k.Submit("sess_a", "again"))
			judged := runtimetest.Payloads[*event.PermissionEvaluated](k, "sess_a")
			if last := judged[len(judged)-1]; last.Decision != "deny" || k.ReadFile("vendor/a") != "-" || held(k, "sess_a") != 1 {
				t.Errorf("%+v, %d held", last, held(k, "sess_a"))
			}
			if n := len(rulesMade(k, "sess_a")); n != 1 {
				t.Errorf("told %d times", n)
			}
		})
	}
}

// TestRulesThatWereThereAreNotTold: a change of a file that was there is no making.
func TestRulesThatWereThereAreNotTold(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("bypass"), withRules(false)), runtimetest.WritesFile("a", "x"), runtimetest.Says("done"))
	if err := os.WriteFile(filepath.Join(k.Dir, loop.RulesFile), []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	k.Completes(k.Submit("sess_a", "go"))
	if made := rulesMade(k, "sess_a"); len(made) != 0 {
		t.Error(made)
	}
}

// indexOf is the place of a call's fact in its session.
func indexOf(k *runtimetest.Kit, sessionID, toolCallID string, of event.Type) int {
	for i, e := range k.Facts(sessionID) {
		if e.ToolCallID == toolCallID && e.Type == of {
			return i
		}
	}
	return -1
}
