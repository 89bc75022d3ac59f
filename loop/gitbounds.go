package loop

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// gitBounds are the parts of a repository that name programs which git runs for
// the people who use it: its hooks, its configuration, and what says where both are;
// the same of its submodules and linked worktrees.
func gitBounds(root string) []string {
	b := gitSearch{root: root, left: maxGitFolders}
	git := filepath.Join(root, ".git")
	b.checkout(root)
	if info, err := os.Lstat(git); err == nil && info.Mode().IsRegular() {
		return b.found // it names the folder that has the hooks
	}
	for _, path := range readGitConfig(filepath.Join(root, ".gitmodules"))["submodule.path"] {
		if filepath.IsLocal(path) {
			b.checkout(filepath.Join(root, path))
		}
	}
	modules := filepath.Join(git, "modules")
	b.modules(modules)
	if b.left < 0 {
		b.found = append(b.found, modules) // too many to tell apart
	}
	return b.found
}

// Bounds of the search for git's folders and for files that a configuration includes.
const (
	maxGitFolders   = 10_000
	maxGitIncludes  = 16
	maxGitConfigLen = 1 << 20
)

// gitSearch gathers the bounds of a workspace's repositories.
type gitSearch struct {
	root  string
	found []string
	left  int // folders that may still be looked at
}

// checkout finds the bounds of a folder that has, or may get, a .git.
func (b *gitSearch) checkout(dir string) {
	git := filepath.Join(dir, ".git")
	info, err := os.Lstat(git)
	if dir == b.root && err != nil || err == nil && !info.Mode().IsRegular() {
		b.folder(git, dir)
		return
	}
	b.found = append(b.found, git)
}

// gitNames are what makes a folder count as one of git's: any of them is enough,
// because the others can be moved away and back.
var gitNames = []string{"config", "hooks", "HEAD", "commondir", "config.worktree"}

func isGitFolder(dir string) bool {
	return slices.ContainsFunc(gitNames, func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	})
}

// modules finds the repositories of submodules, which lie at any depth.
func (b *gitSearch) modules(dir string) {
	if b.left--; b.left < 0 {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	repository := slices.ContainsFunc(entries, func(e os.DirEntry) bool { return slices.Contains(gitNames, e.Name()) })
	if repository {
		b.module(dir)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		// A submodule may be called logs; in a repository that is a folder of git's.
		if !e.IsDir() || repository && slices.Contains([]string{"objects", "refs", "logs"}, e.Name()) && !isGitFolder(path) {
			continue
		}
		b.modules(path)
	}
}

// module finds the bounds of a submodule's repository, and of where it is checked out.
func (b *gitSearch) module(git string) {
	worktree := ""
	if set := readGitConfig(filepath.Join(git, "config"))["core.worktree"]; len(set) > 0 {
		worktree = fromFolder(git, set[len(set)-1])
		if belowRoot(b.root, worktree) {
			b.found = append(b.found, filepath.Join(worktree, ".git"))
		}
	}
	b.folder(git, worktree)
}

// folder finds the bounds of one repository and of its linked worktrees.
func (b *gitSearch) folder(git, worktree string) {
	for _, name := range []string{"hooks", "config", "config.worktree", "commondir"} {
		b.found = append(b.found, filepath.Join(git, name))
	}
	b.named(filepath.Join(git, "config"), worktree, maxGitIncludes)
	b.named(filepath.Join(git, "config.worktree"), worktree, maxGitIncludes)
	linked, _ := os.ReadDir(filepath.Join(git, "worktrees"))
	for _, e := range linked {
		if b.left--; b.left < 0 {
			b.found = append(b.found, filepath.Join(git, "worktrees"))
			return
		}
		for _, name := range []string{"commondir", "gitdir", "config.worktree"} {
			b.found = append(b.found, filepath.Join(git, "worktrees", e.Name(), name))
		}
	}
}

// named finds what a configuration names in the workspace: folders of hooks, and files
// that it includes, with what those name. It returns how many files may still be read.
func (b *gitSearch) named(config, worktree string, left int) int {
	if left == 0 {
		return 0
	}
	left--
	set := readGitConfig(config)
	for _, path := range set["core.hookspath"] {
		if path = fromFolder(worktree, path); belowRoot(b.root, path) {
			b.found = append(b.found, path)
		}
	}
	for _, path := range slices.Concat(set["include.path"], set["includeif.path"]) {
		path = fromFolder(filepath.Dir(config), path)
		if !belowRoot(b.root, path) || slices.Contains(b.found, path) {
			continue
		}
		b.found = append(b.found, path)
		left = b.named(path, worktree, left)
	}
	return left
}

func fromFolder(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// belowRoot says that a path lies in the workspace and isn't the workspace.
func belowRoot(root, path string) bool { return strings.HasPrefix(path, root+"/") }

// readGitConfig returns the values of a file by section and key ("core.worktree"), in
// lower case and whatever the subsection. It reads what git writes and people usually
// write; a value over several lines is not a path.
func readGitConfig(file string) map[string][]string {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxGitConfigLen {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	out := map[string][]string{}
	section := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if rest, header := strings.CutPrefix(line, "["); header {
			name, after, _ := strings.Cut(rest, "]")
			section = strings.ToLower(name)
			if end := strings.IndexAny(section, " \t.\""); end >= 0 {
				section = section[:end]
			}
			line = after
		}
		if name, value, set := strings.Cut(line, "="); set {
			key := section + "." + strings.ToLower(strings.TrimSpace(name))
			out[key] = append(out[key], gitValue(value))
		}
	}
	return out
}

// gitValue takes quotes, escapes and a comment off a value.
func gitValue(text string) string {
	var out strings.Builder
	quoted, escaped := false, false
	for _, r := range strings.TrimSpace(text) {
		switch {
		case escaped:
			out.WriteRune(r)
			escaped = false
		case r == '\\':
			escaped = true
		case r == '"':
			quoted = !quoted
		case !quoted && (r == '#' || r == ';'):
			return strings.TrimSpace(out.String())
		default:
			out.WriteRune(r)
		}
	}
	return strings.TrimSpace(out.String())
}
