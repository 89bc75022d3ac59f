package main

import (
	"io/fs"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// Bounds of what a store takes on disk.
const (
	emptyStore   = 2 << 20
	hundredTurns = 10 << 20
)

// TestStoresStaySmall: the store of a person who tries agentd doesn't take the space of
// one that serves many.
func TestStoresStaySmall(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	small := func(when string, most int64) {
		t.Helper()
		if got := sizeOf(t, data); got > most {
			t.Errorf("%s the store takes %d bytes, more than %d", when, got, most)
		}
	}
	p := start(t, data)
	small("new,", emptyStore)
	for i := range 100 {
		p.completed(p.submit("say something, for the " + strconv.Itoa(i) + "th time"))
	}
	small("after a hundred turns", hundredTurns)
	if code := p.stop(syscall.SIGTERM); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	small("after a hundred turns, at rest,", hundredTurns)
}

// sizeOf returns what the files of a directory take on disk.
func sizeOf(t *testing.T, dir string) int64 {
	t.Helper()
	total := int64(0)
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // the store removed it meanwhile
		}
		if info, err := e.Info(); err == nil {
			if s, ok := info.Sys().(*syscall.Stat_t); ok {
				total += s.Blocks * 512
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return total
}
