package permission

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/event"
	"agentd/tool/toolkind"
)

// call is a kind of call that the modes tell apart.
type call struct {
	name string
	q    Question
}

func confined() Sandbox { return Sandbox{Mode: "workspace_write", Filesystem: true, Network: true} }

func fileCall(tool, path string, readOnly bool) Question {
	raw, err := json.Marshal(map[string]string{"path": path})
	if err != nil {
		panic(err)
	}
	return Question{Tool: event.ToolInfo{ToolName: tool, RuntimeOwner: "local", IsReadOnly: readOnly}, Input: raw, Root: "/ws", Interactive: true, Sandbox: confined()}
}

func otherCall(tool, owner string, readOnly bool) Question {
	return Question{Tool: event.ToolInfo{ToolName: tool, RuntimeOwner: owner, IsReadOnly: readOnly}, Input: event.Raw(`{"a":1}`), Root: "/ws", Interactive: true, Sandbox: confined()}
}

func calls() []call {
	bare, lifted := shellQuestion("", "touch a", nil), shellQuestion("", "touch a", nil)
	bare.Sandbox = Sandbox{Mode: "workspace_write", Missing: "no Landlock"}
	lifted.Sandbox = Sandbox{Mode: "danger_full_access"}
	out := shellQuestion("", "touch a", nil)
	out.Outside = true
	readOnlyBox := fileCall("write_file", "a", false)
	readOnlyBox.Sandbox.Mode = "read_only"
	away, hidden := otherCall("spawn_agent", "local", false), otherCall("spawn_agent", "local", false)
	away.Input, hidden.Input = event.Raw(`{"role":"r","input":"x","peer":"p"}`), event.Raw(`{"role":"r","input":"x","Peer":"p"}`)
	return []call{
		{"read inside", fileCall("read_file", "a", true)},
		{"read outside", fileCall("read_file", "/etc/passwd", true)},
		{"read by ..", fileCall("read_file", "../x", true)},
		{"search", fileCall("search_files", "", true)},
		{"write inside", fileCall("write_file", "a", false)},
		{"write outside", fileCall("edit_file", "/etc/passwd", false)},
		{"write in a read-only box", readOnlyBox},
		{"shell reads", shellQuestion("", "cat a", nil)},
		{"shell reads outside", shellQuestion("", "cat /etc/passwd", nil)},
		{"shell reads the host", shellQuestion("", "ps", nil)},
		{"shell writes", shellQuestion("", "touch a", nil)},
		{"shell writes out", shellQuestion("", "echo x > /etc/x", nil)},
		{"shell hidden", shellQuestion("", "$x", nil)},
		{"shell code", shellQuestion("", "python3 -c 1", nil)},
		{"shell unconfined", bare},
		{"shell lifted", lifted},
		{"shell asks to leave", out},
		{"plan", otherCall("update_plan", "local", true)},
		{"input", otherCall("request_input", "local", true)},
		{"hand over", otherCall("present_plan", "local", true)},
		{"agent", otherCall("spawn_agent", "local", false)},
		{"agent elsewhere", away},
		{"agent elsewhere, hidden", hidden},
		{"mcp reads", otherCall("mcp_get", "mcp_server", true)},
		{"mcp writes", otherCall("mcp_put", "mcp_server", false)},
		{"mcp named shell", otherCall("shell", "mcp_server", false)},
	}
}

// modeTable has a row a call; the columns are the modes in the order of Modes:
// default untrusted on_request on_failure never plan bypass auto. a is allow, ? is
// ask, d is deny.
var modeTable = map[string]string{
	"read inside":              "aaaaaaaa",
	"read outside":             "a?aaaaaa",
	"read by ..":               "a?aaaaaa",
	"search":                   "aaaaaaaa",
	"write inside":             "??aaadaa",
	"write outside":            "????dda?",
	"write in a read-only box": "????dda?",
	"shell reads":              "aaaaadaa",
	"shell reads outside":      "a?aaadaa",
	"shell reads the host":     "a?aaadaa",
	"shell writes":             "??aaadaa",
	"shell writes out":         "????dda?",
	"shell hidden":             "????dda?",
	"shell code":               "??aaadaa",
	"shell unconfined":         "????dda?",
	"shell lifted":             "??aaadaa",
	"shell asks to leave":      "????dd??",
	"plan":                     "a?aaadaa",
	"input":                    "a?aaddaa",
	"hand over":                "ddddd?dd",
	"agent":                    "??aaadaa",
	"agent elsewhere":          "????dda?",
	"agent elsewhere, hidden":  "????dda?",
	"mcp reads":                "a?aaaaaa",
	"mcp writes":               "????dda?",
	"mcp named shell":          "????dda?",
}

