package tool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"agentd/internal/clip"
	"agentd/internal/place"
)

// hiddenPaths are the paths that the file tools neither read, write nor list. They
// are names and, once something is there, identities: a folder above that was
// renamed doesn't bring what is hidden out.
type hiddenPaths struct {
	places *place.Places
	// names are the paths as they were given, and where they lead if that is
	// elsewhere; resolved are those that identities are kept of. All are clean, because
	// each call of a file tool compares them with its workspace.
	names, resolved []string
}

// newHiddenPaths fixes what is there. What isn't is fixed when it first appears in a
// workspace.
func newHiddenPaths(places *place.Places, paths []string) *hiddenPaths {
	h := &hiddenPaths{places: places}
	for _, path := range paths {
		at, err := place.Nearest(path)
		if err != nil {
			at = path // the name alone is hidden until it can be followed
		}
		path, at = filepath.Clean(path), filepath.Clean(at)
		if at != path {
			h.names = append(h.names, path)
		}
		h.names = append(h.names, at)
		h.resolved = append(h.resolved, at)
		_, _ = places.Fix(at) // what can't be fixed yet is tried by each call that could reach it
	}
	return h
}

// apply keeps what is hidden out of a workspace. It looks only at those paths that
// lie in it, and refuses the workspace if one of them isn't what it was.
func (h *hiddenPaths) apply(t *tree, root place.Place) error {
	base := filepath.Clean(t.base)
	for _, path := range h.names {
		if _, inside := cleanRelative(path, base); inside {
			return hiddenPath(t.base)
		}
		if rel, ok := cleanRelative(base, path); ok {
			t.hidden = append(t.hidden, rel)
		}
	}
	for _, path := range h.resolved {
		known, err := h.identity(base, path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return hiddenReplaced(path)
		case known.Same(root):
			return hiddenPath(t.base)
		}
		t.hiddenIDs = append(t.hiddenIDs, known)
	}
	return nil
}

// identity returns what a hidden path is. Within the workspace at base it must still
// be that; elsewhere no call could have moved it, and it isn't looked at again.
func (h *hiddenPaths) identity(base, path string) (place.Place, error) {
	known, ok := h.places.Known(path)
	if _, inside := cleanRelative(base, path); !inside {
		if !ok {
			return known, fs.ErrNotExist
		}
		return known, nil
	}
	info, err := os.Lstat(path)
	switch {
	case ok && (err != nil || !known.Is(info)):
		return known, place.ErrReplaced
	case ok:
		return known, nil
	case errors.Is(err, syscall.ENOTDIR):
		return known, fs.ErrNotExist
	case err != nil:
		return known, err
	}
	return h.places.Fix(path)
}

// hiddenReplaced is the refusal of a workspace in which a hidden path was moved: what
// was hidden may have another name now.
func hiddenReplaced(path string) *Error {
	return &Error{
		Category: SandboxViolation, Message: fmt.Sprintf("the hidden path %s is no longer what it was when agentd started", quoteName(path)),
		Advice:   "Put it back, or restart or reload agentd to accept what is there now. Until then no file of the workspace is read or written.",
		Boundary: "workspace", Path: clip.Text(path, 300),
	}
}

// workspaceReplaced is the refusal of a workspace whose path leads elsewhere now.
func workspaceReplaced(root string) *Error {
	return &Error{
		Category: SandboxViolation, Message: fmt.Sprintf("the workspace %s is no longer the folder that it was: it was moved or replaced", quoteName(root)),
		Advice:   "Put the folder back, or restart or reload agentd to accept the one that is there now; a symbolic link is never accepted. For another folder open another session.",
		Boundary: "workspace", Path: clip.Text(root, 300),
	}
}
