package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Bounds of what is read of a process that starts a program. The kernel takes at
// most 6 MiB of arguments and environment.
const (
	maxStartPath = 4096
	maxStartArgs = 6 << 20
	maxScripts   = 6 // how many interpreters of interpreters the kernel follows
)

// startsOf reads what a process is about to start: the program and, for a script,
// the interpreter that the kernel starts in its place.
func startsOf(n *notification) ([]Start, error) {
	pid := int(n.pid)
	dirfd, pathArg, argvArg, flags := unix.AT_FDCWD, n.args[0], n.args[1], uint64(0)
	if n.nr == unix.SYS_EXECVEAT {
		dirfd, pathArg, argvArg, flags = int(int32(n.args[0])), n.args[1], n.args[2], n.args[4]
	}
	memory := &foreignMemory{pid: pid}
	path, err := memory.text(pathArg, maxStartPath)
	if err != nil {
		return nil, fmt.Errorf("path: %w", err)
	}
	argv, err := arguments(memory, argvArg)
	if err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	view, err := openView(pid)
	if err != nil {
		return nil, fmt.Errorf("its view of the file system: %v", err) //nolint:errorlint // it is no error of the start
	}
	defer view.close()
	file, err := view.open(dirfd, path, flags)
	if err != nil {
		return nil, err
	}
	return view.chain(file, path, argv)
}

// chain follows a program to what the kernel really runs.
func (v *view) chain(file int, path string, argv []string) ([]Start, error) {
	var starts []Start
	for {
		start, head, err := v.describe(file, argv)
		_ = unix.Close(file) // it was opened to be looked at
		if err != nil {
			return nil, err
		}
		starts = append(starts, start)
		interpreter, option, ok := shebang(head)
		if !ok {
			return starts, nil
		}
		if len(starts) == maxScripts {
			return nil, unix.ELOOP
		}
		next := []string{interpreter}
		if option != "" {
			next = append(next, option)
		}
		next = append(next, path)
		argv = append(next, argv[min(1, len(argv)):]...)
		path = interpreter
		if file, err = v.open(unix.AT_FDCWD, path, 0); err != nil {
			return nil, err
		}
	}
}

// describe says what a file is, and reads its beginning.
func (v *view) describe(file int, argv []string) (Start, []byte, error) {
	var st unix.Stat_t
	if err := unix.Fstat(file, &st); err != nil {
		return Start{}, nil, err
	}
	self := "/proc/self/fd/" + strconv.Itoa(file)
	path, err := readlink(self)
	if err != nil {
		return Start{}, nil, err
	}
	start := Start{Path: path, Dev: uint64(st.Dev), Ino: st.Ino, Argv: argv, Dir: v.cwd} //nolint:unconvert // narrower on some architectures
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return start, nil, nil // the kernel refuses it
	}
	readable, err := openFile(self, unix.O_RDONLY)
	if errors.Is(err, os.ErrPermission) {
		return start, nil, nil // a script that can't be read can't be run either
	}
	if err != nil {
		return Start{}, nil, err
	}
	defer unix.Close(readable) // opened for reading
	head := make([]byte, 256)
	count, err := uninterrupted(func() (int, error) { return unix.Read(readable, head) })
	if err != nil {
		return start, nil, nil // the kernel can't read it either
	}
	return start, head[:count], nil
}

// readlink is [os.Readlink] with room for the longest link at once.
func readlink(path string) (string, error) {
	room := make([]byte, maxStartPath)
	n, err := unix.Readlink(path, room)
	if err != nil {
		return "", err
	}
	return string(room[:n]), nil
}

// shebang reads the interpreter of a script, and the one argument that it may have,
// as the kernel does.
func shebang(head []byte) (interpreter, option string, ok bool) {
	line, found := bytes.CutPrefix(head, []byte("#!"))
	if !found {
		return "", "", false
	}
	if i := bytes.IndexByte(line, '\n'); i >= 0 {
		line = line[:i]
	}
	text := strings.Trim(string(line), " \t")
	interpreter, _, _ = strings.Cut(strings.ReplaceAll(text, "\t", " "), " ")
	if interpreter == "" {
		return "", "", false
	}
	// Everything behind the interpreter is one argument.
	option = strings.Trim(strings.TrimPrefix(text, interpreter), " \t")
	return interpreter, option, true
}