func sign(decision string) string {
	return map[string]string{Allow: "a", Ask: "?", Deny: "d"}[decision]
}

func TestModes(t *testing.T) {
	for _, c := range calls() {
		got := ""
		for _, mode := range Modes() {
			q := c.q
			q.Mode = mode
			d := Decide(q)
			got += sign(d.Decision)
			if d.Decision != Allow && d.DecisionReason == "" {
				t.Errorf("%s in %s: no reason", c.name, mode)
			}
			if d.PermissionMode != mode || d.DecisionSource != "mode" {
				t.Errorf("%s in %s: mode %q, source %q", c.name, mode, d.PermissionMode, d.DecisionSource)
			}
			if want := d.Decision == Deny && mode == ModeNever && c.name != "hand over"; d.CannotAsk != want {
				t.Errorf("%s in %s: CannotAsk is %v", c.name, mode, d.CannotAsk)
			}
		}
		if want := modeTable[c.name]; got != want {
			t.Errorf("%s: %s, want %s (%v)", c.name, got, want, Modes())
		}
	}
	if len(calls()) != len(modeTable) {
		t.Errorf("%d calls, %d rows", len(calls()), len(modeTable))
	}
}

// ruleFor makes a rule that matches the call, or one that misses it.
func ruleFor(c call, decision string, hit bool) event.PolicyRule {
	r := event.PolicyRule{Decision: decision, Tool: c.q.Tool.ToolName, Source: "host", RuleID: decision}
	if !hit {
		r.Match = "never-matches-anything"
	}
	return r
}

func TestRulesHoldInEveryMode(t *testing.T) {
	for _, c := range calls() {
		for _, mode := range Modes() {
			q := c.q
			q.Mode = mode
			without := Decide(q)
			decide := func(rules ...event.PolicyRule) Decision {
				q := q
				q.Rules = rules
				return Decide(q)
			}
			name := c.name + " in " + mode
			if d := decide(ruleFor(c, Deny, true), ruleFor(c, Allow, true)); d.Decision != Deny || d.DecisionSource != "rule" || !slices.Equal(d.RuleRefs, []string{"host:deny"}) {
				t.Errorf("%s: a deny rule gives %s by %s %v", name, d.Decision, d.DecisionSource, d.RuleRefs)
			}
			want := Ask
			handsOver := c.q.Tool.ToolName == string(toolkind.PresentPlan)
			if mode == ModeNever || (mode == ModePlan) != handsOver {
				want = Deny
			}
			if d := decide(ruleFor(c, Ask, true), ruleFor(c, Allow, true)); d.Decision != want {
				t.Errorf("%s: an ask rule gives %s", name, d.Decision)
			}
			d := decide(ruleFor(c, Allow, true))
			waits := mode == ModeNever && c.q.Tool.ToolName == string(toolkind.RequestInput)
			if mode != ModePlan && !c.q.Outside && !waits && !handsOver && d.Decision != Allow {
				t.Errorf("%s: an allow rule gives %s", name, d.Decision)
			}
			if (mode == ModePlan || waits || handsOver) && d.Decision != without.Decision {
				t.Errorf("%s: an allow rule makes %s of %s", name, d.Decision, without.Decision)
			}
			if c.q.Outside && d.Decision == Allow {
				t.Errorf("%s: an allow rule lifts the sandbox", name)
			}
			if d := decide(ruleFor(c, Allow, false)); d.Decision != without.Decision {
				t.Errorf("%s: a rule that misses makes %s of %s", name, d.Decision, without.Decision)
			}
		}
	}
}

