package pathglob

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bmatcuk/doublestar/v4"
	"pgregory.net/rapid"
)

// expand returns the patterns without braces that a pattern with braces stands for.
func expand(pattern string) []string {
	open, depth, from := -1, 0, 0
	var alternatives []string
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case c == '{':
			if depth == 0 {
				open, from = i, i+1
			}
			depth++
		case c == ',' && depth == 1:
			alternatives = append(alternatives, pattern[from:i])
			from = i + 1
		case c == '}':
			if depth--; depth > 0 {
				continue
			}
			var out []string
			for _, a := range append(alternatives, pattern[from:i]) {
				out = append(out, expand(pattern[:open]+a+pattern[i+1:])...)
			}
			return out
		}
	}
	return []string{pattern}
}

// withoutStars returns a pattern as it is, and with each choice of the stars that may
// take nothing left out, or take one folder.
func withoutStars(pattern string) []string {
	for i := 0; i < len(pattern); i++ {
		var size int
		switch {
		case pattern[i] == '\\':
			i++
			continue
		case strings.HasPrefix(pattern[i:], "**/") && (i == 0 || pattern[i-1] == '/'):
			size = 3
		case strings.HasPrefix(pattern[i:], "**"):
			size = 2
		case pattern[i] == '*':
			size = 1
		default:
			continue
		}
		var out []string
		for _, rest := range withoutStars(pattern[i+size:]) {
			out = append(out, pattern[:i+size]+rest, pattern[:i]+rest)
			if size == 3 {
				out = append(out, pattern[:i]+"*/"+rest)
			}
		}
		return out
	}
	return []string{pattern}
}

// inNames finds two stars that aren't a whole name: they are one.
var inNames = regexp.MustCompile(`([^/])\*\*($|.)|\*\*([^/])`)

// reference is what doublestar says about each pattern without braces. At the end of
// a path it doesn't always see that a star may take nothing: loose is what it says
// with any of these stars left out, too.
func reference(t *rapid.T, pattern, path string) (strict, loose bool) {
	match := func(p string) bool {
		ok, err := doublestar.Match(p, path)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	for _, e := range expand(pattern) {
		if strings.Contains(e, "***") || strings.HasSuffix(e, "**/") {
			t.Skip("more than two stars, and a slash after the last, mean nothing certain there")
		}
		e = inNames.ReplaceAllString(e, "$1*$2$3")
		e = inNames.ReplaceAllString(e, "$1*$2$3") // what follows one star precedes the next
		strict = strict || match(e)
		loose = loose || slices.ContainsFunc(withoutStars(e), match)
	}
	return strict, loose
}

func drawPattern(t *rapid.T, depth int) string {
	var b strings.Builder
	for range rapid.IntRange(0, 6).Draw(t, "parts") {
		part := rapid.SampledFrom([]string{"a", "b", ".", "/", "/", "*", "**", "**/", "/**/", "/**", "?", "[ab]", "[a-b]", `\b`, "{"}).Draw(t, "part")
		if part != "{" {
			b.WriteString(part)
			continue
		}
		if depth == 0 {
			continue
		}
		var alts []string
		for range rapid.IntRange(1, 3).Draw(t, "alternatives") {
			alts = append(alts, drawPattern(t, depth-1))
		}
		b.WriteString("{" + strings.Join(alts, ",") + "}")
	}
	return b.String()
}

func drawPath(t *rapid.T) string {
	return rapid.StringOfN(rapid.SampledFrom([]rune("aab./")), 0, 7, -1).Draw(t, "path")
}

func TestMatchesAsDoublestar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern, path := drawPattern(t, 2), drawPath(t)
		g, err := Compile(pattern)
		if err != nil {
			t.Fatal(err)
		}
		strict, loose := reference(t, pattern, path)
		if got := g.Match(path); strict && !got || got && !loose {
			t.Fatalf("%q over %q: %v, and doublestar says %v", pattern, path, got, strict)
		}
	})
}

func TestErrorsAsDoublestar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringOfN(rapid.SampledFrom([]rune(`ab/*?[]{},\!-`)), 0, 8, -1).Draw(t, "pattern")
		_, err := Compile(pattern)
		if valid := doublestar.ValidatePattern(pattern); valid != (err == nil) {
			t.Fatalf("%q: %v, and doublestar says valid is %v", pattern, err, valid)
		}
	})
}

// What matches below a folder is found through the folder, and what matches a text
// matches the same with a wildcard in the place of a part.
func TestNothingBelowOrBehindAWildcardIsMissed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern, path := drawPattern(t, 2), drawPath(t)
		g, err := Compile(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if !g.Match(path) {
			return
		}
		for i, c := range path {
			if c == '/' && i > 0 && !g.MatchBelow(path[:i]) {
				t.Fatalf("%q takes %q, but nothing below %q", pattern, path, path[:i])
			}
		}
		text := []rune(path)
		from := rapid.IntRange(0, len(text)).Draw(t, "from")
		to := rapid.IntRange(from, len(text)).Draw(t, "to")
		inside := string(text[from:to])
		for _, w := range []rune{AnyText, AnyName, AnyChar, Undotted} {
			stands := w == AnyText || !strings.Contains(inside, "/") &&
				(w == AnyName || w == AnyChar && to-from == 1 || w == Undotted && !strings.HasPrefix(inside, "."))
			holed := append(append(append([]rune{}, text[:from]...), w), text[to:]...)
			if stands && !g.May(holed) {
				t.Fatalf("%q takes %q, but not with wildcard %d for %q", pattern, path, w, inside)
			}
		}
	})
}

