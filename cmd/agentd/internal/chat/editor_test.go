package chat

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

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