func TestHookIsWeighed(t *testing.T) {
	for _, tc := range []struct {
		hook, rule, mode, line, want, source string
	}{
		{Allow, "", ModeDefault, "touch a", Allow, "hook"},
		{Allow, Ask, ModeDefault, "touch a", Ask, "rule"},
		{Allow, Deny, ModeBypass, "touch a", Deny, "rule"},
		{Allow, "", ModePlan, "touch a", Deny, "mode"},
		{Ask, Allow, ModeBypass, "ls", Ask, "hook"},
		{Ask, Allow, ModeNever, "ls", Deny, "hook"},
		{Deny, Allow, ModeBypass, "ls", Deny, "hook"},
		{"block", Allow, ModeBypass, "ls", Deny, "hook"},
		{"continue", "", ModeDefault, "touch a", Ask, "mode"},
		{Deny, Deny, ModeDefault, "ls", Deny, "rule"},
	} {
		q := shellQuestion(tc.mode, tc.line, nil)
		q.Hook = &Opinion{Decision: tc.hook, Reason: "because", HandlerRef: "check"}
		if tc.rule != "" {
			q.Rules = []event.PolicyRule{{Decision: tc.rule, Tool: "shell"}}
		}
		d := Decide(q)
		if d.Decision != tc.want || d.DecisionSource != tc.source {
			t.Errorf("%+v: %s by %s", tc, d.Decision, d.DecisionSource)
		}
		if tc.source == "hook" && (!strings.Contains(d.DecisionReason, "because") || !strings.Contains(d.DecisionReason, "check")) {
			t.Errorf("%+v: reason %q", tc, d.DecisionReason)
		}
	}
}

func TestNobodyToAsk(t *testing.T) {
	q := shellQuestion(ModeDefault, "touch a", nil)
	q.Interactive = false
	d := Decide(q)
	if d.Decision != Deny || !d.CannotAsk || !strings.Contains(d.DecisionReason, "no one can be asked") {
		t.Errorf("%s (%s)", d.Decision, d.DecisionReason)
	}
	q = otherCall("request_input", "local", true)
	q.Interactive = false
	q.Rules = []event.PolicyRule{{Decision: Allow, Tool: "*"}}
	if d := Decide(q); d.Decision != Deny || !d.CannotAsk {
		t.Errorf("request_input waits for nobody: %s", d.Decision)
	}
	q.Interactive, q.Mode = true, ModeNever
	if d := Decide(q); d.Decision != Deny || !d.CannotAsk || !strings.Contains(d.DecisionReason, "mode never can't ask") {
		t.Errorf("request_input waits in mode never: %s (%s)", d.Decision, d.DecisionReason)
	}
	q = otherCall("present_plan", "local", true)
	q.Interactive, q.Mode = false, ModePlan
	if d := Decide(q); d.Decision != Deny || !d.CannotAsk || !strings.Contains(d.DecisionReason, "no one can be asked") {
		t.Errorf("present_plan waits for nobody: %s (%s)", d.Decision, d.DecisionReason)
	}
}

// TestPlanIsLeftByAnAnswerAlone: neither a rule, a hook nor an earlier approval ends
// the mode plan.
func TestPlanIsLeftByAnAnswerAlone(t *testing.T) {
	q := otherCall(string(toolkind.PresentPlan), "local", true)
	q.Mode = ModePlan
	q.Rules = []event.PolicyRule{{Decision: Allow, Tool: "*"}}
	q.Hook = &Opinion{Decision: Allow, HandlerRef: "check"}
	asked := Decide(q)
	if asked.Decision != Ask || asked.DecisionSource != "mode" {
		t.Errorf("%s by %s", asked.Decision, asked.DecisionSource)
	}
	q.Grants = []Grant{grantFor(t, asked)}
	if d := Decide(q); d.Decision != Ask || d.GrantID != "" {
		t.Errorf("a grant makes it %s", d.Decision)
	}
	q.Hook.Decision = Deny
	if d := Decide(q); d.Decision != Deny || d.DecisionSource != "hook" {
		t.Errorf("a hook's deny makes it %s by %s", d.Decision, d.DecisionSource)
	}
	for _, mode := range Modes() {
		policy, _ := Inventory(mode, nil, q.Tool)
		if want := map[bool]string{true: PolicyAsk, false: PolicyDenied}[mode == ModePlan]; policy != want {
			t.Errorf("in %s it stands as %s, want %s", mode, policy, want)
		}
	}
	for mode, want := range map[string]string{ModeNever: PolicyDenied, ModePlan: PolicyDenied, ModeDefault: PolicyAllowed} {
		if policy, why := Inventory(mode, nil, otherCall(string(toolkind.RequestInput), "local", true).Tool); policy != want {
			t.Errorf("request_input in %s stands as %s (%s), want %s", mode, policy, why, want)
		}
	}
}

// grantFor approves what was asked, as an answer does.
func grantFor(t *testing.T, d Decision) Grant {
	t.Helper()
	g, ok := GrantFrom("grant_1", d.ToolName, d.Scope, time.Time{})
	if !ok {
		t.Fatalf("no grant from %s", d.Scope)
	}
	return g
}

