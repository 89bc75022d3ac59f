package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"agentd/internal/clip"
)

func readDetails(t *testing.T, res *Result) FileRead {
	t.Helper()
	var a FileRead
	if err := json.Unmarshal(res.Structured, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestReadFile(t *testing.T) {
	d := newDesk(t)
	d.putFile("a.txt", "one\ntwo\nthree\n")
	d.putFile("crlf.txt", "one\r\ntwo\r\nthree")
	d.putFile("mixed.txt", "one\r\ntwo\n")
	d.putFile("bom.txt", "\xEF\xBB\xBFone\n")
	d.putFile("empty.txt", "")
	d.putFile("latin.txt", "caf\xe9 au lait, s'il vous pla\xeet\n")
	d.putFile("sub/b.txt", "below\n")
	d.putFile("~/x", "tilde\n")
	d.link("a.txt", "link")
	d.link(filepath.Join(d.root, "a.txt"), "abslink")
	d.link("../sub", "sub/self")
	for _, c := range []struct {
		name  string
		input obj
		want  string
	}{
		{"whole", obj{"path": "a.txt"}, "one\ntwo\nthree\n"},
		{"absolute", obj{"path": filepath.Join(d.root, "a.txt")}, "one\ntwo\nthree\n"},
		{"dots that stay inside", obj{"path": "sub/../a.txt"}, "one\ntwo\nthree\n"},
		{"out and in again", obj{"path": "../ws/a.txt"}, "one\ntwo\nthree\n"},
		{"link", obj{"path": "link"}, "one\ntwo\nthree\n"},
		{"absolute link that stays inside", obj{"path": "abslink"}, "one\ntwo\nthree\n"},
		{"folder by link", obj{"path": "sub/self/b.txt"}, "below\n"},
		{"a folder called ~", obj{"path": "./~/x"}, "tilde\n"},
		{"line ends and missing one kept", obj{"path": "crlf.txt"}, "one\r\ntwo\r\nthree"},
		{"byte order mark not shown", obj{"path": "bom.txt"}, "one\n"},
		{"empty", obj{"path": "empty.txt"}, "[the file is empty]\n"},
		{"limit", obj{"path": "a.txt", "limit": 2}, "one\ntwo\n[lines 1 to 2 of 3; go on with offset 3]\n"},
		{"offset", obj{"path": "a.txt", "offset": 3}, "three\n[lines 3 to 3 of 3]\n"},
		{"offset 0 is the beginning", obj{"path": "a.txt", "offset": 0, "limit": 1}, "one\n[lines 1 to 1 of 3; go on with offset 2]\n"},
		{"not UTF-8", obj{"path": "latin.txt"}, "caf\uFFFD au lait, s'il vous pla\uFFFDt\n[bytes that are not UTF-8 are shown as \uFFFD]\n"},
	} {
		if got := d.text(ReadFile, c.input); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	for rel, want := range map[string]FileRead{
		"a.txt":     {Path: "a.txt", SizeBytes: 14, FirstLine: 1, LastLine: 3, Lines: 3, LineEnding: "lf"},
		"crlf.txt":  {Path: "crlf.txt", SizeBytes: 15, FirstLine: 1, LastLine: 3, Lines: 3, LineEnding: "crlf"},
		"mixed.txt": {Path: "mixed.txt", SizeBytes: 9, FirstLine: 1, LastLine: 2, Lines: 2, LineEnding: "mixed"},
		"bom.txt":   {Path: "bom.txt", SizeBytes: 7, FirstLine: 1, LastLine: 1, Lines: 1, LineEnding: "lf", BOM: true},
		"link":      {Path: "a.txt", SizeBytes: 14, FirstLine: 1, LastLine: 3, Lines: 3, LineEnding: "lf"},
		"empty.txt": {Path: "empty.txt", LineEnding: "none"},
	} {
		if got := readDetails(t, d.ok(ReadFile, obj{"path": rel})); got != want {
			t.Errorf("%s: got %+v, want %+v", rel, got, want)
		}
	}
	d.cwd = filepath.Join(d.root, "sub")
	if got := d.text(ReadFile, obj{"path": "b.txt"}); got != "below\n" {
		t.Errorf("relative to the working folder: %q", got)
	}
}

func TestReadFileRefuses(t *testing.T) {
	d := newDesk(t)
	d.putFile("main.go", "package main\n")
	d.putFile("sub/x", "")
	d.link("loop2", "loop1")
	d.link("loop1", "loop2")
	d.link("gone", "dangling")
	d.fails(ReadFile, obj{"path": "mian.go"}, NotFound, `there is no "mian.go"`, `Did you mean "main.go"?`)
	d.fails(ReadFile, obj{"path": "sub/qqqqqq"}, NotFound, `In "sub" there are: x.`)
	d.fails(ReadFile, obj{"path": "sbu/x"}, NotFound, `Did you mean "sub"?`)
	d.fails(ReadFile, obj{"path": "main.go/x"}, NotFound, `"main.go" is not a folder`)
	d.fails(ReadFile, obj{"path": "sub"}, InvalidInput, "is a folder", "list_files")
	d.fails(ReadFile, obj{"path": "."}, InvalidInput, "is a folder")
	d.fails(ReadFile, obj{"path": "loop1"}, InvalidInput, "symbolic link loop")
	d.fails(ReadFile, obj{"path": "dangling"}, NotFound)
	d.fails(ReadFile, obj{"path": "main.go", "offset": 2}, InvalidInput, "has 1 line, there is no line 2")
	d.fails(ReadFile, obj{"path": strings.Repeat("a", 300)}, InvalidInput, "too long")
	d.fails(ReadFile, obj{"path": strings.Repeat("a/", 3000)}, InvalidInput, "at most 4096")
	d.fails(ReadFile, obj{"path": "~/x"}, InvalidInput, "~")
	d.fails(ReadFile, obj{"path": ""}, InvalidInput, "path")
	d.fails(ReadFile, obj{"path": "a\x00b"}, InvalidInput, "zero byte")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var e *Error
	if _, err := d.tools[ReadFile].Run(ctx, d.call(obj{"path": "main.go"})); !errors.As(err, &e) || e.Category != Interrupted {
		t.Errorf("interrupted: %v", err)
	}
	c := d.call(obj{"path": "main.go"})
	c.Root = filepath.Join(d.root, "none")
	if _, err := d.tools[ReadFile].Run(t.Context(), c); !errors.As(err, &e) || e.Category != Execution {
		t.Errorf("no workspace: %v", err)
	}
}

func TestReadFileBounds(t *testing.T) {
	d := newDesk(t)
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "line %d\n", i+1)
	}
	d.putFile("long.txt", b.String())
	got := d.text(ReadFile, obj{"path": "long.txt"})
	requireWords(t, got, "line 2000\n[lines 1 to 2000 of 5000; go on with offset 2001]")
	if strings.Contains(got, "line 2001\n") {
		t.Error("more than 2000 lines")
	}

	// All parts together are the file.
	d.maxOutput = 1000
	var parts strings.Builder
	for next := int64(1); next <= 5000; {
		res := d.ok(ReadFile, obj{"path": "long.txt", "offset": next})
		if n := len(res.Output); n > 1000+100 {
			t.Fatalf("%d bytes", n)
		}
		text, _, _ := strings.Cut(string(res.Output), "[")
		parts.WriteString(text)
		next = readDetails(t, res).LastLine + 1
	}
	if parts.String() != b.String() {
		t.Error("the parts don't make up the file")
	}

	d.maxOutput = 0
	wide := strings.Repeat("ä", 100_000)
	d.putFile("wide.txt", "a\r\n"+wide+"\r\nz\r\n")
	res := d.ok(ReadFile, obj{"path": "wide.txt"})
	text := string(res.Output)
	if !strings.HasPrefix(text, "a\r\n"+strings.Repeat("ä", 1000)+"…\r\nz\r\n[") || !utf8.ValidString(text) || len(text) > 3000 {
		t.Errorf("a wide line: %q", clip.Text(text, 100))
	}
	requireWords(t, text, "1 line longer than 2000 bytes cut at …")
	if res.Dropped != 200_000-2000 {
		t.Errorf("dropped %d", res.Dropped)
	}
	d.putFile("oneline.txt", wide)
	if text := d.text(ReadFile, obj{"path": "oneline.txt"}); len(text) > 3000 || !utf8.ValidString(text) {
		t.Errorf("%d bytes", len(text))
	}
}

func TestReadFileBinary(t *testing.T) {
	d := newDesk(t)
	png := "\x89PNG\r\n\x1a\n" + strings.Repeat("\x00\x01", 50)
	d.putFile("a.png", png)
	d.putFile("a.zip", "PK\x03\x04"+strings.Repeat("\x00", 50))
	d.putFile("utf16.txt", "\xff\xfea\x00b\x00")
	d.putFile("odd", strings.Repeat("\x01\x02\x80\x90", 50))
	res := d.ok(ReadFile, obj{"path": "a.png"})
	if len(res.Media) != 1 || res.Media[0].MediaType != "image/png" || !bytes.Equal(res.Media[0].Data, []byte(png)) {
		t.Errorf("picture: %+v", res.Media)
	}
	requireWords(t, string(res.Output), "image/png", "108 bytes")
	for rel, kind := range map[string]string{"a.zip": "application/zip", "utf16.txt": "charset=utf-16le", "odd": "application/octet-stream"} {
		res := d.ok(ReadFile, obj{"path": rel})
		requireWords(t, string(res.Output), kind, "not shown")
		if a := readDetails(t, res); !a.Binary || len(res.Media) != 0 {
			t.Errorf("%s: %+v", rel, a)
		}
	}
	large := filepath.Join(d.root, "large.png")
	d.putFile("large.png", png)
	if err := os.Truncate(large, maxImage+1); err != nil {
		t.Fatal(err)
	}
	res = d.ok(ReadFile, obj{"path": "large.png"})
	if len(res.Media) != 0 {
		t.Error("too large a picture is handed over")
	}
	requireWords(t, string(res.Output), "more than 5.0 MiB")
}

// A file too long to count is read no further than needed.
func TestReadFileHuge(t *testing.T) {
	d := newDesk(t)
	d.putFile("huge.txt", strings.Repeat("x\n", 3000))
	f, err := os.OpenFile(filepath.Join(d.root, "huge.txt"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.Copy(f, strings.NewReader(strings.Repeat(strings.Repeat("y", 1<<16)+"\n", maxCount>>16+1))); err != nil {
		t.Fatal(err)
	}
	res := d.ok(ReadFile, obj{"path": "huge.txt"})
	requireWords(t, string(res.Output), "lines 1 to 2000 of a file of 64.1 MiB; go on with offset 2001")
	if a := readDetails(t, res); a.Lines != 0 {
		t.Errorf("claims %d lines", a.Lines)
	}
}
