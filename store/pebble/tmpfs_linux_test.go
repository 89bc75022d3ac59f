package pebble_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"agentd/store"
	"agentd/store/pebble"
)

// TestFullMedium fills a small file system for real, once by the store itself
// and once by others.
func TestFullMedium(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: a real full disk; mounting a small file system needs root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=48m"); err != nil {
		t.Skipf("skipped: a real full disk; mounting a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	o := &pebble.Options{MemTableBytes: 1 << 20, ReserveBytes: 12 << 20}
	s := mustOpen(t, filepath.Join(dir, "store"), o)
	k := newBook(t, s)

	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, make([]byte, 30<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	fillUp(t, k)
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	k.must(10, 600, "a")
	fillUp(t, k)
	mustClose(t, s)

	s = mustOpen(t, filepath.Join(dir, "store"), o)
	if err := k.check(s, false); err != nil {
		t.Error(err)
	}
	mustClose(t, s)
}

// fillUp appends until there is no space, and looks at what still works.
func fillUp(t *testing.T, k *book) {
	t.Helper()
	for i := 0; ; i++ {
		err := k.appendRecords(10, 4000, "a", "b")
		if errors.Is(err, store.ErrNoSpace) {
			t.Logf("no space after %d appends", i)
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := k.s.Err(); err != nil {
		t.Fatalf("Err: %v; a full disk is no failure", err)
	}
	if err := k.check(k.s, false); err != nil {
		t.Fatal(err)
	}
}
