//go:build unix

package pebble

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

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
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	for end := time.Now().Add(leftoverWait); errors.Is(err, unix.EWOULDBLOCK) && ownerIsGone(f) && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
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

// leftoverWait is how long the lock of an owner that is gone is waited for: a child that
// it was about to start shares the lock until its own program runs.
const leftoverWait = 10 * time.Second

// ownerIsGone reports whether the process that the file names has ended.
func ownerIsGone(f *os.File) bool {
	pid, err := readOwner(f)
	return err == nil && errors.Is(unix.Kill(pid, 0), unix.ESRCH)
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
