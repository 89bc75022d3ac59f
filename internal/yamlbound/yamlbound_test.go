package yamlbound_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"agentd/internal/yamlbound"
)

func TestOrdinaryFilesPass(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "rules": "rules:\n  - {decision: deny, tool: shell, match: \"git push *\"}\n  - decision: ask\n    tool: \"*\"\n",
		"brackets in quotes": strings.Repeat("- match: \"a[\"\n- match: '{['\n", 200), "an apostrophe": strings.Repeat("reason: it's \"quoted\" [x]\n", 100),
		"comment": "# [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\na: b # [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\n",
		"many":    strings.Repeat("- {decision: deny, tool: shell, match: x}\n", 1000),
	} {
		if err := yamlbound.Check([]byte(text), yamlbound.Limits{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// hostile are texts of n bytes that cost a parser more than their size.
var hostile = map[string]func(n int) string{
	"brackets":         func(n int) string { return strings.Repeat("[", n) },
	"braces":           func(n int) string { return strings.Repeat("{", n) },
	"mixed":            func(n int) string { return strings.Repeat("[{a: ", n/5) },
	"brackets by line": func(n int) string { return strings.Repeat("[\n", n/2) },
	"dashes":           func(n int) string { return strings.Repeat("- ", n/2) },
	"questions":        func(n int) string { return strings.Repeat("? ", n/2) },
	"indentation": func(n int) string {
		var b strings.Builder
		for i := 0; b.Len() < n; i++ {
			b.WriteString(strings.Repeat(" ", i) + "a:\n")
		}
		return b.String()
	},
	"aliases":          func(n int) string { return "a: &a [1]\nb: [" + strings.Repeat("*a, ", n/4) + "]" },
	"many collections": func(n int) string { return "[" + strings.Repeat("[],", n/3) + "]" },
	"quoted brackets":  func(n int) string { return "a: '" + strings.Repeat("[", n) },
	"hidden by quotes": func(n int) string { return "a: b'\n" + strings.Repeat("[", n) },
}

func TestHostileFilesAreRefused(t *testing.T) {
	for name, build := range hostile {
		if err := yamlbound.Check([]byte(build(60<<10)), yamlbound.Limits{}); err == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
	if err := yamlbound.Check(make([]byte, 65<<10), yamlbound.Limits{}); err == nil {
		t.Error("a large file is taken")
	}
}

// TestParsingIsBounded: whatever passes costs the parser memory that grows with its size
// and not faster.
func TestParsingIsBounded(t *testing.T) {
	cost := func(text string) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := yamlbound.Check([]byte(text), yamlbound.Limits{})
		if err == nil {
			func() {
				defer func() {
					if r := recover(); r != nil {
						err = errors.New("the parser gave up")
					}
				}()
				var v any
				err = yaml.Unmarshal([]byte(text), &v)
			}()
		}
		_ = err // what it says is irrelevant here
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	for name, build := range hostile {
		for _, n := range []int{200, 2000, 60 << 10} {
			if got := cost(build(n)); got > 64<<20 {
				t.Errorf("%s of %d bytes: %d MiB", name, n, got>>20)
			}
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	for _, n := range []int{16 << 10, 32 << 10, 64 << 10} {
		text := []byte(strings.Repeat("- {decision: deny, tool: shell, match: x}\n", n/42))
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if err := yamlbound.Check(text, yamlbound.Limits{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
