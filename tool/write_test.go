//go:build unix

package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"agentd/event"
)

func hashOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func TestWriteFile(t *testing.T) {
	d := newDesk(t)
	old := syscall.Umask(0o022)
	defer syscall.Umask(old)
	res := d.ok(WriteFile, obj{"path": "a/b/new.txt", "content": "hi\r\n"})
	want := []event.FileChange{{Path: "a/b/new.txt", Change: "created", AfterHash: hashOf("hi\r\n"), Mode: 0o644}}
	if diff := cmp.Diff(want, res.Changed); diff != "" {
		t.Error(diff)
	}
	if d.readFile("a/b/new.txt") != "hi\r\n" || d.changing[0] != filepath.Join(d.root, "a", "b", "new.txt") {
		t.Errorf("%q, %v", d.readFile("a/b/new.txt"), d.changing)
	}
	d.putMode("run.sh", "old", 0o750)
	res = d.ok(WriteFile, obj{"path": filepath.Join(d.root, "run.sh"), "content": ""})
	want = []event.FileChange{{Path: "run.sh", Change: "modified", AfterHash: hashOf(""), Mode: 0o750}}
	if diff := cmp.Diff(want, res.Changed); diff != "" {
		t.Error(diff)
	}
	if fi, err := os.Stat(filepath.Join(d.root, "run.sh")); err != nil || fi.Mode() != 0o750 || fi.Size() != 0 {
		t.Errorf("%v, %v", fi, err)
	}
	// Another name of the same file keeps its content: the file is replaced, not
	// written through.
	d.putFile("one", "1")
	if err := os.Link(filepath.Join(d.root, "one"), filepath.Join(d.root, "two")); err != nil {
		t.Fatal(err)
	}
	d.ok(WriteFile, obj{"path": "one", "content": "changed"})
	if d.readFile("two") != "1" {
		t.Error("a hard link was written through")
	}
	// Set-user-ID doesn't survive a new content.
	d.putMode("suid", "x", 0o755|fs.ModeSetuid)
	d.ok(WriteFile, obj{"path": "suid", "content": "y"})
	if fi, err := os.Stat(filepath.Join(d.root, "suid")); err != nil || fi.Mode() != 0o755 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
	d.clean()
}

func TestWriteFileRefuses(t *testing.T) {
	d := newDesk(t)
	d.putFile("file", "x")
	d.putFile("dir/x", "x")
	d.putMode("ro", "x", 0o444)
	d.link("file", "link")
	d.link("dir", "dirlink")
	d.fails(WriteFile, obj{"path": "dir", "content": ""}, InvalidInput, "is a folder")
	d.fails(WriteFile, obj{"path": ".", "content": ""}, InvalidInput, "is a folder")
	d.fails(WriteFile, obj{"path": "new/", "content": ""}, InvalidInput, "names a folder")
	d.fails(WriteFile, obj{"path": "file/x", "content": ""}, NotFound, `"file" is not a folder`)
	d.fails(WriteFile, obj{"path": "ro", "content": ""}, Denied, "read-only", "0444")
	d.fails(WriteFile, obj{"path": "link", "content": ""}, InvalidInput, "symbolic link", `leads to "file"`)
	d.fails(WriteFile, obj{"path": "dirlink/x", "content": ""}, InvalidInput, "symbolic link", `leads to "dir/x"`)
	d.fails(WriteFile, obj{"path": "dirlink/new/y", "content": ""}, InvalidInput, `leads to "dir/new/y"`)
	d.fails(WriteFile, obj{"path": strings.Repeat("n", 300), "content": ""}, InvalidInput, "too long")
	d.fails(WriteFile, obj{"path": "x"}, InvalidInput, "content: is missing")
	if len(d.changing) != 0 {
		t.Errorf("announced: %v", d.changing)
	}
	d.refuse = errors.New("the vault is full")
	d.fails(WriteFile, obj{"path": "file", "content": "y"}, Execution, "the vault is full")
	d.fails(WriteFile, obj{"path": "q/new", "content": "y"}, Execution, "the vault is full")
	d.refuse = Errorf(Denied, "not this one")
	d.fails(WriteFile, obj{"path": "file", "content": "y"}, Denied, "not this one")
	d.refuse = nil
	if _, err := os.Stat(filepath.Join(d.root, "q")); err == nil || d.readFile("file") != "x" {
		t.Error("something was changed that must not be")
	}
	d.clean()
}

