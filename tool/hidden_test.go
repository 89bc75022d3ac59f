package tool

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// useAll calls every file tool on a path, and shell in its folder, and returns how
// each failed.
func (d *desk) useAll(path string) map[string]*Error {
	d.t.Helper()
	d.command = func(*Command) (*Exit, error) { return &Exit{}, nil }
	failed := map[string]*Error{}
	for name, in := range map[string]obj{
		ReadFile:    {"path": path},
		WriteFile:   {"path": path, "content": "owned"},
		EditFile:    {"path": path, "old": "before", "new": "owned"},
		ListFiles:   {"path": "."},
		SearchFiles: {"pattern": "before"},
		Shell:       {"command": "true"},
	} {
		_, err := d.run(name, in)
		var e *Error
		if errors.As(err, &e) || err == nil {
			failed[name] = e
			continue
		}
		d.t.Fatalf("%s: %v", name, err)
	}
	return failed
}

// replacements are the ways in which a command can put something else in the place
// of a folder.
var replacements = map[string]func(dir string) error{
	"renamed": func(dir string) error { return os.Rename(dir, dir+"2") },
	"another folder": func(dir string) error {
		return errors.Join(os.Rename(dir, dir+"2"), os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "f"), []byte("before"), 0o644))
	},
	"link": func(dir string) error {
		return errors.Join(os.Rename(dir, dir+"2"), os.Symlink(filepath.Join(filepath.Dir(dir), "victim"), dir))
	},
	"file": func(dir string) error {
		return errors.Join(os.Rename(dir, dir+"2"), os.WriteFile(dir, []byte("before"), 0o644))
	},
}

// TestReplacedRootIsRefused: no tool follows a workspace's name to another folder.
func TestReplacedRootIsRefused(t *testing.T) {
	for how, replace := range replacements {
		t.Run(how, func(t *testing.T) {
			d := newDesk(t)
			victim := filepath.Join(filepath.Dir(d.root), "victim")
			if err := errors.Join(os.Mkdir(victim, 0o755), os.WriteFile(filepath.Join(victim, "f"), []byte("before"), 0o644)); err != nil {
				t.Fatal(err)
			}
			d.putFile("f", "before")
			d.text(ReadFile, obj{"path": "f"})
			if err := replace(d.root); err != nil {
				t.Fatal(err)
			}
			for name, e := range d.useAll("f") {
				if e == nil || e.Category != SandboxViolation || e.Boundary != "workspace" || !strings.Contains(e.Message, "no longer the folder") || e.Advice == "" {
					t.Errorf("%s: %v", name, e)
				}
			}
			for _, f := range []string{filepath.Join(victim, "f"), d.root + "2/f"} {
				if b, err := os.ReadFile(f); err != nil || string(b) != "before" {
					t.Errorf("%s = %q, %v", f, b, err)
				}
			}
		})
	}
}

// TestStoredRootIsFreeOfLinks: after a restart nothing is known of a workspace, and
// still no link in its path is followed.
func TestStoredRootIsFreeOfLinks(t *testing.T) {
	d := newDesk(t)
	d.putFile("f", "before")
	if err := errors.Join(os.Rename(d.root, d.root+"2"), os.Symlink(d.root+"2", d.root)); err != nil {
		t.Fatal(err)
	}
	for name, e := range d.useAll("f") {
		if e == nil || e.Category != SandboxViolation || e.Boundary != "workspace" {
			t.Errorf("%s: %v", name, e)
		}
	}
}

// TestRenamedParentOfHidden: a hidden path whose parent was renamed is refused, not
// shown, whether or not something else stands in its place.
func TestRenamedParentOfHidden(t *testing.T) {
	for _, hidden := range []string{"conf/secret.txt", "conf/deep/secret.txt", "conf"} {
		for how, replace := range replacements {
			t.Run(hidden+" "+how, func(t *testing.T) {
				d := newDesk(t)
				d.putFile("f", "before")
				d.putFile("conf/secret.txt", "the secret")
				d.putFile("conf/deep/secret.txt", "the secret")
				d.files = newFiles(nil, []string{filepath.Join(d.root, hidden)})
				for _, tl := range builtins(d.files) {
					d.tools[tl.Info().ToolName] = tl
				}
				if err := replace(filepath.Join(d.root, "conf")); err != nil {
					t.Fatal(err)
				}
				if filepath.Base(hidden) == "secret.txt" && how == "another folder" {
					d.putFile(hidden, "bait")
				}
				for _, path := range []string{"f", strings.Replace("conf2/"+hidden, "conf2/conf", "conf2", 1), "conf2/secret.txt"} {
					for name, e := range d.useAll(path) {
						if e == nil || e.Category != SandboxViolation || e.Boundary != "workspace" || !strings.Contains(e.Message, "hidden path") {
							t.Errorf("%s %s: %v", name, path, e)
						}
					}
				}
				d.files.places.Renew()
				if got := d.text(ReadFile, obj{"path": "f"}); !strings.Contains(got, "before") {
					t.Errorf("after a reload: %s", got)
				}
			})
		}
	}
}

// TestHiddenByAnyName: what is hidden is refused under each name that it has, also
// if it wasn't there when the tools were made.
func TestHiddenByAnyName(t *testing.T) {
	for _, early := range []bool{true, false} {
		d := newDesk(t, "conf/secret.txt")
		d.putFile("conf/other.txt", "before")
		if !early {
			d.text(ListFiles, obj{"path": "."})
		}
		d.putFile("conf/secret.txt", "the secret")
		if err := os.Link(filepath.Join(d.root, "conf", "secret.txt"), filepath.Join(d.root, "hard.txt")); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"conf/secret.txt", "hard.txt"} {
			for _, name := range []string{ReadFile, WriteFile, EditFile} {
				if e := d.useAll(path)[name]; e == nil || e.Category != SandboxViolation || !strings.Contains(e.Message, "hidden") {
					t.Errorf("%s %s: %v", name, path, e)
				}
			}
		}
		if out := d.text(SearchFiles, obj{"pattern": "the secret"}); strings.Contains(out, "secret.txt") || strings.Contains(out, "hard.txt") {
			t.Errorf("found: %s", out)
		}
	}
}

// TestWorkspaceInHidden: a workspace that is hidden, or lies in what is, is refused.
func TestWorkspaceInHidden(t *testing.T) {
	for _, hidden := range []string{".", ".."} {
		d := newDesk(t, hidden)
		d.putFile("f", "before")
		for name, e := range d.useAll("f") {
			if e == nil || e.Category != SandboxViolation {
				t.Errorf("%s: %v", name, e)
			}
		}
	}
}
