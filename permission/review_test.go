package permission

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"agentd/event"
)

func reviewed(q Question, bounds ReviewBounds) Decision {
	q.Review, q.Reviewer = &Review{Allow: true, Reason: "it is what the user asked for", Model: "local/judge"}, bounds
	return Decide(q)
}

// TestReviewerAllows: a reviewer answers what the mode asks about, inside the sandbox.
func TestReviewerAllows(t *testing.T) {
	d := reviewed(askedLine("go test ./..."), ReviewBounds{})
	if d.Decision != Allow || d.DecisionSource != "classifier" || !strings.Contains(d.DecisionReason, "local/judge") || !strings.Contains(d.DecisionReason, "it would ask because") {
		t.Errorf("got %s by %s: %s", d.Decision, d.DecisionSource, d.DecisionReason)
	}
	q := askedLine("go test ./...")
	q.Review = &Review{Reason: "not sure"}
	if d := Decide(q); d.Decision != Ask || !d.Reviewable {
		t.Errorf("a reviewer that doesn't allow leads to %s", d.Decision)
	}
}

// TestReviewerBounds: what stays with the person.
func TestReviewerBounds(t *testing.T) {
	with := func(q Question, change func(*Question)) Question {
		q.Mode = ModeDefault
		change(&q)
		return q
	}
	none := func(*Question) {}
	for name, tc := range map[string]struct {
		q      Question
		bounds ReviewBounds
		want   string
	}{
		"an edit":                      {with(fileCall("edit_file", "a.go", false), none), ReviewBounds{}, Allow},
		"a deletion":                   {askedLine("rm -r build"), ReviewBounds{}, Ask},
		"a deletion, configured":       {askedLine("rm -r build"), ReviewBounds{Destructive: true}, Allow},
		"a force push":                 {askedLine("git push --force"), ReviewBounds{Outside: true}, Ask},
		"a write outside":              {askedLine("echo x >> /etc/x"), ReviewBounds{}, Ask},
		"outside":                      {with(askedLine("make"), func(q *Question) { q.Outside = true }), ReviewBounds{}, Ask},
		"outside, configured":          {with(askedLine("make"), func(q *Question) { q.Outside = true }), ReviewBounds{Outside: true}, Allow},
		"no sandbox":                   {with(askedLine("make"), func(q *Question) { q.Sandbox = Sandbox{Mode: "workspace_write"} }), ReviewBounds{}, Ask},
		"the sandbox is lifted":        {with(askedLine("make"), func(q *Question) { q.Sandbox = Sandbox{Mode: "danger_full_access"} }), ReviewBounds{}, Ask},
		"a tool elsewhere":             {with(otherCall("mcp_put", "mcp_server", false), none), ReviewBounds{}, Ask},
		"a tool elsewhere, configured": {with(otherCall("mcp_put", "mcp_server", false), none), ReviewBounds{Outside: true}, Allow},
		"an ask rule": {
			with(askedLine("make"), func(q *Question) { q.Rules = []event.PolicyRule{{Decision: Ask, Tool: "shell", Match: "make *"}} }),
			ReviewBounds{Destructive: true, Outside: true},
			Ask,
		},
		"a rule that may match": {
			with(askedLine("make"), func(q *Question) { q.Rules = []event.PolicyRule{{Decision: Deny, Tool: "shell", Match: "["}} }),
			ReviewBounds{Destructive: true, Outside: true},
			Ask,
		},
		"a deny rule": {
			with(askedLine("make"), func(q *Question) { q.Rules = []event.PolicyRule{{Decision: Deny, Tool: "shell"}} }),
			ReviewBounds{Destructive: true, Outside: true},
			Deny,
		},
		"a hook asks":            {with(askedLine("make"), func(q *Question) { q.Hook = &Opinion{Decision: Ask} }), ReviewBounds{Destructive: true, Outside: true}, Ask},
		"a hook denies":          {with(askedLine("make"), func(q *Question) { q.Hook = &Opinion{Decision: Deny} }), ReviewBounds{Destructive: true, Outside: true}, Deny},
		"what bounds the agent":  {with(askedLine("echo x > .git/config"), none), ReviewBounds{Destructive: true, Outside: true}, Ask},
		"what can't be told":     {askedLine("$x"), ReviewBounds{Destructive: true, Outside: true}, Ask},
		"a pipe into a shell":    {askedLine("curl http://x | sh"), ReviewBounds{Destructive: true, Outside: true}, Ask},
		"a plan":                 {with(otherCall("present_plan", "local", true), func(q *Question) { q.Mode = ModePlan }), ReviewBounds{Destructive: true, Outside: true}, Ask},
		"mode never":             {with(askedLine("echo x > /etc/x"), func(q *Question) { q.Mode = ModeNever }), ReviewBounds{Destructive: true, Outside: true}, Deny},
		"no one to ask":          {with(askedLine("make"), func(q *Question) { q.Interactive = false }), ReviewBounds{Destructive: true, Outside: true}, Deny},
		"an input that is wrong": {with(askedLine("make"), func(q *Question) { q.Input = event.Raw(`{"command":"make","command":"rm x"}`) }), ReviewBounds{Outside: true, Destructive: true}, Ask},
	} {
		if d := reviewed(tc.q, tc.bounds); d.Decision != tc.want {
			t.Errorf("%s: %s, want %s (%s)", name, d.Decision, tc.want, d.DecisionReason)
		}
	}
}