// Whoever changes the file between reading and writing is not overwritten.
func TestWriteSeesOthersChanges(t *testing.T) {
	d := newDesk(t)
	d.putFile("a", "one\n")
	for name, meanwhile := range map[string]func(){
		"content": func() { d.putFile("a", "two, longer\n") },
		"removed": func() { _ = os.Remove(filepath.Join(d.root, "a")) },
		"replaced": func() {
			d.putFile("b", "one\n")
			_ = os.Rename(filepath.Join(d.root, "b"), filepath.Join(d.root, "a"))
		},
	} {
		d.putFile("a", "one\n")
		d.meanwhile = meanwhile
		if e := d.failure(EditFile, obj{"path": "a", "old": "one", "new": "1"}, Execution, "changed by someone else", "Read it again"); !e.Retryable {
			t.Errorf("%s: not retryable", name)
		}
	}
	d.meanwhile = func() { d.putFile("fresh", "theirs") }
	d.fails(WriteFile, obj{"path": "fresh", "content": "ours"}, Execution, "changed by someone else")
	if d.readFile("fresh") != "theirs" {
		t.Error("overwritten")
	}
	d.meanwhile = func() { d.putFile("other/x", "") }
	d.ok(WriteFile, obj{"path": "other/y", "content": ""}) // a folder that appears is fine
	d.clean()
}

func TestEditFile(t *testing.T) {
	for name, c := range map[string]struct {
		before, old, new, after string
		all                     bool
	}{
		"one":                    {"a b c", "b", "B", "a B c", false},
		"remove":                 {"a b c", " b", "", "a c", false},
		"all":                    {"x.x.x", "x", "y", "y.y.y", true},
		"all of one":             {"x", "x", "yy", "yy", true},
		"no newline at end kept": {"a\nb", "b", "c", "a\nc", false},
		"crlf, one line":         {"a\r\nb\r\n", "b", "c", "a\r\nc\r\n", false},
		"crlf, given as lf":      {"a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\nz\n", "x\r\ny\r\nz\r\nc\r\n", false},
		"crlf, given as crlf":    {"a\r\nb\r\n", "a\r\nb", "x\r\ny", "x\r\ny\r\n", false},
		"crlf, begins with lf":   {"a\r\nb\r\n", "\nb", "\nc\nd", "a\r\nc\r\nd\r\n", false},
		"mixed is exact":         {"a\r\nb\nc\n", "b\n", "d\n", "a\r\nd\nc\n", false},
		"byte order mark kept":   {"\xEF\xBB\xBFa\n", "a", "b", "\xEF\xBB\xBFb\n", false},
		"not UTF-8 kept":         {"caf\xe9 x \xff\n", "x", "y", "caf\xe9 y \xff\n", false},
		"overlapping":            {"aaaa", "aa", "b", "bb", true},
	} {
		d := newDesk(t)
		d.putMode("f", c.before, 0o600)
		res := d.ok(EditFile, obj{"path": "f", "old": c.old, "new": c.new, "all": c.all})
		if got := d.readFile("f"); got != c.after {
			t.Errorf("%s: got %q, want %q", name, got, c.after)
		}
		want := []event.FileChange{{Path: "f", Change: "modified", AfterHash: hashOf(c.after), Mode: 0o600}}
		if diff := cmp.Diff(want, res.Changed); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		d.clean()
	}
	d := newDesk(t)
	if res := d.ok(EditFile, obj{"path": "x/new", "old": "", "new": "made"}); res.Changed[0].Change != "created" || d.readFile("x/new") != "made" {
		t.Errorf("%+v", res.Changed)
	}
	d.putFile("lines", "a\nb\nc\nb\n")
	requireWords(t, d.text(EditFile, obj{"path": "lines", "old": "b", "new": "x", "all": true}), "2 replacements, the first in line 2")
}

