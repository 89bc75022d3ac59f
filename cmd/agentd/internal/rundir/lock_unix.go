//go:build unix

package rundir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Supported says whether servers can be started in the background here.
const Supported = true

// Lock waits until no one else holds the lock of a file, which is made if it isn't
// there. A process that ends gives its lock back.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	locked := make(chan error, 1)
	go func() {
		for {
			err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
			if !errors.Is(err, syscall.EINTR) {
				locked <- err
				return
			}
		}
	}()
	select {
	case err := <-locked:
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
		return func() { _ = f.Close() }, nil // closing gives the lock back
	case <-ctx.Done():
		go func() { // the wait can't be ended
			<-locked
			_ = f.Close()
		}()
		return nil, ctx.Err()
	}
}

// Detached are the attributes of a process that outlives its terminal.
func Detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// Terminate asks a process to end.
func Terminate(pid int) error { return syscall.Kill(pid, syscall.SIGTERM) }
