package loop

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentd/event"
	"agentd/fault"
	"agentd/internal/place"
	"agentd/tool"
)

// homes are the paths that workspaces are checked against, without symbolic links.
type homes struct {
	// workspace is the folder of sessions that name none.
	workspace string
	// data are the folders that the runtime keeps its own files in, hidden all that tools
	// must not see, these included.
	data, hidden []string
	// inside lets a workspace hold the data at any depth.
	inside bool
}

// newHomes resolves the paths once: from then on they are what they are now.
func newHomes(o *Options) (homes, error) {
	h := homes{inside: o.DataInside}
	var err error
	if h.workspace, err = place.Nearest(o.Workspace); err != nil {
		return h, fmt.Errorf("loop: the workspace %s: %w", o.Workspace, err)
	}
	// A folder that isn't there yet is fixed by the first call that uses it.
	if _, err := o.Places.Fix(h.workspace); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return h, fmt.Errorf("loop: the workspace: %w", err)
	}
	for _, list := range []struct {
		from []string
		to   *[]string
	}{{o.Data, &h.data}, {o.Sandbox.Hidden, &h.hidden}} {
		for _, path := range list.from {
			if at, err := place.Nearest(path); err == nil {
				path = at
			}
			*list.to = append(*list.to, path)
		}
	}
	h.hidden = append(h.hidden, h.data...)
	return h, nil
}

// refuse says why a folder can't be a workspace, and what to do instead; empty if it
// can. A data directory that is a direct child is covered by the sandbox: with
// folders in between, one of them could be renamed.
func (h *homes) refuse(root string) string {
	if isKernelPath(root) {
		return "its files are the kernel's: reading one may never end; use a folder of ordinary files"
	}
	for _, data := range h.data {
		if !h.inside && filepath.Dir(data) != root && data != root && pathWithin(root, data) {
			return fmt.Sprintf("it contains agentd's data directory %s; use a folder that doesn't, such as a project below it, or move the data with --data to a direct child of the workspace or out of it", data)
		}
	}
	for _, hidden := range h.hidden {
		if pathWithin(hidden, root) {
			return fmt.Sprintf("it lies in %s, which is hidden from tools; use another folder, or take that path off sandbox.hidden", hidden)
		}
	}
	return ""
}

// ResolveWorkspace returns the workspace of a new session as it is stored: absolute,
// and without symbolic links, so that it stays the folder that it is now. It refuses
// a folder in which tools could reach what belongs to the runtime.
func (l *Loop) ResolveWorkspace(w *event.Workspace) (*event.Workspace, error) {
	if w == nil || w.Root == "" {
		if why := l.homes.refuse(l.homes.workspace); why != "" {
			return nil, fault.Param("workspace.root", "the server's workspace %s can't be used: %s", l.homes.workspace, why)
		}
		return w, nil
	}
	root, err := place.Nearest(w.Root)
	if err != nil {
		return nil, fault.Param("workspace.root", "%q can't be resolved: %s", w.Root, fileErrorReason(err))
	}
	if why := l.homes.refuse(root); why != "" {
		return nil, fault.Param("workspace.root", "%q can't be a workspace: %s", w.Root, why)
	}
	at, err := l.opt.Places.Fix(root)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, place.ErrReplaced):
		return nil, fault.Param("workspace.root", "%q was moved or replaced since agentd first used it; restart or reload agentd to accept what is there now", w.Root)
	case err != nil:
		return nil, fault.Param("workspace.root", "%q can't be used: %s", w.Root, fileErrorReason(err))
	case !at.IsDir():
		return nil, fault.Param("workspace.root", "%q is not a folder", w.Root)
	}
	resolved := *w
	resolved.Root = root
	return &resolved, nil
}

// checkPlace refuses calls in a workspace that a session must not have, such as one
// that was stored before the data directory was moved into it.
func (l *Loop) checkPlace(info *event.ToolInfo, w workplace) error {
	if !slices.ContainsFunc(info.Capabilities, func(c string) bool {
		return c == tool.CapFilesRead || c == tool.CapFilesWrite || c == tool.CapProcess
	}) {
		return nil
	}
	why := l.homes.refuse(w.root)
	if why == "" {
		return nil
	}
	err := tool.Errorf(tool.SandboxViolation, "the workspace %s can't be used: %s", w.root, why)
	err.Boundary, err.Path = "workspace", w.root
	return err
}

// openRoot opens a workspace that is still the folder that it was.
func (l *Loop) openRoot(path string) (*os.Root, error) {
	at, err := l.opt.Places.Recall(path)
	if err != nil {
		return nil, err
	}
	return at.OpenRoot()
}

// resolveBelow returns what says where a path leads once symbolic links are
// followed. Below a folder that was resolved only the rest of the path has to be
// looked at. If a link has taken the folder's own place, the path stays as it is: what
// opens the folder refuses it then, and says why.
func resolveBelow(root string) func(path string) string {
	return func(path string) string {
		if hasNoSymlink(root, path) {
			return path
		}
		resolved := resolvePath(path)
		if pathWithin(root, path) && !pathWithin(root, resolved) && resolvePath(root) != root {
			return path
		}
		return resolved
	}
}

// hasNoSymlink reports whether a path exists below a folder and no part of the rest is a
// symbolic link.
func hasNoSymlink(root, path string) bool {
	if !pathWithin(root, path) || path != filepath.Clean(path) {
		return false
	}
	for at := range waypoints(root, path) {
		if info, err := os.Lstat(at); err != nil || info.Mode()&fs.ModeSymlink != 0 {
			return false
		}
	}
	return true
}

// waypoints yields what lies on the way from a folder to a path below it, and the path.
func waypoints(root, path string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for end := len(root); end < len(path); {
			end++
			if i := strings.IndexByte(path[end:], filepath.Separator); i >= 0 {
				end += i
			} else {
				end = len(path)
			}
			if !yield(path[:end]) {
				return
			}
		}
	}
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