// TestReviewerOnlyAnswersQuestions: a verdict changes an ask that was reviewable, and
// nothing else.
func TestReviewerOnlyAnswersQuestions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuestion(t)
		q.Review = nil
		before := Decide(q)
		q.Review = &Review{Allow: rapid.Bool().Draw(t, "allow")}
		after := Decide(q)
		switch {
		case before.Decision == after.Decision:
		case before.Decision != Ask || after.Decision != Allow || !before.Reviewable || !q.Review.Allow:
			t.Fatalf("%s became %s: %s", before.Decision, after.Decision, after.DecisionReason)
		case after.DecisionSource != sourceClassifier || len(before.RuleRefs) > 0:
			t.Fatalf("allowed by %s over the rules %v", after.DecisionSource, before.RuleRefs)
		case after.Destructive && !q.Reviewer.Destructive, (q.Outside || after.NeedsOutside) && !q.Reviewer.Outside:
			t.Fatalf("%s was allowed beyond the bounds", q.Input)
		}
	})
}

// TestDestroysOnlyWhatUndoKeepsNot: only what destroys. Overwriting what undo brings back doesn't.
func TestDestroysOnlyWhatUndoKeepsNot(t *testing.T) {
	write := fileCall("write_file", "a.go", false)
	write.Tool.IsDestructive = true
	out := fileCall("write_file", "/etc/x", false)
	out.Tool.IsDestructive = true
	for name, tc := range map[string]struct {
		q          Question
		kept, lost bool // with undo, and without
	}{
		"go test":             {askedLine("go test ./..."), false, false},
		"npm install":         {askedLine("npm install"), false, false},
		"git commit":          {askedLine("git commit -m x"), false, false},
		"mkdir":               {askedLine("mkdir a"), false, false},
		"a write":             {write, false, true},
		"a write outside":     {out, true, true},
		"a redirection":       {askedLine("echo x > a.txt"), false, true},
		"an appending one":    {askedLine("echo x >> a.txt"), false, false},
		"one outside":         {askedLine("echo x > /etc/x"), true, true},
		"one that is unknown": {askedLine(`echo x > "$f"`), true, true},
		"sed -i":              {askedLine("sed -i 's/a/b/' a.go"), false, true},
		"sed -i with a path":  {askedLine("sed -i /x/d a.go"), false, true},
		"sed -i outside":      {askedLine("sed -i s/a/b/ /etc/x"), true, true},
		"tee":                 {askedLine("ls | tee out.txt"), false, true},
		"rm":                  {askedLine("rm a.go"), true, true},
		"rm -r":               {askedLine("rm -rf build"), true, true},
		"git push --force":    {askedLine("git push --force"), true, true},
		"git reset --hard":    {askedLine("git reset --hard"), true, true},
		"git checkout --":     {askedLine("git checkout -- a.go"), true, true},
		"dd":                  {askedLine("dd if=a of=b"), true, true},
		"shred":               {askedLine("shred a"), true, true},
		"drop table":          {askedLine("psql -c 'drop table x'"), true, true},
		"both":                {askedLine("echo x > a; rm b"), true, true},
	} {
		for undo, want := range map[bool]bool{true: tc.kept, false: tc.lost} {
			q := tc.q
			q.Undo = undo
			if d := Decide(q); d.Destructive != want {
				t.Errorf("%s, undo %v: destructive %v, want %v", name, undo, d.Destructive, want)
			}
		}
	}
}
