//go:build linux

package terminal

import (
	"os"
	"strings"
	"testing"

	"github.com/creack/pty"
)

// typeLines writes to a terminal, and returns when that has it.
func typeLines(t *testing.T, keyboard *os.File, text string) {
	t.Helper()
	if _, err := keyboard.WriteString(text); err != nil {
		t.Fatal(err)
	}
	want := strings.ReplaceAll(text, "\n", "\r\n") // what was typed is echoed
	for echo, buf := "", make([]byte, 100); echo != want; {
		n, err := keyboard.Read(buf)
		if echo += string(buf[:n]); err != nil || !strings.HasPrefix(want, echo) {
			t.Fatalf("%v: %q is echoed in place of %q", err, echo, want)
		}
	}
}

// TestLinesOfATerminal: lines that were there before a question answer one each; of several
// that come behind it none does, and one by itself does.
func TestLinesOfATerminal(t *testing.T) {
	keyboard, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = tty.Close()
		_ = keyboard.Close()
	}()
	l := NewLines(tty)
	want := func(want Typed) {
		t.Helper()
		if got := l.Answer(); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	typeLines(t, keyboard, "one\ntwo\n")
	l.Ask()
	want(Typed{Line: "one", Ahead: true})
	typeLines(t, keyboard, "three\n")
	l.Ask()
	want(Typed{Line: "two", Ahead: true})
	l.Ask()
	want(Typed{Line: "three", Ahead: true})

	l.Ask()
	typeLines(t, keyboard, "y\nis what\nthey sa")
	want(Typed{Line: "y", Pasted: true})
	l.Drop()
	l.Ask()
	typeLines(t, keyboard, "y\n")
	want(Typed{Line: "y"})

	// The beginning of a line is nobody's answer yet.
	typeLines(t, keyboard, "ye")
	l.Ask()
	typeLines(t, keyboard, "s\n")
	want(Typed{Line: "yes"})

	l.Ask()
	if _, err := keyboard.WriteString("\x04"); err != nil { // Ctrl-D
		t.Fatal(err)
	}
	want(Typed{Ended: true})
}

// TestLinesOfAPipe: nothing that comes through a pipe is taken for a paste.
func TestLinesOfAPipe(t *testing.T) {
	l := NewLines(strings.NewReader("one\ntwo\nthree"))
	for _, line := range []string{"one", "two", "three"} {
		if l.Ask(); l.Followed() {
			t.Error("something is waited for")
		}
		if got := l.Answer(); got.Line != line || got.Pasted || got.Ended {
			t.Errorf("%+v, want %s", got, line)
		}
	}
	if got := l.Answer(); !got.Ended {
		t.Errorf("%+v behind the end", got)
	}
}
