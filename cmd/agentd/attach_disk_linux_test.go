package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The disk under the user's server fills up: it is said plainly, what is there can be
// read, nothing is damaged, and all goes on when there is space again.
func TestFullDiskUnderTheOwnServer(t *testing.T) {
	p := newPerson(t)
	disk := filepath.Join(p.home, ".local")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	const wide = 1 << 30
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", wide)); err != nil {
		t.Skipf("no file system of a size of its own can be mounted: %v", err)
	}
	t.Cleanup(func() {
		stopOwnServer(t, p.home)
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	resize := func(size uint64) {
		t.Helper()
		if err := syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT, fmt.Sprintf("size=%d", size)); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(args ...string) {
		t.Helper()
		out, err := p.command(args...).CombinedOutput()
		if text := string(out); err == nil || !strings.Contains(text, "the disk is full") || strings.Contains(text, "pebble") || strings.Contains(text, "store:") {
			t.Errorf("%v, %v: %s", args, err, out)
		}
	}
	p.output("run", "one")
	resize(64 << 20) // less than the reserve: the server that runs notices
	refused("run", "two")
	if got := p.sessions(); len(got) != 1 || got[0].Title != "one" {
		t.Errorf("%+v", got)
	}
	p.killServer()
	refused("run", "three")
	var full syscall.Statfs_t
	if err := syscall.Statfs(disk, &full); err != nil {
		t.Fatal(err)
	}
	resize((full.Blocks - full.Bfree) * uint64(full.Bsize)) // not a byte
	refused("run", "four")
	resize(wide)
	p.output("run", "five")
	if got := p.sessions(); len(got) != 2 || got[0].Title != "five" {
		t.Errorf("%+v", got)
	}
	if out := p.output("verify"); !strings.Contains(out, "no problems found") {
		t.Error(out)
	}
}
