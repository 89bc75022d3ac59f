package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestListFiles(t *testing.T) {
	d := newDesk(t)
	for _, f := range []string{
		"README.md", "cmd/main.go", "cmd/main_test.go", "web/src/app.ts", "web/src/deep/x.ts", "web/dist/app.js",
		"node_modules/a/index.js", ".git/config", ".github/ci.yml", "build/out.o", "logs/a.log", "logs/keep.log",
		"web/local.env", "doc/a.txt", "doc/sub/a.txt", "new\nline",
	} {
		d.putFile(f, "")
	}
	d.putFile(".gitignore", "# what is made\nnode_modules/\n/build\n*.log\n!keep.log\nweb/dist\ndoc/**/a.txt\n!doc/a.txt\n")
	d.putFile("web/.gitignore", "local.env\r\n")
	d.link("README.md", "link")
	d.link("/etc", "outside")
	for _, c := range []struct {
		in   obj
		want []string
	}{
		{obj{"path": "."}, []string{
			".github/", ".github/ci.yml", ".gitignore", "README.md", "cmd/", "cmd/main.go", "cmd/main_test.go", "doc/", "doc/a.txt", "doc/sub/",
			"link -> README.md", "logs/", "logs/keep.log", `new\nline`, "outside -> /etc", "web/", "web/.gitignore", "web/src/", "web/src/app.ts", "web/src/deep/", "web/src/deep/x.ts",
			"[.gitignore leaves out 6 here]",
		}},
		{obj{"path": ".", "glob": "*.ts"}, []string{"web/src/app.ts", "web/src/deep/x.ts", "[.gitignore leaves out 6 here]"}},
		{obj{"path": ".", "glob": "web/*/*.ts"}, []string{"web/src/app.ts", "[.gitignore leaves out 6 here]"}},
		{obj{"path": "./cmd", "glob": "./**/*_test.go"}, []string{"cmd/main_test.go"}},
		{obj{"path": ".", "glob": "{cmd,doc}/*.{go,txt}"}, []string{"cmd/main.go", "cmd/main_test.go", "doc/a.txt", "[.gitignore leaves out 6 here]"}},
		{obj{"path": "web/src"}, []string{"web/src/app.ts", "web/src/deep/", "web/src/deep/x.ts"}},
		{obj{"path": "web"}, []string{"web/.gitignore", "web/src/", "web/src/app.ts", "web/src/deep/", "web/src/deep/x.ts", "[.gitignore leaves out 2 here]"}},
		{obj{"path": "node_modules"}, []string{"node_modules/a/", "node_modules/a/index.js"}},
		{obj{"path": "node_modules/a"}, []string{"node_modules/a/index.js"}},
		{obj{"path": ".git"}, []string{".git/config"}},
		{obj{"path": filepath.Join(d.root, "cmd")}, []string{d.root + "/cmd/main.go", d.root + "/cmd/main_test.go"}},
		{obj{"path": ".", "glob": "*.none"}, []string{"[nothing found; .gitignore leaves out 6 here]"}},
	} {
		if got := d.text(ListFiles, c.in); got != strings.Join(c.want, "\n")+"\n" {
			t.Errorf("%v: got\n%s", c.in, got)
		}
	}
	d.cwd = filepath.Join(d.root, "web")
	if got := d.text(ListFiles, obj{"path": "src"}); got != "src/app.ts\nsrc/deep/\nsrc/deep/x.ts\n" {
		t.Errorf("relative to the working folder:\n%s", got)
	}
	d.cwd = d.root
	d.fails(ListFiles, obj{"path": "README.md"}, InvalidInput, "not a folder")
	d.fails(ListFiles, obj{"path": "cmdd"}, NotFound, `Did you mean "cmd"?`)
	d.fails(ListFiles, obj{"path": ".", "glob": "[a"}, InvalidInput, "glob", "not a valid pattern")
	d.fails(ListFiles, obj{"path": "outside"}, SandboxViolation, "symbolic link")
	d.fails(ListFiles, obj{"path": ".."}, SandboxViolation)
	d.fails(ListFiles, obj{}, InvalidInput, "path: is missing")
}

