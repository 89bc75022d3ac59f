package permission

import (
	"fmt"
	"path"
	"strings"
	"sync"
	"testing"

	"agentd/event"
)

// programs are the files of a small machine; rm has two names, and busybox many.
var programs = map[string]FileID{
	"rm": {1, 10}, "/usr/bin/rm": {1, 10}, "/tmp/hard": {1, 10}, "/ws/soft": {1, 10},
	"git": {1, 11}, "sh": {1, 12}, "dash": {1, 12}, "env": {1, 13}, "busybox": {1, 14}, "ash": {1, 14}, "/ws/copy": {1, 99},
	"/ws/bin/deploy": {1, 20}, "/ws/bin/busybox": {1, 20}, "/ws/bin/coreutils": {1, 20}, "/ws/deep/soft": {1, 10}, "/ws/-y": {1, 10},
	"/ws/made-later": {1, 21}, "npm": {1, 22}, "/usr/bin/npm": {1, 22},
}

func findProgram(name string) (FileID, bool) {
	id, ok := programs[name]
	return id, ok
}

// follow resolves paths on that machine, in /ws. Its only links are soft and /ws/link,
// which leads to /ws/deep/down.
func follow(p string) (string, FileID, bool) {
	switch p {
	case "link/../soft":
		p = "/ws/deep/soft"
	case "gone", "./gone", "rm", "pip", "npm":
		return "", FileID{}, false
	case "/proc/self/fd/0":
		p = "/ws/bin/deploy"
	}
	if !path.IsAbs(p) {
		p = "/ws/" + p
	}
	p = path.Clean(p)
	id, ok := programs[p]
	if !ok {
		id = programs[path.Base(p)]
	}
	return p, id, true
}

func guardRules() []event.PolicyRule {
	return []event.PolicyRule{
		{Decision: Deny, Tool: "shell", Match: "rm *", RuleID: "rm", Reason: "deleting is manual"},
		{Decision: Deny, Tool: "shell", Match: "git push *", RuleID: "push"},
		{Decision: Ask, Tool: "shell", Match: "npm publish *", RuleID: "npm"},
		{Decision: Deny, Tool: "shell", Match: "mkfs*", RuleID: "mkfs"},
		{Decision: Deny, Tool: "shell", Match: "/ws/bin/deploy *", RuleID: "deploy"},
		{Decision: Deny, Tool: "shell", Match: "ash *", RuleID: "ash"},
		{Decision: Deny, Tool: "shell", Match: "pip *", RuleID: "pip"},
		{Decision: Deny, Tool: "shell", Match: "./made-later *", RuleID: "later"},
		{Decision: Allow, Tool: "shell", Match: "*"},
	}
}

// untold is what a start is refused for that no rule is known to be about.
const untold = "untold"

