package permission

import (
	"testing"

	"agentd/event"
)

// Whatever a rule is, it is refused, or reads the same when it is read again.
func FuzzParseRules(f *testing.F) {
	f.Add("deny", "shell", "git push *")
	f.Add("allow", "write_file", "docs/**")
	f.Add("ask", "[", "{a,b")
	f.Add("", "", "")
	f.Fuzz(func(t *testing.T, decision, tool, match string) {
		given := []event.PolicyRule{{Decision: decision, Tool: tool, Match: match}}
		rules, err := ParseRules("host", given)
		if err != nil {
			return
		}
		if _, err := ParseRules("host", rules); err != nil {
			t.Errorf("%+v was taken, and %+v isn't: %v", given, rules, err)
		}
		compileRules(rules)
	})
}