func TestListFilesBounds(t *testing.T) {
	d := newDesk(t)
	for i := range 1500 {
		d.putFile(fmt.Sprintf("a/deep/er/%04d", i), "")
	}
	d.putFile("z", "")
	got := d.text(ListFiles, obj{"path": "."})
	requireWords(t, got, "\nz\n", "a/deep/er/0000\n", "[504 more; narrow it with path or glob]")
	if n := strings.Count(got, "\n"); n != maxListed+1 {
		t.Errorf("%d lines", n)
	}
	d.maxOutput = 100
	if got := d.text(ListFiles, obj{"path": "."}); len(got) > 250 {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	if err := os.Chmod(filepath.Join(d.root, "a", "deep"), 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(filepath.Join(d.root, "a", "deep"), 0o755) //nolint:errcheck // for the clean-up
	if os.Geteuid() != 0 {
		requireWords(t, d.text(ListFiles, obj{"path": "."}), "1 folder could not be read")
	}
}

func TestIgnoreRules(t *testing.T) {
	for _, c := range []struct {
		rules, rel string
		isDir      bool
		want       bool
	}{
		{"a", "a", false, true},
		{"a", "x/a", false, true},
		{"/a", "x/a", false, false},
		{"a/", "a", false, false},
		{"a/", "x/a", true, true},
		{"x/a", "x/a", false, true},
		{"x/a", "y/x/a", false, false},
		{"*.o", "x/y.o", false, true},
		{"*.o", "x/y.oo", false, false},
		{"a*b", "x/azb", false, true},
		{"a?", "ab", false, true},
		{"[ab]", "b", false, true},
		{"[!ab]", "b", false, false},
		{"**/x", "a/b/x", false, true},
		{"**/x", "x", false, true},
		{"x/**", "x/a/b", false, true},
		{"x/**", "x", true, false},
		{"a/**/b", "a/b", false, true},
		{"a/**/b", "a/x/y/b", false, true},
		{"*\n!a", "a", false, false},
		{"!a\n*", "a", false, true},
		{"# a\n\\#b", "#b", false, true},
		{"# a", "# a", false, false},
		{"\\!a", "!a", false, true},
		{"a  ", "a", false, true},
		{"{a,b}", "a", false, false},
		{"{a,b}x*", "{a,b}xy", false, true},
		{"[", "[", false, false},
		{"/", "a", true, false},
		{"!", "a", true, false},
	} {
		l := &ignoreList{base: ".", rules: parseIgnore(strings.NewReader(c.rules), maxIgnoreRules)}
		if got := l.ignored(c.rel, c.isDir); got != c.want {
			t.Errorf("%q on %s: %v", c.rules, c.rel, got)
		}
	}
	var none *ignoreList
	if none.ignored("a", false) {
		t.Error("nothing ignores something")
	}
}

func TestSearchFiles(t *testing.T) {
	d := newDesk(t)
	d.putFile("a.go", "package a\n\nfunc Foo() {}\nfunc bar() {}\n")
	d.putFile("sub/b.go", "package b\r\n// Foo bar\r\nfoo(")
	d.putFile("sub/c.txt", "Foo\n")
	d.putFile("bom.txt", "\xEF\xBB\xBFstart\n")
	d.putFile("bin", "Foo\x00\n")
	d.putFile("latin.txt", "caf\xe9 Foo\n")
	d.putFile(".gitignore", "ignored/\n")
	d.putFile("ignored/x.go", "Foo\n")
	d.putFile("wide.txt", strings.Repeat("x", 5000)+"NEEDLE"+strings.Repeat("y", 5000)+"\n")
	d.link("a.go", "link.go")
	for _, c := range []struct {
		in   obj
		want string
	}{
		{obj{"pattern": "Foo"}, "a.go:3:func Foo() {}\nlatin.txt:1:caf\uFFFD Foo\nsub/b.go:2:// Foo bar\nsub/c.txt:1:Foo\n"},
		{obj{"pattern": "(?i)foo", "glob": "*.go"}, "a.go:3:func Foo() {}\nsub/b.go:2:// Foo bar\nsub/b.go:3:foo(\n"},
		{obj{"pattern": "Foo", "path": "sub"}, "sub/b.go:2:// Foo bar\nsub/c.txt:1:Foo\n"},
		{obj{"pattern": "Foo", "path": "ignored"}, "ignored/x.go:1:Foo\n"},
		{obj{"pattern": "Foo", "path": "sub/c.txt"}, "sub/c.txt:1:Foo\n"},
		{obj{"pattern": "Foo", "path": "link.go"}, "link.go:3:func Foo() {}\n"},
		{obj{"pattern": "Foo", "glob": "sub/*.txt"}, "sub/c.txt:1:Foo\n"},
		{obj{"pattern": "^func", "path": "a.go"}, "a.go:3:func Foo() {}\na.go:4:func bar() {}\n"},
		{obj{"pattern": `bar$`, "path": "sub"}, "sub/b.go:2:// Foo bar\n"},
		{obj{"pattern": `\Afoo\($`, "path": "sub"}, "sub/b.go:3:foo(\n"},
		{obj{"pattern": `\{\}\s*func`}, "[no match]\n"},
		{obj{"pattern": `(?s)Foo.*bar`, "path": "a.go"}, "[no match]\n"},
		{obj{"pattern": `^$`, "path": "a.go"}, "a.go:2:\n"},
		{obj{"pattern": `^start`}, "bom.txt:1:start\n"},
		{obj{"pattern": "nowhere"}, "[no match]\n"},
		{obj{"pattern": `\Qfoo(`}, "sub/b.go:3:foo(\n"},
	} {
		if got := d.text(SearchFiles, c.in); got != c.want {
			t.Errorf("%v: got\n%s", c.in, got)
		}
	}
	got := d.text(SearchFiles, obj{"pattern": "NEEDLE"})
	if len(got) > 400 || !strings.Contains(got, "NEEDLE") || !strings.Contains(got, "…") {
		t.Errorf("a wide line: %q", got)
	}
	d.fails(SearchFiles, obj{"pattern": "a(b"}, InvalidInput, "missing closing )", `"a(b" at character 1`)
	d.fails(SearchFiles, obj{"pattern": "ab[z-a]"}, InvalidInput, "invalid character class range", `"z-a" at character 4`)
	d.fails(SearchFiles, obj{"pattern": "a(?=b)"}, InvalidInput, `"(?=" at character 2`, "no lookaround")
	d.fails(SearchFiles, obj{"pattern": "a{99999}"}, InvalidInput, "invalid repeat count")
	d.fails(SearchFiles, obj{"pattern": "a", "glob": "{"}, InvalidInput, "glob")
	d.fails(SearchFiles, obj{"pattern": "a", "path": "none"}, NotFound)
	d.fails(SearchFiles, obj{"pattern": "a", "path": "../x"}, SandboxViolation)
	d.fails(SearchFiles, obj{"path": "a"}, InvalidInput, "pattern: is missing")
}

func TestSearchFilesBounds(t *testing.T) {
	d := newDesk(t)
	for i := range 300 {
		d.putFile(fmt.Sprintf("d%d/f%03d", i%7, i), strings.Repeat("match me\n", 10))
	}
	first := d.text(SearchFiles, obj{"pattern": "match"})
	requireWords(t, first, "[only the first 1000 matches; narrow it with pattern, path or glob]")
	if n := strings.Count(first, "\n"); n != maxMatches+1 {
		t.Errorf("%d lines", n)
	}
	for range 5 {
		if again := d.text(SearchFiles, obj{"pattern": "match"}); again != first {
			t.Fatal("the same search gives something else")
		}
	}
	d.maxOutput = 200
	res := d.ok(SearchFiles, obj{"pattern": "match"})
	var a FileSearch
	if err := json.Unmarshal(res.Structured, &a); err != nil || !a.Truncated || a.Matches >= 20 || len(res.Output) > 350 {
		t.Errorf("%+v, %v, %d bytes", a, err, len(res.Output))
	}
	d.maxOutput = 0
	d.putFile("large", "")
	if err := os.Truncate(filepath.Join(d.root, "large"), maxSearched+1); err != nil {
		t.Fatal(err)
	}
	requireWords(t, d.text(SearchFiles, obj{"pattern": "nowhere"}), "1 file of more than 16.0 MiB not searched")
}

func TestSearchFilesStops(t *testing.T) {
	d := newDesk(t)
	for i := range 200 {
		d.putFile(fmt.Sprintf("d%d/f", i), strings.Repeat("x\n", 1000))
	}
	ctx, cancel := context.WithCancel(t.Context())
	tr, err := newFiles(nil, nil).open(d.call(obj{}))
	if err != nil {
		t.Fatal(err)
	}
	defer tr.close()
	find, err := newFinder("never")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	s := &searcher{t: tr, find: find, asked: ".", pending: map[int]batchResult{}, match: func(string) bool {
		if seen++; seen == 10 {
			cancel()
		}
		return true
	}}
	if err := s.run(ctx); !errors.Is(err, context.Canceled) || seen > 20 {
		t.Errorf("%v after %d files", err, seen)
	}
}

// Searching a whole file gives what searching each line gives.
func FuzzFinder(f *testing.F) {
	for _, p := range []string{"a", "^a", "a$", `\s`, `[^x]`, `(?s).`, `\Aa\z`, `a|\n`, `(?i)A+b*`, `\bfoo\b`, `x*`, `(?-m)^a`, `[\n]`, `a\nb`, `\Qa.b`, `[[:space:]]+$`, `(?U)a+`, `(?i)kiosk`, `(?i)(ab){2}c`, `(foo|bar)+ a`, `(?:xyz)*a`, `(?i:Ä)b`, `(?i)s(TA)k`} {
		f.Add(p, "a\nfoo a.b\n\n x aXb\ttail ")
		f.Add(p, "\u212AIO\u017Fk ABabC äB STAK\nxyza")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		find, err := newFinder(pattern)
		if err != nil || len(text) > 10_000 {
			return
		}
		plain, err := regexp.Compile(pattern)
		if err != nil {
			t.Fatal(err)
		}
		text = strings.ReplaceAll(text, "\r", "")
		var got, want []int
		find.lines(t.Context(), []byte(text), func(line int, _ []byte) bool {
			got = append(got, line)
			return true
		})
		lines := strings.Split(text, "\n")
		if strings.HasSuffix(text, "\n") || text == "" {
			lines = lines[:len(lines)-1]
		}
		for i, l := range lines {
			if plain.MatchString(l) {
				want = append(want, i+1)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q in %q: lines %v, want %v", pattern, text, got, want)
		}
	})
}

// makeTree makes n small files for benchmarks.
func makeTree(b *testing.B, d *desk, n int) {
	b.Helper()
	var body strings.Builder
	for i := range 60 {
		fmt.Fprintf(&body, "\tresult%d := compute(input[%d], options.Limit) // some words about it\n", i, i)
	}
	for i := range n {
		text := body.String()
		if i%1000 == 0 {
			text += "the needle is here\n"
		}
		d.putFile(fmt.Sprintf("pkg%02d/sub%d/file%d.go", i%50, i%7, i), text)
	}
	d.putFile(".gitignore", "*.log\nnode_modules/\n/build\nvendor/**/testdata\n")
	b.ResetTimer()
}

func BenchmarkSearchFiles(b *testing.B) {
	d := newDesk(b)
	makeTree(b, d, 10_000)
	for _, p := range []string{"the needle is here", `needle\s+is\s+(t?here)`, `(?i)NEEDLE IS`} {
		b.Run(strings.Map(func(r rune) rune {
			if r == ' ' || r == '\\' {
				return '_'
			}
			return r
		}, p), func(b *testing.B) {
			for b.Loop() {
				if out := d.text(SearchFiles, obj{"pattern": p}); strings.Count(out, "\n") != 10 {
					b.Fatal(out)
				}
			}
		})
	}
}

func BenchmarkListFiles(b *testing.B) {
	d := newDesk(b)
	makeTree(b, d, 10_000)
	for b.Loop() {
		d.ok(ListFiles, obj{"path": "."})
	}
}
