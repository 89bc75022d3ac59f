package loop

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"unicode/utf8"

	"agentd/event"
	"agentd/permission"
)

// maxHashed bounds the files whose content an approval is tied to. Nothing larger can
// be approved for a session.
const maxHashed = 16 << 20

// maxScript bounds the scripts that are read to find out what they run.
const maxScript = 16 << 10

// callFiles reads files on behalf of a call that is decided about. The agent chose
// their names, and what is found becomes facts, so it reads nothing that the agent's
// tools could not read: nothing hidden, nothing that a rule denies, nothing outside of
// the sandbox's read roots.
type callFiles struct {
	root   string
	hidden []string
	// readRoots narrow what can be read, beside the workspace; none is everything.
	readRoots []string
	rules     []event.PolicyRule
}

func (l *Loop) callFiles(root string, rules []event.PolicyRule) *callFiles {
	box := &l.opt.Sandbox
	c := &callFiles{root: root, hidden: l.homes.hidden, rules: rules}
	if len(box.ReadRoots) > 0 {
		c.readRoots = slices.Concat([]string{root}, box.ReadRoots, box.WriteRoots)
	}
	return c
}

// script returns the content of a short text file of the workspace, and false for
// anything else. What lies elsewhere is not quoted in facts: a mode may ask before it
// lets an agent read there.
func (c *callFiles) script(path string) (string, bool) {
	f, at, err := c.open(path, maxScript)
	if err != nil {
		return "", false
	}
	defer f.Close() // opened for reading
	text, err := io.ReadAll(io.LimitReader(f, maxScript+1))
	if err != nil || !pathWithin(c.root, at) || len(text) > maxScript || !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		return "", false
	}
	return string(text), true
}

// contentHash returns a hash of a regular file's content, and false for anything else.
func (c *callFiles) contentHash(path string) (string, bool) {
	f, _, err := c.open(path, maxHashed)
	if err != nil {
		return "", false
	}
	defer f.Close() // opened for reading
	h := sha256.New()
	if n, err := io.Copy(h, io.LimitReader(f, maxHashed+1)); err != nil || n > maxHashed {
		return "", false
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), true
}

// open opens a file that the call's tools could read, and says where it really is.
func (c *callFiles) open(path string, limit int64) (*os.File, string, error) {
	f, at, err := openRegular(path, limit)
	if err != nil {
		return nil, "", err
	}
	if err := c.check(at); err != nil {
		_ = f.Close() // nothing was written
		return nil, "", err
	}
	return f, at, nil
}

func (c *callFiles) check(at string) error {
	holds := func(dir string) bool { return pathWithin(dir, at) }
	if slices.ContainsFunc(c.hidden, holds) || c.readRoots != nil && !slices.ContainsFunc(c.readRoots, holds) {
		return fmt.Errorf("%s is hidden from tools", at)
	}
	if cover := permission.NewCover(c.rules, c.root); cover != nil {
		if denied, _, rule := cover.Match(at); denied {
			return fmt.Errorf("the rule %s denies reading %s", rule, at)
		}
	}
	return nil
}

// openRegular opens a regular file for reading without waiting for a writer, and says
// where it really is: the path may be a link, and may be exchanged while it is opened.
// A pipe, a file that another process has a lease on, or one of the kernel's could keep
// the decision waiting for as long as that process likes.
func openRegular(path string, limit int64) (*os.File, string, error) {
	// Opening a device may do something by itself.
	if info, err := os.Stat(path); err != nil {
		return nil, "", err
	} else if !info.Mode().IsRegular() {
		return nil, "", fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, "", err
	}
	at, err := openedPath(f)
	if err == nil {
		err = checkRegular(f, at, limit)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, "", err
	}
	return f, at, nil
}

func checkRegular(f *os.File, at string, limit int64) error {
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", at)
	case info.Size() > limit:
		return fmt.Errorf("%s is longer than %d bytes", at, limit)
	case isKernelPath(at):
		return errors.New("its content is the kernel's")
	}
	return nil
}

// openedPath is where an open file is. Linux knows; elsewhere the path is followed
// again.
func openedPath(f *os.File) (string, error) {
	if at, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(f.Fd()))); err == nil {
		return at, nil
	}
	return filepath.EvalSymlinks(f.Name())
}

// isKernelPath says that a path lies where files are the kernel's: reading one may
// never end, or do something.
func isKernelPath(path string) bool {
	return slices.ContainsFunc([]string{"/proc", "/sys", "/dev"}, func(dir string) bool { return pathWithin(dir, path) }) && !pathWithin("/dev/shm", path)
}
