package permission

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"agentd/event"
)

// manyRules are a policy that matches nothing of the lines below.
func manyRules(decision string, n int) []event.PolicyRule {
	var out []event.PolicyRule
	for i := range n {
		out = append(out, event.PolicyRule{Decision: decision, Tool: "shell", Match: fmt.Sprintf("*%d forbid* me* *%d", i, i)})
	}
	return out
}

// TestManyRulesAndALongLineAsk: a long line is judged by few rules, and a short one by
// many. Both together would cost minutes; then nothing is matched, and the call asks.
func TestManyRulesAndALongLineAsk(t *testing.T) {
	cheap := []string{"commands", "assignments"} // the same command again counts once
	for name, line := range longLines {
		if slices.Contains(cheap, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			long := line(20_000)
			both := Decide(shellQuestion(ModeBypass, long, manyRules(Deny, 10_000)))
			if both.Decision != Ask || both.DecisionSource != sourceRule {
				t.Errorf("both: %s by %s: %s", both.Decision, both.DecisionSource, both.DecisionReason)
			}
			few := Decide(shellQuestion(ModeBypass, long, manyRules(Deny, 1)))
			if strings.Contains(few.DecisionReason, "too long to be held") {
				t.Errorf("few rules: %s", few.DecisionReason)
			}
		})
	}
	short := Decide(shellQuestion(ModeBypass, "touch x", manyRules(Deny, 10_000)))
	if short.Decision != Allow {
		t.Errorf("a short line: %s: %s", short.Decision, short.DecisionReason)
	}
}

// TestALineThatIsTooLongIsNeverAllowedByRules: rules that allow are matched as little as
// others, one without a pattern still denies, and a mode that can't ask denies.
func TestALineThatIsTooLongIsNeverAllowedByRules(t *testing.T) {
	long := "touch " + distinct("f%d ", 20_000)
	allows := append(manyRules(Allow, 10_000), event.PolicyRule{Decision: Allow, Tool: "shell", Match: "touch *"})
	if d := Decide(shellQuestion(ModeDefault, long, allows)); d.Decision != Ask || d.DecisionSource == sourceRule {
		t.Errorf("rules that allow: %s by %s: %s", d.Decision, d.DecisionSource, d.DecisionReason)
	}
	all := append(manyRules(Deny, 10_000), event.PolicyRule{Decision: Deny, Tool: "shell"})
	if d := Decide(shellQuestion(ModeBypass, long, all)); d.Decision != Deny {
		t.Errorf("a rule without a pattern: %s: %s", d.Decision, d.DecisionReason)
	}
	if d := Decide(shellQuestion(ModeNever, long, manyRules(Deny, 10_000))); d.Decision != Deny {
		t.Errorf("a mode that can't ask: %s: %s", d.Decision, d.DecisionReason)
	}
	other := shellQuestion(ModeBypass, long, []event.PolicyRule{})
	other.Rules = nil
	for i := range 10_000 {
		other.Rules = append(other.Rules, event.PolicyRule{Decision: Deny, Tool: "mcp__*", Match: fmt.Sprintf("*%d*", i)})
	}
	if d := Decide(other); strings.Contains(d.DecisionReason, "too long to be held") {
		t.Errorf("rules about other tools: %s", d.DecisionReason)
	}
}
