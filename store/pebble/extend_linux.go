package pebble

import (
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// extendFile makes a file so long that a part of it exists, which is reserved and reads as
// zeros where nothing was written. It reports whether it did: not every file system can.
func extendFile(f vfs.File, offset, length int64) bool {
	fd := f.Fd()
	if fd == vfs.InvalidFd {
		return false
	}
	for {
		if err := syscall.Fallocate(int(fd), 0, offset, length); err != syscall.EINTR {
			return err == nil
		}
	}
}

// cutFile ends a file behind a size, if it can.
func cutFile(f vfs.File, size int64) {
	if fd := f.Fd(); fd != vfs.InvalidFd {
		_ = syscall.Ftruncate(int(fd), size) // it stays longer
	}
}