func TestGuard(t *testing.T) {
	guard := NewGuard(guardRules(), nil, findProgram)
	for _, tc := range []struct{ file, argv, rule string }{
		{"/usr/bin/rm", "rm|x", "host:rm"},
		{"/usr/bin/rm", "rm", "host:rm"},
		{"/usr/bin/rm", "ls|x", "host:rm"},
		{"/usr/bin/rm", "", "host:rm"},
		{"/tmp/hard", "harmless|x", "host:rm"},
		{"/ws/copy", "copy|x", ""}, // a copy is another file: a documented limit
		{"/ws/copy", "rm|x", "host:rm"},
		{"/ws/rm", "rm|x", "host:rm"},
		{"/usr/bin/git", "git|push", "host:push"},
		{"/usr/bin/git", "git|-C|x|push|origin", "host:push"},
		{"/usr/lib/git-core/git-push", "git-push|origin", "host:push"},
		{"/usr/bin/git", "git|status", ""},
		{"/usr/bin/git", "git|commit|-m|git push later", ""},
		{"/usr/bin/env", "env|A=1|rm|x", "host:rm"},
		{"/usr/bin/dash", "sh|-c|rm x", "host:rm"},
		{"/usr/bin/dash", "sh|-c|ls; if false; then rm x; fi", "host:rm"},
		{"/usr/bin/dash", "sh|-c|$x", ""},
		{"/usr/bin/dash", "sh|x.sh", ""},
		{"/bin/busybox", "rm|x", "host:rm"},
		{"/bin/busybox", "busybox|rm|x", "host:rm"},
		{"/bin/busybox", "ls|rm", ""},
		{"/bin/busybox", "busybox|sh|-c|rm x", "host:rm"},
		{"/usr/bin/coreutils", "rm|x", "host:rm"},
		{"/usr/bin/coreutils", "coreutils|--coreutils-prog=rm|x", "host:rm"},
		{"/usr/bin/coreutils", "ls|x", ""},
		{"/lib64/ld-linux-x86-64.so.2", "ld.so|/usr/bin/rm|x", "host:rm"},
		{"/lib64/ld-linux-x86-64.so.2", "ld.so|--argv0|ls|/ws/soft|x", "host:rm"},
		{"/lib64/ld-linux-x86-64.so.2", "ld.so|soft|x", "host:rm"},
		{"/lib64/ld-linux-x86-64.so.2", "ld.so|/usr/bin/ls|rm", ""},
		{"/lib64/ld-linux-x86-64.so.2", "ld.so|./soft|x", "host:rm"},
		{"/lib64/ld-linux-x86-64.so.2", "ld.so|link/../soft|x", "host:rm"},
		{"/lib64/ld-linux-x86-64.so.2", "ld.so|-y|x", "host:rm"},
		{"/lib64/ld-linux-x86-64.so.2", "ld.so|/lib64/ld-linux-x86-64.so.2|link/../soft|x", "host:rm"},
		{"/lib64/ld-linux-x86-64.so.2", "ld.so|./gone|x", untold},
		{"/lib64/ld-linux-x86-64.so.2", "ld.so|--library-path|/ws|copy|x", untold}, // searched for like a library
		{"/lib64/ld-linux-x86-64.so.2", "ld.so|--new-option|/usr/bin/ls|./soft|x", untold},
		{"/lib64/ld-linux-x86-64.so.2", "ld.so|--list|/usr/bin/ls", ""},
		{"/lib64/ld-linux-x86-64.so.2", "ld.so|--version", ""},
		{"/lib/ld-musl-x86_64.so.1", "ld.so|--library-path=/ws|--|/ws/soft|x", "host:rm"},
		{"/ws/bin/deploy", "deploy|77", "host:deploy"},
		{"/ws/bin/busybox", "bin/busybox|77", "host:deploy"},
		{"/ws/bin/coreutils", "bin/coreutils|77", "host:deploy"},
		{"/ws/bin/coreutils", "ls|77", "host:deploy"},
		{"/bin/busybox", "ash|x", "host:ash"},
		{"/usr/bin/npm", "npm|publish", "host:npm"},
		{"/usr/bin/npm", "npm|install", ""},
		{"/sbin/mkfs.ext4", "mkfs.ext4|/dev/sda", "host:mkfs"},
		{"/usr/bin/ls", "ls|rm|x", ""},
		{"/usr/bin/some-runner", "some-runner|rm|x", ""}, // it may run it: then that start is judged
		{"/usr/bin/xargs", "xargs|rm", "host:rm"},
		// A script runs without being started.
		{"/usr/bin/dash", "sh|/usr/bin/npm|publish", "host:npm"},
		{"/usr/bin/node", "node|/usr/bin/npm|publish", "host:npm"},
		{"/usr/bin/node", "node|--no-warnings|/usr/bin/npm|publish", "host:npm"},
		{"/usr/bin/node", "node|--new-option|x|/ws/soft|y", "host:rm"},
		{"/usr/bin/node", "node|/usr/bin/npm|install", ""},
		{"/usr/bin/node", "node|lint.js|/usr/bin/npm|publish", ""},
		{"/usr/bin/node", "node|-e|x|npm|publish", ""}, // words that it may start: then that start is judged
		{"/usr/bin/bash", "bash|-O|extglob|/ws/soft|x", "host:rm"},
		{"/usr/bin/bash", "bash|-x|--norc|soft|x", "host:rm"},
		{"/usr/bin/bash", "bash|-c|exit 0|/ws/soft", ""},
		{"/usr/bin/bash", "bash|x.sh|/ws/soft", ""},
		{"/usr/bin/bash", "bash|rm|x", "host:rm"}, // it looks in the PATH
		{"/usr/bin/python3", "python3|-m|pip|x", "host:pip"},
		{"/usr/bin/python3", "python3|-Impip|--quiet|x", "host:pip"},
		{"/usr/bin/python3", "python3|-m|venv|x", ""},
		{"/usr/bin/python3", "python3|-X|dev|/ws/soft", "host:rm"},
		{"/usr/bin/deno", "deno|run|-A|/ws/soft", "host:rm"},
		{"/usr/bin/fish", "fish|/ws/soft", "host:rm"},
		{"/usr/bin/bash", "bash|-s|x", "host:deploy"}, // its input is that file
		{"/usr/bin/perl", "perl", "host:deploy"},
		// A rule's path is what is there when something starts.
		{"/ws/made-later", "made-later|x", "host:later"},
		{"/usr/bin/dash", "sh|made-later|x", "host:later"},
		{"/usr/bin/dash", "sh|x/../made-later|x", "host:later"},
	} {
		s := Start{Path: tc.file, ID: programs[tc.file], Resolve: follow}
		if s.ID == (FileID{}) {
			s.ID = programs[path.Base(tc.file)]
		}
		if tc.argv != "" {
			s.Argv = strings.Split(tc.argv, "|")
		}
		got, refused := guard.Judge(s)
		if refused != (tc.rule != "") || got.RuleRef != strings.TrimPrefix(tc.rule, untold) {
			t.Errorf("%s as %q: %v %+v", tc.file, tc.argv, refused, got)
		}
		if refused && (got.Command == "" || !strings.Contains(got.Reason, got.RuleRef)) {
			t.Errorf("%s as %q: the refusal lacks something: %+v", tc.file, tc.argv, got)
		}
	}
}

