package postgres_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"agentd/internal/pgtest"
	"agentd/store"
	"agentd/store/postgres"
)

// payload is the size of a benchmark's events, as in the design's figures.
const payload = 600

func eventData(session string, sequence uint64) []byte {
	b := fmt.Appendf(make([]byte, 0, payload), `{"type":"turn.started","sessionId":%q,"sequence":%d,"payload":"`, session, sequence)
	return append(append(b, bytes.Repeat([]byte("x"), payload-len(b)-2)...), `"}`...)
}

// writer appends to one session.
type writer struct {
	id    string
	claim store.Claim
	chain *store.Chain
}

func newWriter(tb testing.TB, s store.Store, id string) *writer {
	tb.Helper()
	c, err := s.Claim(tb.Context(), id)
	if err != nil {
		tb.Fatal(err)
	}
	last := c.Head.Hash
	if c.Head.Sequence == 0 {
		last = store.Genesis(id)
	}
	return &writer{id: id, claim: c, chain: store.NewChain(last)}
}

// next returns a batch of n records after the ones before.
func (w *writer) next(n int) *store.Batch {
	b := &store.Batch{SessionID: w.id, Epoch: w.claim.Epoch}
	for range n {
		w.claim.Head.Sequence++
		data := eventData(w.id, w.claim.Head.Sequence)
		w.claim.Head.Hash = w.chain.Next(data)
		b.Records = append(b.Records, store.Record{Sequence: w.claim.Head.Sequence, Data: data, Hash: w.claim.Head.Hash})
	}
	return b
}

func durable(tb testing.TB) (*postgres.Store, string) {
	tb.Helper()
	url := pgtest.Shared(tb).Database(tb)
	s := openStore(tb, url, &postgres.Options{})
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s, url
}

// BenchmarkAppend appends groups of one event of each of so many sessions.
func BenchmarkAppend(b *testing.B) {
	for _, sessions := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("group=%d", sessions), func(b *testing.B) {
			s, _ := durable(b)
			var writers []*writer
			for i := range sessions {
				writers = append(writers, newWriter(b, s, fmt.Sprintf("sess_%026d", i)))
			}
			b.ResetTimer()
			for range b.N {
				group := make([]*store.Batch, 0, sessions)
				for _, w := range writers {
					group = append(group, w.next(1))
				}
				for _, err := range s.Append(b.Context(), group) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.N*sessions)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkBareInsert is what BenchmarkAppend is compared with: the same rows in
// a table without anything else, by one multi-row INSERT a group.
func BenchmarkBareInsert(b *testing.B) {
	for _, sessions := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("group=%d", sessions), func(b *testing.B) { bareInsert(b, sessions) })
	}
}

func bareInsert(b *testing.B, sessions int) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, pgtest.Shared(b).Database(b))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	const create = `CREATE TABLE bare (session_id text COLLATE "C", sequence bigint, hash bytea, data bytea, PRIMARY KEY (session_id, sequence))`
	if _, err := conn.Exec(ctx, create); err != nil {
		b.Fatal(err)
	}
	var ids []string
	for i := range sessions {
		ids = append(ids, fmt.Sprintf("sess_%026d", i))
	}
	b.ResetTimer()
	for n := range b.N {
		var sequences []int64
		var hashes, data [][]byte
		for _, id := range ids {
			d := eventData(id, uint64(n+1))
			sum := sha256.Sum256(d)
			sequences, hashes, data = append(sequences, int64(n+1)), append(hashes, sum[:]), append(data, d)
		}
		_, err := conn.Exec(ctx, `INSERT INTO bare SELECT * FROM unnest($1::text[], $2::bigint[], $3::bytea[], $4::bytea[])`, ids, sequences, hashes, data)
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*sessions)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkRead reads a session of 20,000 events from its beginning.
func BenchmarkRead(b *testing.B) {
	const n = 20_000
	s, _ := durable(b)
	w := newWriter(b, s, "sess_read")
	for range n / 1000 {
		if err := s.Append(b.Context(), []*store.Batch{w.next(1000)})[0]; err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	for range b.N {
		got := 0
		for _, err := range s.Read(b.Context(), w.id, store.Range{}) {
			if err != nil {
				b.Fatal(err)
			}
			got++
		}
		if got != n {
			b.Fatalf("read %d of %d events", got, n)
		}
	}
	b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "events/s")
}
