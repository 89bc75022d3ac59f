package permission

import (
	"path"
	"strings"
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

// from returns the question with another folder that relative paths start from.
func (q *Question) from(cwd string) *Question {
	at := *q
	at.Cwd = cwd
	return &at
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
	pl.inside = pathWithin(pl.abs, q.Root) && pathWithin(pl.real, q.Root)
	return pl
}

// pathWithin reports whether p is root or below it.
func pathWithin(p, root string) bool {
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
		if pathWithin(pl.abs, root) && pathWithin(pl.real, root) {
			return true
		}
	}
	return false
}

// relative returns the form of a path that the rule's pattern is checked against: an
// absolute pattern against the absolute path, another against the path relative to
// the workspace, which one outside doesn't have.
func (r *rule) relative(p, root string) (string, bool) {
	switch {
	case path.IsAbs(r.Match):
		return p, true
	case !pathWithin(p, root):
		return "", false
	}
	return strings.TrimPrefix(strings.TrimPrefix(p, path.Clean(root)), "/"), true
}

// takesPath reports whether the rule's pattern takes an absolute path.
func (r *rule) takesPath(p, root string) bool {
	if r.paths == nil {
		return false
	}
	name, ok := r.relative(p, root)
	return ok && (r.paths.Match(name) || name == "" && r.paths.Match("."))
}

// takesBelow reports whether the rule's pattern may take something below a folder.
func (r *rule) takesBelow(dir, root string) bool {
	if r.paths == nil {
		return false
	}
	if name, ok := r.relative(dir, root); ok {
		return r.paths.MatchBelow(name)
	}
	return pathWithin(path.Clean(root), dir)
}

// matchPath checks the rule's pattern against a place. It matches if one of the names
// does; both says that it does by name and by where the path leads, which is what an
// allow rule needs.
func (r *rule) matchPath(pl place, root string) (v verdict, both bool) {
	byName := r.takesPath(pl.abs, root)
	byReal := byName
	if pl.real != pl.abs {
		byReal = r.takesPath(pl.real, root)
	}
	if byName || byReal {
		return matches, byName && byReal
	}
	if pl.tree && (r.takesBelow(pl.abs, root) || r.takesBelow(pl.real, root)) {
		return may, false
	}
	return misses, false
}
