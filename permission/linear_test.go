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