func TestGuardLeavesOutWhatWasAnswered(t *testing.T) {
	npm := Start{Path: "/usr/bin/npm", Argv: []string{"npm", "publish"}}
	if _, refused := NewGuard(guardRules(), &Answered{RuleRefs: []string{"host:npm"}, Line: "npm publish"}, nil).Judge(npm); refused {
		t.Error("an ask rule that was answered refuses")
	}
	if _, refused := NewGuard(guardRules(), &Answered{RuleRefs: []string{"host:rm"}, Line: "rm"}, nil).Judge(Start{Path: "/usr/bin/rm", Argv: []string{"rm"}}); !refused {
		t.Error("a deny rule can be answered")
	}
	for name, rules := range map[string][]event.PolicyRule{
		"none":       nil,
		"allow":      {{Decision: Allow, Tool: "shell", Match: "rm *"}},
		"no pattern": {{Decision: Deny, Tool: "shell"}},
		"files":      {{Decision: Deny, Tool: "write_file", Match: "docs/**"}},
		"everything": {{Decision: Ask, Tool: "shell", Match: "*"}},
	} {
		if NewGuard(rules, nil, nil) != nil {
			t.Errorf("%s: there is a guard", name)
		}
	}
}

// TestAnswersAreForWhatWasShown: an approval lifts an ask rule for the commands that stand
// in the line, however they are started, and for no others.
func TestAnswersAreForWhatWasShown(t *testing.T) {
	rules := []event.PolicyRule{{Decision: Ask, Tool: "shell", Match: "factor *", RuleID: "f"}, {Decision: Ask, Tool: "shell", Match: "./deploy.sh *", RuleID: "d"}, {Decision: Deny, Tool: "shell", Match: "rm *", RuleID: "f2"}}
	for _, tc := range []struct {
		line      string
		runs, not []string
	}{
		{"factor 77; sh x.sh", []string{"factor 77", "/usr/bin/factor 77"}, []string{"factor 91", "factor", "factor 77 91", "rm x", "./deploy.sh x", "sh -c factor|91"}},
		{"env A=1 factor 77", []string{"factor 77", "env A=1 factor 77"}, []string{"factor 91", "env A=1 factor 91"}},
		{"sh -c 'factor 77'", []string{"factor 77"}, []string{"factor 78"}},
		{"factor $x; sh x.sh", []string{"factor 77", "factor 91 92"}, []string{"factor"}},
		{"for i in 1 2; do factor 7$i; done", []string{"factor 71", "factor 72"}, []string{"factor 81"}},
		{"xargs factor < l", []string{"factor 1 2 3"}, nil},
		{"find . -exec factor -h {} 1 \\;", []string{"factor -h a 1"}, []string{"factor a", "factor -h a 2"}},
		{"some-runner factor 77", []string{"factor 77"}, []string{"factor 7"}},
		{"some-runner 'factor 77; ls'", []string{"factor 77"}, []string{"factor 7"}},
		{"x=factor; $x 77", nil, []string{"factor 77"}}, // nobody saw which program
		{"/usr/bin/factor 77", []string{"factor 77"}, []string{"factor 91"}},
		{"sh deploy.sh x", []string{"./deploy.sh x", "sh deploy.sh x"}, []string{"./deploy.sh y", "factor x"}},
		{"", nil, []string{"factor 77"}},
	} {
		guard := NewGuard(rules, &Answered{RuleRefs: []string{"host:f", "host:d", "host:f2"}, Line: tc.line}, nil)
		refused := func(command string) bool {
			argv := strings.FieldsFunc(command, func(c rune) bool { return c == ' ' })
			for i := range argv {
				argv[i] = strings.ReplaceAll(argv[i], "|", " ")
			}
			resolve := func(p string) (string, FileID, bool) {
				if path.Base(p) != "deploy.sh" {
					return "", FileID{}, p == "."
				}
				return "/ws/deploy.sh", FileID{3, 1}, true
			}
			s := Start{Path: "/usr/bin/" + path.Base(argv[0]), Argv: argv, Resolve: resolve}
			if path.Base(argv[0]) == "deploy.sh" {
				s.Path, s.ID = "/ws/deploy.sh", FileID{3, 1}
			}
			_, refused := guard.Judge(s)
			return refused
		}
		for _, command := range tc.runs {
			if refused(command) {
				t.Errorf("%q was approved, and %q is refused", tc.line, command)
			}
		}
		for _, command := range tc.not {
			if !refused(command) {
				t.Errorf("%q was approved, and %q runs", tc.line, command)
			}
		}
	}
}

