// Package place keeps files and folders by what they are instead of by name.
//
// # Contract
//
// A [Place] is resolved once: symbolic links are followed then, and the device and
// the inode of what was found are kept. From there on the place is that file or
// folder and no other. [Place.Check] and [Place.OpenRoot] follow the same path
// again and fail with [ErrReplaced] if it leads anywhere else, so a folder that was
// renamed, or that a link has taken the place of, is refused and never used.
//
// [Places] remembers places by path for the life of the process. A path that was
// stored earlier, when its links were resolved, must still be free of links when it
// is met again.
//
// # Concurrency
//
// A Place doesn't change. The methods of Places may be called by many goroutines.
package place

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
)

// ErrReplaced reports that a path leads to something other than it did when it was
// resolved.
var ErrReplaced = errors.New("it was moved or replaced")

// Place is a file or folder that was resolved once.
type Place struct {
	// Path is absolute and has no symbolic links.
	Path string
	info fs.FileInfo
}

// Resolve follows the symbolic links of a path and keeps what it leads to.
func Resolve(path string) (Place, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return Place{}, err
	}
	resolved, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return Place{}, err
	}
	info, err := os.Lstat(resolved)
	if err != nil {
		return Place{}, err
	}
	return Place{Path: resolved, info: info}, nil
}

// Nearest says where a path leads once its symbolic links are followed. Of a path
// that doesn't exist yet the folders that do are followed, and the rest is kept.
func Nearest(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	rest := ""
	for at := abs; ; at = filepath.Dir(at) {
		resolved, err := filepath.EvalSymlinks(at)
		if err == nil {
			return filepath.Join(resolved, rest), nil
		}
		if !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			return "", err
		}
		if _, err := os.Lstat(at); err == nil {
			return "", fmt.Errorf("%s is a dangling symbolic link", at)
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}

// IsDir reports whether the place is a folder.
func (p Place) IsDir() bool { return p.info != nil && p.info.IsDir() }

// ID returns the device and the inode of the place, or zeros where the system has
// none.
func (p Place) ID() (dev, ino uint64) {
	if p.info == nil {
		return 0, 0
	}
	return fileIdentity(p.info)
}

// IsZero reports whether nothing was resolved.
func (p Place) IsZero() bool { return p.info == nil }

// Is reports whether info describes this very file or folder, under whatever name.
func (p Place) Is(info fs.FileInfo) bool { return p.info != nil && os.SameFile(p.info, info) }

// Info describes what the place was when it was resolved.
func (p Place) Info() fs.FileInfo { return p.info }

// Same reports whether the other place is the same file or folder.
func (p Place) Same(other Place) bool { return p.Is(other.info) }

// Check reports whether the path still leads to the place, without any symbolic
// link. The error wraps [ErrReplaced] or says that nothing is there.
func (p Place) Check() error {
	resolved, err := filepath.EvalSymlinks(p.Path)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Path, err)
	}
	if resolved != p.Path {
		return fmt.Errorf("%s: %w: it leads to %s now", p.Path, ErrReplaced, resolved)
	}
	info, err := os.Lstat(p.Path)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Path, err)
	}
	if !p.Is(info) {
		return fmt.Errorf("%s: %w", p.Path, ErrReplaced)
	}
	return nil
}

// OpenRoot opens the folder. What it returns is this place even if the path is
// replaced while it is opened. The error wraps [ErrReplaced] if the path leads
// nowhere or to something else.
func (p Place) OpenRoot() (*os.Root, error) {
	root, err := os.OpenRoot(p.Path)
	if err != nil {
		if now, statErr := os.Stat(p.Path); statErr != nil || !p.Is(now) {
			err = fmt.Errorf("%s: %w: %w", p.Path, ErrReplaced, err)
		}
		return nil, err
	}
	info, err := root.Stat(".")
	if err == nil && !p.Is(info) {
		err = fmt.Errorf("%s: %w", p.Path, ErrReplaced)
	}
	if err != nil {
		_ = root.Close() // nothing was written
		return nil, err
	}
	return root, nil
}

// Places remembers places by path. The zero value is ready for use.
type Places struct {
	mu      sync.Mutex
	known   map[string]Place
	renewed uint64
}

// Fix returns the place that path was resolved to first, and resolves it if it
// wasn't. The path must be absolute and free of symbolic links: it was resolved
// before it was stored.
func (ps *Places) Fix(path string) (Place, error) {
	ps.mu.Lock()
	known, ok := ps.known[path]
	ps.mu.Unlock()
	if ok {
		return known, known.Check()
	}
	found, err := Resolve(path)
	if err != nil {
		return Place{}, err
	}
	if found.Path != path {
		return Place{}, fmt.Errorf("%s: %w: it leads to %s now", path, ErrReplaced, found.Path)
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if known, ok := ps.known[path]; ok {
		return known, known.Check()
	}
	if ps.known == nil {
		ps.known = map[string]Place{}
	}
	ps.known[path] = found
	return found, nil
}

// Recall returns the place that path was resolved to first, without looking at the
// disk again: what is opened has to be compared with it, as [Place.OpenRoot] does. A
// path that is new is resolved as by [Places.Fix].
func (ps *Places) Recall(path string) (Place, error) {
	if known, ok := ps.Known(path); ok {
		return known, nil
	}
	return ps.Fix(path)
}

// Known returns the place that path was resolved to, if it was.
func (ps *Places) Known(path string) (Place, bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	known, ok := ps.known[path]
	return known, ok
}

// Renew drops what is known of paths that lead elsewhere now, as a restart would:
// the operator says that what is there is meant.
func (ps *Places) Renew() {
	ps.mu.Lock()
	known := maps.Clone(ps.known)
	ps.mu.Unlock()
	for path, p := range known {
		if p.Check() != nil {
			ps.Forget(path)
		}
	}
}

// Forget drops what is known of a path: the operator says that the folder was
// replaced on purpose.
func (ps *Places) Forget(path string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.known, path)
	ps.renewed++
}

// Renewed counts how often a path was forgotten: what was made of places before may
// be out of date.
func (ps *Places) Renewed() uint64 {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.renewed
}

// Below returns the places that lie below dir, without dir itself.
func (ps *Places) Below(dir string) []Place {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	var out []Place
	for path, p := range ps.known {
		if rel, err := filepath.Rel(dir, path); err == nil && rel != "." && filepath.IsLocal(rel) {
			out = append(out, p)
		}
	}
	return out
}
