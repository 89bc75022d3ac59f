package pebble_test

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agentd/store"
	"agentd/store/pebble"
)

// TestASmallStoreTakesLittleSpace counts the blocks that a store's files take: reserved
// space counts, whatever the files' sizes say.
func TestASmallStoreTakesLittleSpace(t *testing.T) {
	dir := t.TempDir()
	ctx := context.Background()
	s, err := pebble.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	atMost := func(when string, most int64) {
		t.Helper()
		if got := spaceTaken(t, dir); got > most {
			t.Errorf("%s the store takes %d bytes of the disk, more than %d", when, got, most)
		}
	}
	atMost("empty,", 2<<20)
	const turns, facts = 100, 20
	for i := range turns {
		id := fmt.Sprintf("sess_%03d", i)
		claim, err := s.Claim(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		b := &store.Batch{SessionID: id, Epoch: claim.Epoch}
		for n := range facts {
			b.Records = append(b.Records, store.Record{Sequence: uint64(n + 1), Data: []byte(strings.Repeat("x", 1000))})
		}
		if err := s.Append(ctx, []*store.Batch{b})[0]; err != nil {
			t.Fatal(err)
		}
	}
	atMost("after a hundred turns", 10<<20)
}

// spaceTaken is what the files of a directory take of the disk.
func spaceTaken(t *testing.T, dir string) int64 {
	t.Helper()
	var sum int64
	if err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		sum += info.Sys().(*syscall.Stat_t).Blocks * 512
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return sum
}
