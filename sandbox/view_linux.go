package sandbox

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// view is the file system as a process sees it. What it can't look up exactly as the
// kernel will is an error, which refuses the start. Descriptors are plain numbers: a
// program waits for each call here, and os.File makes more of them.
type view struct {
	pid  int
	root int
	cwd  string
}

// openView looks through a process.
func openView(pid int) (*view, error) {
	v := &view{pid: pid}
	var err error
	if v.cwd, err = readLink(v.ownProcFile("cwd")); err != nil {
		return nil, err
	}
	v.root, err = openFile(v.ownProcFile("root"), unix.O_PATH|unix.O_DIRECTORY)
	return v, err
}

func (v *view) close() { _ = unix.Close(v.root) }

// resolver looks paths up as the process does, while it waits for its answer.
func (v *view) resolver() func(path string) (string, Identity, bool) {
	pid := v.pid
	return func(path string) (string, Identity, bool) {
		v, err := openView(pid)
		if err != nil {
			return "", Identity{}, false
		}
		defer v.close()
		file, err := v.open(unix.AT_FDCWD, path, 0)
		if err != nil {
			return "", Identity{}, false
		}
		defer unix.Close(file) // it was opened to be looked at
		found, st, err := identifyFile(file)
		return found, Identity{Dev: uint64(st.Dev), Ino: st.Ino}, err == nil //nolint:unconvert // narrower on some architectures
	}
}

// open opens what a path means to the process.
func (v *view) open(dirfd int, path string, flags uint64) (int, error) {
	switch {
	case path == "" && flags&unix.AT_EMPTY_PATH == 0:
		return -1, unix.ENOENT
	case path == "":
		return v.descriptor(strconv.Itoa(dirfd))
	case strings.HasPrefix(path, "/"):
		return v.openAbsolute(path, flags)
	case dirfd == unix.AT_FDCWD:
		return v.openBelow("cwd", path, flags)
	default:
		return v.openBelow("fd/"+strconv.Itoa(dirfd), path, flags)
	}
}

// openAbsolute opens a path that begins at the root of the process. Its own entry of
// /proc, which would be ours, is followed here; everything else is left to the kernel,
// ".." above all: what it leads to depends on the links before it.
func (v *view) openAbsolute(path string, flags uint64) (int, error) {
	thread, name, rest, ok := ownEntry(path)
	if !ok || !v.linksToProc(path) {
		return v.lookup(path, flags)
	}
	if err := v.checkProc(); err != nil {
		return -1, err
	}
	if !thread {
		var err error
		if v, err = v.leader(); err != nil {
			return -1, err
		}
	}
	switch name {
	case "exe":
		if rest != "" {
			return -1, unix.ENOTDIR
		}
		return openFile(v.ownProcFile("exe"), unix.O_PATH)
	case "root":
		if err := v.checkFolder("root", v.root); err != nil {
			return -1, err
		}
		return v.openAbsolute("/"+rest, flags)
	case "cwd":
		return v.openBelow("cwd", "./"+rest, flags)
	case "fd":
		number, rest := component(rest)
		if rest == "" {
			return v.descriptor(number)
		}
		return v.openBelow("fd/"+number, "./"+rest, flags)
	default:
		return -1, fmt.Errorf("%s leads through a process's entry of /proc", path)
	}
}

// deviceLinks are the names in /dev that stand for a process's own descriptors.
var deviceLinks = map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}

// linksToProc says that a path in /dev is the usual link to /proc: a process that may
// mount has whatever it likes there.
func (v *view) linksToProc(path string) bool {
	top, rest := component(path)
	if top != "dev" {
		return true
	}
	name, _ := component(rest)
	link, err := v.lookup("/dev/"+name, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return false
	}
	defer unix.Close(link) // it was opened to be looked at
	room := make([]byte, maxStartPath)
	n, err := unix.Readlinkat(link, "", room)
	return err == nil && string(room[:n]) == deviceLinks[name]
}

