package loop

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentd/event"
	"agentd/permission"
)

// Bounds of the search for files that deny rules cover.
const (
	maxCovered = 1000
	maxWalked  = 1_000_000
)

// coverFiles finds the files below the workspace that deny rules are about, so that
// commands can't read or write them either. A walk over the workspace is what a rule
// with a pattern over paths costs; without one nothing is looked at.
func (g *guarded) coverFiles(root string) {
	cover := permission.NewCover(g.rules, root)
	if cover == nil {
		return
	}
	inside := coverWalk{cover: cover, root: root}
	inside.run()
	g.hidden, g.readOnly = inside.hidden, inside.readOnly
	switch {
	case inside.cut:
		g.uncoverable = fmt.Sprintf("a deny rule is about files, and %s has more than %d entries, too many to find them all", root, maxWalked)
	case inside.size() > maxCovered:
		g.uncoverable = fmt.Sprintf("deny rules are about %d files and folders of %s, and at most %d can be kept from a command", inside.size(), root, maxCovered)
	}
	// A pattern that begins with a slash may be about files elsewhere.
	if g.uncoverable != "" || !slices.ContainsFunc(g.rules, func(r event.PolicyRule) bool { return r.Decision == permission.Deny && strings.HasPrefix(r.Match, "/") }) {
		return
	}
	// Commands can't make more files there, so what is beyond the bounds is only named.
	outside := coverWalk{cover: cover, root: "/", but: root}
	outside.run()
	if outside.cut || outside.size() > maxCovered {
		g.missed = fmt.Sprintf("rules: not every file outside of the workspace that a rule denies is covered: there are more than %d entries, or more than %d match", maxWalked, maxCovered)
		outside.hidden = outside.hidden[:min(len(outside.hidden), maxCovered)]
		outside.readOnly = outside.readOnly[:min(len(outside.readOnly), maxCovered)]
	}
	g.hidden, g.readOnly = append(g.hidden, outside.hidden...), append(g.readOnly, outside.readOnly...)
}

// coverWalk looks for what deny rules are about below root, but not below but.
type coverWalk struct {
	cover            *permission.Cover
	root, but        string
	hidden, readOnly []string
	// linked are what links with a denied name lead to, by whether they are hidden.
	linked map[bool][]string
	walked int
	// cut says that the walk ended early.
	cut bool
}

func (w *coverWalk) size() int { return len(w.hidden) + len(w.readOnly) }

var errWalkedEnough = errors.New("enough")

func (w *coverWalk) run() {
	w.linked = map[bool][]string{}
	w.cut = filepath.WalkDir(w.root, w.visit) != nil
	w.hidden, w.readOnly = append(w.hidden, w.linked[true]...), append(w.readOnly, w.linked[false]...)
	if w.size() > maxCovered {
		w.hidden, w.readOnly = wholeFolders(w.root, w.hidden), wholeFolders(w.root, w.readOnly)
	}
}

func (w *coverWalk) visit(path string, d fs.DirEntry, err error) error {
	if path == w.but || w.root == "/" && slices.Contains([]string{"/proc", "/sys", "/dev"}, path) {
		return fs.SkipDir
	}
	if err != nil {
		// A command may be able to open a folder that can't be listed now (chmod), or
		// to guess a name in it. Other people's folders it can't open.
		if path != w.root && w.root != "/" && !errors.Is(err, fs.ErrNotExist) {
			w.hidden = append(w.hidden, path)
		}
		return nil
	}
	if w.walked++; w.walked > maxWalked {
		return errWalkedEnough
	}
	skip := error(nil)
	if d.IsDir() && path != w.root {
		skip = fs.SkipDir
	}
	switch hidden, readOnly, _ := w.cover.Match(path); {
	case path == w.root:
	case d.Type()&fs.ModeSymlink != 0:
		if hidden || readOnly {
			w.followLink(path, hidden)
		}
	case hidden:
		w.hidden = append(w.hidden, path)
		return skip
	case readOnly && !w.belowReadOnly(path):
		w.readOnly = append(w.readOnly, path)
	}
	if !w.cover.Below(path) {
		return skip
	}
	return nil
}

// followLink covers what a link leads to: no mount covers the link. What the workspace
// lies in can't be covered, and the kernel's files are no secrets.
func (w *coverWalk) followLink(path string, hidden bool) {
	at, err := filepath.EvalSymlinks(path)
	if err != nil || pathWithin(at, w.root) || isKernelPath(at) || slices.Contains(w.linked[hidden], at) {
		return
	}
	w.linked[hidden] = append(w.linked[hidden], at)
}

// belowReadOnly says that the folder that was found last is above a path: what is in
// it is read-only with it. The walk visits what is in a folder right after it.
func (w *coverWalk) belowReadOnly(path string) bool {
	return len(w.readOnly) > 0 && strings.HasPrefix(path, w.readOnly[len(w.readOnly)-1]+"/")
}

// wholeFolders puts a folder in the place of its entries where all of them are covered,
// from the deepest up.
func wholeFolders(root string, paths []string) []string {
	byFolder := map[string][]string{}
	for _, path := range paths {
		byFolder[filepath.Dir(path)] = append(byFolder[filepath.Dir(path)], path)
	}
	folders := make([]string, 0, len(byFolder))
	for dir := range byFolder {
		folders = append(folders, dir)
	}
	deeper := func(a, b string) int { return cmp.Compare(strings.Count(b, "/"), strings.Count(a, "/")) }
	slices.SortFunc(folders, deeper)
	var out []string
	for len(folders) > 0 {
		dir := folders[0]
		folders = folders[1:]
		entries, err := os.ReadDir(dir)
		if dir == root || dir == "/" || err != nil || len(entries) != len(byFolder[dir]) {
			out = append(out, byFolder[dir]...)
			continue
		}
		above := filepath.Dir(dir)
		if _, known := byFolder[above]; !known {
			at, _ := slices.BinarySearchFunc(folders, above, deeper)
			folders = slices.Insert(folders, at, above)
		}
		byFolder[above] = append(byFolder[above], dir)
	}
	slices.Sort(out)
	return out
}