// Whatever the line is judged to run for certain, the guard refuses where it starts.
func TestGuardAgreesWithTheLine(t *testing.T) {
	guard := NewGuard(tablePolicy(), nil, nil)
	for _, tc := range shellTable {
		l := Analyse(tc.line)
		for _, c := range l.Commands {
			if strings.ContainsRune(strings.Join(c.Words, ""), hole) || strings.HasPrefix(c.Words[0], "-") {
				continue
			}
			want := false
			for i := range guard.rules {
				want = want || guard.rules[i].text.matchCommand(&c) == matches
			}
			_, refused := guard.Judge(Start{Path: path.Join("/ws", c.Words[0]), Argv: c.Words})
			if want && !refused {
				t.Errorf("%q runs %q, which is denied but would start", tc.line, c.Words)
			}
		}
	}
}

func TestGuardIsSafeForManyGoroutines(t *testing.T) {
	guard := NewGuard(guardRules(), nil, findProgram)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := range 50 {
				_, refused := guard.Judge(Start{Path: "/usr/bin/rm", Argv: []string{"rm", fmt.Sprint("é", i, k)}})
				if !refused {
					t.Error("rm isn't refused")
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkGuard(b *testing.B) {
	guard := NewGuard(guardRules(), nil, findProgram)
	for name, argv := range map[string][]string{
		"ls":  {"ls", "-la", "src"},
		"cc":  {"cc", "-O2", "-Wall", "-Wextra", "-DNAME=\"x\"", "-Iinclude", "-c", "-o", "build/x.o", "src/x.c"},
		"sh":  {"sh", "-c", "for f in *.c; do cc -c $f; done"},
		"git": {"git", "-C", "/ws", "status", "--porcelain"},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				guard.Judge(Start{Path: "/usr/bin/" + argv[0], Argv: argv})
			}
		})
	}
	for _, n := range []int{10000, 20000, 40000} {
		argv := append([]string{"cc"}, strings.Fields(strings.Repeat("-I x ", n/2))...)
		b.Run(fmt.Sprint("words-", n), func(b *testing.B) {
			for b.Loop() {
				guard.Judge(Start{Path: "/usr/bin/cc", Argv: argv})
			}
		})
	}
}

