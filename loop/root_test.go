package loop

import (
	"os"
	"path/filepath"
	"testing"
)

// folder makes a folder and returns its path without symbolic links.
func folder(t *testing.T, parts ...string) string {
	t.Helper()
	dir := filepath.Join(parts...)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

func relink(t *testing.T, to, link string) {
	t.Helper()
	if err := os.Remove(link); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if err := os.Symlink(to, link); err != nil {
		t.Fatal(err)
	}
}

func TestAWorkspaceIsFoundAgainAfterItsLinksChanged(t *testing.T) {
	top := folder(t, t.TempDir())
	first, second := folder(t, top, "first"), folder(t, top, "second")
	link := filepath.Join(top, "link")
	var r roots
	want := func(path, resolved string) {
		t.Helper()
		for range 2 { // the second time it is remembered
			if got := r.resolve(path); got != resolved {
				t.Fatalf("%s leads to %s, want %s", path, got, resolved)
			}
		}
	}
	relink(t, first, link)
	want(link, first)
	want(first, first)
	relink(t, second, link)
	want(link, second)
	moved := filepath.Join(top, "moved")
	if err := os.Rename(second, moved); err != nil {
		t.Fatal(err)
	}
	want(link, link) // it leads nowhere
	relink(t, moved, link)
	want(link, moved)
	folder(t, top, "second")
	want(link, moved)
	// A part in the middle becomes a link to the same name elsewhere.
	inner := folder(t, moved, "inner")
	want(filepath.Join(link, "inner"), inner)
	other := folder(t, first, "inner")
	relink(t, first, link)
	want(filepath.Join(link, "inner"), other)
}

func TestOnlyManyWorkspacesAreForgotten(t *testing.T) {
	top := folder(t, t.TempDir())
	var r roots
	for i := range maxRoots + 2 {
		r.put(filepath.Join(top, string(rune('a'+i%26))+string(rune(i))), root{resolved: "elsewhere"})
	}
	if n := len(r.known); n > maxRoots || n == 0 {
		t.Fatalf("%d folders are remembered", n)
	}
}

// What is looked at below a workspace leads where the whole path would.
func TestAPathBelowAWorkspaceLeadsWhereItWouldAlone(t *testing.T) {
	top := folder(t, t.TempDir())
	root, outside := folder(t, top, "root"), folder(t, top, "outside")
	deep := folder(t, root, "a", "b")
	for _, f := range []string{filepath.Join(deep, "file"), filepath.Join(outside, "secret")} {
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	relink(t, outside, filepath.Join(root, "a", "out"))
	relink(t, deep, filepath.Join(root, "in"))
	relink(t, "nowhere", filepath.Join(root, "broken"))
	for _, path := range []string{
		root, root + "/", deep, root + "/a/b/file", root + "/a/out", root + "/a/out/secret", root + "/in/file", root + "/in/none", root + "/broken",
		root + "/none/at/all", root + "/a/b/file/below", root + "/a/../a/b", outside, top, root + "x", "/", root + "/a//b",
	} {
		if got, want := resolveBelow(root)(path), resolvePath(path); got != want {
			t.Errorf("%s leads to %s, want %s", path, got, want)
		}
	}
	if !plain("/", "/") || !plain(root, filepath.Join(deep, "file")) || plain(root, root+"/a/out/secret") {
		t.Error("what is looked at is not what was meant")
	}
}
