package pebble_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"agentd/store"
	"agentd/store/pebble"
	"agentd/store/storetest"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestPowerLossWhileTrimming removes the beginning of a session bit by bit, loses
// the power in between with a random part of what wasn't synced, and goes on from
// there: a removal is there as a whole or not at all, and what was acknowledged is.
func TestPowerLossWhileTrimming(t *testing.T) {
	rounds := 20
	if testing.Short() {
		rounds = 6
	}
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			x := &trimming{t: t, rng: rand.New(rand.NewPCG(seed, 2)), fs: vfs.NewCrashableMem()}
			for range rounds {
				x.round()
			}
			if x.acked == 0 {
				t.Error("nothing was removed")
			}
		})
	}
}

// trimming is a session that grows at its end and goes at its beginning.
type trimming struct {
	t   *testing.T
	rng *rand.Rand
	fs  *vfs.MemFS
	// all are the records that were ever appended and acknowledged, acked the last
	// of them whose removal was acknowledged, tried the last one that was tried.
	all          []store.Record
	acked, tried uint64
}

func (x *trimming) round() {
	s := mustOpen(x.t, "store", small(x.fs))
	x.check(s)
	c, err := s.Claim(x.t.Context(), "s")
	if err != nil {
		x.t.Fatal(err)
	}
	x.grow(s, c, 30)
	for range x.rng.IntN(4) {
		x.trim(s, c)
		x.acked = x.tried
	}
	// A removal is under way when the power fails.
	done := make(chan struct{})
	go func() {
		defer close(done)
		x.trim(s, c)
	}()
	for range x.rng.IntN(3000) {
		_ = x.rng.Uint64()
	}
	x.fs = x.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: x.rng.IntN(101), RNG: x.rng})
	<-done
	mustClose(x.t, s)
}

func (x *trimming) grow(s *pebble.Store, c store.Claim, n int) {
	records := storetest.Continue("s", c.Head, n, 500)
	if err := s.Append(context.Background(), []*store.Batch{{SessionID: "s", Epoch: c.Epoch, Records: records}})[0]; err != nil {
		x.t.Fatal(err)
	}
	x.all = append(x.all, records...)
}

func (x *trimming) trim(s *pebble.Store, c store.Claim) {
	from := max(x.acked, x.tried)
	through := from + 1 + uint64(len(x.all)-int(from)-2)/6
	b := &store.Batch{SessionID: "s", Epoch: c.Epoch, Trim: &store.Trim{
		Through: through, Hash: x.all[through-1].Hash, Data: fmt.Append(nil, through),
	}}
	if err := s.Append(context.Background(), []*store.Batch{b})[0]; err != nil {
		x.t.Errorf("trim through %d: %v", through, err)
	}
	x.tried = through
}

// check checks what the medium has against what was acknowledged.
func (x *trimming) check(s *pebble.Store) {
	x.t.Helper()
	base, err := s.Base(x.t.Context(), "s")
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		x.t.Fatal(err)
	}
	at := base.Sequence
	if at != x.acked && at != x.tried {
		x.t.Fatalf("the base is at %d, a removal through %d was acknowledged, one through %d tried", at, x.acked, x.tried)
	}
	if at > 0 && (string(base.Data) != fmt.Sprint(at) || base.Hash != x.all[at-1].Hash) {
		x.t.Fatalf("the base at %d has data %q", at, base.Data)
	}
	next := at
	for rec, err := range s.Read(x.t.Context(), "s", store.Range{After: at}) {
		if next++; err != nil || rec.Sequence != next || rec.Hash != x.all[next-1].Hash {
			x.t.Fatalf("record %d where %d is next: %v", rec.Sequence, next, err)
		}
	}
	if next != uint64(len(x.all)) {
		x.t.Fatalf("%d records of %d are there", next, len(x.all))
	}
	for _, err := range s.Read(x.t.Context(), "s", store.Range{}) {
		if at > 0 && !errors.Is(err, store.ErrTrimmed) {
			x.t.Fatalf("a read from the beginning: %v, want ErrTrimmed", err)
		}
		break
	}
	x.acked, x.tried = at, at
}
