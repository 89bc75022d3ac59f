package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestTheCopyOfAWorkspaceHasNothingHidden: the author of a case chose the folder, and
// what is copied can be read by every tool.
func TestTheCopyOfAWorkspaceHasNothingHidden(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{".ssh/id", ".netrc", "src/a.go"} {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(home, link); err != nil {
		t.Fatal(err)
	}
	hidden := []string{filepath.Join(home, ".ssh"), filepath.Join(home, ".netrc"), filepath.Join(home, "missing")}
	for _, from := range []string{home, link} {
		to := filepath.Join(t.TempDir(), "copy")
		if err := copyWorkspace(from, to, hidden...); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(to, "src", "a.go")); err != nil {
			t.Errorf("from %s: %v", from, err)
		}
		for _, name := range []string{".ssh", ".netrc"} {
			if _, err := os.Lstat(filepath.Join(to, name)); err == nil {
				t.Errorf("from %s: %s was copied", from, name)
			}
		}
	}
	for _, from := range []string{filepath.Join(home, ".ssh"), filepath.Join(link, ".ssh")} {
		if err := copyWorkspace(from, filepath.Join(t.TempDir(), "copy"), hidden...); err == nil {
			t.Errorf("%s was copied", from)
		}
	}
}
