package sandbox

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentd/internal/place"
)

// Mode says what a command may write.
type Mode string

// The modes, as they are named on the wire.
const (
	ReadOnly         Mode = "read_only"
	WorkspaceWrite   Mode = "workspace_write"
	DangerFullAccess Mode = "danger_full_access"
)

// Network says what a command may reach.
type Network string

// The networks, as they are named on the wire.
const (
	NetworkDeny  Network = "deny"
	NetworkAllow Network = "allow"
	NetworkProxy Network = "proxy"
)

// Profile is what is wanted of a sandbox.
type Profile struct {
	// Mode is workspace_write if empty.
	Mode Mode
	// Root is the workspace; it must be an existing directory.
	Root string
	// Cwd is where commands start. If empty, Root; if relative, below Root.
	Cwd string
	// ReadRoots narrow what can be read to them, the workspace and the system's own
	// directories. If empty, everything can be read but Hidden.
	ReadRoots []string
	// Kept paths can be read also where a private directory would cover them: the
	// program of a hook that lies below /tmp. One that doesn't exist is left out.
	Kept []string
	// WriteRoots are writable beside Root in workspace_write. Other modes don't use
	// them.
	WriteRoots []string
	// Hidden paths can't be read or written: the data directory with the store, its
	// token and its keys.
	Hidden []string
	// Protected files and folders can be read but not written, replaced, renamed or
	// removed, although a write root holds them: what says how an agent is bounded. It
	// holds for what is there when the command starts; nothing keeps a command from
	// making a file that isn't.
	Protected []string
	// Pinned folders can't be renamed, removed or replaced, although a write root
	// holds them: the workspaces of other sessions.
	Pinned []string
	// Identities say what Root, WriteRoots and Hidden led to when they were resolved,
	// by path; such a path is not resolved again. A command whose path leads elsewhere
	// by now does not begin. What isn't listed is resolved by [Prepare].
	Identities map[string]Identity
	// Supervised says that commands are started with [Command.Supervise].
	Supervised bool
	// Network is deny if empty.
	Network Network
	// AllowedHosts are what the proxy lets through: "example.org",
	// "*.example.org", an address, each with ":port" or without. See [Allowed].
	AllowedHosts []string
	// Env are variables that commands get beside PATH, HOME, LANG, TERM and TMPDIR:
	// "NAME" takes the value of our environment, "NAME=value" sets it.
	Env []string
	// Limits bound what a command uses.
	Limits Limits
}

// Identity is what a path led to: a device and an inode.
type Identity struct{ Dev, Ino uint64 }

// Limits bound a command and what it starts. Zero is no limit.
type Limits struct {
	// MemoryMB bounds the memory of the tree where control groups can be had, and
	// of each process elsewhere.
	MemoryMB int64
	// Processes bounds processes and threads.
	Processes int64
	// WallClock is enforced by the caller; see package process.
	WallClock time.Duration
	// CPU bounds the processor time of each process.
	CPU time.Duration
	// FileSizeMB bounds each file that is written.
	FileSizeMB int64
	// OpenFiles bounds the descriptors of each process.
	OpenFiles int64
}

// resolve returns the profile with defaults, absolute paths and without symbolic
// links, or says what makes no sense.
func (p Profile) resolve() (Profile, error) {
	if p.Mode == "" {
		p.Mode = WorkspaceWrite
	}
	if p.Network == "" {
		p.Network = NetworkDeny
	}
	if !slices.Contains([]Mode{ReadOnly, WorkspaceWrite, DangerFullAccess}, p.Mode) {
		return p, fmt.Errorf("unknown mode %q", p.Mode)
	}
	if !slices.Contains([]Network{NetworkDeny, NetworkAllow, NetworkProxy}, p.Network) {
		return p, fmt.Errorf("unknown network %q", p.Network)
	}
	if err := p.Limits.check(); err != nil {
		return p, err
	}
	p, err := p.resolvePaths()
	if err != nil {
		return p, err
	}
	if p.Mode != WorkspaceWrite {
		return p, nil
	}
	for _, w := range p.writeRoots() {
		if w == "/" {
			return p, errors.New("/ can't be a write root because that is no boundary: use danger_full_access")
		}
		for _, h := range p.Hidden {
			if pathWithin(w, h) {
				return p, fmt.Errorf("write root %s is inside the hidden path %s", w, h)
			}
		}
	}
	return p, nil
}

func (l Limits) check() error {
	if l.MemoryMB < 0 || l.Processes < 0 || l.WallClock < 0 || l.CPU < 0 || l.FileSizeMB < 0 || l.OpenFiles < 0 {
		return errors.New("a limit is negative")
	}
	return nil
}

// resolvePaths makes every path absolute and free of symbolic links.
func (p Profile) resolvePaths() (Profile, error) {
	p.Identities = maps.Clone(p.Identities)
	if p.Identities == nil {
		p.Identities = map[string]Identity{}
	}
	root, err := p.fixed(p.Root, directory)
	if err != nil {
		return p, fmt.Errorf("root: %w", err)
	}
	p.Root = root
	if p.Cwd == "" {
		p.Cwd = root
	} else if !filepath.IsAbs(p.Cwd) {
		p.Cwd = filepath.Join(root, p.Cwd)
	}
	if p.Cwd, err = directory(p.Cwd); err != nil {
		return p, fmt.Errorf("working directory: %w", err)
	}
	for _, list := range []*[]string{&p.ReadRoots, &p.WriteRoots} {
		*list = slices.Clone(*list)
		for i, path := range *list {
			if (*list)[i], err = p.fixed(path, existing); err != nil {
				return p, fmt.Errorf("root %s: %w", path, err)
			}
		}
	}
	kept := p.Kept
	p.Kept = nil
	for _, path := range kept {
		if resolved, err := existing(path); err == nil {
			p.Kept = append(p.Kept, resolved)
		}
	}
	reachable := slices.DeleteFunc(slices.Clone(p.Hidden), func(path string) bool {
		_, known := p.Identities[path]
		return !known && outOfReach(path)
	})
	fixOrAbsolute := func(path string) (string, error) { return p.fixed(path, resolvedOrAbsolute) }
	if p.Hidden, err = mapPaths(reachable, fixOrAbsolute); err != nil {
		return p, fmt.Errorf("hidden %w", err)
	}
	p.Hidden = outermost(p.Hidden) // a cover over a folder covers what is in it
	if p.Protected, err = mapPaths(p.Protected, besideParent); err != nil {
		return p, fmt.Errorf("protected %w", err)
	}
	return p, nil
}

