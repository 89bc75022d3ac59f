// Package filelock takes the lock of a file for as long as the process lives.
//
// # Contract
//
// [Try] doesn't wait for a process that has the lock, but it does for the lock of one that is
// gone. A child that a process was about to start shares its locks until its own program runs:
// where the process is killed at that moment and started again at once, the lock seems to be
// another's for an instant.
//
// # Concurrency
//
// All functions may be called by many goroutines, with a file of their own each.
//
// # Errors
//
// [ErrHeld], if another process has the lock; otherwise the system's.
package filelock

import "errors"

// ErrHeld says that another process has the lock.
var ErrHeld = errors.New("another process has the lock")
