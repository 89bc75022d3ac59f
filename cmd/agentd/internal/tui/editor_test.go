package tui

import (
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"
)

// keyOf is the key that a name stands for.
func keyOf(name string) tea.Key {
	special := map[string]rune{
		"left": tea.KeyLeft, "right": tea.KeyRight, "up": tea.KeyUp, "down": tea.KeyDown, "home": tea.KeyHome, "end": tea.KeyEnd,
		"backspace": tea.KeyBackspace, "delete": tea.KeyDelete, "enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab,
		"pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown,
	}
	var k tea.Key
	for _, mod := range []struct {
		name string
		mod  tea.KeyMod
	}{{"ctrl+", tea.ModCtrl}, {"alt+", tea.ModAlt}, {"shift+", tea.ModShift}} {
		if len(name) > len(mod.name) && name[:len(mod.name)] == mod.name {
			k.Mod |= mod.mod
			name = name[len(mod.name):]
		}
	}
	if code, ok := special[name]; ok {
		k.Code = code
		return k
	}
	r := []rune(name)
	if k.Code = r[0]; k.Mod == 0 {
		k.Text = name
	}
	return k
}

func TestEditor(t *testing.T) {
	var e editor
	press := func(keys ...string) {
		t.Helper()
		for _, name := range keys {
			if !e.press(keyOf(name)) {
				t.Errorf("%s means nothing", name)
			}
		}
	}
	check := func(want string, at int) {
		t.Helper()
		if e.value() != want || e.at != at {
			t.Errorf("the line is %q at %d, want %q at %d", e.value(), e.at, want, at)
		}
	}
	press("a", "b", "c", "left", "x", "home", "delete", "end", "d")
	check("bxcd", 4)
	press("ctrl+a", "ctrl+k")
	check("", 0)
	e.insert("one two  three")
	press("ctrl+w")
	check("one two  ", 9)
	press("alt+left", "ctrl+u")
	check("two  ", 0)
	press("ctrl+right", "backspace", "left", "left", "left", "left")
	check("tw  ", 0)
	e.remember("first")
	e.remember("second")
	e.remember("second")
	press("up")
	check("second", 6)
	press("up", "up", "up")
	check("first", 5)
	press("down", "down", "down")
	check("tw  ", 4)
}

// TestEditorInLines: the keys that go up and down go through the lines first, and
// through what was said before at the first and the last.
func TestEditorInLines(t *testing.T) {
	var e editor
	e.remember("before")
	e.insert("long line\nx\nthe end")
	for _, step := range []struct {
		key string
		at  int
	}{{"up", 11}, {"up", 1}, {"down", 11}, {"down", 13}, {"home", 12}, {"end", 19}} {
		if e.press(keyOf(step.key)); e.at != step.at {
			t.Fatalf("%s: at %d, want %d", step.key, e.at, step.at)
		}
	}
	e.at = 3
	if e.press(keyOf("up")); e.value() != "before" {
		t.Errorf("the first line is left for %q", e.value())
	}
	if e.press(keyOf("down")); e.value() != "long line\nx\nthe end" {
		t.Errorf("what was typed comes back as %q", e.value())
	}
	if e.press(keyOf("ctrl+x")) {
		t.Error("a key without a meaning has one")
	}
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
