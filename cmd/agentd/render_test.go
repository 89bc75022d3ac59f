package main

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestMarkdownBlocks(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"nothing", "", nil},
		{"blank", "\n \n\n", nil},
		{"one", "hello", []string{"hello"}},
		{"paragraphs", "a\nb\n\nc\n", []string{"a\nb", "c"}},
		{"heading", "# h\n\ntext", []string{"# h", "text"}},
		{"code", "see:\n```go\na\n\nb\n```\nrest", []string{"see:", "```go\na\n\nb\n```", "rest"}},
		{"longer fence", "````\n```\nx\n```\n````\ny", []string{"````\n```\nx\n```\n````", "y"}},
		{"tilde", "~~~\n```\n~~~\ny", []string{"~~~\n```\n~~~", "y"}},
		{"code without end", "```\na\n\nb", []string{"```\na\n\nb"}},
		{"loose list", "1. a\n\n2. b\n\n   more\n\nend", []string{"1. a\n\n2. b\n\n   more", "end"}},
		{"code in a list", "- a\n\n  ```\n  x\n\n  y\n  ```\n- b\n\nend", []string{"- a\n\n  ```\n  x\n\n  y\n  ```\n- b", "end"}},
		{"table", "| a |\n|---|\n| 1 |\n\nend", []string{"| a |\n|---|\n| 1 |", "end"}},
	} {
		var m markdown
		got := append(m.add(tt.text), m.end()...)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

// TestMarkdownInPieces: however a text arrives, its blocks are the same, and no
// word of it is lost.
func TestMarkdownInPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOf(rapid.SampledFrom([]string{"", "text", "- item", "1. one", "  more", "```", "````", "~~~", "| a |", "# h", "é\u0301 你好"})).Draw(t, "lines")
		text := strings.Join(lines, "\n")
		var whole, pieces markdown
		want := append(whole.add(text), whole.end()...)
		var got []string
		for rest := []rune(text); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			got = append(got, pieces.add(string(rest[:n]))...)
			rest = rest[n:]
		}
		got = append(got, pieces.end()...)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
		if a, b := strings.Fields(strings.Join(got, "\n")), strings.Fields(text); !cmp.Equal(a, b) && len(a)+len(b) > 0 {
			t.Fatalf("words were lost: %q, want %q", a, b)
		}
	})
}

func TestRenderBlock(t *testing.T) {
	for name, block := range map[string]string{
		"text":   "a **bold** word and `code` and [a link](https://example.org/x)",
		"list":   "- one\n- two\n  - three\n1. four",
		"code":   "```go\nfunc main() {\n\tprintln(\"hi\")\n}\n```",
		"table":  "| a | b |\n|---|---|\n| 1 | 2 |",
		"quote":  "> said\n> twice",
		"broken": "**not closed `and neither is this",
		"html":   "<b>x</b> &amp; <script>alert(1)</script>",
		"wide":   strings.Repeat("你好 ", 80),
		"long":   strings.Repeat("x", 300),
	} {
		for _, cols := range []int{10, 40, 120} {
			for _, k := range []ink{true, false} {
				lines := renderBlock(k, block, cols)
				if len(lines) == 0 {
					t.Fatalf("%s: nothing is left", name)
				}
				for _, l := range lines {
					if plain := ansi.Strip(l); strings.TrimRight(plain, " ") != plain {
						t.Errorf("%s: a line is filled up: %q", name, l)
					}
					if !bool(k) && strings.Contains(l, "\x1b") {
						t.Errorf("%s: colour without colour: %q", name, l)
					}
					if strings.Contains(l, "\x1b[") && !strings.HasSuffix(l, "\x1b[0m") {
						t.Errorf("%s: the colour runs out of the line: %q", name, l)
					}
				}
			}
		}
	}
	if got := strings.Join(renderBlock(false, "a **bold** word", 80), "\n"); got != "a bold word" {
		t.Errorf("rendered as %q", got)
	}
}

