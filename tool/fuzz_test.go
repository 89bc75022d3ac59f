//go:build unix

package tool

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func TestRealPath(t *testing.T) {
	d := jail(t)
	d.link("in", "alias")
	d.link(filepath.Join(d.root, "alias"), "again")
	for name, want := range map[string]string{
		"in/file": "in/file", "alias/file": "in/file", "again/file": "in/file", "again/new/x": "in/new/x", ".": ".", "datalink/token": "data/token",
	} {
		if got, err := realPath(d.root, d.root, name); err != nil || got != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"up", "parent/x", "slash", "dangling", "..", "chain2"} {
		var e *Error
		if got, err := realPath(d.root, d.root, name); !errors.As(err, &e) || e.Category != SandboxViolation {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// realPath is where a read of name leads to, with links followed, as far as it exists.
func realPath(root, cwd, name string) (string, error) {
	t, err := newFiles(nil, nil).open(&Call{Root: root, Cwd: cwd})
	if err != nil {
		return "", err
	}
	defer t.close()
	rel, err := t.locate(name)
	if err != nil {
		return "", err
	}
	at, err := t.realPath(rel)
	if err != nil {
		return "", t.explainOpen(context.Background(), name, rel, err)
	}
	return at, nil
}

// Wherever a path leads, it leads to a place within the root.
func FuzzLocate(f *testing.F) {
	for _, p := range []string{".", "a/b", "../a", "/ws/a", "/ws/../a", "/wsx", "a/../../ws/b", "~", "a\x00", "//ws//a", "./.", "/ws/./a/..", "..."} {
		f.Add(p, "sub")
	}
	f.Fuzz(func(t *testing.T, name, cwd string) {
		const root = "/ws"
		if strings.ContainsRune(cwd, 0) || strings.Contains(cwd, "..") {
			return
		}
		rel, err := Locate(root, filepath.Join(root, cwd), name)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Category != InvalidInput && e.Category != SandboxViolation {
				t.Fatalf("%q: %v", name, err)
			}
			return
		}
		if !filepath.IsLocal(rel) || filepath.Clean(rel) != rel {
			t.Fatalf("%q leads to %q", name, rel)
		}
		abs := name
		if !filepath.IsAbs(abs) {
			abs = filepath.Join(root, cwd, name)
		}
		if filepath.Join(root, rel) != filepath.Clean(abs) {
			t.Fatalf("%q leads to %q", name, rel)
		}
	})
}

// FuzzResolve opens whatever path in a tree full of links, and never gets out.
func FuzzResolve(f *testing.F) {
	d := jail(f)
	for _, p := range escapes(d) {
		f.Add(p)
	}
	f.Add("in/file")
	f.Fuzz(func(t *testing.T, p string) {
		res, err := d.tools[ReadFile].Run(t.Context(), d.call(obj{"path": p}))
		if err != nil {
			return
		}
		if strings.Contains(string(res.Output), canary) || strings.Contains(string(res.Output), kept) || !strings.Contains(string(res.Output), "fine") {
			t.Fatalf("%q gives %q", p, res.Output)
		}
	})
}
