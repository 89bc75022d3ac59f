package loop

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"unicode/utf8"

	"agentd/permission"
)

// readSmall reads a text file of the workspace at base that the runtime itself takes
// from it. What is in it reaches the model, so it is read as the file tools would:
// nothing hidden, nothing that a rule denies, and through no link but one to a file
// beside it, which is how a project gives its instructions two names.
func (l *Loop) readSmall(root *os.Root, base, name string, denied *permission.Cover) ([]byte, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := root.Readlink(name)
		if err != nil {
			return nil, err
		}
		if target != filepath.Base(target) || target == "." || target == ".." {
			return nil, errors.New("it is a link; only a link to a file beside it is followed")
		}
		name = target
		if info, err = root.Lstat(name); err != nil {
			return nil, err
		}
	}
	path := filepath.Join(base, name)
	if slices.ContainsFunc(slices.Concat(l.homes.data, l.homes.hidden), func(h string) bool { return pathWithin(h, path) }) {
		return nil, errors.New("it is hidden from tools")
	}
	if denied != nil {
		if hidden, _, rule := denied.Match(path); hidden {
			return nil, fmt.Errorf("the rule %s denies reading it", rule)
		}
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	if now, err := f.Stat(); err != nil || !os.SameFile(info, now) {
		return nil, errors.New("it was replaced while it was being read")
	}
	return readText(f)
}

// readText reads a text that isn't too long.
func readText(f io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(f, maxContextFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxContextFile {
		return nil, fmt.Errorf("it is longer than %d bytes", maxContextFile)
	}
	if !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0 {
		return nil, errors.New("it is not a text file")
	}
	return b, nil
}
