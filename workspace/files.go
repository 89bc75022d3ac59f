package workspace

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// fileStat is the identity of a file: equal ones are taken for unchanged.
type fileStat struct {
	kind         string
	mode         int64
	size         int64
	mtime, ctime int64
	// dev and ino are 0 where the system doesn't tell.
	dev, ino uint64
}

// state returns the state that the identity alone tells; for a file it is the
// form for what isn't read.
func (s fileStat) state() State {
	switch s.kind {
	case kindFile:
		return State{Hash: fmt.Sprintf("%s%d-%d-%d-%d", hashStat, s.size, s.mtime, s.ctime, s.ino), Mode: s.mode}
	case kindDir:
		return State{Hash: kindDir, Mode: s.mode}
	default:
		return State{Hash: kindOther}
	}
}

func portableStat(info fs.FileInfo) fileStat {
	m := info.Mode()
	s := fileStat{kind: kindOther, mode: int64(m.Perm()), size: info.Size(), mtime: info.ModTime().UnixNano()}
	for bit, mode := range map[fs.FileMode]int64{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if m&bit != 0 {
			s.mode |= mode
		}
	}
	switch m.Type() {
	case 0:
		s.kind = kindFile
	case fs.ModeDir:
		s.kind = kindDir
	case fs.ModeSymlink:
		s.kind = kindLink
	default: // it stays kindOther
	}
	return s
}

// goMode returns a mode as package os wants it.
func goMode(mode int64) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	if mode&0o4000 != 0 {
		m |= fs.ModeSetuid
	}
	if mode&0o2000 != 0 {
		m |= fs.ModeSetgid
	}
	if mode&0o1000 != 0 {
		m |= fs.ModeSticky
	}
	return m
}

// errNotFolder: something on the way to a path is no folder.
var errNotFolder = errors.New("a part of the path is not a folder")

// openSub opens a folder in a folder. A symbolic link is errNotFolder, also one
// that takes the folder's place while it is opened.
func openSub(root *os.Root, name string) (*os.Root, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, errNotFolder
	}
	sub, err := root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	got, err := sub.Stat(".")
	if err == nil && !os.SameFile(info, got) {
		err = errNotFolder
	}
	if err != nil {
		return nil, errors.Join(err, sub.Close())
	}
	return sub, nil
}

// openParent opens the folder that a path is in and returns it with the path's
// last name. It must be closed.
func openParent(root *os.Root, path string) (*os.Root, string, error) {
	if !filepath.IsLocal(filepath.FromSlash(path)) || path == "." {
		return nil, "", fmt.Errorf("the path %q leaves the workspace", clipText(path))
	}
	at, err := root.OpenRoot(".")
	if err != nil {
		return nil, "", err
	}
	names := strings.Split(path, "/")
	for _, name := range names[:len(names)-1] {
		sub, err := openSub(at, name)
		if cerr := at.Close(); err == nil && cerr != nil {
			err = errors.Join(cerr, sub.Close())
		}
		if err != nil {
			return nil, "", err
		}
		at = sub
	}
	return at, names[len(names)-1], nil
}

// openFolder opens a folder for listing.
func openFolder(root *os.Root, path string) (*os.File, error) {
	if path == "." {
		return root.Open(".")
	}
	parent, name, err := openParent(root, path)
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	sub, err := openSub(parent, name)
	if err != nil {
		return nil, err
	}
	defer sub.Close()
	return sub.Open(".")
}

// openFile opens a file for reading, without following symbolic links or
// waiting for a pipe's other end.
func openFile(root *os.Root, path string) (*os.File, error) {
	parent, name, err := openParent(root, path)
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	return openIn(parent, name)
}

func openIn(parent *os.Root, name string) (*os.File, error) {
	info, err := parent.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errMoving
	}
	f, err := parent.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	got, err := f.Stat()
	if err == nil && !os.SameFile(info, got) {
		err = errMoving
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// maxHash bounds the files that are read only to compare them.
const maxHash = 256 << 20

// observePath returns the state of a path now. like is the hash that it will be
// compared with: a file is read only if that is a sum of contents.
func observePath(ctx context.Context, root *os.Root, path, like string) (State, error) {
	parent, name, err := openParent(root, path)
	if isAbsent(err) {
		return State{}, nil
	}
	if err != nil {
		return State{}, err
	}
	defer parent.Close()
	info, err := parent.Lstat(name)
	if isAbsent(err) {
		return State{}, nil
	}
	if err != nil {
		return State{}, err
	}
	st := statInfo(info)
	switch {
	case st.kind == kindLink:
		target, err := parent.Readlink(name)
		return linkState(target), err
	case st.kind == kindFile && st.size <= maxHash && !strings.HasPrefix(like, hashStat):
		return hashFile(ctx, parent, name, st.size, st.mode)
	}
	return st.state(), nil
}

// isAbsent says whether an error means that nothing is at a path.
func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotFolder)
}

func hashFile(ctx context.Context, parent *os.Root, name string, size, mode int64) (State, error) {
	f, err := openIn(parent, name)
	if err != nil {
		return State{}, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.CopyBuffer(h, &cancelled{ctx: ctx, r: f}, copyBuffer(size)); err != nil {
		return State{}, err
	}
	return State{Hash: fileHash([sha256.Size]byte(h.Sum(nil))), Mode: mode}, nil
}

// copyBuffer returns a buffer for a content of about that size: most files are
// much smaller than the buffer that io.Copy would make.
func copyBuffer(size int64) []byte { return make([]byte, min(max(size, 0)+512, 64<<10)) }
