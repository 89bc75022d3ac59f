package permission

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"agentd/event"
)

func kept(q Question) string {
	var out []string
	for _, r := range KeepRules(q) {
		out = append(out, SayRule(r))
	}
	return strings.Join(out, "; ")
}

func askedLine(line string) Question {
	q := shellQuestion(ModeDefault, line, nil)
	q.Sandbox, q.Undo = confined(), true
	return q
}

// TestKeepRules: what an answer for the project keeps, shown before it is written.
func TestKeepRules(t *testing.T) {
	for line, want := range map[string]string{
		"go test ./...":                         "allow shell: go test *",
		"/usr/bin/go test ./...":                "allow shell: /usr/bin/go test *",
		"go build ./... && go test ./...":       "allow shell: go build *; allow shell: go test *",
		"cd sub && go test":                     "allow shell: go test *",
		"go test ./... 2>&1 | tail -20":         "allow shell: go test *",
		"go test ./... > out.txt":               "allow shell: go test *; allow write_file: out.txt",
		"go run ./cmd/x --flag":                 "allow shell: go run ./cmd/x *",
		"npm run build":                         "allow shell: npm run build *",
		"npm test":                              "allow shell: npm test *",
		"npm --prefix web test":                 "allow shell: npm --prefix web test",
		"make":                                  "allow shell: make",
		"make lint":                             "allow shell: make lint *",
		"git add -A":                            "allow shell: git add *",
		"git push origin main":                  "allow shell: git push *",
		"git config user.name x":                "allow shell: git config user.name x",
		"./gradlew test":                        "allow shell: ./gradlew test *",
		"./scripts/build.sh x":                  "allow shell: ./scripts/build.sh *",
		"bash scripts/x.sh":                     "allow shell: bash scripts/x.sh",
		"python3 tools/gen.py --all":            "allow shell: python3 tools/gen.py --all",
		"curl -s 'http://127.0.0.1:8080/x?a=1'": `allow shell: curl -s http://127.0.0.1:8080/x\?a=1`,
		"mkdir -p a/b":                          "allow shell: mkdir *",
		"ls":                                    "", // nothing is asked
		"rm -r build":                           "", // it destroys
		"git push --force":                      "",
		"git reset --hard":                      "",
		"python3 -c 'print(1)'":                 "", // it can't be told what it runs
		"$x":                                    "",
		"go test $x":                            "",
		"echo x > /etc/x":                       "", // it leaves the sandbox
		"echo x > .git/config":                  "", // it bounds the agent
		"a 1; b 2; c 3; d 4; e 5":               "", // more than anyone reads
		"sed -i s/a/b/ a.go":                    "",
		"xargs touch < names":                   "allow shell: touch *",
		"go test ./... && rm -rf /":             "",
		"find . -name x -exec touch {} +":       "allow shell: touch *",
		"sudo make install":                     "allow shell: sudo make install; allow shell: make install *",
	} {
		if got := kept(askedLine(line)); got != want {
			t.Errorf("%s\n keeps %q\n  want %q", line, got, want)
		}
	}
}

// TestKeepRulesOfTools: by the folder of a file, and by the tool.
func TestKeepRulesOfTools(t *testing.T) {
	destroys := otherCall("mcp__db__drop", "mcp_server", false)
	destroys.Tool.IsDestructive = true
	bound := fileCall("write_file", "src/hook.sh", false)
	bound.Bounds = []string{"/ws/src/hook.sh"}
	for _, tc := range []struct {
		q    Question
		want string
	}{
		{fileCall("edit_file", "src/a/b.go", false), "allow edit_file: src/a/**"},
		{fileCall("edit_file", "/ws/src/b.go", false), "allow edit_file: src/**"},
		{fileCall("write_file", "main.go", false), "allow write_file: main.go"},
		{fileCall("write_file", ".github/workflows/ci.yml", false), "allow write_file: .github/workflows/ci.yml"},
		{fileCall("write_file", "a{b,c}/d*.go", false), `allow write_file: a\{b\,c\}/**`},
		{fileCall("write_file", "../x", false), ""},
		{fileCall("read_file", "a", true), ""},
		{bound, ""},
		{otherCall("mcp__github__create_issue", "mcp_server", false), "allow mcp__github__create_issue"},
		{otherCall("request_input", "local", true), ""},
		{otherCall("present_plan", "local", true), ""},
		{destroys, ""},
	} {
		tc.q.Mode = ModeDefault
		if got := kept(tc.q); got != tc.want {
			t.Errorf("%s %s keeps %q, want %q", tc.q.Tool.ToolName, tc.q.Input, got, tc.want)
		}
	}
}

