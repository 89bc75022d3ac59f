package pebble_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"agentd/store"
	"agentd/store/pebble"
)

// payload is a record's data: n bytes of JSON that compress about as an event
// does, each different.
func payload(n, i int) []byte {
	b := fmt.Appendf(nil, `{"type":"message.delta","eventId":"evt_%026d","sequence":%d,"payload":{"text":"`, i*7919, i)
	const words = "the quick brown fox jumps over a lazy dog while state folds and facts are kept in order "
	for x := uint32(i + 1); len(b) < n-3; {
		x = x*1664525 + 1013904223
		w := int(x>>16) % (len(words) - 8)
		b = append(b, words[w:w+min(8, n-3-len(b))]...)
	}
	return append(b, `"}}`...)
}

// writer appends to sessions in groups.
type writer struct {
	b       *testing.B
	s       *pebble.Store
	batches []*store.Batch
	data    [][]byte
	n       int
}

func newWriter(b *testing.B, s *pebble.Store, prefix string, group int) *writer {
	w := &writer{b: b, s: s}
	for i := range group {
		id := fmt.Sprintf("sess_%s%023d", prefix, i)
		c, err := s.Claim(context.Background(), id)
		if err != nil {
			b.Fatal(err)
		}
		w.batches = append(w.batches, &store.Batch{SessionID: id, Epoch: c.Epoch, Records: []store.Record{{Sequence: c.Head.Sequence}}})
	}
	for i := range 4096 {
		w.data = append(w.data, payload(600, i))
	}
	return w
}

// append writes one record to each session.
func (w *writer) append() {
	for _, b := range w.batches {
		r := &b.Records[0]
		r.Sequence++
		r.Hash[0] = byte(w.n)
		r.Data = w.data[w.n%len(w.data)]
		w.n++
	}
	for _, err := range w.s.Append(context.Background(), w.batches) {
		if err != nil {
			w.b.Fatal(err)
		}
	}
}

func openBench(b *testing.B) *pebble.Store {
	b.Helper()
	s, err := pebble.Open(filepath.Join(b.TempDir(), "store"), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

// BenchmarkAppend measures durable 600-byte events: one record for each session
// of a group, one call for the group.
func BenchmarkAppend(b *testing.B) {
	for _, group := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("group=%d", group), func(b *testing.B) {
			s := openBench(b)
			w := newWriter(b, s, "0", group)
			b.ReportAllocs()
			took := make([]time.Duration, 0, 1<<20)
			for b.Loop() {
				start := time.Now()
				w.append()
				took = append(took, time.Since(start))
			}
			reportWrites(b, s, w.n)
			reportPercentiles(b, took)
		})
	}
}

func reportPercentiles(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(took[len(took)-1].Microseconds()), "max-µs")
}

// BenchmarkAppendWriters measures several callers that append at once.
func BenchmarkAppendWriters(b *testing.B) {
	const writers, group = 2, 256
	s := openBench(b)
	ws := make([]*writer, writers)
	for i := range ws {
		ws[i] = newWriter(b, s, string(rune('a'+i)), group)
	}
	var wg sync.WaitGroup
	b.ResetTimer()
	for _, w := range ws {
		wg.Go(func() {
			for range b.N {
				w.append()
			}
		})
	}
	wg.Wait()
	reportWrites(b, s, writers*ws[0].n)
}

// reportWrites reports events a second and what was written for each, in the log
// and with all flushes and compactions so far.
func reportWrites(b *testing.B, s *pebble.Store, events int) {
	m := s.Metrics()
	var tables uint64
	for i := range m.Levels {
		tables += m.Levels[i].TableBytesFlushed + m.Levels[i].TableBytesCompacted
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(m.WAL.BytesWritten)/float64(events), "logB/event")
	b.ReportMetric(float64(m.WAL.BytesWritten+tables)/float64(events), "diskB/event")
}

// BenchmarkRead measures reading a session of 100,000 events forward.
func BenchmarkRead(b *testing.B) {
	s, id, total := filled(b)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		for r, err := range s.Read(context.Background(), id, store.Range{}) {
			if err != nil || len(r.Data) == 0 {
				b.Fatal(err)
			}
			n++
		}
	}
	if n%total != 0 {
		b.Fatalf("%d records", n)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkHead measures looking up the head of a session that nobody claims.
func BenchmarkHead(b *testing.B) {
	s, id, total := filled(b)
	b.ReportAllocs()
	for b.Loop() {
		h, err := s.Head(context.Background(), id)
		if err != nil || h.Sequence != uint64(total) {
			b.Fatal(h, err)
		}
	}
}

// filled returns a store with one long session among others, not claimed.
func filled(b *testing.B) (s *pebble.Store, id string, total int) {
	b.Helper()
	s = openBench(b)
	const each, rounds = 100, 1000
	w := newWriter(b, s, "0", 4)
	for range rounds {
		for _, batch := range w.batches {
			next := batch.Records[len(batch.Records)-1].Sequence + 1
			batch.Records = batch.Records[:0]
			for i := range uint64(each) {
				batch.Records = append(batch.Records, store.Record{Sequence: next + i, Data: w.data[int(next+i)%len(w.data)]})
			}
		}
		if err := s.Append(context.Background(), w.batches)[0]; err != nil {
			b.Fatal(err)
		}
	}
	for _, batch := range w.batches {
		if err := s.Release(context.Background(), batch.SessionID, batch.Epoch); err != nil {
			b.Fatal(err)
		}
	}
	return s, w.batches[1].SessionID, each * rounds
}

// BenchmarkBlob measures storing and reading blobs of 4 MiB.
func BenchmarkBlob(b *testing.B) {
	s := openBench(b)
	content := bytes.Repeat(payload(64<<10, 1), 64)
	b.SetBytes(int64(len(content)))
	for i := 0; b.Loop(); i++ {
		copy(content, fmt.Sprintf("%020d", i))
		if _, err := s.PutBlob(context.Background(), bytes.NewReader(content)); err != nil {
			b.Fatal(err)
		}
	}
}
