package loop

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// gitBounds are the parts of a repository that name programs which git runs for
// the people who use it: its hooks, its configuration, and what says where both are;
// the same of its submodules and linked worktrees. unsure says why there may be more.
func gitBounds(root string) (found []string, unsure string) {
	b := gitSearch{root: root, left: maxGitFolders}
	git := b.checkout(root)
	list, err := readGitConfig(filepath.Join(root, ".gitmodules"))
	if err != nil {
		unsure = "the submodules aren't known: " + err.Error()
	}
	submodules := list["submodule.path"]
	if len(submodules) > maxSubmodules {
		unsure = fmt.Sprintf(".gitmodules names %d submodules, and at most %d can be protected", len(submodules), maxSubmodules)
		submodules = submodules[:maxSubmodules]
	}
	for _, path := range submodules {
		if filepath.IsLocal(path) {
			b.checkout(filepath.Join(root, path))
		}
	}
	modules := filepath.Join(git, "modules")
	if !b.none {
		b.modules(modules)
	}
	if b.left < 0 || b.repositories > maxSubmodules { // too many to tell apart
		b.found = append(slices.DeleteFunc(b.found, func(path string) bool { return pathWithin(modules, path) }), modules)
	}
	return b.found, unsure
}

// Bounds of the search for git's folders, of what is protected of them, and of the files
// that a configuration includes.
const (
	maxGitFolders   = 10_000
	maxSubmodules   = 256
	maxGitIncludes  = 16
	maxGitConfigLen = 1 << 20
)

// gitSearch gathers the bounds of a workspace's repositories.
type gitSearch struct {
	root         string
	found        []string
	left         int  // folders that may still be looked at
	repositories int  // that were found
	none         bool // the workspace has no .git
}

// checkout finds the bounds of a folder that has, or may get, a .git, and returns the
// folder of its repository. A .git that is a file says where that is.
func (b *gitSearch) checkout(dir string) string {
	git := filepath.Join(dir, ".git")
	info, err := os.Lstat(git)
	switch {
	case err == nil && info.Mode().IsRegular():
		b.found = append(b.found, git)
		at, ok := readGitLink(git, "gitdir: ")
		if !ok || !belowRoot(b.root, at) {
			return git
		}
		b.folder(at, dir)
		return at
	case errors.Is(err, fs.ErrNotExist) && dir == b.root:
		b.none = true
		b.protect(git) // nothing is there that could name more
	case err == nil || dir == b.root:
		b.folder(git, dir)
	default:
		b.found = append(b.found, git)
	}
	return git
}

// protect adds the files of one repository that name programs.
func (b *gitSearch) protect(git string) {
	b.repositories++
	for _, name := range []string{"hooks", "config", "config.worktree", "commondir"} {
		b.found = append(b.found, filepath.Join(git, name))
	}
}

// readGitLink reads a file of git's that holds nothing but a path.
func readGitLink(file, prefix string) (string, bool) {
	text, err := readGitFile(file)
	path, ok := strings.CutPrefix(strings.TrimSpace(string(text)), prefix)
	if err != nil || !ok || path == "" {
		return "", false
	}
	return fromFolder(filepath.Dir(file), path), true
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
	config, _ := readGitConfig(filepath.Join(git, "config")) // what can't be read names nothing
	if set := config["core.worktree"]; len(set) > 0 {
		worktree = fromFolder(git, set[len(set)-1])
		if belowRoot(b.root, worktree) {
			b.found = append(b.found, filepath.Join(worktree, ".git"))
		}
	}
	b.folder(git, worktree)
}

// folder finds the bounds of one repository and of its linked worktrees.
func (b *gitSearch) folder(git, worktree string) {
	b.protect(git)
	b.named(filepath.Join(git, "config"), worktree, maxGitIncludes)
	b.named(filepath.Join(git, "config.worktree"), worktree, maxGitIncludes)
	linked, _ := os.ReadDir(filepath.Join(git, "worktrees"))
	for _, e := range linked {
		if b.left--; b.left < 0 {
			b.found = append(b.found, filepath.Join(git, "worktrees"))
			return
		}
		at := filepath.Join(git, "worktrees", e.Name())
		for _, name := range []string{"commondir", "gitdir", "config.worktree"} {
			b.found = append(b.found, filepath.Join(at, name))
		}
		if checkout, ok := readGitLink(filepath.Join(at, "gitdir"), ""); ok && belowRoot(b.root, checkout) {
			b.found = append(b.found, checkout)
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
	set, _ := readGitConfig(config) // what can't be read names nothing
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
// write; a value over several lines is not a path. A file that isn't there sets nothing.
func readGitConfig(file string) (map[string][]string, error) {
	text, err := readGitFile(file)
	if err != nil {
		return nil, err
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
	return out, nil
}

// readGitFile reads a short file; one that isn't there is empty.
func readGitFile(file string) ([]byte, error) {
	f, _, err := openRegular(file, maxGitConfigLen)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() // opened for reading
	return io.ReadAll(io.LimitReader(f, maxGitConfigLen))
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
