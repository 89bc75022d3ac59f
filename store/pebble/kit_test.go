package pebble_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"

	"agentd/internal/leaktest"
	"agentd/store"
	"agentd/store/pebble"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(secondProcess); dir != "" {
		os.Exit(runSecond(dir))
	}
	if dir := os.Getenv(killedProcess); dir != "" {
		os.Exit(runKilled(dir))
	}
	leaktest.Main(m)
}

// small returns options under which logs and tables turn over quickly.
func small(fs vfs.FS) *pebble.Options {
	return &pebble.Options{FS: fs, MemTableBytes: 128 << 10, CacheBytes: 1 << 20}
}

func mustOpen(tb testing.TB, dir string, o *pebble.Options) *pebble.Store {
	tb.Helper()
	s, err := pebble.Open(dir, o)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func mustClose(tb testing.TB, s *pebble.Store) {
	tb.Helper()
	if err := s.Close(); err != nil {
		tb.Fatal(err)
	}
}

// book appends to sessions and remembers what was acknowledged.
type book struct {
	tb     testing.TB
	s      *pebble.Store
	claims map[string]store.Claim
	acked  map[string][][]byte
	// maybe holds, for each session, records whose outcome is unknown.
	maybe map[string][][]byte
	n     int
}

func newBook(tb testing.TB, s *pebble.Store) *book {
	return &book{tb: tb, s: s, claims: map[string]store.Claim{}, acked: map[string][][]byte{}, maybe: map[string][][]byte{}}
}

// appendRecords appends count records to each of the sessions in one call and returns the
// first error.
func (k *book) appendRecords(count, size int, sessions ...string) error {
	k.tb.Helper()
	ctx := context.Background()
	var batches []*store.Batch
	for _, id := range sessions {
		c, ok := k.claims[id]
		if !ok {
			var err error
			if c, err = k.s.Claim(ctx, id); err != nil {
				k.tb.Fatal(err)
			}
			k.claims[id] = c
		}
		b := &store.Batch{SessionID: id, Epoch: c.Epoch}
		for i := range count {
			k.n++
			seq := uint64(len(k.acked[id]) + i + 1)
			b.Records = append(b.Records, store.Record{Sequence: seq, Data: payload(size, k.n), Hash: store.Hash{byte(k.n)}})
		}
		b.Index = []store.IndexOp{{Entry: store.Entry{Kind: "last", Key: id, Value: fmt.Append(nil, len(k.acked[id])+count)}}}
		batches = append(batches, b)
	}
	var first error
	for i, err := range k.s.Append(ctx, batches) {
		b := batches[i]
		for _, r := range b.Records {
			switch {
			case err == nil:
				k.acked[b.SessionID] = append(k.acked[b.SessionID], r.Data)
			case errors.Is(err, store.ErrUnknownOutcome):
				k.maybe[b.SessionID] = append(k.maybe[b.SessionID], r.Data)
			}
		}
		if first == nil {
			first = err
		}
	}
	return first
}

func (k *book) must(count, size int, sessions ...string) {
	k.tb.Helper()
	if err := k.appendRecords(count, size, sessions...); err != nil {
		k.tb.Fatal(err)
	}
}

// check reads everything from s. The result is nil if each session holds what
// was acknowledged, followed at most by what has an unknown outcome if loose.
func (k *book) check(s *pebble.Store, loose bool) error {
	ctx := context.Background()
	for id, want := range k.acked {
		if loose {
			want = append(slices.Clip(want), k.maybe[id]...)
		}
		n := 0
		for r, err := range s.Read(ctx, id, store.Range{}) {
			if err != nil {
				return err
			}
			if r.Sequence != uint64(n+1) {
				return fmt.Errorf("session %s: record %d follows %d", id, r.Sequence, n)
			}
			if n >= len(want) || !bytes.Equal(r.Data, want[n]) {
				return fmt.Errorf("session %s: record %d is not what was appended", id, r.Sequence)
			}
			n++
		}
		if n < len(k.acked[id]) {
			return fmt.Errorf("session %s: %d records of %d are there", id, n, len(k.acked[id]))
		}
		v, err := s.Get(ctx, "last", id)
		if err != nil {
			return fmt.Errorf("index of session %s: %w", id, err)
		}
		if string(v) != fmt.Sprint(n) {
			return fmt.Errorf("session %s: the index says %s records, there are %d", id, v, n)
		}
	}
	return nil
}

func recovery(tb testing.TB, s *pebble.Store) []string {
	tb.Helper()
	m, err := s.Meta(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	return m.Recovery
}

func readBlob(s *pebble.Store, ref string) ([]byte, error) {
	b, err := s.OpenBlob(context.Background(), ref)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(b)
	return data, errors.Join(err, b.Close())
}
