package sandbox

import (
	"fmt"
	"slices"
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
	argv, err := readArguments(memory, argvArg)
	if err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	view, err := openView(pid)
	if err != nil {
		return nil, fmt.Errorf("its view of the file system: %v", err) //nolint:errorlint // it is not an error of the start
	}
	defer view.close()
	file, err := view.open(dirfd, path, flags)
	if err != nil {
		return nil, err
	}
	return view.chain(file, scriptName(dirfd, path), argv)
}

// scriptName is what the kernel tells an interpreter that its script is called.
func scriptName(dirfd int, path string) string {
	switch {
	case dirfd == unix.AT_FDCWD || strings.HasPrefix(path, "/"):
		return path
	case path == "":
		return "/dev/fd/" + strconv.Itoa(dirfd)
	default:
		return "/dev/fd/" + strconv.Itoa(dirfd) + "/" + path
	}
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
		words := shebang(head)
		if words == nil {
			return starts, nil
		}
		if len(starts) == maxScripts {
			return nil, unix.ELOOP
		}
		argv = slices.Concat(words, []string{path}, argv[min(1, len(argv)):])
		path = words[0]
		if file, err = v.open(unix.AT_FDCWD, path, 0); err != nil {
			return nil, err
		}
	}
}

// describe says what a file is, and reads its beginning.
func (v *view) describe(file int, argv []string) (Start, []byte, error) {
	path, st, err := identifyFile(file)
	if err != nil {
		return Start{}, nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&0o111 == 0 {
		return Start{}, nil, unix.EACCES // as the kernel says
	}
	start := Start{Path: path, Dev: uint64(st.Dev), Ino: st.Ino, Argv: argv, Dir: v.cwd, Resolve: v.resolver()} //nolint:unconvert // narrower on some architectures
	readable, err := openFile(descriptorPath(file), unix.O_RDONLY)
	if err != nil {
		// The kernel needs no permission to read it, and may find an interpreter.
		return Start{}, nil, fmt.Errorf("%s can't be read: %v", path, err) //nolint:errorlint // it is not an error of the start
	}
	defer unix.Close(readable) // opened for reading
	head := make([]byte, scriptHead)
	count, err := uninterrupted(func() (int, error) { return unix.Read(readable, head) })
	if err != nil {
		return Start{}, nil, fmt.Errorf("%s can't be read: %v", path, err) //nolint:errorlint // it is not an error of the start
	}
	return start, head[:count], nil
}

// readArguments reads a list of texts that ends with a zero.
func readArguments(texts *foreignMemory, addr uint64) ([]string, error) {
	if addr == 0 {
		return nil, nil // the kernel takes that for an empty list
	}
	pointers := &foreignMemory{pid: texts.pid}
	var argv []string
	for total := 0; ; addr += wordSize {
		p, err := pointers.readWord(addr)
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
