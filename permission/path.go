package permission

import (
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// place is a path as a rule sees it: by its name, and by where it leads.
type place struct {
	// abs is the cleaned absolute path, real where it leads.
	abs, real string
	// inside says that both are within the workspace.
	inside bool
	// tree says that everything below it is meant too.
	tree bool
}

// placeOf judges a path by its name and by the resolver's answer.
func (q *Question) placeOf(p string) place {
	abs := p
	if !path.IsAbs(p) {
		abs = q.Cwd + "/" + p
	}
	pl := place{abs: path.Clean(abs)}
	pl.real = pl.abs
	if q.Resolve != nil {
		if r := q.Resolve(pl.abs); r != "" {
			pl.real = path.Clean(r)
		}
	}
	pl.inside = within(pl.abs, q.Root) && within(pl.real, q.Root)
	return pl
}

// within reports whether p is root or below it.
func within(p, root string) bool {
	if root == "" {
		return false
	}
	root = path.Clean(root)
	return p == root || root == "/" || strings.HasPrefix(p, root+"/")
}

// writable reports whether the sandbox's profile lets the place be written.
func (q *Question) writable(pl place) bool {
	if q.Sandbox.lifted() {
		return true
	}
	if q.Sandbox.Mode == "read_only" {
		return false
	}
	if pl.inside {
		return true
	}
	for _, root := range q.Sandbox.WriteRoots {
		if within(pl.abs, root) && within(pl.real, root) {
			return true
		}
	}
	return false
}

// names are the forms of a path that a pattern is held against: an absolute
// pattern against the absolute path, another against the path relative to the
// workspace, which one outside doesn't have.
func names(pattern, p, root string) []string {
	switch {
	case path.IsAbs(pattern):
		return []string{p}
	case !within(p, root):
		return nil
	case p == path.Clean(root):
		return []string{".", ""}
	}
	return []string{strings.TrimPrefix(strings.TrimPrefix(p, path.Clean(root)), "/")}
}

// matchPath holds a path pattern against a place. It matches if one of the names
// does; both says that it does by name and by where the path leads, which is what
// an allow rule needs.
func matchPath(pattern string, pl place, root string) (v verdict, both bool) {
	hit := func(p string) bool {
		for _, n := range names(pattern, p, root) {
			if ok, err := doublestar.Match(pattern, n); ok && err == nil {
				return true
			}
		}
		return false
	}
	byName, byReal := hit(pl.abs), hit(pl.real)
	if byName || byReal {
		return matches, byName && byReal
	}
	if pl.tree && (below(pattern, pl.abs, root) || below(pattern, pl.real, root)) {
		return may, false
	}
	return misses, false
}

// below reports whether the pattern could match something under the folder p.
func below(pattern, p, root string) bool {
	base, _ := doublestar.SplitPattern(pattern)
	if !path.IsAbs(base) {
		base = path.Clean(root) + "/" + base
	}
	base = path.Clean(base)
	return within(base, p) || within(p, base)
}