func TestMay(t *testing.T) {
	for _, tc := range []struct {
		pattern, text string // "*" is AnyName, "?" AnyChar, "#" AnyText, "+" Undotted
		want          bool
	}{
		{"**/.env", ".en*", true},
		{"**/.env", "*.go", false},
		{"**/.env", "*", true},
		{"**/.env", "+", false},
		{"**/.env", "+nv", false},
		{"**/.env", "#", true},
		{"**/.env", "a/#v", true},
		{"**/.env", "a/*v", true},
		{"**/.env", "a/+v", false},
		{"**/.env", "????", true},
		{"**/.env", "???", false},
		{"a/*", "*", false},
		{"a/*", "#", true},
		{"a/**", "*", true},
		{"secrets/**", "+", true},
		{"secrets/**", "+/x", true},
		{"*.{pem,key}", "x.k*", true},
		{"*.{pem,key}", "x.q?", false},
	} {
		g, err := Compile(tc.pattern)
		if err != nil {
			t.Fatal(err)
		}
		text := []rune(tc.text)
		for i, c := range text {
			if w, ok := map[rune]rune{'*': AnyName, '?': AnyChar, '#': AnyText, '+': Undotted}[c]; ok {
				text[i] = w
			}
		}
		if got := g.May(text); got != tc.want {
			t.Errorf("%q over %q: %v", tc.pattern, tc.text, got)
		}
	}
}

func TestMatchBelow(t *testing.T) {
	for _, tc := range []struct {
		pattern, dir string
		want         bool
	}{
		{"docs/**", "docs", true},
		{"docs/**", "docs/a", true},
		{"docs/**", "src", false},
		{"docs/**", ".", true},
		{"*.md", "docs", false},
		{"**/*.md", "docs/x", true},
		{"a/*/c", "a/b", true},
		{"a/*/c", "a/b/c", false},
		{"/etc/**", "/", true},
		{"/etc/**", "/etc", true},
		{"/etc/**", "/usr", false},
		{"{a,b}/c", "b", true},
		{"{a,b}/c", "c", false},
	} {
		g, err := Compile(tc.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := g.MatchBelow(tc.dir); got != tc.want {
			t.Errorf("%q below %q: %v", tc.pattern, tc.dir, got)
		}
	}
}

// hostile are patterns of a size that cost a backtracking matcher time without end.
var hostile = map[string]func(n int) string{
	"braces":           func(n int) string { return strings.Repeat("{a,aa}", n) },
	"empty braces":     func(n int) string { return strings.Repeat("{,}", n) },
	"stars":            func(n int) string { return strings.Repeat("*a", n) },
	"stars in braces":  func(n int) string { return strings.Repeat("{*,a}", n) + "b" },
	"folders":          func(n int) string { return strings.Repeat("**/", n) + "b" },
	"alternated stars": func(n int) string { return "{" + strings.Repeat("*a,", n) + "b}" },
	"nested braces": func(n int) string {
		return strings.Repeat("{a,", min(n, maxDepth)) + "b" + strings.Repeat("}", min(n, maxDepth))
	},
}

func steps(t testing.TB, pattern, path string) int {
	t.Helper()
	g, err := Compile(pattern)
	if err != nil {
		t.Fatal(err)
	}
	r := newRun(g)
	r.text(path)
	r.accepts()
	return r.steps
}

// TestWorkGrowsLinearly: doubling the path at most doubles the work, and so does
// doubling the pattern.
func TestWorkGrowsLinearly(t *testing.T) {
	path := func(n int) string { return strings.Repeat("a", n) + strings.Repeat("a/", n/2) }
	for name, pattern := range hostile {
		for n := 20; n <= 80; n *= 2 {
			base := steps(t, pattern(n), path(400))
			if longer := steps(t, pattern(n), path(800)); longer > base*22/10 {
				t.Errorf("%s: %d steps, and %d for twice the path", name, base, longer)
			}
			base = steps(t, pattern(n), path(16))
			if longer := steps(t, pattern(2*n), path(16)); longer > base*23/10 {
				t.Errorf("%s: %d steps, and %d for twice the pattern", name, base, longer)
			}
		}
	}
}

func TestSizeIsBounded(t *testing.T) {
	for name, pattern := range map[string]string{
		"parts":    strings.Repeat("a", MaxSize+1),
		"sets":     "[" + strings.Repeat("ab", MaxSize) + "]",
		"braces":   strings.Repeat("{", 100000),
		"nested":   strings.Repeat("{", maxDepth+1) + strings.Repeat("}", maxDepth+1),
		"brackets": strings.Repeat("[", 64<<10),
	} {
		if _, err := Compile(pattern); err == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	g, err := Compile("**/*.{go,mod,sum}")
	if err != nil {
		b.Fatal(err)
	}
	b.Run("ordinary", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			g.Match("internal/pathglob/pathglob_test.go")
		}
	})
	for _, n := range []int{24, 48, 96} {
		g, err := Compile(strings.Repeat("{a,aa}", n))
		if err != nil {
			b.Fatal(err)
		}
		path := strings.Repeat("a", 2*n)
		b.Run(fmt.Sprint("braces-", n), func(b *testing.B) {
			for b.Loop() {
				g.Match(path + "b")
			}
		})
	}
}

func FuzzCompile(f *testing.F) {
	f.Add("**/{a,b}/[!c-d]?", "x/a/e")
	f.Fuzz(func(_ *testing.T, pattern, path string) {
		if g, err := Compile(pattern); err == nil {
			g.Match(path)
			g.MatchBelow(path)
			g.May([]rune(path))
		}
	})
}
