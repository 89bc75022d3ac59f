package permission

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"agentd/event"
	"agentd/tool/toolkind"
)

// strictness orders decisions.
func strictness(d string) int { return slices.Index([]string{Allow, Ask, Deny}, d) }

var someLines = []string{
	"ls", "cat a", "touch a", "git push", "git push origin x", "rm -r x", "echo x > docs/a", "echo x > secrets/a", "$x", "git $x", "python3 -c 1", "make all", "sudo make all",
	"ls; touch a", "ls | sort", "sh -c 'git push'", "if", "cat .env", "some-runner git push", "PATH=x ls", "cd x && make > log", "for ((i=0;i<2;i++)); do ls; done",
}

func drawRule(t *rapid.T, label string) event.PolicyRule {
	return event.PolicyRule{
		Decision: rapid.SampledFrom([]string{Allow, Ask, Deny}).Draw(t, label+" decision"),
		Tool:     rapid.SampledFrom([]string{"shell", "*", "write_file", "read_file", "*_file", "mcp_*", "["}).Draw(t, label+" tool"),
		Match: rapid.SampledFrom([]string{
			"", "*", "git push *", "git *", "make *", "touch *", "rm *", "docs/**", "secrets/**", "**", ".env", "*push*", "ls", "?s", "[gm]*", "a[", `*"a":1*`,
		}).Draw(t, label+" match"),
		Source: rapid.SampledFrom([]string{"host", "workspace", "session", "project"}).Draw(t, label+" source"),
		RuleID: rapid.SampledFrom([]string{"", "r1", "r2"}).Draw(t, label+" id"),
	}
}

func drawQuestion(t *rapid.T) Question {
	q := rapid.SampledFrom(calls()).Draw(t, "call").q
	if q.Tool.ToolName == "shell" && q.Tool.RuntimeOwner == "local" {
		q.Input = shellInput(rapid.SampledFrom(someLines).Draw(t, "line"))
	}
	q.Mode = rapid.SampledFrom(append(Modes(), "", "nonsense")).Draw(t, "mode")
	q.Interactive = rapid.Bool().Draw(t, "interactive")
	q.Outside = rapid.Bool().Draw(t, "outside")
	q.Sandbox.Filesystem = rapid.Bool().Draw(t, "confined")
	if rapid.Bool().Draw(t, "hooked") {
		q.Hook = &Opinion{Decision: rapid.SampledFrom([]string{Allow, Ask, Deny, "block", "continue"}).Draw(t, "hook")}
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "rules") {
		q.Rules = append(q.Rules, drawRule(t, string(rune('a'+i))))
	}
	q.Undo = rapid.Bool().Draw(t, "undo")
	if rapid.Bool().Draw(t, "reviewed") {
		q.Review = &Review{Allow: rapid.Bool().Draw(t, "reviewer allows"), Reason: "r", Model: "m"}
		q.Reviewer = ReviewBounds{Destructive: rapid.Bool().Draw(t, "destructive"), Outside: rapid.Bool().Draw(t, "reviews outside")}
	}
	if rapid.Bool().Draw(t, "granted") {
		q.Grants = []Grant{{ID: "g", Tool: q.Tool.ToolName, Key: Decide(q).Key}}
	}
	return q
}

func TestStricterRulesNeverAllowMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuestion(t)
		before := Decide(q)
		r := drawRule(t, "added")
		if r.Decision == Allow {
			r.Decision = Deny
		}
		q.Rules = append(slices.Clone(q.Rules), r)
		if after := Decide(q); strictness(after.Decision) < strictness(before.Decision) {
			t.Fatalf("adding %+v makes %s of %s: %s", r, after.Decision, before.Decision, after.DecisionReason)
		}
	})
}

func TestOrderOfRulesIsIrrelevant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuestion(t)
		before := Decide(q)
		q.Rules = rapid.Permutation(q.Rules).Draw(t, "order")
		after := Decide(q)
		if after.Decision != before.Decision || after.DecisionReason != before.DecisionReason || !slices.Equal(after.RuleRefs, before.RuleRefs) {
			t.Fatalf("%s %q %v, and in another order %s %q %v", before.Decision, before.DecisionReason, before.RuleRefs, after.Decision, after.DecisionReason, after.RuleRefs)
		}
	})
}

