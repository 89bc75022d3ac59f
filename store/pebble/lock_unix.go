//go:build unix

package pebble

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"agentd/internal/filelock"
	"agentd/store"

	"golang.org/x/sys/unix"
)

// lockFile takes the directory for this process. The file names the owner, so
// that a second process can name the first; the lock itself is the
// kernel's and ends with the process.
func lockFile(path, dir string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = filelock.Try(f, func() (int, error) { return readOwner(f) })
	if errors.Is(err, filelock.ErrHeld) {
		err = lockedError(f, dir)
	}
	if err == nil {
		err = writeOwner(f)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func writeOwner(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func readOwner(f *os.File) (pid int, err error) {
	b := make([]byte, 32)
	n, _ := f.ReadAt(b, 0)
	return strconv.Atoi(strings.TrimSpace(string(b[:n])))
}

// lockedError says whose lock it is.
func lockedError(f *os.File, dir string) error {
	pid, err := readOwner(f)
	if err != nil {
		// The owner holds the lock and hasn't written its id yet.
		return fmt.Errorf("%w: %s is in use by a process that is just starting", store.ErrLocked, dir)
	}
	return fmt.Errorf("%w: %s is in use by process %d", store.ErrLocked, dir, pid)
}

// makePrivate makes a new file readable by its owner alone.
func makePrivate(fd uintptr) error { return unix.Fchmod(int(fd), 0o600) }
