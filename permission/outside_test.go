package permission

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"agentd/event"
)

// TestBoundsAskInEveryMode: what bounds the agent is changed by nobody without an answer,
// whatever a rule, a hook or a mode allows.
func TestBoundsAskInEveryMode(t *testing.T) {
	bounds := []string{"/ws/.git/hooks", "/ws/.git/config", "/ws/agentd.yaml", "/opt/hook.sh"}
	links := func(p string) string { return strings.Replace(p, "/ws/link", "/ws/.git", 1) }
	calls := map[string]Question{
		"the file":        fileCall("write_file", ".git/config", false),
		"below a folder":  fileCall("write_file", ".git/hooks/pre-commit", false),
		"a part of it":    fileCall("edit_file", "agentd.yaml", false),
		"an ancestor":     fileCall("write_file", ".git", false),
		"through a link":  fileCall("write_file", "link/hooks/x", false),
		"by ..":           fileCall("write_file", "a/../.git/config", false),
		"outside":         fileCall("write_file", "/opt/hook.sh", false),
		"a redirection":   shellQuestion("", "echo x > .git/hooks/pre-commit", nil),
		"appending":       shellQuestion("", "echo x >> agentd.yaml", nil),
		"a nested one":    fileCall("write_file", "vendor/x/.git/config", false),
		"a new hook":      fileCall("write_file", "new/.git/hooks/post-checkout", false),
		"a module's hook": fileCall("write_file", ".git/modules/logs/hooks/x", false),
		"a .git file":     fileCall("write_file", "sub/.git", false),
		"a worktree":      fileCall("edit_file", ".git/worktrees/wt/commondir", false),
		"in capitals":     fileCall("write_file", "sub/.GIT/config", false),
		"nested by >":     shellQuestion("", "echo x > vendor/.git/config.worktree", nil),
		"in a substitute": shellQuestion("", "ls $(echo x > .git/config)", nil),
	}
	for name, q := range calls {
		for _, mode := range Modes() {
			q.Mode, q.Bounds, q.Resolve = mode, bounds, links
			q.Rules = []event.PolicyRule{{Decision: Allow, Tool: "*"}}
			q.Hook = &Opinion{Decision: Allow}
			want := Ask
			if mode == ModeNever || mode == ModePlan {
				want = Deny
			}
			asked := Decide(q)
			if asked.Decision != want {
				t.Errorf("%s in %s: %s (%s)", name, mode, asked.Decision, asked.DecisionReason)
			}
			if want == Ask && (asked.DecisionSource != "mode" || !strings.Contains(asked.DecisionReason, "bounds what agents may do")) {
				t.Errorf("%s in %s: by %s (%s)", name, mode, asked.DecisionSource, asked.DecisionReason)
			}
			alone := q
			alone.Interactive = false
			if d := Decide(alone); d.Decision != Deny {
				t.Errorf("%s in %s with nobody there: %s", name, mode, d.Decision)
			}
			if want != Ask {
				continue
			}
			q.Grants = []Grant{grantFor(t, asked)}
			if d := Decide(q); d.Decision != Allow || d.DecisionSource != "human" {
				t.Errorf("%s in %s: an approval gives %s", name, mode, d.Decision)
			}
			q.Grants = nil
		}
	}
	for name, q := range map[string]Question{
		"reading": fileCall("read_file", ".git/config", true), "beside": fileCall("write_file", ".git/config2", false), "elsewhere": fileCall("write_file", "a", false),
		"in git's other files": fileCall("write_file", "sub/.git/description", false), "no repository": fileCall("write_file", "hooks/config", false),
		"a command that reads": shellQuestion("", "cat .git/config", nil),
	} {
		q.Mode, q.Bounds = ModeBypass, bounds
		if d := Decide(q); d.Decision != Allow {
			t.Errorf("%s: %s", name, d.Decision)
		}
	}
}

// TestApprovalOfABoundIsForItsContent: what is written to it matters as much as where.
func TestApprovalOfABoundIsForItsContent(t *testing.T) {
	write := func(content string) Question {
		q := fileCall("write_file", "", false)
		q.Input = event.Raw(`{"path":".git/hooks/x","content":"` + content + `"}`)
		q.Mode, q.Bounds = ModeAuto, []string{"/ws/.git/hooks"}
		return q
	}
	grant := grantFor(t, Decide(write("a")))
	for content, want := range map[string]string{"a": Allow, "b": Ask} {
		q := write(content)
		q.Grants = []Grant{grant}
		if d := Decide(q); d.Decision != want {
			t.Errorf("%s: %s, want %s", content, d.Decision, want)
		}
	}
}