func TestGrants(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	asked := shellQuestion(ModeDefault, "rm -r build", nil)
	asked.ToolCallID, asked.Now = "tool_1", now
	g := grantFor(t, Decide(asked))
	outside := asked
	outside.Outside = true
	once := g
	once.Scope, once.ToolCallID = GrantOnce, "tool_1"
	expired := g
	expired.ExpiresAt = now
	later := g
	later.ExpiresAt = now.Add(time.Second)
	with := func(q Question, change func(*Question)) Question {
		change(&q)
		return q
	}
	for _, tc := range []struct {
		name  string
		q     Question
		grant Grant
		want  string
	}{
		{"the same", asked, g, Allow},
		{"until later", asked, later, Allow},
		{"expired", asked, expired, Ask},
		{"another line", with(asked, func(q *Question) { q.Input = shellInput("rm -r build2") }), g, Ask},
		{"a longer line", with(asked, func(q *Question) { q.Input = shellInput("rm -r build; rm a") }), g, Ask},
		{"another folder", with(asked, func(q *Question) { q.Cwd = "/ws/sub" }), g, Ask},
		{"outside", outside, g, Ask},
		{"another tool", with(asked, func(q *Question) { q.Tool.ToolName = "shell2" }), g, Ask},
		{"a deny rule", with(asked, func(q *Question) { q.Rules = []event.PolicyRule{{Decision: Deny, Tool: "shell"}} }), g, Deny},
		{"an ask rule", with(asked, func(q *Question) { q.Rules = []event.PolicyRule{{Decision: Ask, Tool: "shell"}} }), g, Allow},
		{"a hook's deny", with(asked, func(q *Question) { q.Hook = &Opinion{Decision: Deny} }), g, Deny},
		{"plan", with(asked, func(q *Question) { q.Mode = ModePlan }), g, Deny},
		{"untrusted", with(asked, func(q *Question) { q.Mode = ModeUntrusted }), g, Allow},
		{"nobody there", with(asked, func(q *Question) { q.Interactive = false }), g, Allow},
		{"once, this call", asked, once, Allow},
		{"once, another call", with(asked, func(q *Question) { q.ToolCallID = "tool_2" }), once, Ask},
		{"once, no call", with(asked, func(q *Question) { q.ToolCallID = "" }), once, Ask},
	} {
		q := tc.q
		q.Grants = []Grant{tc.grant}
		d := Decide(q)
		if d.Decision != tc.want {
			t.Errorf("%s: %s (%s), want %s", tc.name, d.Decision, d.DecisionReason, tc.want)
		}
		if d.Decision == Allow && (d.DecisionSource != "human" || d.GrantID != "grant_1") {
			t.Errorf("%s: by %s, grant %q", tc.name, d.DecisionSource, d.GrantID)
		}
	}
	if d := Decide(with(outside, func(q *Question) { q.Grants = []Grant{grantFor(t, Decide(outside))} })); d.Decision != Allow || !d.NeedsOutside {
		t.Errorf("an approval to run outside: %s, outside %v", d.Decision, d.NeedsOutside)
	}
}

func TestGrantForAFileIsForThatFile(t *testing.T) {
	q := fileCall("write_file", "a/b", false)
	q.Mode = ModeDefault
	g := grantFor(t, Decide(q))
	for path, want := range map[string]string{"a/b": Allow, "./a//b": Allow, "/ws/a/b": Allow, "a": Ask, "a/bc": Ask, "a/b/c": Ask, "A/b": Ask} {
		n := fileCall("write_file", path, false)
		n.Mode, n.Grants = ModeDefault, []Grant{g}
		if d := Decide(n); d.Decision != want {
			t.Errorf("%s: %s, want %s", path, d.Decision, want)
		}
	}
	n := q
	n.Grants = []Grant{g}
	n.Resolve = func(string) string { return "/etc/passwd" }
	if d := Decide(n); d.Decision != Ask {
		t.Errorf("the path leads elsewhere now: %s", d.Decision)
	}
}

