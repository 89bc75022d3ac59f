//go:build unix

package main

import (
	"os"
	"syscall"
)

// tryLockFile takes the lock of a file, which ends with the process, or fails.
func tryLockFile(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
