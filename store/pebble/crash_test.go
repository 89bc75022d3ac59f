//go:build !race

// The power is cut at hundreds of places, in one goroutine: what runs at the same time is
// tried with the race detector by the other tests.

package pebble_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"agentd/store/pebble"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestPowerLoss appends at random, loses the power at random moments with a
// random part of what wasn't synced, and goes on from there.
func TestPowerLoss(t *testing.T) {
	rounds := 25
	if testing.Short() {
		rounds = 8
	}
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			fs := vfs.NewCrashableMem()
			k := newBook(t, nil)
			for range rounds {
				fs = powerLoss(t, k, fs, rng)
			}
			s := mustOpen(t, "store", small(fs))
			defer mustClose(t, s)
			if err := k.check(s, true); err != nil {
				t.Error(err)
			}
			if len(k.acked["a"]) == 0 {
				t.Error("nothing was appended")
			}
		})
	}
}

// powerLoss runs a store for a while and returns what the medium holds then.
func powerLoss(t *testing.T, k *book, fs *vfs.MemFS, rng *rand.Rand) *vfs.MemFS {
	t.Helper()
	s, err := pebble.Open("store", small(fs))
	if err != nil {
		t.Fatal(err)
	}
	if err := k.check(s, true); err != nil {
		t.Fatal(err)
	}
	adopt(t, k, s)
	for range rng.IntN(40) {
		k.must(1+rng.IntN(4), 50+rng.IntN(1500), []string{"a", "b", "c", "d"}[:1+rng.IntN(4)]...)
	}
	if rng.IntN(4) == 0 {
		mustClose(t, s)
		return fs.CrashClone(vfs.CrashCloneCfg{})
	}
	// An append is under way when the power fails.
	done := make(chan struct{})
	acked := map[string]int{}
	for id := range k.acked {
		acked[id] = len(k.acked[id])
	}
	go func() {
		defer close(done)
		for range 3 {
			if err := k.appendRecords(2, 1000, "a", "b"); err != nil {
				t.Error(err)
			}
		}
	}()
	for range rng.IntN(2000) {
		_ = rng.Uint64()
	}
	after := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
	<-done
	mustClose(t, s)
	// What was appended in the meantime may or may not be there.
	for id, n := range acked {
		k.maybe[id] = k.acked[id][n:]
		k.acked[id] = k.acked[id][:n:n]
	}
	return after
}

// adopt takes what the store holds as acknowledged, and claims anew.
func adopt(t *testing.T, k *book, s *pebble.Store) {
	t.Helper()
	k.s = s
	clear(k.claims)
	for id := range k.acked {
		h, err := s.Head(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		all := slices.Concat(k.acked[id], k.maybe[id])
		k.acked[id] = all[:h.Sequence:h.Sequence]
	}
	clear(k.maybe)
}