func TestPathRules(t *testing.T) {
	links := func(p string) string { return strings.Replace(p, "/ws/link", "/etc", 1) }
	for _, tc := range []struct {
		rule, match, tool, path, want string
	}{
		{Allow, "docs/**", "write_file", "docs/a", Allow},
		{Allow, "docs/**", "write_file", "docs/a/b/c", Allow},
		{Allow, "docs/**", "write_file", "/ws/docs/a", Allow},
		{Allow, "docs/**", "write_file", "docs/../a", Ask},
		{Allow, "docs/*", "write_file", "docs/a", Allow},
		{Allow, "docs/*", "write_file", "docs/a/b", Ask},
		{Allow, "Docs/*", "write_file", "docs/a", Ask},
		{Allow, "*.md", "write_file", "a.md", Allow},
		{Allow, "*.md", "write_file", "docs/a.md", Ask},
		{Allow, "**/*.md", "write_file", "docs/x/a.md", Allow},
		{Allow, "**", "write_file", "a", Allow},
		{Allow, "**", "write_file", "/etc/x", Ask},
		{Allow, "**", "write_file", "link/x", Ask},
		{Allow, "*", "write_file", "a", Allow},
		{Allow, "*", "write_file", "docs/a", Ask},
		{Allow, "", "write_file", "docs/a", Allow},
		{Deny, "**/passwd", "read_file", "/etc/passwd", Allow},
		{Allow, "link/**", "write_file", "link/passwd", Ask},
		{Deny, "secrets/**", "read_file", "secrets/a", Deny},
		{Deny, "secrets/**", "read_file", "x/../secrets/a", Deny},
		{Deny, "secrets/**", "read_file", "secret/a", Allow},
		{Deny, "/etc/**", "read_file", "link/passwd", Deny},
		{Deny, "link/**", "read_file", "link/passwd", Deny},
		{Deny, "/etc/*", "read_file", "/etc/passwd", Deny},
		{Deny, "secrets/**", "search_files", ".", Ask},
		{Deny, "secrets/**", "search_files", "src", Allow},
		{Deny, "secrets/**", "search_files", "secrets/x", Deny},
		{Deny, "**/*.key", "search_files", "src", Ask},
		{Deny, "{a,b}/*", "read_file", "b/x", Deny},
	} {
		q := fileCall(tc.tool, tc.path, false)
		q.Mode, q.Resolve = ModeDefault, links
		q.Rules = []event.PolicyRule{{Decision: tc.rule, Tool: tc.tool, Match: tc.match}}
		if d := Decide(q); d.Decision != tc.want {
			t.Errorf("%+v: %s (%s)", tc, d.Decision, d.DecisionReason)
		}
	}
}

// What edit_file doesn't find in a file it shows: it can't be had where read_file
// can't.
func TestRulesAboutReadingHoldForEditing(t *testing.T) {
	for _, tc := range []struct{ decision, tool, match, call, path, want string }{
		{Deny, "read_file", "**/.env", "edit_file", ".env", Deny},
		{Ask, "read_file", "**/.env", "edit_file", "a/.env", Ask},
		{Deny, "read_file", "**/.env", "edit_file", "a", Allow},
		{Deny, "read_file", "", "edit_file", "a", Deny},
		{Deny, "read_file", "**/.env", "write_file", ".env", Allow},
		{Deny, "list_files", "**/.env", "edit_file", ".env", Allow},
	} {
		q := fileCall(tc.call, tc.path, false)
		q.Mode, q.Rules = ModeAuto, []event.PolicyRule{{Decision: tc.decision, Tool: tc.tool, Match: tc.match}}
		if d := Decide(q); d.Decision != tc.want {
			t.Errorf("%+v: %s (%s)", tc, d.Decision, d.DecisionReason)
		}
	}
}

func TestInputRules(t *testing.T) {
	for _, tc := range []struct {
		match, input, want string
	}{
		{`*"table":"users"*`, `{"op":"drop","table":"users"}`, Deny},
		{`*"table":"users"*`, `{"op" : "drop", "table" : "\u0075sers"}`, Deny},
		{`*"table":"users"*`, `{"table":"user"}`, Ask},
		{`{"a":1}`, `{ "a": 1 }`, Deny},
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, Deny},
		{`{"a":?}`, `{"a":1}`, Deny},
		{`*<b>*`, `{"a":"<b>"}`, Deny},
		{`x`, `{"a":1,"a":2}`, Ask},
		{`x`, `[1]`, Ask},
		{`x`, `{"a":1} {}`, Ask},
	} {
		q := otherCall("mcp_put", "mcp_server", false)
		q.Mode, q.Input = ModeBypass, event.Raw(tc.input)
		q.Rules = []event.PolicyRule{{Decision: Deny, Tool: "mcp_*", Match: tc.match}}
		want := tc.want
		if want == Ask && !strings.HasPrefix(tc.match, "x") {
			want = Allow
		}
		if d := Decide(q); d.Decision != want {
			t.Errorf("%+v: %s (%s)", tc, d.Decision, d.DecisionReason)
		}
	}
}

