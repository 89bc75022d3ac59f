package workspace

import (
	"path/filepath"
	"strings"
)

// exclusion is what is excluded from one workspace.
type exclusion struct {
	// paths are relative to the root; names are their last parts, which sort most
	// entries out without putting a path together.
	paths map[string]bool
	names map[string]bool
}

func newExclusion(root string, absolute []string) *exclusion {
	e := &exclusion{paths: map[string]bool{}, names: map[string]bool{}}
	for _, path := range absolute {
		if resolved, err := filepath.EvalSymlinks(path); err == nil {
			path = resolved
		}
		rel, err := filepath.Rel(root, path)
		if err != nil || !filepath.IsLocal(rel) {
			continue // it isn't in this workspace
		}
		rel = filepath.ToSlash(rel)
		e.paths[rel] = true
		e.names[rel[strings.LastIndexByte(rel, '/')+1:]] = true
	}
	return e
}

// has says whether an entry itself is excluded; prefix is its folder's path with
// a slash, or empty.
func (e *exclusion) has(prefix, name string) bool {
	return e.names[name] && e.paths[prefix+name]
}

// covers says whether a path is excluded, itself or with a folder above it.
func (e *exclusion) covers(path string) bool {
	if len(e.paths) == 0 {
		return false
	}
	for i := range len(path) {
		if path[i] == '/' && e.paths[path[:i]] {
			return true
		}
	}
	return e.paths[path] || e.paths["."]
}
