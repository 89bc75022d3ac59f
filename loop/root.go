package loop

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// maxRoots bounds how many folders [roots] remembers.
const maxRoots = 1024

// roots remembers where workspaces lead. Several steps of a turn ask, and following
// the symbolic links looks at each part of the path; that the answer still holds is
// seen by looking at the folder itself.
type roots struct {
	mu    sync.Mutex
	known map[string]root
}

// root is a folder as it was found.
type root struct {
	resolved string
	info     fs.FileInfo
}

// resolve says where a path leads, or returns it as it is if it leads nowhere.
func (r *roots) resolve(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return path
	}
	if at, ok := r.get(path); ok && at.still(path, info) {
		return at.resolved
	}
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return path
	}
	r.put(path, root{resolved: resolved, info: info})
	return resolved
}

// still reports whether a path leads to the same folder under the same name.
func (at root) still(path string, info fs.FileInfo) bool {
	if !os.SameFile(at.info, info) {
		return false
	}
	if at.resolved == path {
		return true
	}
	there, err := os.Lstat(at.resolved)
	return err == nil && os.SameFile(there, info)
}

func (r *roots) get(path string) (root, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.known[path]
	return at, ok
}

func (r *roots) put(path string, at root) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil || len(r.known) >= maxRoots {
		r.known = map[string]root{}
	}
	r.known[path] = at
}

// resolveBelow returns what says where a path leads once symbolic links are
// followed. Below a folder that was resolved only the rest of the path has to be
// looked at.
func resolveBelow(root string) func(path string) string {
	return func(path string) string {
		if plain(root, path) {
			return path
		}
		return resolvePath(path)
	}
}

// plain reports whether a path exists below a folder and no part of the rest is a
// symbolic link.
func plain(root, path string) bool {
	if !within(root, path) || path != filepath.Clean(path) {
		return false
	}
	for end := len(root); end < len(path); {
		end++
		if i := strings.IndexByte(path[end:], filepath.Separator); i >= 0 {
			end += i
		} else {
			end = len(path)
		}
		if info, err := os.Lstat(path[:end]); err != nil || info.Mode()&fs.ModeSymlink != 0 {
			return false
		}
	}
	return true
}

// lacks reports whether a folder that is there has no file of this name, which is
// how most workspaces are.
func lacks(root, name string) bool {
	if _, err := os.Lstat(filepath.Join(root, name)); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	info, err := os.Stat(root)
	return err == nil && info.IsDir()
}
