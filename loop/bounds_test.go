//go:build unix

package loop

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// plant makes files with their folders; a name that ends in a slash is a folder.
func plant(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, name)
		dir := filepath.Dir(path)
		if strings.HasSuffix(name, "/") {
			dir = path
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if dir == path {
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBoundsOfRepositories(t *testing.T) {
	root := t.TempDir()
	plant(t, root, map[string]string{
		".git/HEAD":                       "x",
		".git/config":                     "[core]\n\thooksPath = .husky ; ours\n[include]\n\tpath = ../.gitconfig\n[includeIf \"gitdir:~/x\"] path = \"../cond.inc\"\n[include]\npath = /etc/gitconfig\n",
		".gitconfig":                      "[include]\n\tpath = deeper.inc\n",
		".gitmodules":                     "[submodule \"sub\"]\n\tpath = sub\n\turl = x\n[submodule \"old\"]\n\tpath = old\n[submodule \"evil\"]\n\tpath = ../../x\n",
		".git/modules/sub/config":         "[core]\n\tworktree = ../../../moved\n\thooksPath = .hooks\n",
		".git/modules/logs/hooks/":        "",
		".git/modules/HEAD":               "a decoy, so that modules looks like a repository",
		".git/modules/a/b/commondir":      "x",
		".git/modules/sub/logs/x":         "x",
		".git/modules/sub/modules/n/HEAD": "x",
		".git/worktrees/wt/commondir":     "../..",
		"sub/.git":                        "gitdir: ../.git/modules/sub",
		"old/.git/config":                 "",
	})
	got := Bounds(root, BoundSet{})
	for _, want := range []string{
		".git/config", ".git/hooks", ".git/commondir", ".husky", ".gitconfig", "deeper.inc", "cond.inc", "sub/.git", "old/.git/config", "old/.git/hooks",
		"moved/.git", "moved/.hooks", ".git/modules/sub/config", ".git/modules/logs/config", ".git/modules/a/b/hooks", ".git/modules/sub/modules/n/config",
		".git/worktrees/wt/commondir", ".git/worktrees/wt/gitdir", ".git/worktrees/wt/config.worktree", RulesFile,
	} {
		if !slices.Contains(got, filepath.Join(root, want)) {
			t.Errorf("%s is missing in %v", want, got)
		}
	}
	for _, path := range got {
		if !strings.HasPrefix(path, root+"/") || strings.HasPrefix(path, root+"/.git/modules/sub/logs") {
			t.Errorf("%s is no bound", path)
		}
	}
}

func TestBoundsOfCommands(t *testing.T) {
	root := t.TempDir()
	plant(t, root, map[string]string{"scripts/a.sh": "", "hooks/c.sh": "", "src/x.go": ""})
	got := Bounds(root, BoundSet{Paths: []string{"ci"}, Commands: [][]string{{"scripts/a.sh", "src", "."}, {"hooks", "./c.sh", "new/f.sh", "../up", "/abs"}}})
	for name, want := range map[string]bool{
		"ci": true, "scripts/a.sh": true, "hooks/c.sh": true, "new/f.sh": true, "src": false, "hooks": false, ".": false, "../up": false, "abs": false,
	} {
		if slices.Contains(got, filepath.Join(root, name)) != want {
			t.Errorf("%s is a bound: %v, want %v: %v", name, !want, want, got)
		}
	}
}

func TestBoundStatesTellReplacements(t *testing.T) {
	root := t.TempDir()
	plant(t, root, map[string]string{"real": "a"})
	link, file := root+"/link", root+"/real"
	if err := os.Symlink("real", link); err != nil {
		t.Fatal(err)
	}
	was := boundStateOf(link)
	if !boundStateOf(link).sameAs(was) || !boundStateOf(root+"/none").sameAs(boundState{}) || boundStateOf(file).sameAs(boundState{}) {
		t.Error("what didn't change isn't what it was")
	}
	for name, change := range map[string]func() error{
		"a file":       func() error { return os.WriteFile(link, nil, 0o644) },
		"another link": func() error { return os.Symlink("other", link) },
		"nothing":      func() error { return nil },
	} {
		if err := os.RemoveAll(link); err != nil {
			t.Fatal(err)
		}
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if boundStateOf(link).sameAs(was) {
			t.Errorf("%s in the place of a link is not noticed", name)
		}
	}
}

// TestBoundsBehindFilesOfGit: a .git that is a file, and linked worktrees, say where the
// rest is.
func TestBoundsBehindFilesOfGit(t *testing.T) {
	root := t.TempDir()
	plant(t, root, map[string]string{
		".git":                          "gitdir: .gitdata\n",
		".gitdata/HEAD":                 "x",
		".gitdata/modules/m/HEAD":       "x",
		".gitdata/worktrees/wt/gitdir":  root + "/wt/.git\n",
		".gitdata/worktrees/out/gitdir": "/elsewhere/.git\n",
	})
	got := Bounds(root, BoundSet{})
	for _, want := range []string{".git", ".gitdata/hooks", ".gitdata/config", ".gitdata/modules/m/hooks", "wt/.git"} {
		if !slices.Contains(got, filepath.Join(root, want)) {
			t.Errorf("%s is missing in %v", want, got)
		}
	}
	if slices.Contains(got, "/elsewhere/.git") {
		t.Error("a worktree outside of the workspace is a bound")
	}
}

// TestTooManySubmodules: what a repository brings can't keep commands from starting, or
// agentd waiting. Where not all can be protected, that is said, and commands ask.
func TestTooManySubmodules(t *testing.T) {
	var list strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&list, "[submodule \"s%d\"]\n\tpath = s%d\n", i, i)
	}
	for name, plantList := range map[string]func(file string) error{
		"many": func(file string) error { return os.WriteFile(file, []byte(list.String()), 0o600) },
		"long": func(file string) error { return os.WriteFile(file, make([]byte, maxGitConfigLen+1), 0o600) },
		"pipe": func(file string) error { return syscall.Mkfifo(file, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			if err := plantList(root + "/.gitmodules"); err != nil {
				t.Fatal(err)
			}
			found, unsure := gitBounds(root)
			if unsure == "" || len(found) > 2*maxSubmodules {
				t.Errorf("%d bounds, %q", len(found), unsure)
			}
		})
	}
	root := t.TempDir()
	for i := range maxSubmodules + 2 {
		plant(t, root, map[string]string{fmt.Sprintf(".git/modules/m%d/HEAD", i): "x"})
	}
	if found, _ := gitBounds(root); len(found) > 20 || !slices.Contains(found, root+"/.git/modules") {
		t.Errorf("%d bounds of many repositories", len(found))
	}
}