func TestEditFileRefuses(t *testing.T) {
	d := newDesk(t)
	code := "func main() {\n\tfmt.Println(\"hello\")\n\treturn\n}\n"
	d.putFile("main.go", code)
	d.putFile("crlf", "a\r\nb\r\n")
	d.putFile("mixed", "one\r\ntwo\nthree\r\n")
	d.putFile("bin", "a\x00b")
	d.putFile("empty", "")
	d.putFile("twice", "x\ny\nx\nx y\n")
	d.putMode("ro", "x", 0o400)
	d.link("main.go", "link")
	edit := func(path, old, repl string) obj { return obj{"path": path, "old": old, "new": repl} }
	for _, c := range []struct {
		in       obj
		category string
		words    []string
	}{
		{edit("main.go", "x", "x"), InvalidInput, []string{"identical"}},
		{edit("main.go", "", "x"), InvalidInput, []string{"old: is empty", "exists"}},
		{edit("empty", "", "x"), InvalidInput, []string{"old: is empty"}},
		{edit("empty", "a", "x"), InvalidInput, []string{"the file is empty", "write_file"}},
		{edit("main.go", "    fmt.Println(\"hello\")", "x"), InvalidInput, []string{"only blanks differ in line 2", "\tfmt.Println(\"hello\")"}},
		{edit("main.go", "func main() {\n    fmt.Println(\"hello\")\n    return", "x"), InvalidInput, []string{"only blanks differ in lines 1 to 3"}},
		{edit("main.go", "\tfmt.Println(\"hello\")\n\texit\n", "x"), InvalidInput, []string{"first line is as in line 2", "line 3 of the file is\n\treturn", "old has\n\texit"}},
		{edit("main.go", "fmt.Printline(\"hello\")", "x"), InvalidInput, []string{"nearest is line 2:", "fmt.Println"}},
		{edit("main.go", "zzzzqqqq", "x"), InvalidInput, []string{"no line is like it", "search_files"}},
		{edit("mixed", "one\ntwo", "x"), InvalidInput, []string{"only the line endings differ, from line 1 on", "mixes LF and CRLF"}},
		{edit("main.go", "main() {\r\n", "x"), InvalidInput, []string{"only the line endings differ, from line 1 on; the file has LF"}},
		{edit("crlf", "a\nb", "a\r\nb"), InvalidInput, []string{"differ only in line endings"}},
		{edit("twice", "x", "z"), InvalidInput, []string{"old occurs 3 times", "in lines 1, 3, 4", "all"}},
		{edit("bin", "a", "b"), InvalidInput, []string{"binary"}},
		{edit("ro", "x", "y"), Denied, []string{"read-only"}},
		{edit("man.go", "x", "y"), NotFound, []string{"main.go"}},
		{edit("link", "x", "y"), InvalidInput, []string{"symbolic link", "main.go"}},
		{edit(".", "x", "y"), InvalidInput, []string{"is a folder"}},
	} {
		d.fails(EditFile, c.in, c.category, c.words...)
	}
	if d.readFile("main.go") != code || len(d.changing) != 0 {
		t.Errorf("changed, or announced: %v", d.changing)
	}
	d.putFile("many", strings.Repeat("same\n", 100))
	if e := d.failure(EditFile, edit("many", "same", "x"), InvalidInput, "100 times", "…"); len(e.Message) > 300 {
		t.Errorf("a message of %d bytes", len(e.Message))
	}
	large := filepath.Join(d.root, "large")
	d.putFile("large", "x")
	if err := os.Truncate(large, maxEdit+1); err != nil {
		t.Fatal(err)
	}
	d.fails(EditFile, edit("large", "x", "y"), InvalidInput, "can't be edited")
	d.clean()
}

