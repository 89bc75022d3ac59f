package tool

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"
	"syscall"

	"agentd/internal/place"
)

// Why a strict step through the tree did not work.
var (
	errLink    = errors.New("is a symbolic link")
	errNotDir  = errors.New("is not a folder")
	errIsDir   = errors.New("is a folder")
	errSpecial = errors.New("is not a regular file")
	errSwapped = errors.New("changed while it was opened")
	errHidden  = errors.New("is hidden from tools")
)

const (
	// maxLinks bounds how many symbolic links one path may lead through.
	maxLinks = 40
	// swapTries is how often a path is opened again after it changed in between.
	swapTries = 3
)

// files is what the file tools share.
type files struct {
	places *place.Places
	hidden *hiddenPaths
	// gap, if not nil, is called between a look at a name and its use, so that
	// tests can change what stands there.
	gap func(name string)

	mu sync.Mutex
	// locks holds the files that a call changes right now, with the number of
	// calls that have or want them.
	locks map[string]*fileLock
}

func newFiles(places *place.Places, hidden []string) *files {
	if places == nil {
		places = &place.Places{}
	}
	return &files{places: places, hidden: newHiddenPaths(places, hidden)}
}

type fileLock struct {
	sync.Mutex
	users int
}

// lock keeps other calls of this process from changing the file at abs until the
// function that it returns is called.
func (f *files) lock(abs string) (unlock func()) {
	f.mu.Lock()
	if f.locks == nil {
		f.locks = make(map[string]*fileLock)
	}
	l := f.locks[abs]
	if l == nil {
		l = &fileLock{}
		f.locks[abs] = l
	}
	l.users++
	f.mu.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		f.mu.Lock()
		defer f.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(f.locks, abs)
		}
	}
}

// tree is the workspace of one call. Everything is reached from one handle on
// its root, step by step, without following a link: what was looked at is what
// is used, even if folders are renamed in the meantime.
type tree struct {
	root      *os.Root
	base, cwd string
	// hidden are the paths within the workspace that no call may use, and
	// hiddenIDs are the same by identity, for when they have another name.
	hidden    []string
	hiddenIDs []place.Place
	gap       func(name string)
}

// open opens the workspace of a call. The caller closes it.
func (f *files) open(call *Call) (*tree, error) {
	if !filepath.IsAbs(call.Root) {
		return nil, Errorf(Execution, "the workspace root %s is not an absolute path", quoteName(call.Root))
	}
	at, err := f.places.Recall(filepath.Clean(call.Root))
	var root *os.Root
	if err == nil {
		root, err = at.OpenRoot()
	}
	switch {
	case errors.Is(err, place.ErrReplaced):
		return nil, workspaceReplaced(call.Root)
	case err != nil:
		return nil, Errorf(Execution, "open the workspace: %v", err)
	}
	t := &tree{root: root, base: at.Path, cwd: call.Cwd, gap: f.gap}
	if t.cwd == "" {
		t.cwd = t.base
	}
	if err := f.hidden.apply(t, at); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *tree) close() { _ = t.root.Close() } // a directory handle has nothing to write

// abs returns the absolute path of a relative one.
func (t *tree) abs(rel string) string { return filepath.Join(t.base, filepath.FromSlash(rel)) }

// locate is Locate for this workspace, and keeps hidden names out.
func (t *tree) locate(name string) (string, error) {
	rel, err := Locate(t.base, t.cwd, name)
	if err != nil {
		return "", err
	}
	for _, h := range t.hidden {
		if isBelow(h, rel) {
			return "", hiddenPath(name)
		}
	}
	return rel, nil
}

func (t *tree) isHidden(fi fs.FileInfo) bool {
	for _, h := range t.hiddenIDs {
		if h.Is(fi) {
			return true
		}
	}
	return false
}

// enterFolder opens the folder called name within dir. It follows nothing, and fails
// if what it opened is not what stood there.
func (t *tree) enterFolder(dir *os.Root, name string) (*os.Root, error) {
	fi, err := dir.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case fi.Mode()&fs.ModeSymlink != 0:
		return nil, errLink
	case t.isHidden(fi):
		return nil, errHidden
	case !fi.IsDir():
		return nil, errNotDir
	}
	if t.gap != nil {
		t.gap(name)
	}
	sub, err := dir.OpenRoot(name)
	if err != nil {
		return nil, swapped(err)
	}
	now, err := sub.Stat(".")
	if err == nil && !os.SameFile(fi, now) {
		err = errSwapped
	}
	if err != nil {
		_ = sub.Close()
		return nil, err
	}
	return sub, nil
}