// checkProc makes sure that what the process finds in its own entry of /proc is what we
// find there: that /proc is one, and that nothing is mounted over the entries of processes.
func (v *view) checkProc() error {
	dir, err := v.lookup("/proc", 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir) // it was opened to be looked at
	var kind unix.Statfs_t
	var st unix.Stat_t
	if err := errors.Join(unix.Fstatfs(dir, &kind), unix.Fstat(dir, &st)); err != nil {
		return err
	}
	const procRoot = 1 // the inode of the whole of it
	if kind.Type != unix.PROC_SUPER_MAGIC || st.Ino != procRoot {
		return errors.New("the /proc of the process is no file system of processes")
	}
	mounts, err := os.ReadFile(v.ownProcFile("mountinfo"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if entry, ok := strings.CutPrefix(fields[4], "/proc/"); ok && entry[0] >= '0' && entry[0] <= '9' {
			return errors.New("something is mounted over " + fields[4])
		}
	}
	return nil
}

// openBelow opens a path that begins at a folder which the process holds. The kernel
// tells the folder's path, but the text may mean another: that of a removed folder ends
// in " (deleted)", and that of a folder outside the root leads elsewhere.
func (v *view) openBelow(holder, path string, flags uint64) (int, error) {
	base, err := readLink(v.ownProcFile(holder))
	if err != nil {
		return -1, err
	}
	dir, err := v.lookup(base, 0)
	if err != nil {
		return -1, fmt.Errorf("the folder %s can't be found: %v", base, err) //nolint:errorlint // it is not an error of the start
	}
	defer unix.Close(dir) // it was opened to be looked at
	if err := v.checkFolder(holder, dir); err != nil {
		return -1, fmt.Errorf("the path %s begins in a folder that isn't %s: %w", path, base, err)
	}
	return v.openAbsolute(base+"/"+path, flags)
}

// checkFolder checks that what a process holds, by the name below its entry of /proc, is an
// opened folder.
func (v *view) checkFolder(holder string, dir int) error {
	var held, found unix.Statx_t
	const mask = unix.STATX_INO | unix.STATX_MNT_ID
	if err := unix.Statx(unix.AT_FDCWD, v.ownProcFile(holder), unix.AT_STATX_DONT_SYNC, mask, &held); err != nil {
		return err
	}
	if err := unix.Statx(dir, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, mask, &found); err != nil {
		return err
	}
	if held.Ino != found.Ino || held.Mnt_id != found.Mnt_id || held.Dev_major != found.Dev_major || held.Dev_minor != found.Dev_minor {
		return errors.New("it was removed, or lies outside the root")
	}
	return nil
}

// leader is the view with the first thread's entry of /proc, which /proc/self stands
// for: a thread may have a working directory and descriptors of its own.
func (v *view) leader() (*view, error) {
	status, err := os.ReadFile(v.ownProcFile("status"))
	if err != nil {
		return nil, err
	}
	_, after, _ := strings.Cut(string(status), "\nTgid:\t")
	number, _, _ := strings.Cut(after, "\n")
	pid, err := strconv.Atoi(number)
	return &view{pid: pid, root: v.root, cwd: v.cwd}, err
}

// lookup has the kernel follow a path below the process's root. It refuses the links
// of /proc that lead anywhere.
func (v *view) lookup(path string, flags uint64) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT}
	if flags&unix.AT_SYMLINK_NOFOLLOW != 0 {
		how.Flags |= unix.O_NOFOLLOW
	}
	for range maxLookups {
		file, err := uninterrupted(func() (int, error) { return unix.Openat2(v.root, path, &how) })
		if !errors.Is(err, unix.EAGAIN) {
			return file, err
		}
	}
	return -1, unix.EAGAIN
}

// maxLookups bounds how often a path with ".." is looked up again because something
// was renamed in the meantime, anywhere on the machine.
const maxLookups = 1000

// ownProcFile is a file of the process below /proc, as we see it.
func (v *view) ownProcFile(name string) string { return "/proc/" + strconv.Itoa(v.pid) + "/" + name }

// descriptor opens what a descriptor of the process stands for.
func (v *view) descriptor(number string) (int, error) {
	if _, err := strconv.ParseUint(number, 10, 31); err != nil {
		return -1, unix.EBADF
	}
	return openFile(v.ownProcFile("fd/"+number), unix.O_PATH)
}

// ownEntry says which of its own files below /proc a process means by a path, or its
// thread does, and what follows behind it.
func ownEntry(path string) (thread bool, name, rest string, ok bool) {
	top, rest := component(path)
	second, rest := component(rest)
	switch top + "/" + second {
	case "proc/self", "proc/thread-self":
		name, rest = component(rest)
		return second == "thread-self", name, rest, true
	case "dev/fd":
		return false, "fd", rest, true
	case "dev/stdin":
		return false, "fd", "0" + rest, true
	case "dev/stdout":
		return false, "fd", "1" + rest, true
	case "dev/stderr":
		return false, "fd", "2" + rest, true
	default:
		return false, "", "", false
	}
}

// component cuts the first component off a path. What remains begins with a slash
// unless it is empty.
func component(path string) (first, rest string) {
	for {
		path = strings.TrimLeft(path, "/")
		i := strings.IndexByte(path+"/", '/')
		if first, rest = path[:i], path[i:]; first != "." || rest == "" {
			return first, rest
		}
		path = rest
	}
}

// identifyFile returns the path of a file, without links, and what it is.
func identifyFile(file int) (path string, st unix.Stat_t, err error) {
	if err = unix.Fstat(file, &st); err == nil {
		path, err = readLink(descriptorPath(file))
	}
	return path, st, err
}

// descriptorPath is a path to what one of our own descriptors stands for.
func descriptorPath(file int) string { return "/proc/self/fd/" + strconv.Itoa(file) }

// readLink is [os.Readlink] with room for the longest link at once.
func readLink(path string) (string, error) {
	room := make([]byte, maxStartPath)
	n, err := unix.Readlink(path, room)
	if err != nil {
		return "", err
	}
	return string(room[:n]), nil
}

func openFile(path string, flags int) (int, error) {
	return uninterrupted(func() (int, error) { return unix.Open(path, flags|unix.O_CLOEXEC, 0) })
}

// uninterrupted repeats a call that a signal ended: the runtime sends itself some, and
// file systems of the network and of other programs let them through.
func uninterrupted(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
