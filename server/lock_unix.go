//go:build unix

package server

import (
	"os"
	"syscall"
)

// lockFile waits for the lock of a file, which is made if it doesn't exist.
func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // a path of the operator's
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if err != syscall.EINTR { //nolint:errorlint // Flock returns the bare number
			break
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	// Closing the file gives the lock back.
	return func() { _ = f.Close() }, nil
}
