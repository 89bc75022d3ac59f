//go:build unix

package filelock

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// leftoverWait is how long the lock of a process that is gone is waited for. Its child needs an
// instant, and on a busy machine more.
const leftoverWait = 10 * time.Second

// Try takes the lock of a file, which ends with the process. owner returns which process took it
// last, or an error if that isn't known.
func Try(f *os.File, owner func() (pid int, err error)) error {
	for end := time.Now().Add(leftoverWait); ; time.Sleep(5 * time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.EWOULDBLOCK):
			return err
		case !gone(owner) || time.Now().After(end):
			return ErrHeld
		}
	}
}

func gone(owner func() (int, error)) bool {
	pid, err := owner()
	return err == nil && errors.Is(unix.Kill(pid, 0), unix.ESRCH)
}