func TestInputThatMayMeanTwoThings(t *testing.T) {
	for _, in := range []string{
		`{"command":"ls","command":"rm a"}`, `{"command":"ls","Command":"rm a"}`, `{"COMMAND":"ls"}`, `null`, `"ls"`, ``, `{"command":["ls"]}`, `{}`,
	} {
		q := shellQuestion(ModeDefault, "", nil)
		q.Input = event.Raw(in)
		if d := Decide(q); d.Decision != Ask {
			t.Errorf("%s: %s", in, d.Decision)
		}
		q.Rules = []event.PolicyRule{{Decision: Deny, Tool: "shell", Match: "rm *"}, {Decision: Allow, Tool: "shell"}}
		q.Mode = ModeBypass
		if d := Decide(q); d.Decision != Ask {
			t.Errorf("bypass with a deny rule: %s: %s", in, d.Decision)
		}
	}
}

func TestDestructive(t *testing.T) {
	for line, impact := range map[string]string{
		"rm -rf build":                    "deletes build and everything below",
		"rm a":                            "deletes a",
		"ls && git push --force origin x": "replaces or removes what the other side has",
		"git push -f":                     "other side",
		"git push origin +main":           "other side",
		"git reset --hard HEAD~3":         "throws away",
		"git clean -fdx":                  "git doesn't know",
		"git checkout -- .":               "throws away",
		"git branch -D x":                 "name of commits",
		"git stash drop":                  "put aside",
		"dd if=a of=/dev/sda":             "overwrites",
		"mkfs.ext4 /dev/sda1":             "disk",
		"truncate -s 0 a":                 "cuts off",
		"chmod -R 777 .":                  "rights",
		"chown --recursive x .":           "rights",
		"echo x > a":                      "replaces the content of a",
		"cat a | tee b":                   "replaces the content of b",
		"find . -name x -delete":          "deletes the files",
		"find . -exec rm {} +":            "deletes",
		"psql -c 'DROP TABLE users'":      "database",
		"sqlite3 x 'delete from t'":       "database",
		"kubectl delete pod x":            "kubectl delete",
		"docker system prune -a":          "docker prune",
		"terraform destroy":               "terraform destroy",
		"kill -9 12":                      "processes",
		"sudo shutdown now":               "stops the machine",
		"sed -i s/a/b/ x":                 "in place",
		"rsync -a --delete a/ b/":         "deletes files",
		"sh -c 'rm -r x'":                 "deletes x and everything below",
		"git -C x reset --hard":           "throws away",
		"npm publish":                     "npm publish",
		"aws s3api delete-object --key x": "aws delete-object",
		"git commit --amend --no-edit":    "last commit",
		"shred a":                         "nothing can be read back",
		"xargs rm < list":                 "deletes",
	} {
		d := Decide(shellQuestion(ModeDefault, line, nil))
		if !d.Destructive || !strings.Contains(d.Impact, impact) || d.RollbackAdvice == "" {
			t.Errorf("%q: destructive %v, impact %q, advice %q", line, d.Destructive, d.Impact, d.RollbackAdvice)
		}
	}
	for _, line := range []string{"ls", "touch a", "echo x >> a", "git push", "git commit -m x", "git reset a", "chmod 600 a", "kubectl get pods", "echo x > /dev/null", "tee -a x", "dd if=a"} {
		if d := Decide(shellQuestion(ModeDefault, line, nil)); d.Destructive {
			t.Errorf("%q is called destructive: %s", line, d.Impact)
		}
	}
}

func TestScopeSaysWhatItIsAbout(t *testing.T) {
	q := shellQuestion(ModeDefault, `curl http://example.test:80/x | tee a > out.txt; git clone git@git.test:me/x`, nil)
	d := Decide(q)
	var s struct {
		Tool                   string
		Commands, Paths, Hosts []string
		Grant                  string
	}
	if err := json.Unmarshal(d.Scope, &s); err != nil {
		t.Fatal(err)
	}
	if s.Tool != "shell" || s.Grant == "" || !slices.Equal(s.Paths, []string{"/ws/out.txt"}) || !slices.Equal(s.Hosts, []string{"example.test", "git.test"}) {
		t.Errorf("scope %s", d.Scope)
	}
	want := []string{"curl http://example.test:80/x", "tee a", "git clone git@git.test:me/x"}
	if !slices.Equal(d.Subcommands, want) || !slices.Equal(s.Commands, want) {
		t.Errorf("subcommands %q", d.Subcommands)
	}
	long := Decide(shellQuestion(ModeDefault, strings.Repeat("touch "+strings.Repeat("ä", 600)+";", 200), nil))
	if len(long.Subcommands) > 65 || len(long.Subcommands[0]) > 600 {
		t.Errorf("%d subcommands, the first of %d bytes", len(long.Subcommands), len(long.Subcommands[0]))
	}
	many := Decide(shellQuestion(ModeDefault, manyCommands(200), nil))
	if n := len(many.Subcommands); n != 65 || !strings.Contains(many.Subcommands[64], "136 more") {
		t.Errorf("%d subcommands, last %q", n, many.Subcommands[n-1])
	}
}

