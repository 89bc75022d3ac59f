package permission

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"agentd/event"
)

// knownPrograms are the names of all programs whose arguments are looked into.
func knownPrograms() []string {
	names := strings.Fields(`xargs find eval watch trap su runuser script git alias export declare test [ read mapfile printf hash enable set bind . source
		parallel ssh coreutils --coreutils-prog sed awk python3 python node perl ruby php deno bun sh bash dash zsh ld-linux-x86-64.so.2 ld-musl-x86_64.so.1 git-push busybox`)
	names = slices.Concat(names, slices.Sorted(maps.Keys(wrappers)), slices.Sorted(maps.Keys(languages)), slices.Sorted(maps.Keys(readers)), slices.Sorted(maps.Keys(services)),
		harmlessReaders, hostReaders, writers, versioned, interactive)
	slices.Sort(names)
	return slices.Compact(names)
}

// oddArguments are words that end, begin or stand for something in one program or
// another. What they announce may be missing behind them.
var oddArguments = strings.Fields(`-n -c -C -e -f -i -I -I{} -o -O -p -s -S -t -u -v -x -xc -E -F -- - --- + ; {} a a=b A=1 = : @ / . .. -exec -execdir -ok -delete -files0-from --command --interval --exec=a --eval
	--split-string= --coreutils-prog=rm --rcfile --preload --argv0 --upload-pack --foreach foreach run submodule bisect config -m stash list alias.x=!a core.pager=a 1e s/a/b/e y/ [ ] $( $x 'a b' rm git push é \ * ? [a -#`)

// judgingRules make every part of the guard work.
func judgingRules() []event.PolicyRule {
	return append(guardRules(), event.PolicyRule{Decision: Deny, Tool: "shell", Match: "./deploy.sh *"}, event.PolicyRule{Decision: Ask, Tool: "shell", Match: "*x*y"})
}

// TestAnyStartIsJudged: no list of arguments, however cut off, ends the program that
// judges it. Every known program is tried with every odd argument and every two of some.
func TestAnyStartIsJudged(t *testing.T) {
	guard := NewGuard(judgingRules(), nil, findProgram)
	judge := func(argv ...string) {
		defer func() {
			if r := recover(); r != nil {
				t.Errorf("%q: %v", argv, r)
			}
		}()
		guard.Judge(Start{Path: "/usr/bin/" + argv[0], Argv: argv, Resolve: follow})
	}
	guard.Judge(Start{})
	judge("watch", "-n")
	r := rand.New(rand.NewPCG(5, 6))
	odd := func() string { return oddArguments[r.IntN(len(oddArguments))] }
	for _, name := range knownPrograms() {
		judge(name)
		judge(name, "")
		for _, first := range oddArguments {
			judge(name, first)
			judge(name, first, odd())
			judge(name, odd(), first)
			judge(name, odd(), odd(), first)
			judge("env", name, first)
		}
	}
}

func FuzzJudge(f *testing.F) {
	for _, argv := range []string{"watch\n-n", "git\npush", "sh\n-c\nrm x", "ld.so\n--preload", "xargs\n-I\n{}\nrm", "find\n.\n-exec", "node\n-r\nx\n./soft", "env\n-u"} {
		f.Add(argv)
	}
	guard := NewGuard(judgingRules(), nil, findProgram)
	f.Fuzz(func(t *testing.T, words string) {
		argv := strings.Split(words, "\n")
		first, refused := guard.Judge(Start{Path: "/usr/bin/" + argv[0], Argv: argv, Resolve: follow})
		if again, twice := guard.Judge(Start{Path: "/usr/bin/" + argv[0], Argv: argv, Resolve: follow}); again != first || twice != refused {
			t.Fatalf("%q: %+v, then %+v", argv, first, again)
		}
	})
}

// TestFailureToJudgeDenies: whatever fails while a call is judged, the call is denied.
func TestFailureToJudgeDenies(t *testing.T) {
	for _, mode := range Modes() {
		q := shellQuestion(mode, "cat a > b", nil)
		q.Resolve = func(string) string { panic("broken") }
		d := Decide(q)
		if d.Decision != Deny || !strings.Contains(d.DecisionReason, "can't be judged") || d.RuleRefs == nil {
			t.Errorf("%s: %+v", mode, d)
		}
	}
}