// TestApprovalToLeaveIsForTheContent: a script that was rewritten needs another approval.
func TestApprovalToLeaveIsForTheContent(t *testing.T) {
	files := map[string]string{
		"/ws/build.sh": "1", "/ws/sub/x": "1", "/ws/in": "1", "/ws/x.py": "1", "/ws/Makefile": "1", "/ws/sources.sh": "1", "/ws/lib.sh": "1",
		"/ws/makes.sh": "1", "/ws/itself.sh": "1", "/ws/args.sh": "1", "/ws/tool": "1", "/ws/deep.sh": "1",
	}
	scripts := map[string]string{
		"/ws/build.sh": "#!/bin/sh\nset -e\ncp in out\n", "/ws/sources.sh": ". ./lib.sh\n", "/ws/lib.sh": "cp in out\n", "/ws/makes.sh": "make\n",
		"/ws/itself.sh": "sh itself.sh\n", "/ws/args.sh": "\"$@\"\n", "/ws/x.py": "import os\n", "/ws/deep.sh": "#!/usr/bin/env bash\n./sources.sh\n",
	}
	outside := func(line string) Question {
		q := shellQuestion(ModeAuto, line, nil)
		q.Outside = true
		q.Contents = func(p string) (string, bool) { h, ok := files[p]; return h, ok }
		q.Text = func(p string) (string, bool) { text, ok := scripts[p]; return text, ok }
		return q
	}
	for _, tc := range []struct {
		line, file string
		session    bool
	}{
		{"sh build.sh", "/ws/build.sh", true},
		{"./build.sh -v", "/ws/build.sh", true},
		{"python3 x.py", "/ws/x.py", false}, // what it imports isn't known
		{"./tool", "/ws/tool", false},       // nor what a program runs
		{"sh sources.sh", "/ws/lib.sh", true},
		{"sh sources.sh", "/ws/sources.sh", true},
		{"sh sources.sh", "/ws/in", true},
		{"sh sources.sh x", "/ws/lib.sh", true},
		{"./sources.sh", "/ws/sources.sh", false}, // it doesn't say what runs it
		{"bash deep.sh", "/ws/deep.sh", false},
		{"sh makes.sh", "/ws/makes.sh", false},
		{"sh itself.sh", "/ws/itself.sh", false},
		{"sh args.sh rm", "/ws/args.sh", false},
		{"env A=1 sh build.sh", "/ws/build.sh", true},
		{"sh -c 'sh build.sh'", "/ws/build.sh", true},
		{"cat < in", "/ws/in", true},
		{"cp sub/x /srv", "/ws/sub/x", true},
		{"make --file=Makefile", "/ws/Makefile", false},
		{"make -fMakefile", "/ws/Makefile", false},
		{"curl -d @in http://127.0.0.1/x", "/ws/in", true},
		{"git push", "", false}, // what the repository names runs
		{"curl http://127.0.0.1/x", "", true},
		{"make install", "", false},
		{"npm publish", "", false},
		{"sh missing.sh", "", false},
		{"sh build.sh; make", "/ws/build.sh", false},
		{"cd sub && sh x", "", false},
		{"sh \"$x\"", "", false},
		{"sh *.sh", "", false},
		{"$x", "", false},
		{"some-runner build.sh", "/ws/build.sh", false},
		{"python3 -c 1", "", false},
	} {
		q := outside(tc.line)
		asked := Decide(q)
		if asked.Decision != Ask || asked.SessionScope != tc.session {
			t.Errorf("%q: %s, for the session %v", tc.line, asked.Decision, asked.SessionScope)
		}
		q.Grants = []Grant{grantFor(t, asked)}
		if d := Decide(q); d.Decision != Allow {
			t.Errorf("%q: an approval gives %s", tc.line, d.Decision)
		}
		if tc.file == "" {
			continue
		}
		files[tc.file] = "2"
		if d := Decide(q); d.Decision != Ask {
			t.Errorf("%q: %s was rewritten, and the approval gives %s", tc.line, tc.file, d.Decision)
		}
		files[tc.file] = "1"
	}
	q := outside("sh build.sh")
	q.Contents = nil
	if Decide(q).SessionScope {
		t.Error("an approval for the session is offered although no content is known")
	}
	q.Outside = false
	if !Decide(q).SessionScope {
		t.Error("inside the sandbox no approval for the session is offered")
	}
}

// TestSessionApprovalsAreForSelfContainedPrograms: what runs outside more than once for one
// answer must be the same each time. A program is offered that way only if it is listed as
// one that no file of its folder can make run another.
func TestSessionApprovalsAreForSelfContainedPrograms(t *testing.T) {
	offered := func(line string) bool {
		q := shellQuestion(ModeOnRequest, line, nil)
		q.Outside = true
		q.Contents = func(string) (string, bool) { return "", false }
		d := Decide(q)
		if d.Decision != Ask {
			t.Errorf("%q: %s", line, d.Decision)
		}
		return d.SessionScope
	}
	var once []string
	for _, sub := range gitKnown {
		once = append(once, "git "+sub, "git -C n "+sub, "git "+sub+" --short", "git --no-pager "+sub)
	}
	for _, name := range slices.Concat(versioned, launchers, databases, interactive, slices.Sorted(maps.Keys(services)), slices.Sorted(maps.Keys(languages))) {
		if _, reads := readers[name]; reads || slices.Contains(slices.Concat(writers, harmlessReaders, []string{"sed", "awk"}), name) {
			continue
		}
		once = append(once, name, name+" --version", name+" version", name+" a", "sh -c '"+name+" a'", "env "+name+" --version")
	}
	once = append(once, "git --version", "go version", "go env", "sqlite3 a 'select 1'", "git status --short", "git log", "unheard-of --version", "cat a; git status", "timeout 5 git fetch", "( git diff )")
	for _, line := range once {
		if offered(line) {
			t.Errorf("%q is offered for the session", line)
		}
	}
	for _, line := range []string{"cat a", "curl http://127.0.0.1/x", "cp a /srv", "env A=1 touch a", "sed s/a/b/ a", "export A=1; ls", "find . -name x", "[[ -f a && -f b ]] || touch a"} {
		if !offered(line) {
			t.Errorf("%q isn't offered for the session", line)
		}
	}
}