// swapped turns an error about a name that was fine a moment ago. One that isn't
// the system's is os.Root's, about a link that leads out of it.
func swapped(err error) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return errSwapped
	}
	if errno == syscall.ENOENT || errno == syscall.ENOTDIR || errno == syscall.ELOOP || errno == syscall.ENXIO {
		return errSwapped
	}
	return err
}

// dir opens the folder at rel, each step by enter. The caller closes it.
func (t *tree) dir(rel string) (*os.Root, error) {
	d, err := t.root.OpenRoot(".")
	if err != nil {
		return nil, err
	}
	for _, name := range pathParts(rel) {
		next, err := t.enterFolder(d, name)
		_ = d.Close()
		if err != nil {
			return nil, err
		}
		d = next
	}
	return d, nil
}

// openRegular opens the regular file called name within dir for reading. It follows
// nothing and never waits: a pipe, a socket or a device is refused before and
// after it is opened.
func (t *tree) openRegular(dir *os.Root, name string) (*os.File, fs.FileInfo, error) {
	fi, err := dir.Lstat(name)
	switch {
	case err != nil:
		return nil, nil, err
	case fi.Mode()&fs.ModeSymlink != 0:
		return nil, nil, errLink
	case t.isHidden(fi):
		return nil, nil, errHidden
	case fi.IsDir():
		return nil, nil, errIsDir
	case !fi.Mode().IsRegular():
		return nil, nil, errSpecial
	}
	if t.gap != nil {
		t.gap(name)
	}
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, swapped(err)
	}
	now, err := f.Stat()
	// The number of a file that was removed may be that of a new pipe.
	if err == nil && (!os.SameFile(fi, now) || !now.Mode().IsRegular()) {
		err = errSwapped
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, now, nil
}

// realPath returns the path that rel leads to when the links in it are followed, as
// far as it exists. Links within the workspace may be absolute.
func (t *tree) realPath(rel string) (string, error) {
	todo, done := pathParts(rel), "."
	for links := 0; len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		if name == ".." {
			if done == "." {
				return "", fs.ErrPermission
			}
			done = path.Dir(done)
			continue
		}
		next := path.Join(done, name)
		fi, err := t.root.Lstat(next)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if err != nil || fi.Mode()&fs.ModeSymlink == 0 {
			done = next
			continue
		}
		if links++; links > maxLinks {
			return "", syscall.ELOOP
		}
		target, err := t.root.Readlink(next)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(target) {
			in, ok := relativeWithin(t.base, target)
			if !ok {
				return "", fs.ErrPermission
			}
			target, done = in, "."
		}
		todo = append(splitLink(target), todo...)
	}
	return done, nil
}

// splitLink splits a link's target without cleaning it: ".." after a link means
// the parent of where that link leads.
func splitLink(target string) []string {
	var names []string
	for _, name := range splitSlash(filepath.ToSlash(target)) {
		if name != "" && name != "." {
			names = append(names, name)
		}
	}
	return names
}

// openRead opens the regular file that name leads to, through links within the
// workspace, and returns its real path.
func (t *tree) openRead(ctx context.Context, name string) (*os.File, fs.FileInfo, string, error) {
	rel, err := t.locate(name)
	if err != nil {
		return nil, nil, "", err
	}
	var f *os.File
	var fi fs.FileInfo
	at, err := t.following(rel, func(rel string) error {
		d, err := t.dir(path.Dir(rel))
		if err != nil {
			return err
		}
		defer d.Close()
		f, fi, err = t.openRegular(d, path.Base(rel))
		return err
	})
	if err != nil {
		return nil, nil, "", t.explainOpen(ctx, name, rel, err)
	}
	return f, fi, at, nil
}

// openDir opens the folder that name leads to, through links within the
// workspace, and returns its real path.
func (t *tree) openDir(ctx context.Context, name string) (*os.Root, string, error) {
	rel, err := t.locate(name)
	if err != nil {
		return nil, "", err
	}
	var d *os.Root
	at, err := t.following(rel, func(rel string) (err error) {
		d, err = t.dir(rel)
		return err
	})
	if err != nil {
		return nil, "", t.explainOpen(ctx, name, rel, err)
	}
	return d, at, nil
}

// following calls open with rel, and if that hit a link with the path that rel
// leads to. What changes in the meantime is tried a few times.
func (t *tree) following(rel string, open func(rel string) error) (string, error) {
	var err error
	for range swapTries {
		at := rel
		if err = open(at); errors.Is(err, errLink) {
			if at, err = t.realPath(rel); err != nil {
				return "", err
			}
			err = open(at)
		}
		if err == nil {
			return at, nil
		}
		if !errors.Is(err, errSwapped) && !errors.Is(err, errLink) {
			return "", err
		}
	}
	return "", err
}