// TestScriptsAreTheProgramsThatTheyAre: however an interpreter is told to run a script
// that a rule denies, the rule holds, on the line and where the interpreter starts.
func TestScriptsAreTheProgramsThatTheyAre(t *testing.T) {
	rules := []event.PolicyRule{
		{Decision: Deny, Tool: "shell", Match: "./deploy.sh *"}, {Decision: Deny, Tool: "shell", Match: "ldd *"}, {Decision: Deny, Tool: "shell", Match: "npm publish *"},
	}
	ids := map[string]FileID{"/ws/deploy.sh": {2, 1}, "/usr/bin/ldd": {2, 2}, "/usr/lib/npm-cli.js": {2, 3}}
	links := map[string]string{"/usr/bin/npm": "/usr/lib/npm-cli.js", "/ws/link": "/ws/deploy.sh", "/ws/here": "/ws"}
	leadsTo := func(p string) string {
		p = path.Clean(p)
		for range 3 {
			for from, to := range links {
				if p == from || strings.HasPrefix(p, from+"/") {
					p = to + strings.TrimPrefix(p, from)
				}
			}
		}
		return p
	}
	resolve := func(p string) (string, FileID, bool) {
		if !path.IsAbs(p) {
			p = "/ws/" + p
		}
		p = leadsTo(p)
		id, ok := ids[p]
		return p, id, ok || p == "/ws"
	}
	guard := NewGuard(rules, nil, func(name string) (FileID, bool) {
		if !strings.Contains(name, "/") {
			name = "/usr/bin/" + name
		}
		_, id, ok := resolve(name)
		return id, ok
	})
	interpreters := map[string][]string{
		"sh": {"", "-e", "-eu", "-x -e", "--", "-o errexit"}, "bash": {"", "--norc", "-O extglob", "--posix -x", "+e"}, "dash": {"", "-e"}, "zsh": {"", "-f"},
		"python3": {"", "-I", "-u -B", "-X dev", "-Wignore", "--"}, "node": {"", "--no-warnings", "--max-old-space-size=9", "--enable-source-maps"}, "perl": {"", "-w", "-T"}, "ruby": {"", "-w"}, "tsx": {""}, "lua": {""},
	}
	for name, options := range interpreters {
		for _, option := range options {
			for script, want := range map[string]bool{
				"./deploy.sh x": true, "deploy.sh x": true, "deploy.sh": true, "/ws/deploy.sh x": true, "a/../deploy.sh": true, "link x": true, "here/deploy.sh": true, "./here/here/link y": true,
				"/usr/bin/ldd /bin/ls": true, "/usr/bin/npm publish": true, "/usr/lib/npm-cli.js publish": true, "/usr/bin/npm publish --dry-run": true,
				"/usr/bin/npm install": false, "other.sh deploy.sh": false, "x.sh /usr/bin/npm publish": false, "deploy.shx": false,
			} {
				argv := strings.Fields(name + " " + option + " " + script)
				line := strings.Join(argv, " ")
				if _, refused := guard.Judge(Start{Path: "/usr/bin/" + name, Argv: argv, Resolve: resolve}); refused != want {
					t.Errorf("%q is refused where it starts: %v", line, refused)
				}
				q := shellQuestion(ModeBypass, line, rules)
				q.Resolve = leadsTo
				d := Decide(q)
				byIdentity := strings.Contains(script, "npm-cli.js") // only its inode tells what it is
				if denied := d.Decision == Deny; denied != (want && !byIdentity) {
					t.Errorf("%q: the line is %s (%s)", line, d.Decision, d.DecisionReason)
				}
			}
		}
	}
	for line, want := range map[string]string{
		". ./deploy.sh": Deny, "source deploy.sh x": Deny, ". -- deploy.sh": Deny, "/ws/deploy.sh x": Deny, "a/../deploy.sh": Deny, "env sh deploy.sh": Deny, "sh -c 'bash deploy.sh x'": Deny, "cd a; sh deploy.sh": Ask, "cd a; ../deploy.sh": Ask,
		"deploy.sh x": Allow, "cat deploy.sh": Allow, "cd a; sh other.sh": Allow, "git add deploy.sh": Allow, "chmod +x ./deploy.sh": Allow, "sh < deploy.sh": Ask, "node --new ./deploy.sh": Ask,
	} {
		q := shellQuestion(ModeBypass, line, rules)
		q.Resolve = leadsTo
		if d := Decide(q); d.Decision != want {
			t.Errorf("%q: %s, want %s (%s)", line, d.Decision, want, d.DecisionReason)
		}
	}
	gone := func(string) (string, FileID, bool) { return "", FileID{}, false }
	if r, refused := guard.Judge(Start{Path: "/bin/sh", Argv: []string{"sh", "../deploy.sh"}, Resolve: gone}); !refused || r.Reason == "" {
		t.Error("a script of a folder that can't be looked up runs")
	}
}
