package permission

import (
	"path"
	"testing"

	"pgregory.net/rapid"

	"agentd/event"
)

func TestCover(t *testing.T) {
	cover := NewCover([]event.PolicyRule{
		{Decision: Deny, Tool: "*_file", Match: "**/.env", RuleID: "env"},
		{Decision: Deny, Tool: "write_file", Match: "vendor/**", RuleID: "vendor"},
		{Decision: Deny, Tool: "read_file", Match: "/etc/ssl/**", RuleID: "ssl"},
		{Decision: Ask, Tool: "read_file", Match: "asked"},
		{Decision: Allow, Tool: "read_file", Match: "**"},
		{Decision: Deny, Tool: "shell", Match: "rm *"},
		{Decision: Deny, Tool: "list_files", Match: "listed/**"},
	}, "/ws")
	for _, tc := range []struct {
		path             string
		hidden, readOnly bool
		ref              string
	}{
		{"/ws/.env", true, false, "host:env"},
		{"/ws/a/b/.env", true, false, "host:env"},
		{"/ws/vendor/.env", true, false, "host:env"},
		{"/ws/vendor", false, true, "host:vendor"},
		{"/ws/vendor/a/b", false, true, "host:vendor"},
		{"/ws/env", false, false, ""},
		{"/other/.env", false, false, ""},
		{"/etc/ssl/key", true, false, "host:ssl"},
		{"/ws/asked", false, false, ""},
		{"/ws/listed/a", false, false, ""},
	} {
		hidden, readOnly, ref := cover.Match(tc.path)
		if hidden != tc.hidden || readOnly != tc.readOnly || ref != tc.ref {
			t.Errorf("%s: hidden %v, read-only %v, %q", tc.path, hidden, readOnly, ref)
		}
	}
	for dir, want := range map[string]bool{"/": true, "/ws": true, "/ws/a": true, "/etc": true, "/etc/ssl/x": true, "/usr": false, "/wsx": false} {
		if got := cover.Below(dir); got != want {
			t.Errorf("below %s: %v", dir, got)
		}
	}
	for name, rules := range map[string][]event.PolicyRule{
		"none": nil, "allow": {{Decision: Allow, Tool: "read_file", Match: "a"}}, "no pattern": {{Decision: Deny, Tool: "read_file"}},
		"shell": {{Decision: Deny, Tool: "shell", Match: "rm *"}}, "ask": {{Decision: Ask, Tool: "read_file", Match: "a"}},
	} {
		if NewCover(rules, "/ws") != nil {
			t.Errorf("%s: there is a cover", name)
		}
	}
}

// What the file tools are denied is covered, and is found by a walk that leaves out
// folders.
func TestCoverAgreesWithTheFileTools(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := event.PolicyRule{
			Decision: Deny, Tool: rapid.SampledFrom([]string{"read_file", "*_file", "write_file"}).Draw(t, "tool"),
			Match: rapid.SampledFrom([]string{"**/.env", ".env", "a/*", "a/**", "*.key", "/ws/a/**", "/etc/**", "{a,b}/c", "**"}).Draw(t, "match"),
		}
		p := path.Clean("/" + rapid.StringMatching(`(ws|etc)(/(a|b|\.env|x\.key)){0,3}`).Draw(t, "path"))
		cover := NewCover([]event.PolicyRule{r}, "/ws")
		hidden, readOnly, _ := cover.Match(p)
		for tool, covered := range map[string]bool{"read_file": hidden, "write_file": hidden || readOnly} {
			q := fileCall(tool, p, tool == "read_file")
			q.Mode, q.Rules = ModeBypass, []event.PolicyRule{r}
			if denied := Decide(q).Decision == Deny; denied && !covered {
				t.Fatalf("%s of %s is denied by %q, but it isn't covered", tool, p, r.Match)
			}
		}
		for dir := path.Dir(p); hidden || readOnly; dir = path.Dir(dir) {
			if !cover.Below(dir) {
				t.Fatalf("%s is covered by %q, but %s is left out", p, r.Match, dir)
			}
			if dir == "/" {
				break
			}
		}
	})
}