// TestOrderOfRulesWithTheSameID: nothing but their patterns tells them apart, which
// the test above draws in few of its runs.
func TestOrderOfRulesWithTheSameID(t *testing.T) {
	q := Question{Mode: "default", Root: "/ws", Tool: event.ToolInfo{ToolName: "shell", RuntimeOwner: "local"}, Input: event.Raw(`{"command":"cat a"}`)}
	q.Rules = []event.PolicyRule{
		{RuleID: "r", Decision: Ask, Tool: "[", Source: "workspace"},
		{RuleID: "r", Decision: Ask, Tool: "read_file", Match: "*", Source: "workspace"},
	}
	before := Decide(q)
	slices.Reverse(q.Rules)
	if after := Decide(q); after.DecisionReason != before.DecisionReason || !strings.Contains(after.DecisionReason, "a rule may apply") {
		t.Errorf("%q, and in another order %q", before.DecisionReason, after.DecisionReason)
	}
}

func TestNobodyIsAskedWhereNobodyCanBe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuestion(t)
		d := Decide(q)
		handsOver := q.Mode == ModePlan && q.Tool.ToolName == string(toolkind.PresentPlan)
		if d.Decision == Ask && (q.Mode == ModeNever || (q.Mode == ModePlan && !handsOver) || !q.Interactive) {
			t.Fatalf("it asks: %s", d.DecisionReason)
		}
		if d.CannotAsk && d.Decision != Deny {
			t.Fatalf("it can't ask, and the decision is %s", d.Decision)
		}
		if q.waitsForNobody(gatherFacts(&q)) && d.Decision != Deny {
			t.Fatalf("it waits for nobody: %s", d.DecisionReason)
		}
		asking := q
		asking.Interactive = true
		asking.Review = nil // a reviewer takes a question from a person; where there is none, it has none
		if asking.Mode == ModeNever {
			asking.Mode = ModeAuto
		}
		if d.CannotAsk && q.Mode != ModePlan && !q.waitsForNobody(gatherFacts(&q)) && Decide(asking).Decision != Ask {
			t.Fatal("it says that it can't ask, but it wouldn't")
		}
	})
}

func TestDecisionsAreFacts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Decide(drawQuestion(t))
		e := event.Event{Type: event.TypePermissionEvaluated, Payload: &d.PermissionEvaluated}
		e.SessionID, e.ThreadID, e.TurnID, e.StepID, e.ToolCallID = "sess_1", "thread_1", "turn_1", "step_1", "tool_1"
		if err := event.Check(&e); err != nil {
			t.Fatal(err)
		}
	})
}

