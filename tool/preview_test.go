package tool

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestPreview(t *testing.T) {
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	got := Preview(b.String(), 200)
	if !strings.HasPrefix(got, "line 0\nline 1\n") || !strings.HasSuffix(got, "\nline 998\nline 999\n") || len(got) > 200 {
		t.Errorf("%q", got)
	}
	requireWords(t, got, "lines, ", "bytes left out …]\n")
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune("ab\nä€")), 0, 400, -1).Draw(rt, "text")
		n := rapid.IntRange(0, 300).Draw(rt, "n")
		got := Preview(text, n)
		if len(got) > n || !utf8.ValidString(got) {
			rt.Fatalf("%q in %d: %q", text, n, got)
		}
		if len(text) <= n && got != text {
			rt.Fatalf("%q fits in %d: %q", text, n, got)
		}
	})
}