// TestScreen paints at random on a terminal that is resized at random: finished
// lines are all there, in order, and below them what was shown last.
func TestScreen(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		e := newEmulator(40, 8)
		s := &screen{w: writer(func(b []byte) { e.write(string(b)) }), asked: func() (int, int) { return e.cols, e.rows }}
		var done, live []string
		for range 60 {
			switch r.IntN(6) {
			case 0, 1:
				line := words(r, 60)
				done = append(done, line)
				s.print(line)
			case 5:
				if r.IntN(8) == 0 {
					s.show(nil) // with nothing below, a terminal can break its lines as it likes
					live = nil
					e.resize(20+r.IntN(40), 5+r.IntN(10))
				}
			default:
				live = nil
				for range r.IntN(5) {
					live = append(live, words(r, 50))
				}
			}
			s.show(live)
		}
		want := done
		for _, l := range live[max(0, len(live)-(e.rows-1)):] {
			want = append(want, ansi.Truncate(l, e.cols-1, "…"))
		}
		squeeze := func(s string) string { return strings.ReplaceAll(strings.ReplaceAll(s, "\n", ""), " ", "") }
		if got := squeeze(e.text()); got != squeeze(strings.Join(want, "\n")) {
			t.Fatalf("seed %d: the terminal shows\n%s\nwant\n%s", seed, e.text(), strings.Join(want, "\n"))
		}
		if len(e.unknown) > 0 {
			t.Fatalf("seed %d: %q", seed, e.unknown)
		}
	}
}

// TestScreenNarrowed narrows the terminal while something is shown: it is painted
// again in place and nothing of it is left behind.
func TestScreenNarrowed(t *testing.T) {
	e := newEmulator(60, 20)
	s := &screen{w: writer(func(b []byte) { e.write(string(b)) }), asked: func() (int, int) { return e.cols, e.rows }}
	s.print("finished")
	s.show([]string{strings.Repeat("x", 50), "second " + strings.Repeat("y", 30)})
	e.resize(25, 20)
	s.show([]string{"shorter", "now"})
	if got, want := strings.TrimRight(e.text(), "\n"), "finished\nshorter\nnow"; got != want {
		t.Errorf("the terminal shows\n%s\nwant\n%s", got, want)
	}
}

type writer func([]byte)

func (w writer) Write(b []byte) (int, error) { w(b); return len(b), nil }

func words(r *rand.Rand, most int) string {
	all := []rune("abcdefgh ijklmnop 你好é")
	var b strings.Builder
	for range 1 + r.IntN(most) {
		b.WriteRune(all[r.IntN(len(all))])
	}
	return strings.TrimSpace(b.String()) + "."
}

func TestKeys(t *testing.T) {
	for in, want := range map[string][]key{
		"abc\r":                       {{keyText, "abc"}, {keyEnter, ""}},
		"\x1b\r":                      {{keyAltEnter, ""}},
		"\x1b":                        {{keyEscape, ""}},
		"\x1b[A\x1bOB":                {{keyUp, ""}, {keyDown, ""}},
		"\x1b[1;5D":                   {{keyWordLeft, ""}},
		"\x1b[99z":                    nil,
		"\x7f\x03\x0a":                {{keyBackspace, ""}, {"ctrl-c", ""}, {"ctrl-j", ""}},
		"\x1b[200~a\r\nb\x1b[201~c":   {{keyPaste, "a\nb"}, {keyText, "c"}},
		"\x1b[200~a\x1b[31m\x1b[201~": {{keyPaste, "a[31m"}},
		"grüße 你好":                    {{keyText, "grüße 你好"}},
		"\xff\xfe":                    nil,
	} {
		var whole keyReader
		got := whole.feed([]byte(in))
		var named []key
		for _, k := range got {
			if k.text != "" || k.name != keyText {
				named = append(named, k)
			}
		}
		if diff := cmp.Diff(want, named, cmp.AllowUnexported(key{})); diff != "" {
			t.Errorf("%q: %s", in, diff)
		}
		if strings.HasPrefix(in, "\x1b") || !utf8.ValidString(in) {
			continue // an escape that is followed by nothing is a key of its own
		}
		var bytewise keyReader
		var text string
		for i := range len(in) {
			for _, k := range bytewise.feed([]byte{in[i]}) {
				text += k.text
			}
		}
		var all string
		for _, k := range want {
			all += k.text
		}
		if text != all {
			t.Errorf("%q byte by byte is %q, want %q", in, text, all)
		}
	}
}

