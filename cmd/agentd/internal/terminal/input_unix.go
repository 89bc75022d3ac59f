//go:build unix

package terminal

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// inputWithin reports whether something can be read from a terminal within a time.
func inputWithin(tty *os.File, d time.Duration) bool {
	fd := int(tty.Fd())
	if fd >= unix.FD_SETSIZE {
		return false
	}
	for end := time.Now().Add(d); ; {
		var set unix.FdSet
		set.Set(fd)
		wait := unix.NsecToTimeval(max(time.Until(end), 0).Nanoseconds())
		n, err := unix.Select(fd+1, &set, nil, nil, &wait)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return err == nil && n > 0
	}
}