// asRegexp is a reference for the glob.
func asRegexp(pattern string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?s)^`)
	for _, c := range pattern {
		switch c {
		case '*':
			b.WriteString(".*")
		case '?':
			b.WriteString(".")
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	b.WriteString("$")
	return regexp.MustCompile(b.String())
}

func TestGlob(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringOfN(rapid.SampledFrom([]rune("ab/*? ")), 0, 8, -1).Draw(t, "pattern")
		text := rapid.StringOfN(rapid.SampledFrom([]rune("ab/ ")), 0, 8, -1).Draw(t, "text")
		g, err := parseGlob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		want := asRegexp(pattern).MatchString(text)
		if g.open {
			want = want || asRegexp(strings.TrimSuffix(pattern, " *")).MatchString(text)
		}
		if got := g.match(text); (got == matches) != want || got == may {
			t.Fatalf("%q over %q: %v, want %v", pattern, text, got, want)
		}
		// A hole stands for any text: where a text matches, the same with a hole in
		// it must not miss.
		from := rapid.IntRange(0, len(text)).Draw(t, "from")
		to := rapid.IntRange(from, len(text)).Draw(t, "to")
		if holed := text[:from] + string(hole) + text[to:]; want && g.match(holed) == misses {
			t.Fatalf("%q over %q matches, but over %q it misses", pattern, text, holed)
		} else if g.match(holed) == matches && !want {
			t.Fatalf("%q over %q misses, but over %q it is certain", pattern, text, holed)
		}
	})
}

func TestGlobSets(t *testing.T) {
	for _, tc := range []struct {
		pattern, text string
		want          bool
	}{
		{"[a-c]x", "bx", true},
		{"[a-c]x", "dx", false},
		{"[!a-c]x", "dx", true},
		{"[^a]", "a", false},
		{"[]]", "]", true},
		{`\*`, "*", true},
		{`\*`, "a", false},
		{"[a-]", "-", true},
		{`[\]]`, "]", true},
		{"git push *", "git push", true},
		{"git push *", "git pushx", false},
		{"git push*", "git pushx", true},
		{"*", "", true},
		{"", "", true},
		{"", "a", false},
		{"ä?", "äö", true},
		{"a*b*c", "a/x b\nc", true},
	} {
		g, err := parseGlob(tc.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := g.match(tc.text) == matches; got != tc.want {
			t.Errorf("%q over %q: %v", tc.pattern, tc.text, got)
		}
	}
}

// TestAnalysisBounds gives the parser what would make it recurse or take long.
func TestAnalysisBounds(t *testing.T) {
	for name, line := range map[string]string{
		"long":      "echo " + strings.Repeat("a", maxLine),
		"brackets":  strings.Repeat("(", 100000) + "ls" + strings.Repeat(")", 100000),
		"backticks": strings.Repeat("`", 5000),
		"braces":    strings.Repeat("{ ", 50000),
		"ifs":       strings.Repeat("if ls; then ", 20000) + strings.Repeat("fi;", 20000),
		"nul":       "ls\x00rm a",
		"shells":    nestedShells(12),
		"case":      strings.Repeat("case x in x) ", 20000),
		"not":       strings.Repeat("! ", 100000) + "ls",
		"sudo":      strings.Repeat("sudo ", 1000) + "ls",
	} {
		if d := Decide(shellQuestion(ModeAuto, line, nil)); d.Decision != Ask {
			t.Errorf("%s: %s", name, d.Decision)
		}
	}
}

func nestedShells(n int) string {
	line := "ls"
	for range n {
		line = "sh -c " + single(line)
	}
	return line
}

func FuzzAnalyse(f *testing.F) {
	for _, tc := range shellTable {
		f.Add(tc.line)
	}
	files := []event.PolicyRule{{Decision: Deny, Tool: "*_file", Match: "**/.env"}}
	f.Fuzz(func(t *testing.T, line string) {
		for _, rules := range [][]event.PolicyRule{files, shortRules()} {
			if d := Decide(shellQuestion(ModeDefault, line, rules)); strings.Contains(d.DecisionReason, "can't be judged") || strings.Contains(d.DecisionReason, "runtime error") {
				t.Fatalf("%q: %s", line, d.DecisionReason)
			}
		}
		d := Decide(bold(line))
		again := Decide(bold(line))
		if d.Decision != again.Decision || d.DecisionReason != again.DecisionReason {
			t.Fatalf("%q: %s (%s), then %s (%s)", line, d.Decision, d.DecisionReason, again.Decision, again.DecisionReason)
		}
		// Whatever follows a line of its own is run too, so no beginning hides it,
		// unless it is a comment, a quote or a here-document that swallows it: then
		// what comes after isn't run.
		l := Analyse("forbid-me\n" + line)
		if len(l.Hidden) == 0 && (len(l.Commands) == 0 || l.Commands[0].Words[0] != "forbid-me") {
			t.Fatalf("%q hides the line before it: %+v", line, l.Commands)
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	rules := tablePolicy()
	for _, line := range []string{"true", "go test ./... 2>&1 | tail -20", "cd sub && for f in *.go; do gofmt -l \"$f\"; done | sort | uniq -c"} {
		b.Run(line[:4], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Decide(shellQuestion(ModeAuto, line, rules))
			}
		})
	}
}