func TestEditor(t *testing.T) {
	var e editor
	press := func(keys ...string) {
		for _, k := range keys {
			if len(k) == 1 {
				e.press(key{keyText, k})
			} else {
				e.press(key{name: k})
			}
		}
	}
	check := func(want string, at int) {
		t.Helper()
		if e.value() != want || e.at != at {
			t.Errorf("the line is %q at %d, want %q at %d", e.value(), e.at, want, at)
		}
	}
	press("a", "b", "c", keyLeft, "x", keyHome, keyDelete, keyEnd, "d")
	check("bxcd", 4)
	press("ctrl-a", "ctrl-k")
	check("", 0)
	e.insert("one two  three")
	press("ctrl-w")
	check("one two  ", 9)
	press(keyWordLeft, "ctrl-u")
	check("two  ", 0)
	press(keyWordRight, keyBackspace, keyLeft, keyLeft, keyLeft, keyLeft)
	check("tw  ", 0)
	e.remember("first")
	e.remember("second")
	e.remember("second")
	press(keyUp)
	check("second", 6)
	press(keyUp, keyUp, keyUp)
	check("first", 5)
	press(keyDown, keyDown, keyDown)
	check("tw  ", 4)
}

// TestEditorRows: whatever is typed at whatever width, no row is wider than the
// terminal and the cursor stands in one.
func TestEditorRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e editor
		e.insert(rapid.StringOf(rapid.SampledFrom([]rune("ab 你é\n"))).Draw(t, "text"))
		e.at = rapid.IntRange(0, len(e.text)).Draw(t, "at")
		cols := rapid.IntRange(8, 60).Draw(t, "cols")
		lines, row, col := e.seen("› ", cols)
		if len(lines) > maxRows || row < 0 || row >= len(lines) || col < 0 || col > cols-1 {
			t.Fatalf("the cursor is at %d, %d of %q", row, col, lines)
		}
		for _, l := range lines {
			if ansi.StringWidth(l) > cols-1 {
				t.Fatalf("%q is wider than %d", l, cols-1)
			}
		}
	})
}

// board remembers what was put on it.
type board struct {
	printed []string
	shown   []string
}

func (b *board) print(lines ...string) { b.printed = append(b.printed, lines...) }
func (b *board) show(lines []string)   { b.shown = lines }
func (*board) size() (int, int)        { return 40, 24 }

// TestNotesDoNotBreakAText: what happens while a paragraph comes is seen at once, and
// stays below the paragraph, which stays whole.
func TestNotesDoNotBreakAText(t *testing.T) {
	b := &board{}
	v := &view{stage: b}
	v.write("| a | b |\n|---|---|\n| 1 ")
	v.note(cyan, "+", "queued: next")
	v.refresh()
	if len(b.printed) != 0 || !strings.Contains(strings.Join(b.shown, "\n"), "+ queued: next") {
		t.Errorf("printed %q, shown %q", b.printed, b.shown)
	}
	v.write("| 2 |\n\nEnd")
	v.note(cyan, "+", "queued: another")
	v.rest()
	v.refresh()
	want := []string{" a  │ b", "────┼────", " 1  │ 2", "", "End", "", "+ queued: next", "+ queued: another"}
	got := make([]string, len(b.printed))
	for i, line := range b.printed {
		got[i] = strings.TrimRight(line, " ")
	}
	if d := cmp.Diff(want, got); d != "" || len(b.shown) != 0 {
		t.Errorf("%s\nshown %q", d, b.shown)
	}
	v.note(cyan, "+", "alone")
	if b.printed[len(b.printed)-1] != "+ alone" {
		t.Errorf("%q", b.printed)
	}
}
