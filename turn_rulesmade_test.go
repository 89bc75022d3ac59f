package agentd_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/event"
	"agentd/loop"
)

// rulesMade are the warnings that rules appeared during a call, by the call.
func (k *kit) rulesMade(sessionID string) map[string]string {
	made := map[string]string{}
	for _, e := range k.facts(sessionID) {
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
	needsSandbox(t)
	for name, x := range map[string]struct {
		tool  string
		input map[string]any
	}{
		"by a command": {"shell", shell("echo '[" + denyRule + "," + allowRule + "]' > " + loop.RulesFile)},
		"by a tool":    {"write_file", map[string]any{"path": loop.RulesFile, "content": "[" + denyRule + "," + allowRule + "]"}},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKitWith(t, all(mode("bypass"), withShell, withRules(true)),
				wants(x.tool, x.input), wants("shell", shell("true")), says("done"), writing("vendor/a", "x"), says("done"))
			turn := k.submit("sess_a", "go")
			actionID, _ := k.required("sess_a", 1) // what bounds agents asks in every mode
			k.respond(actionID, "allow")
			k.completes(turn)
			calls := payloads[*event.ToolResult](k, "sess_a")
			made := k.rulesMade("sess_a")
			if len(calls) != 2 || len(made) != 1 {
				t.Fatalf("%d calls, %v", len(calls), made)
			}
			for call, message := range made {
				if call == "" || !strings.Contains(message, x.tool) || k.indexOf("sess_a", call, event.TypeRuntimeWarning) > k.indexOf("sess_a", call, event.TypeToolResult) {
					t.Errorf("%s: %s", call, message)
				}
			}
			k.completes(k.submit("sess_a", "again"))
			judged := payloads[*event.PermissionEvaluated](k, "sess_a")
			if last := judged[len(judged)-1]; last.Decision != "deny" || k.file("vendor/a") != "-" || k.held("sess_a") != 1 {
				t.Errorf("%+v, %d held", last, k.held("sess_a"))
			}
			if n := len(k.rulesMade("sess_a")); n != 1 {
				t.Errorf("told %d times", n)
			}
		})
	}
}

// TestRulesThatWereThereAreNotTold: a change of a file that was there is no making.
func TestRulesThatWereThereAreNotTold(t *testing.T) {
	k := newKitWith(t, all(mode("bypass"), withRules(false)), writing("a", "x"), says("done"))
	if err := os.WriteFile(filepath.Join(k.dir, loop.RulesFile), []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	k.completes(k.submit("sess_a", "go"))
	if made := k.rulesMade("sess_a"); len(made) != 0 {
		t.Error(made)
	}
}

// indexOf is the place of a call's fact in its session.
func (k *kit) indexOf(sessionID, toolCallID string, of event.Type) int {
	for i, e := range k.facts(sessionID) {
		if e.ToolCallID == toolCallID && e.Type == of {
			return i
		}
	}
	return -1
}
