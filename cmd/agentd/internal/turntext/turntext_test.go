package turntext

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/terminal/termtest"
	"agentd/event"
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
		got := append(m.append(tt.text), m.finish()...)
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
		want := append(whole.append(text), whole.finish()...)
		var got []string
		for rest := []rune(text); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			got = append(got, pieces.append(string(rest[:n]))...)
			rest = rest[n:]
		}
		got = append(got, pieces.finish()...)
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
			for _, k := range []terminal.Ink{terminal.Dark, terminal.Light, terminal.NoColour} {
				lines := renderBlock(k, block, cols)
				if len(lines) == 0 {
					t.Fatalf("%s: nothing is left", name)
				}
				for _, l := range lines {
					if plain := ansi.Strip(l); strings.TrimRight(plain, " ") != plain {
						t.Errorf("%s: a line is filled up: %q", name, l)
					}
					if !k.HasColour() && strings.Contains(l, "\x1b") {
						t.Errorf("%s: colour without colour: %q", name, l)
					}
					if strings.Contains(l, "\x1b[") && !strings.HasSuffix(l, "\x1b[0m") {
						t.Errorf("%s: the colour runs out of the line: %q", name, l)
					}
				}
			}
		}
	}
	if got := strings.Join(renderBlock(terminal.NoColour, "a **bold** word", 80), "\n"); got != "a bold word" {
		t.Errorf("rendered as %q", got)
	}
}

// TestScreen paints at random on a terminal that is resized at random: finished
// lines are all there, in order, and below them what was shown last.
func TestScreen(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		e := termtest.New(40, 8)
		s := &Screen{w: writer(func(b []byte) { e.Write(string(b)) }), asked: func() (int, int) { return e.Cols, e.Rows }}
		var done, live []string
		for range 60 {
			switch r.IntN(6) {
			case 0, 1:
				line := words(r, 60)
				done = append(done, line)
				s.Print(line)
			case 5:
				if r.IntN(8) == 0 {
					s.Show(nil) // with nothing below, a terminal can break its lines as it likes
					live = nil
					e.Resize(20+r.IntN(40), 5+r.IntN(10))
				}
			default:
				live = nil
				for range r.IntN(5) {
					live = append(live, words(r, 50))
				}
			}
			s.Show(live)
		}
		want := done
		for _, l := range live[max(0, len(live)-(e.Rows-1)):] {
			want = append(want, ansi.Truncate(l, e.Cols-1, "…"))
		}
		squeeze := func(s string) string { return strings.ReplaceAll(strings.ReplaceAll(s, "\n", ""), " ", "") }
		if got := squeeze(e.Text()); got != squeeze(strings.Join(want, "\n")) {
			t.Fatalf("seed %d: the terminal shows\n%s\nwant\n%s", seed, e.Text(), strings.Join(want, "\n"))
		}
		if len(e.Unknown) > 0 {
			t.Fatalf("seed %d: %q", seed, e.Unknown)
		}
	}
}

// TestScreenNarrowed narrows the terminal while something is shown: it is painted
// again in place and nothing of it is left behind.
func TestScreenNarrowed(t *testing.T) {
	e := termtest.New(60, 20)
	s := &Screen{w: writer(func(b []byte) { e.Write(string(b)) }), asked: func() (int, int) { return e.Cols, e.Rows }}
	s.Print("finished")
	s.Show([]string{strings.Repeat("x", 50), "second " + strings.Repeat("y", 30)})
	e.Resize(25, 20)
	s.Show([]string{"shorter", "now"})
	if got, want := strings.TrimRight(e.Text(), "\n"), "finished\nshorter\nnow"; got != want {
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

// board remembers what was put on it.
type board struct {
	printed []string
	shown   []string
}

func (b *board) Print(lines ...string) { b.printed = append(b.printed, lines...) }
func (b *board) Show(lines []string)   { b.shown = lines }
func (*board) Size() (int, int)        { return 40, 24 }

// TestNotesDoNotBreakAText: what happens while a paragraph comes is seen at once, and
// stays below the paragraph, which stays whole.
func TestNotesDoNotBreakAText(t *testing.T) {
	b := &board{}
	v := &View{Stage: b}
	v.write("| a | b |\n|---|---|\n| 1 ")
	v.Note(terminal.Cyan, "+", "queued: next")
	v.Refresh()
	if len(b.printed) != 0 || !strings.Contains(strings.Join(b.shown, "\n"), "+ queued: next") {
		t.Errorf("printed %q, shown %q", b.printed, b.shown)
	}
	v.write("| 2 |\n\nEnd")
	v.Note(terminal.Cyan, "+", "queued: another")
	v.Rest()
	v.Refresh()
	want := []string{" a │ b", "───┼───", " 1 │ 2", "", "End", "", "+ queued: next", "+ queued: another"}
	got := make([]string, len(b.printed))
	for i, line := range b.printed {
		got[i] = strings.TrimRight(line, " ")
	}
	if d := cmp.Diff(want, got); d != "" || len(b.shown) != 0 {
		t.Errorf("%s\nshown %q", d, b.shown)
	}
	v.Note(terminal.Cyan, "+", "alone")
	if b.printed[len(b.printed)-1] != "+ alone" {
		t.Errorf("%q", b.printed)
	}
}

// TestBlockedNamesWhatCanBeTyped: in a conversation, what lets a blocked one go on is the
// conversation's own command.
func TestBlockedNamesWhatCanBeTyped(t *testing.T) {
	blocked := &event.Event{Type: event.TypeThreadUpdated, Payload: &event.ThreadUpdated{Status: "blocked", Reason: "it was lost; use resume_thread: go on"}}
	for _, inChat := range []bool{true, false} {
		var out strings.Builder
		v := &View{Ink: terminal.NoColour, Stage: &LineStage{W: &out}, Prompts: inChat}
		v.ShowFact(blocked)
		if got := out.String(); strings.Contains(got, "use /resume:") != inChat || strings.Contains(got, "resume_thread") == inChat {
			t.Errorf("in a conversation %t: %q", inChat, got)
		}
	}
}
