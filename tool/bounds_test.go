package tool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hostilePatterns are globs that cost much where alternatives or stars are tried one
// after the other, n of them each.
var hostilePatterns = map[string]func(n int) string{
	"braces":       func(n int) string { return strings.Repeat("{a,aa}", n) },
	"nested":       func(n int) string { return strings.Repeat("{a,", min(n, 30)) + "b" + strings.Repeat("}", min(n, 30)) },
	"stars":        func(n int) string { return strings.Repeat("*a", n) + "b" },
	"double stars": func(n int) string { return strings.Repeat("**/", n) + "b" },
	"sets":         func(n int) string { return strings.Repeat("[!b]*", n) + "b" },
}

// TestHostileGlobs ends for patterns whose cost would double with each part.
func TestHostileGlobs(t *testing.T) {
	d := newDesk(t)
	long := strings.Repeat("a", 200)
	d.putFile(strings.Repeat("a/", 20)+long, "text")
	for name, pattern := range hostilePatterns {
		for _, n := range []int{24, 120} {
			glob := pattern(n)
			d.ok(ListFiles, obj{"path": ".", "glob": glob})
			d.ok(SearchFiles, obj{"pattern": "text", "glob": glob})
			d.putFile(".gitignore", strings.Repeat(glob+"\n", 10))
			if out := d.text(ListFiles, obj{"path": "."}); !strings.Contains(out, "a/") {
				t.Errorf("%s: %s", name, out)
			}
		}
	}
	d.fails(ListFiles, obj{"path": ".", "glob": strings.Repeat("{a,aa}", 2000)}, InvalidInput, "parts")
}

// TestHostileRegexps: patterns are bounded before they are used, and an interrupt
// ends a search within one long line.
func TestHostileRegexps(t *testing.T) {
	d := newDesk(t)
	d.putFile("f", strings.Repeat("a", 1<<20))
	d.fails(SearchFiles, obj{"pattern": strings.Repeat("a", maxPattern+1)}, InvalidInput, "at most")
	d.fails(SearchFiles, obj{"pattern": strings.Repeat("(a{1,100}){1,10}b?", 8)}, InvalidInput, "too complex")
	d.ok(SearchFiles, obj{"pattern": "(x+x+)+y"})
	find, err := newFinder("(a?){400}a{400}b")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &runesUntil{ctx: ctx, data: []byte(strings.Repeat("a", 1<<20))}
	cancel()
	if m := find.re.FindReaderIndex(r); m != nil || len(r.data) < 1<<20-2048 {
		t.Errorf("read %d bytes after the interrupt, found %v", 1<<20-len(r.data), m)
	}
}

// TestVeryLongLineIsFound: a line that is searched in pieces gives what a short one does.
func TestVeryLongLineIsFound(t *testing.T) {
	find, err := newFinder(`(?:x{1,500})?needle$`)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("é", 3*find.step)
	text := "first\n" + long + "needle\nsecond needle\n" + long + "needles\n" + long + "needle"
	var lines []int
	find.lines(t.Context(), []byte(text), func(line int, shown []byte) bool {
		if !strings.Contains(string(shown), "needle") {
			t.Errorf("line %d shows %q", line, shown)
		}
		lines = append(lines, line)
		return true
	})
	if fmt.Sprint(lines) != "[2 3 5]" {
		t.Errorf("found in %v", lines)
	}
}

// TestInterruptedWalk: every loop of a walk ends with its context.
func TestInterruptedWalk(t *testing.T) {
	d := newDesk(t)
	for i := range 50 {
		d.putFile(fmt.Sprintf("dir%d/f", i), "text")
	}
	ctx, cancel := context.WithCancel(t.Context())
	tr, err := d.files.open(d.call(obj{}))
	if err != nil {
		t.Fatal(err)
	}
	defer tr.close()
	folder, err := tr.dir(".")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	l := lister{base: ".", match: func(string) bool {
		if seen++; seen == 10 {
			cancel()
		}
		return true
	}}
	w := walk{t: tr, visit: l.visit}
	if err := w.from(ctx, folder, "."); !errors.Is(err, context.Canceled) || seen != 10 {
		t.Errorf("%v after %d entries", err, seen)
	}
}

// TestDeepTree: what lies deeper than a walk goes is left out, and that is said.
func TestDeepTree(t *testing.T) {
	d := newDesk(t)
	at := d.root
	for range 2 * maxLevels {
		at = filepath.Join(at, "d")
	}
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	out := d.text(ListFiles, obj{"path": "."})
	if !strings.Contains(out, "levels") || strings.Contains(out, strings.Repeat("d/", maxLevels+2)) {
		t.Errorf("%s", out[max(0, len(out)-300):])
	}
}

// TestEditStaysSmall: replacing every occurrence can't fill the memory.
func TestEditStaysSmall(t *testing.T) {
	d := newDesk(t)
	d.putFile("f", strings.Repeat("a", 1<<16))
	d.fails(EditFile, obj{"path": "f", "old": "a", "new": strings.Repeat("b", 1<<16), "all": true}, InvalidInput, "would have")
	if d.readFile("f") != strings.Repeat("a", 1<<16) {
		t.Error("the file was changed")
	}
}

// BenchmarkGlob shows that the cost of a pattern grows with its length: the time for
// each part stays the same.
func BenchmarkGlob(b *testing.B) {
	for name, pattern := range hostilePatterns {
		for _, n := range []int{15, 30, 60, 120} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				match, err := globber(pattern(n))
				if err != nil {
					b.Fatal(err)
				}
				path := strings.Repeat("a", 200)
				for b.Loop() {
					match(path)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/part")
			})
		}
	}
}

// BenchmarkMismatch shows that explaining a failed edit is linear in the lines.
func BenchmarkMismatch(b *testing.B) {
	for _, n := range []int{5_000, 10_000, 20_000, 40_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			content := []byte(strings.Repeat("a\n", n))
			in := &editInput{Path: "f", Old: strings.Repeat("a\n", n/2) + "b\n"}
			for b.Loop() {
				_ = mismatch(content, in)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/line")
		})
	}
}

// BenchmarkTree shows that list_files and search_files are linear in the entries.
func BenchmarkTree(b *testing.B) {
	for _, n := range []int{1000, 2000, 4000} {
		d := newDesk(b)
		for i := range n {
			d.putFile(fmt.Sprintf("dir%d/f%d", i%50, i), "text\n")
		}
		for name, in := range map[string]obj{ListFiles: {"path": ".", "glob": "f*1"}, SearchFiles: {"pattern": "nothing"}} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				for b.Loop() {
					d.ok(name, in)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/entry")
			})
		}
	}
}
