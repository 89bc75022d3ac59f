package tui

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestNamesOfFilesAreHarmless: whatever a folder has for names, and whatever is typed, a
// list of files is made and searched.
func TestNamesOfFilesAreHarmless(t *testing.T) {
	if l := listFiles(filepath.Join(t.TempDir(), "gone")); len(l.paths) != 0 {
		t.Errorf("%v", l.paths)
	}
	rapid.Check(t, func(t *rapid.T) {
		// Letters whose small form has more bytes, or fewer.
		name := rapid.StringOf(rapid.SampledFrom([]rune("aȺİẞK/é.\u202e"))).Draw(t, "name")
		typed := rapid.StringOf(rapid.SampledFrom([]rune("aȺİsk/é"))).Draw(t, "typed")
		l := &fileList{paths: []string{name, name + "a"}}
		if got := l.match(typed, 1); len(got) > 1 {
			t.Errorf("%q", got)
		}
	})
}

// TestPastesMentionNothing: a long text that was pasted attaches no files; what was typed
// does.
func TestPastesMentionNothing(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"a.png", "b.png"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := &client{options: &Options{Folder: folder}}
	mark := c.keepPaste(strings.Repeat("a line\n", longPasteLines+1) + "see @" + filepath.Join(folder, "a.png"))
	m := c.message("look at @b.png and " + mark)
	if len(m.Parts) != 1 || m.Parts[0].Name != "b.png" || !strings.Contains(m.Text, "a line\n") {
		t.Errorf("%+v", m)
	}
}