// fixed resolves a path unless its identity is known already, and keeps what it
// leads to.
func (p Profile) fixed(path string, resolve func(string) (string, error)) (string, error) {
	if _, known := p.Identities[path]; known {
		return path, nil
	}
	resolved, err := resolve(path)
	if err != nil {
		return "", err
	}
	if found, err := place.Resolve(resolved); err == nil {
		p.Identities[resolved] = IdentityOf(found)
	}
	return resolved, nil
}

// Fixed returns the profile with the identities of its paths. What places knows of a
// path holds; what is new to it is resolved and remembered. A hidden path that isn't
// there yet stays a name. The error wraps [place.ErrReplaced] if a path leads elsewhere
// now.
func (p Profile) Fixed(places *place.Places) (Profile, error) {
	p.Identities = map[string]Identity{}
	fix := func(path string) (string, error) {
		at, err := place.Nearest(path)
		if err != nil {
			return path, nil //nolint:nilerr // Prepare says what is wrong with it
		}
		found, err := places.Fix(at)
		if errors.Is(err, place.ErrReplaced) || err != nil && !found.IsZero() {
			return "", fmt.Errorf("%s changed after agentd resolved it: %w; restore it, or reload or restart agentd to accept the change", at, place.ErrReplaced)
		}
		if err == nil {
			p.Identities[at] = IdentityOf(found)
		}
		return at, nil
	}
	var err error
	if p.Root, err = fix(p.Root); err != nil {
		return p, err
	}
	if p.WriteRoots, err = mapPaths(p.WriteRoots, fix); err != nil {
		return p, fmt.Errorf("write root %w", err)
	}
	if p.Hidden, err = mapPaths(p.Hidden, fix); err != nil {
		return p, fmt.Errorf("hidden path %w", err)
	}
	p.Hidden = outermost(p.Hidden)
	return p, nil
}

// IdentityOf is what a place is known by.
func IdentityOf(p place.Place) Identity {
	dev, ino := p.ID()
	return Identity{Dev: dev, Ino: ino}
}

// CheckPlaces reports the first path of the profile that doesn't lead any more to
// what it led to when it was resolved. The error wraps [place.ErrReplaced].
func (p *Plan) CheckPlaces() error {
	for _, path := range slices.Concat([]string{p.Profile.Root}, p.Profile.WriteRoots, p.Profile.Hidden) {
		want, known := p.Profile.Identities[path]
		if !known {
			continue
		}
		found, err := place.Resolve(path)
		if err == nil && found.Path == path && IdentityOf(found) == want {
			continue
		}
		what := "workspace or write root"
		if slices.Contains(p.Profile.Hidden, path) {
			what = "hidden path"
		}
		return fmt.Errorf("%s %s changed after agentd resolved it: %w; restore it, or reload or restart agentd to accept the change", what, path, place.ErrReplaced)
	}
	return nil
}

// mapPaths maps paths; an error names the path.
func mapPaths(paths []string, resolve func(string) (string, error)) ([]string, error) {
	out := slices.Clone(paths)
	for i, path := range paths {
		resolved, err := resolve(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out[i] = resolved
	}
	return out, nil
}

// resolvedOrAbsolute resolves a path that is there; another is only made absolute.
func resolvedOrAbsolute(path string) (string, error) {
	resolved, err := existing(path)
	if errors.Is(err, os.ErrNotExist) {
		return filepath.Abs(path)
	}
	return resolved, err
}

// besideParent resolves the folder of a path, not its last name: the name is what
// is protected.
func besideParent(path string) (string, error) {
	dir, err := resolvedOrAbsolute(filepath.Dir(path))
	return filepath.Join(dir, filepath.Base(path)), err
}

// writeRoots returns what is writable outside of the private directories, in
// order, each once and none within another.
func (p Profile) writeRoots() []string {
	if p.Mode != WorkspaceWrite {
		return nil
	}
	return outermost(append([]string{p.Root}, p.WriteRoots...))
}

// outermost sorts paths and leaves out those that lie in another.
func outermost(paths []string) []string {
	paths = slices.Clone(paths)
	slices.Sort(paths)
	var kept []string
	for _, path := range paths {
		if !slices.ContainsFunc(kept, func(k string) bool { return pathWithin(path, k) }) {
			kept = append(kept, path)
		}
	}
	return kept
}

// pathWithin tells whether path is dir or lies below it. Both are clean.
func pathWithin(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// existing makes a path absolute and resolves its symbolic links.
func existing(path string) (string, error) {
	if path == "" {
		return "", errors.New("the path is empty")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// directory is existing for directories.
func directory(path string) (string, error) {
	resolved, err := existing(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(resolved)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", fmt.Errorf("%s is not a directory", resolved)
	}
	return resolved, nil
}
