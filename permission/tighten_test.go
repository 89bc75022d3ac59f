package permission

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"agentd/event"
)

func policyRule(decision, tool, match string) event.PolicyRule {
	return event.PolicyRule{Decision: decision, Tool: tool, Match: match}
}

func TestTighten(t *testing.T) {
	deny, ask, allow := policyRule(Deny, "shell", "git push *"), policyRule(Ask, "write_file", "docs/**"), policyRule(Allow, "shell", "ls")
	stricter := policyRule(Deny, "write_file", "docs/**")
	for name, c := range map[string]struct {
		known, found, want []event.PolicyRule
		held               []string
	}{
		"the same":             {[]event.PolicyRule{deny, allow}, []event.PolicyRule{deny, allow}, []event.PolicyRule{deny, allow}, nil},
		"another order":        {[]event.PolicyRule{deny, ask}, []event.PolicyRule{ask, deny}, []event.PolicyRule{ask, deny}, nil},
		"narrower":             {[]event.PolicyRule{deny}, []event.PolicyRule{deny, ask}, []event.PolicyRule{deny, ask}, nil},
		"an allow is gone":     {[]event.PolicyRule{deny, allow}, []event.PolicyRule{deny}, []event.PolicyRule{deny}, nil},
		"an ask becomes deny":  {[]event.PolicyRule{ask}, []event.PolicyRule{stricter}, []event.PolicyRule{stricter}, nil},
		"a deny becomes ask":   {[]event.PolicyRule{stricter}, []event.PolicyRule{ask}, []event.PolicyRule{ask, stricter}, []string{"gone: deny write_file docs/**"}},
		"a deny is gone":       {[]event.PolicyRule{deny, ask}, []event.PolicyRule{ask}, []event.PolicyRule{ask, deny}, []string{"gone: deny shell git push *"}},
		"everything is gone":   {[]event.PolicyRule{deny, allow}, nil, []event.PolicyRule{deny}, []string{"gone: deny shell git push *"}},
		"an allow is new":      {nil, []event.PolicyRule{allow, deny}, []event.PolicyRule{deny}, []string{"new: allow shell ls"}},
		"an allow for a deny":  {[]event.PolicyRule{policyRule(Deny, "shell", "ls")}, []event.PolicyRule{allow}, []event.PolicyRule{policyRule(Deny, "shell", "ls")}, []string{"new: allow shell ls", "gone: deny shell ls"}},
		"another reason":       {[]event.PolicyRule{deny}, []event.PolicyRule{{Decision: Deny, Tool: "shell", Match: "git push *", Reason: "x"}}, []event.PolicyRule{{Decision: Deny, Tool: "shell", Match: "git push *", Reason: "x"}}, nil},
		"an allow with a deny": {[]event.PolicyRule{deny}, []event.PolicyRule{deny, allow}, []event.PolicyRule{deny}, []string{"new: allow shell ls"}},
	} {
		t.Run(name, func(t *testing.T) {
			rules, held := Tighten(c.known, c.found)
			if !slices.Equal(c.want, rules) || !slices.Equal(c.held, held) {
				t.Errorf("%v, held %v; want %v, held %v", rules, held, c.want, c.held)
			}
		})
	}
}

// TestTightenNeverWidens: no call gets a weaker decision by a change of the rules.
func TestTightenNeverWidens(t *testing.T) {
	strictness := map[string]int{Allow: 0, Ask: 1, Deny: 2}
	draw := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) event.PolicyRule {
		return policyRule(rapid.SampledFrom([]string{Allow, Ask, Deny}).Draw(t, "decision"), "write_file", rapid.SampledFrom([]string{"", "a", "b", "*"}).Draw(t, "match"))
	}), 0, 6)
	decide := func(t *rapid.T, rules []event.PolicyRule, path string) string {
		parsed, err := ParseRules("workspace", rules)
		if err != nil {
			t.Fatal(err)
		}
		d := Decide(Question{
			Mode: ModeDefault, Interactive: true, Tool: event.ToolInfo{ToolName: "write_file"}, Input: event.Raw(`{"path":"` + path + `","content":""}`),
			Root: "/ws", Cwd: "/ws", Rules: parsed, Resolve: func(p string) string { return p },
		})
		return d.Decision
	}
	rapid.Check(t, func(t *rapid.T) {
		known, found := draw.Draw(t, "known"), draw.Draw(t, "found")
		now, held := Tighten(known, found)
		for _, path := range []string{"a", "b", "c"} {
			before, after := decide(t, known, path), decide(t, now, path)
			if strictness[after] < strictness[before] {
				t.Fatalf("%s was %s and is %s: known %v, found %v, now %v", path, before, after, known, found, now)
			}
			if asked := decide(t, found, path); len(held) == 0 && asked != after {
				t.Fatalf("%s: nothing is held, and yet %s is not %s", path, after, asked)
			}
		}
		if again, _ := Tighten(now, found); len(again) != len(now) {
			t.Fatalf("%v becomes %v without a change of the file", now, again)
		}
	})
}