// TestKeepRulesAnswerNoRule: what a rule or a hook asks about can't be kept.
func TestKeepRulesAnswerNoRule(t *testing.T) {
	q := askedLine("go test ./...")
	q.Rules = []event.PolicyRule{{Decision: Ask, Tool: "shell", Match: "go *"}}
	if got := kept(q); got != "" {
		t.Errorf("an ask rule is outvoted by %q", got)
	}
	q.Rules, q.Hook = nil, &Opinion{Decision: Ask}
	if got := kept(q); got != "" {
		t.Errorf("a hook is outvoted by %q", got)
	}
	q.Hook, q.Outside = nil, true
	if got := kept(q); got != "" {
		t.Errorf("a call outside of the sandbox is kept by %q", got)
	}
}

// TestKeptRulesCoverNothingElse: a rule by prefix doesn't cover what destroys or what
// may run something that can't be told, however it begins.
func TestKeptRulesCoverNothingElse(t *testing.T) {
	rules := []event.PolicyRule{
		{Decision: Allow, Tool: "shell", Match: "git push *", Source: SourceProject},
		{Decision: Allow, Tool: "shell", Match: "go test *", Source: SourceProject},
		{Decision: Allow, Tool: "shell", Match: "npm run build *", Source: SourceProject},
	}
	for line, want := range map[string]string{
		"git push": Allow, "git push origin main": Allow, "go test ./... -run X": Allow, "npm run build -- --watch": Allow, "git push && go test": Allow,
		"git push --force": Ask, "git push -f origin main": Ask, "git push origin +main": Ask, "git push origin :main": Ask, "git push --delete origin x": Ask,
		"go test -exec ./run.sh ./...": Ask, "go test -toolexec=x ./...": Ask, "go testx": Ask, "go test $(rm -r x)": Ask, "go test; rm -r x": Ask,
		"go test > /etc/passwd": Ask, "npm run builder": Ask, "PATH=. go test": Ask, "echo x > go.mod; go test": Ask,
	} {
		q := askedLine(line)
		q.Rules = rules
		if d := Decide(q); d.Decision != want {
			t.Errorf("%s: %s, want %s (%s)", line, d.Decision, want, d.DecisionReason)
		}
	}
	// A rule that a person wrote covers what it says, for the host or a session.
	for _, source := range []string{"host", "session"} {
		for i := range rules {
			rules[i].Source = source
		}
		for _, line := range []string{"git push --force", "go test -exec ./run.sh ./..."} {
			q := askedLine(line)
			q.Rules = rules
			if d := Decide(q); d.Decision != Allow {
				t.Errorf("%s: the rule of a %s doesn't cover it: %s", line, source, d.DecisionReason)
			}
		}
	}
}

// TestKeepRulesAreNarrow: whatever is asked, what is kept answers that question, and
// gives nothing up that is denied, asked by a rule, destructive or outside.
func TestKeepRulesAreNarrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuestion(t)
		rules := KeepRules(q)
		if len(rules) == 0 {
			return
		}
		other := drawQuestion(t)
		before := Decide(other)
		for _, x := range []*Question{&q, &other} {
			x.Rules = append(slices.Clone(x.Rules), rules...)
		}
		if d := Decide(q); d.Decision != Allow {
			t.Fatalf("%+v don't answer what they were made for: %s", rules, d.DecisionReason)
		}
		after := Decide(other)
		if before.Decision == Ask && after.Decision == Allow && after.DecisionSource == sourceRule && (after.Destructive && other.Tool.ToolName == "shell" || other.Outside) {
			t.Fatalf("%+v allow %s", rules, other.Input)
		}
		if before.Decision == Deny && after.Decision != Deny && !before.CannotAsk {
			t.Fatalf("%+v lift a denial: %s", rules, before.DecisionReason)
		}
	})
}