// view is the file system as a process sees it. Descriptors are plain numbers: a
// program waits for each call here, and os.File makes more of them.
type view struct {
	pid  int
	root int
	cwd  string
}

// openView looks through a process.
func openView(pid int) (*view, error) {
	dir := "/proc/" + strconv.Itoa(pid)
	cwd, err := readlink(dir + "/cwd")
	if err != nil {
		return nil, err
	}
	root, err := openFile(dir+"/root", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	return &view{pid: pid, root: root, cwd: cwd}, nil
}

func (v *view) close() { _ = unix.Close(v.root) }

// open opens what a path means to the process.
func (v *view) open(dirfd int, path string, flags uint64) (int, error) {
	if path == "" {
		if flags&unix.AT_EMPTY_PATH == 0 {
			return -1, unix.ENOENT
		}
		return v.descriptor(strconv.Itoa(dirfd))
	}
	if !filepath.IsAbs(path) {
		base := v.cwd
		if dirfd != unix.AT_FDCWD {
			var err error
			if base, err = readlink(v.own("fd/" + strconv.Itoa(dirfd))); err != nil {
				return -1, err
			}
		}
		path = base + "/" + path
	}
	if name, ok := ownFile(path); ok {
		first, rest, _ := strings.Cut(name, "/")
		switch {
		case name == "exe":
			return openFile(v.own("exe"), unix.O_PATH)
		case first == "fd":
			return v.descriptor(rest)
		case first == "root":
			path = "/" + rest
		case first == "cwd":
			path = v.cwd + "/" + rest
		}
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT}
	if flags&unix.AT_SYMLINK_NOFOLLOW != 0 {
		how.Flags |= unix.O_NOFOLLOW
	}
	return uninterrupted(func() (int, error) { return unix.Openat2(v.root, path, &how) })
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

// own is a file of the process below /proc, as we see it.
func (v *view) own(name string) string { return "/proc/" + strconv.Itoa(v.pid) + "/" + name }

// descriptor opens what a descriptor of the process stands for.
func (v *view) descriptor(number string) (int, error) {
	if _, err := strconv.ParseUint(number, 10, 31); err != nil {
		return -1, unix.EBADF
	}
	return openFile(v.own("fd/"+number), unix.O_PATH)
}

// ownFile says which of its own files below /proc a process means by a path: to us
// the same path would mean ours.
func ownFile(path string) (string, bool) {
	clean := filepath.Clean(path)
	for _, dir := range []string{"/proc/self/", "/proc/thread-self/"} {
		if name, ok := strings.CutPrefix(clean, dir); ok {
			return name, true
		}
	}
	if number, ok := strings.CutPrefix(clean, "/dev/fd/"); ok {
		return "fd/" + number, true
	}
	for i, name := range []string{"/dev/stdin", "/dev/stdout", "/dev/stderr"} {
		if clean == name {
			return "fd/" + strconv.Itoa(i), true
		}
	}
	return "", false
}

// arguments reads a list of texts that ends with a zero.
func arguments(texts *foreignMemory, addr uint64) ([]string, error) {
	if addr == 0 {
		return nil, nil // the kernel takes that for an empty list
	}
	pointers := &foreignMemory{pid: texts.pid}
	var argv []string
	for total := 0; ; addr += wordSize {
		p, err := pointers.word(addr)
		if err != nil {
			return nil, err
		}
		if p == 0 {
			return argv, nil
		}
		text, err := texts.text(p, maxStartArgs)
		if err != nil {
			return nil, err
		}
		if total += len(text) + 1 + wordSize; total > maxStartArgs {
			return nil, unix.E2BIG
		}
		argv = append(argv, text)
	}
}
