package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"agentd/internal/place"
)

// dirHandle is an open folder. Names are looked up in it without following
// symbolic links.
type dirHandle struct{ f *os.File }

// openDir opens a folder that is still at its path.
func openDir(at place.Place) (*dirHandle, error) {
	d, err := dirAt(unix.AT_FDCWD, at.Path, 0)
	if err != nil {
		return nil, err
	}
	info, err := d.f.Stat()
	if err == nil && !at.Is(info) {
		err = fmt.Errorf("%s: %w", at.Path, place.ErrReplaced)
	}
	if err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *dirHandle) sub(name string) (*dirHandle, error) {
	return dirAt(int(d.f.Fd()), name, unix.O_NOFOLLOW)
}

func dirAt(fd int, name string, flags int) (*dirHandle, error) {
	flags |= unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
	for {
		sub, err := unix.Openat(fd, name, flags, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
		return &dirHandle{f: os.NewFile(uintptr(sub), name)}, nil
	}
}

func (d *dirHandle) close() { _ = d.f.Close() } // it was only read

// names returns the next names, at most n; none and io.EOF at the end.
func (d *dirHandle) names(n int) ([]string, error) { return d.f.Readdirnames(n) }

func (d *dirHandle) stat(name string) (fileStat, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(d.f.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fileStat{}, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return fromStat(&st), nil
}

func (d *dirHandle) readlink(name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(d.f.Fd()), name, buf)
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(buf[:n]), nil
}

// open opens the file at a path below the folder. No component of the path may
// be a symbolic link. It doesn't wait for a pipe's other end.
func (d *dirHandle) open(path string) (*os.File, error) {
	how := unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOCTTY,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	for range 10 {
		fd, err := unix.Openat2(int(d.f.Fd()), path, &how)
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), path), nil
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
			return d.openSlowly(path)
		}
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return nil, &fs.PathError{Op: "open", Path: path, Err: unix.EAGAIN}
}

// openSlowly is for kernels and sandboxes without openat2.
func (d *dirHandle) openSlowly(path string) (*os.File, error) {
	dir, name, deep := strings.Cut(path, "/")
	if deep {
		sub, err := d.sub(dir)
		if err != nil {
			return nil, err
		}
		defer sub.close()
		return sub.openSlowly(name)
	}
	fd, err := unix.Openat(int(d.f.Fd()), path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// statFile returns the identity of an open file.
func statFile(f *os.File) (fileStat, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fileStat{}, &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	return fromStat(&st), nil
}

func fromStat(st *unix.Stat_t) fileStat {
	s := fileStat{
		kind: kindOther, mode: int64(st.Mode) & 0o7777, size: st.Size,
		mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano(), dev: uint64(st.Dev), ino: st.Ino, //nolint:unconvert // it isn't unsigned everywhere
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		s.kind = kindFile
	case unix.S_IFDIR:
		s.kind = kindDir
	case unix.S_IFLNK:
		s.kind = kindLink
	}
	return s
}

// statInfo returns what is known of a file from its FileInfo.
func statInfo(info fs.FileInfo) fileStat {
	s := portableStat(info)
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.ctime, s.dev, s.ino = st.Ctim.Nano(), uint64(st.Dev), st.Ino //nolint:unconvert // it isn't unsigned everywhere
	}
	return s
}
