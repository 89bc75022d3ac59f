//go:build unix

package pebble_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"agentd/store/pebble"

	"golang.org/x/sys/unix"
)

// TestLockOfAnOwnerThatIsGone: a child that was being started when its parent ended still
// has the parent's lock for a moment. Who opens the store meanwhile waits for it.
func TestLockOfAnOwnerThatIsGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	mustClose(t, mustOpen(t, dir, nil))
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	child, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if _, err := child.WriteString(strconv.Itoa(gone.ProcessState.Pid()) + "\n"); err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(child.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	go func() {
		s, err := pebble.Open(dir, nil)
		if err == nil {
			err = s.Close()
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		t.Fatalf("Open beside the lock: %v, want it to wait", err)
	default:
	}
	if err := child.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Errorf("Open after the child let go: %v", err)
	}
}