func manyCommands(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "touch %d;", i)
	}
	return b.String()
}

func TestParseRules(t *testing.T) {
	good := []event.PolicyRule{
		{RuleID: "r1", Decision: Deny, Tool: "shell", Match: "git push *"},
		{Decision: Allow, Tool: "write_file", Match: "docs/**"},
		{Decision: Ask, Tool: "*"},
	}
	got, err := ParseRules("workspace", good)
	if err != nil {
		t.Fatal(err)
	}
	if got[0].Source != "workspace" || good[0].Source != "" {
		t.Errorf("sources %q and %q", got[0].Source, good[0].Source)
	}
	for ref, r := range map[string]event.PolicyRule{
		"workspace:r1":                         got[0],
		"workspace:allow write_file (docs/**)": got[1],
		"workspace:ask *":                      got[2],
	} {
		if RuleRef(r) != ref {
			t.Errorf("ref %q, want %q", RuleRef(r), ref)
		}
	}
	for want, r := range map[string]event.PolicyRule{
		`rule 2: decision "maybe" is not one of allow, ask, deny`:  {Decision: "maybe", Tool: "shell"},
		`rule 2: decision is missing`:                              {Tool: "shell"},
		`rule 2: tool is missing`:                                  {Decision: Deny},
		`rule 2: tool "[" is not a valid glob`:                     {Decision: Deny, Tool: "["},
		`rule 2: match "a[" is not a valid glob: a "[" has no "]"`: {Decision: Deny, Tool: "shell", Match: "a["},
		`rule 2: match "a\\" is not a valid glob`:                  {Decision: Deny, Tool: "shell", Match: `a\`},
		`rule 2: match "[z-a]" is not a valid glob`:                {Decision: Deny, Tool: "shell", Match: `[z-a]`},
		`rule 2: match "docs/{a" is not a valid path glob`:         {Decision: Deny, Tool: "write_file", Match: "docs/{a"},
		`rule 2: source "nobody" is not one of`:                    {Decision: Deny, Tool: "shell", Source: "nobody"},
		`rule 2: the id "r1" is already used by rule 1`:            {RuleID: "r1", Decision: Deny, Tool: "shell"},
		`rule 2: a pattern is longer than 4096 bytes`:              {Decision: Deny, Tool: "shell", Match: strings.Repeat("a", 5000)},
	} {
		_, err := ParseRules("", []event.PolicyRule{good[0], r})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", r, err, want)
		}
	}
}

func TestBrokenRulesDontLetThrough(t *testing.T) {
	for _, r := range []event.PolicyRule{{Decision: Deny, Tool: "[", Match: "x"}, {Decision: Deny, Tool: "shell", Match: "a["}} {
		if d := Decide(shellQuestion(ModeBypass, "ls", []event.PolicyRule{r})); d.Decision != Ask {
			t.Errorf("%+v: %s", r, d.Decision)
		}
		r.Decision = Allow
		if d := Decide(shellQuestion(ModeDefault, "touch a", []event.PolicyRule{r})); d.Decision != Ask {
			t.Errorf("%+v: %s", r, d.Decision)
		}
	}
}

func TestInventory(t *testing.T) {
	shell := event.ToolInfo{ToolName: "shell", RuntimeOwner: "local"}
	read := event.ToolInfo{ToolName: "read_file", RuntimeOwner: "local", IsReadOnly: true}
	write := event.ToolInfo{ToolName: "write_file", RuntimeOwner: "local"}
	mcp := event.ToolInfo{ToolName: "mcp_put", RuntimeOwner: "mcp_server"}
	gone := event.ToolInfo{ToolName: "mcp_put", RuntimeOwner: "mcp_server", Policy: "unavailable", Reason: "no connection"}
	rules := []event.PolicyRule{
		{Decision: Deny, Tool: "mcp_*"}, {Decision: Deny, Tool: "shell", Match: "git push *"},
	}
	for _, tc := range []struct {
		mode  string
		rules []event.PolicyRule
		info  event.ToolInfo
		want  string
	}{
		{"", nil, shell, "ask"},
		{ModeUntrusted, nil, shell, "ask"},
		{ModeAuto, nil, shell, "sandboxed"},
		{ModeAuto, rules, shell, "sandboxed"},
		{ModeNever, nil, shell, "sandboxed"},
		{ModePlan, nil, shell, "denied"},
		{ModeAuto, []event.PolicyRule{{Decision: Ask, Tool: "shell"}}, shell, "ask"},
		{ModeNever, []event.PolicyRule{{Decision: Ask, Tool: "shell"}}, shell, "denied"},
		{ModeDefault, []event.PolicyRule{{Decision: Allow, Tool: "shell"}}, shell, "allowed"},
		{ModeDefault, nil, read, "allowed"},
		{ModeUntrusted, nil, read, "allowed"},
		{ModeDefault, nil, write, "ask"},
		{ModeAuto, nil, write, "allowed"},
		{ModePlan, nil, write, "denied"},
		{ModeAuto, nil, mcp, "ask"},
		{ModeNever, nil, mcp, "denied"},
		{ModeBypass, nil, mcp, "allowed"},
		{ModeBypass, rules, mcp, "denied"},
		{ModeBypass, nil, gone, "unavailable"},
	} {
		policy, reason := Inventory(tc.mode, tc.rules, tc.info)
		if policy != tc.want || reason == "" {
			t.Errorf("%s %s: %s (%s), want %s", tc.mode, tc.info.ToolName, policy, reason, tc.want)
		}
	}
}

func TestReplay(t *testing.T) {
	record := []Recorded{
		{Ref: "evt_1", Question: shellQuestion(ModeAuto, "git push", nil), Decision: Allow},
		{Ref: "evt_2", Question: shellQuestion(ModeAuto, "touch a", nil), Decision: Allow},
		{Ref: "evt_3", Question: Question{Tool: event.ToolInfo{ToolName: "shell"}}, Decision: Allow},
		{Ref: "evt_4", Question: shellQuestion(ModeDefault, "touch a", nil), Decision: Ask},
	}
	got := Reconsider(record, Policy{Rules: []event.PolicyRule{{Decision: Deny, Tool: "shell", Match: "git push *"}}})
	if got.Same != 2 || len(got.Changes) != 1 || got.Changes[0].Ref != "evt_1" || got.Changes[0].Before != Allow || got.Changes[0].After.Decision != Deny || !slices.Equal(got.Skipped, []string{"evt_3"}) {
		t.Errorf("%+v", got)
	}
	if got := Reconsider(record, Policy{Mode: ModePlan}); len(got.Changes) != 3 {
		t.Errorf("%d changes in plan", len(got.Changes))
	}
}

// Where nothing can be covered, commands ask: under a rule that denies files all of
// them, and those that write where they could change what bounds the agent.
func TestCommandsAskWhereNothingIsCovered(t *testing.T) {
	rule := event.PolicyRule{Decision: Deny, Tool: "read_file", Match: "**/.env"}
	for _, tc := range []struct {
		mode, line, uncovered, unheld string
		rules                         []event.PolicyRule
		want                          string
	}{
		{ModeAuto, "python3 x.py", "no mounts", "", nil, Allow},
		{ModeAuto, "python3 x.py", "no mounts", "", []event.PolicyRule{rule}, Ask},
		{ModeAuto, "ls", "no mounts", "", []event.PolicyRule{rule}, Ask},
		{ModeDefault, "ls", "no mounts", "", []event.PolicyRule{rule}, Ask},
		{ModeAuto, "python3 x.py", "", "", []event.PolicyRule{rule}, Allow},
		{ModeAuto, "python3 x.py", "no mounts", "hooks can be changed", nil, Ask},
		{ModeAuto, "ls", "no mounts", "hooks can be changed", nil, Allow},
		{ModeNever, "python3 x.py", "no mounts", "hooks can be changed", nil, Deny},
	} {
		q := Question{
			Tool: event.ToolInfo{ToolName: "shell", RuntimeOwner: "local"}, Input: event.Raw(`{"command":"` + tc.line + `"}`),
			Root: "/ws", Interactive: true, Sandbox: confined(), Mode: tc.mode, Rules: tc.rules,
		}
		q.Sandbox.Uncovered, q.Sandbox.Unheld = tc.uncovered, tc.unheld
		if d := Decide(q); d.Decision != tc.want {
			t.Errorf("%+v: %s (%s)", tc, d.Decision, d.DecisionReason)
		}
	}
}
