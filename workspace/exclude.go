package workspace

import (
	"path/filepath"
	"slices"
	"strings"

	"agentd/internal/place"
)

// exclusion is what is excluded from one workspace.
type exclusion struct {
	// paths are relative to the root; names are their last parts, which sort most
	// entries out without putting a path together.
	paths map[string]bool
	names map[string]bool
	// ids are devices and inodes, for when they have another name.
	ids [][2]uint64
}

func newExclusion(root string, absolute []string, places *place.Places) *exclusion {
	e := &exclusion{paths: map[string]bool{}, names: map[string]bool{}}
	for _, path := range absolute {
		// What was moved keeps its identity; what isn't there has none.
		if at, ok := places.Known(path); ok {
			if st := statInfo(at.Info()); st.ino != 0 {
				e.ids = append(e.ids, [2]uint64{st.dev, st.ino})
			}
		}
		if filepath.Separator == '/' && !strings.HasPrefix(filepath.Clean(path), root) {
			continue // most aren't, and each call asks
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

// excludesFile says whether what has been looked at is excluded, under whatever name.
func (e *exclusion) excludesFile(st fileStat) bool {
	return slices.Contains(e.ids, [2]uint64{st.dev, st.ino})
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