// An edit and its reverse give the bytes that were there.
func TestEditAndBack(t *testing.T) {
	d := newDesk(t)
	piece := rapid.SampledFrom([]string{"a", "b", "ä", "\t", " ", "\r\n", "\xEF\xBB\xBF", "\xe9", "xyz", "}", "\r"})
	lf := rapid.SampledFrom([]string{"\n", "\r\n"})
	backs := 0
	rapid.Check(t, func(rt *rapid.T) {
		// Files with CRLF alone, with LF, and mixed.
		pieces := rapid.SliceOfN(piece, 1, 30).Draw(rt, "pieces")
		if rapid.Bool().Draw(rt, "lf too") {
			for i := range pieces {
				if rapid.Bool().Draw(rt, "end") {
					pieces[i] = lf.Draw(rt, "lf")
				}
			}
		}
		content := strings.Join(pieces, "")
		i := rapid.IntRange(0, len(pieces)-1).Draw(rt, "from")
		j := rapid.IntRange(i+1, len(pieces)).Draw(rt, "to")
		old := strings.ToValidUTF8(strings.Join(pieces[i:j], ""), "")
		repl := rapid.StringMatching(`[a-cäQ \t]{0,8}`).Draw(rt, "new") + "Q" + strings.Repeat(lf.Draw(rt, "end"), rapid.IntRange(0, 1).Draw(rt, "ends"))
		if allCRLF([]byte(content)) {
			repl = string(toCRLF([]byte(repl)))
			if string(toCRLF([]byte(old))) != old {
				return // begins in the middle of a line end, which the edit takes whole
			}
		}
		d.putFile("f", content)
		if strings.Count(content, old) != 1 || old == repl || IsBinary([]byte(content)) {
			return
		}
		if _, err := d.run(EditFile, obj{"path": "f", "old": old, "new": repl}); err != nil {
			rt.Fatalf("%q, %q to %q: %v", content, old, repl, err)
		}
		after := d.readFile("f")
		if strings.Count(after, repl) != 1 || IsBinary([]byte(after)) || allCRLF([]byte(after)) != allCRLF([]byte(content)) {
			return // not unique, or the edit was about how lines end
		}
		backs++
		if _, err := d.run(EditFile, obj{"path": "f", "old": repl, "new": old}); err != nil {
			rt.Fatalf("%q, back from %q to %q: %v", after, repl, old, err)
		}
		if back := d.readFile("f"); back != content {
			rt.Fatalf("%q became %q (%q to %q and back)", content, back, old, repl)
		}
	})
	if backs == 0 {
		t.Error("no edit was taken back")
	}
	d.clean()
}

func BenchmarkEditFile(b *testing.B) {
	d := newDesk(b)
	d.putFile("dir/f.go", strings.Repeat("some line of code\n", 2000)+"here\n")
	words := []string{"here", "there!"}
	i := 0
	for b.Loop() {
		d.ok(EditFile, obj{"path": "dir/f.go", "old": "\n" + words[i%2], "new": "\n" + words[(i+1)%2]})
		i++
	}
}

func BenchmarkReadFile(b *testing.B) {
	d := newDesk(b)
	d.putFile("dir/f.go", strings.Repeat("some line of code\n", 200))
	c := d.call(obj{"path": "dir/f.go"})
	for b.Loop() {
		if _, err := d.tools[ReadFile].Run(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
}

// TestWriteTheSameContent: nothing is written, and nothing is said to have changed.
func TestWriteTheSameContent(t *testing.T) {
	d := newDesk(t)
	d.putFile("same.txt", "content")
	before, err := os.Stat(filepath.Join(d.root, "same.txt"))
	if err != nil {
		t.Fatal(err)
	}
	res := d.ok(WriteFile, obj{"path": "same.txt", "content": "content"})
	after, err := os.Stat(filepath.Join(d.root, "same.txt"))
	if err != nil || !os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()) {
		t.Errorf("the file was replaced: %v, %v, %v", before, after, err)
	}
	if len(res.Changed) != 0 || !strings.Contains(string(res.Structured), `"unchanged"`) || !strings.Contains(string(res.Output), "already") {
		t.Errorf("%+v, %s, %s", res.Changed, res.Structured, res.Output)
	}
	res = d.ok(WriteFile, obj{"path": "same.txt", "content": "CONTENT"})
	if len(res.Changed) != 1 || d.readFile("same.txt") != "CONTENT" {
		t.Errorf("%+v", res.Changed)
	}
	d.clean()
}
