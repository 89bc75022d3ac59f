package permission

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"agentd/event"
)

// shortRules are a policy of one short rule of each kind.
func shortRules() []event.PolicyRule {
	return []event.PolicyRule{{Decision: Deny, Tool: "shell", Match: "*forbid*me*"}, {Decision: Deny, Tool: "*_file", Match: "**/.env"}}
}

// longLines have n words each.
var longLines = map[string]func(n int) string{
	"words":       func(n int) string { return "unknown " + strings.Repeat("a ", n) },
	"options":     func(n int) string { return "unknown " + strings.Repeat("-a x ", n/2) },
	"values":      func(n int) string { return "unknown " + strings.Repeat("a=b ", n) },
	"git":         func(n int) string { return "git clone " + strings.Repeat("a ", n) },
	"commands":    func(n int) string { return strings.Repeat("a b;", n/2) },
	"variables":   func(n int) string { return "unknown " + strings.Repeat("$x ", n) },
	"assignments": func(n int) string { return strings.Repeat("a=b ", n) + "ls" },
	"hosts":       func(n int) string { return "curl " + distinct("http://h%d/ ", n/4) },
	"quoted":      func(n int) string { return "unknown " + strings.Repeat("'a b' ", n/2) },
	"deletions":   func(n int) string { return distinct("rm %d;", n/4) },
	"exec":        func(n int) string { return "find . -exec " + strings.Repeat("a ", n) + ";" },
	"operands":    func(n int) string { return "node --unknown " + distinct("a%d ", n/4) },
	"scripts":     func(n int) string { return distinct("sh ./a%d;", n/4) },
	"wrappers":    func(n int) string { return strings.Repeat("env ", n) + "a" },
	"one word":    func(n int) string { return "cat " + strings.Repeat("$", n) },
	"one value":   func(n int) string { return "x=a; cat " + strings.Repeat("$x", n) },
	"two values":  func(n int) string { return "x=a; x=b; cat " + strings.Repeat("$x", n) },
}

func distinct(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// TestManyWordsAreLinear counts what a line allocates, which doesn't depend on the
// machine: twice the words cost at most about twice as much.
func TestManyWordsAreLinear(t *testing.T) {
	cost := func(line string) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		Decide(shellQuestion(ModeAuto, line, shortRules()))
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	for name, line := range longLines {
		one, four := cost(line(1000)), cost(line(4000))
		if four > 6*one {
			t.Errorf("%s: %d bytes, and %d for four times the words", name, one, four)
		}
	}
}

// TestGlobWorkIsLinear: a pattern reads the text once, whatever it is.
func TestGlobWorkIsLinear(t *testing.T) {
	for _, pattern := range []string{"*a*a*a*a*a*b", "forbid-me *", "?*?*?*x", "[a-z]*[!b]*c"} {
		g, err := parseGlob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1000, 2000, 4000} {
			text := strings.Repeat("a ", n)
			var starts []int
			for i := range n {
				starts = append(starts, 2*i)
			}
			// Matching from every word on is the same as matching from each of them.
			want := misses
			for i := range 50 {
				want = max(want, g.match(text[2*i:]))
			}
			if got := g.search("", text, starts[:50]); got != want {
				t.Errorf("%q: %v, and from each word %v", pattern, got, want)
			}
			allocated := testing.AllocsPerRun(3, func() { g.search("", text, starts) })
			if allocated > 8 {
				t.Errorf("%q over %d words: %v allocations", pattern, n, allocated)
			}
		}
	}
}

func BenchmarkLongLines(b *testing.B) {
	for name, line := range longLines {
		for _, n := range []int{10000, 20000, 40000} {
			text := line(n)
			b.Run(fmt.Sprint(name, "-", n), func(b *testing.B) {
				for b.Loop() {
					Decide(shellQuestion(ModeAuto, text, shortRules()))
				}
			})
		}
	}
}

// TestOneValueNamedOftenIsBounded: a line names a long text thousands of times.
func TestOneValueNamedOftenIsBounded(t *testing.T) {
	line := "x=" + strings.Repeat("a", 50<<10) + "; cat" + strings.Repeat(" $x", 50<<10)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	d := Decide(shellQuestion(ModeAuto, line, shortRules()))
	runtime.ReadMemStats(&after)
	if allocated := (after.TotalAlloc - before.TotalAlloc) >> 20; allocated > 1000 {
		t.Errorf("%d kB cost %d MB", len(line)>>10, allocated)
	}
	if d.Decision != Ask { // what isn't looked at may be any file
		t.Errorf("%s (%s)", d.Decision, d.DecisionReason)
	}
}

// nests are what a parser recurses into, as far as it is opened and not closed, with what
// stands before.
var nests = map[string]string{
	"if ": "", "while ": "", "until ": "", "for x do ": "", "case x in x)": "", "select x do ": "", "coproc ": "", "! ": "", "time ": "", "if a;then a;elif ": "", "if a;then a;else ": "", "while until if ": "", "i\\\nf ": "",
	"(": "", "{ ": "", "$(": "", "`": "", "${a:-": "", "<(": "", "f() ": "", "function f ": "", "a&&": "", "a||": "", "a|": "", "a=(": "", "\"$(": "", "[[ ": "", "@(": "",
	"- ": "((", "~": "((", "!": "((", "a?": "((", "a=": "((", "a**": "((", "a+": "((", "a,": "((", "a && ": "[[ ", "!  ": "[[ ", "a || ": "[[ ", "$[": "", "a[": "((", "- 1": "let ", "~ ": "let ",
}

// TestNestingIsBounded: what makes a parser recurse is counted before it runs. The stack
// that the longest line takes is measured, which doesn't depend on the machine.
func TestNestingIsBounded(t *testing.T) {
	for open, before := range nests {
		line := before + strings.Repeat(open, (maxLine-len(before))/len(open))
		runtime.GC() // gives the last stack back
		stack := make(chan uint64)
		go func() {
			Decide(shellQuestion(ModeAuto, line, shortRules()))
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			stack <- m.StackInuse
		}()
		if used := <-stack >> 20; used > 24 {
			t.Errorf("%q: the stack takes %d MB", before+open, used)
		}
	}
	// What people write has room.
	line := "if true; then for i in 1 2; do echo $((i * 2 + 1)); done; fi\n"
	if l := Analyse(strings.Repeat(line, maxOpen/2-1)); len(l.Hidden) > 0 {
		t.Errorf("%d lines are hidden: %v", maxOpen/2-1, l.Hidden)
	}
}

// TestEachPathIsLookedUpOnce: looking a path up costs more than all else about a word.
func TestEachPathIsLookedUpOnce(t *testing.T) {
	rules := append(shortRules(), event.PolicyRule{Decision: Deny, Tool: "shell", Match: "./deploy.sh *"}, event.PolicyRule{Decision: Deny, Tool: "read_file", Match: "secret/**"})
	for name, line := range longLines {
		q := shellQuestion(ModeAuto, line(1000), rules)
		seen := map[string]int{}
		q.Resolve = func(p string) string { seen[p]++; return p }
		Decide(q)
		for p, n := range seen {
			if n > 1 {
				t.Errorf("%s: %s is looked up %d times", name, p, n)
			}
		}
	}
	q := shellQuestion(ModeAuto, distinct("rm %d;", 4000), nil)
	if d := Decide(q); len(d.Impact) > 4096 || len(d.RollbackAdvice) > 4096 {
		t.Errorf("the impact has %d bytes, the advice %d", len(d.Impact), len(d.RollbackAdvice))
	}
}
