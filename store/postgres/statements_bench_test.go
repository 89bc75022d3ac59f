package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/internal/pgtest"
	"agentd/store"

	"github.com/jackc/pgx/v5"
)

// BenchmarkStatements is what the database's process uses for the statements of a group commit,
// the commit included: 13 sessions with a pack of 1.5 kB each, or 13 entries, which is what a
// group of one of three nodes has with 64 turns at once. It is what a turn can't cost less than,
// times the groups, packs and entries that it has. Linux only.
func BenchmarkStatements(b *testing.B) {
	const rows = 13
	s, err := Open(b.Context(), pgtest.Start(b).Database(b), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	}()
	conn, err := s.pool.Acquire(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Release()
	month := s.months.sql()
	run := func(name string, next func(*pgx.Batch)) {
		b.Run(name, func(b *testing.B) {
			var began time.Duration
			const warm = 50 // statements are planned anew for some time
			for i := range warm + b.N {
				if i == warm {
					began = processorTimeOf(b, conn.Conn())
					b.ResetTimer()
				}
				var batch pgx.Batch
				next(&batch)
				if err := conn.SendBatch(b.Context(), &batch).Close(); err != nil {
					b.Fatal(err)
				}
			}
			took := processorTimeOf(b, conn.Conn()) - began
			b.ReportMetric(float64(took.Nanoseconds())/1000/float64(b.N), "db-µs/op")
			b.ReportMetric(float64(took.Nanoseconds())/1000/float64(b.N*rows), "db-µs/row")
		})
	}
	changes := func(keys []string, size int, fresh, gone bool) []change {
		list := make([]change, len(keys))
		for i, key := range keys {
			list[i] = change{Entry: store.Entry{Kind: "k", Key: key, Value: noise(size)}, fresh: fresh, delete: gone}
		}
		return list
	}
	made := func() (keys []string) {
		for range rows {
			keys = append(keys, "turn_"+rand.Text())
		}
		return keys
	}
	same := made()
	run("nothing", func(q *pgx.Batch) { q.Queue(`SELECT 1`) })
	run("get", func(q *pgx.Batch) { q.Queue(getSQL, "k", []byte(same[0])) })
	run("put/changed", func(q *pgx.Batch) { queueChanges(q, changes(same, 350, false, false), false) })
	run("put/new", func(q *pgx.Batch) { queueChanges(q, changes(made(), 350, true, false), true) })
	run("put/fresh", func(q *pgx.Batch) { queueChanges(q, changes(made(), 350, true, false), false) })
	open := made()
	run("put and delete", func(q *pgx.Batch) {
		queueChanges(q, changes(open, 0, true, false), false)
		queueChanges(q, changes(open, 0, false, true), false)
	})
	for _, id := range same {
		if _, err := s.Claim(b.Context(), id); err != nil {
			b.Fatal(err)
		}
	}
	head := int64(0)
	run("append", func(q *pgx.Batch) {
		before, after := repeated(rows, head), repeated(rows, head+5)
		data, hashes := make([][]byte, rows), make([][]byte, rows)
		for i := range rows {
			data[i], hashes[i] = noise(1500), noise(hashSize)
		}
		head += 5
		q.Queue(month.append, same, repeated(rows, 1), before, after, hashes, same, after, hashes, after, data, s.opts.NodeID, false)
	})
}

func repeated(n int, v int64) []int64 { return slices.Repeat([]int64{v}, n) }

func noise(size int) []byte {
	data := make([]byte, size)
	_, _ = rand.Read(data) // never fails
	return data
}

// processorTimeOf returns what the database's process behind a connection has used.
func processorTimeOf(b *testing.B, conn *pgx.Conn) time.Duration {
	b.Helper()
	// What it was asked last is over when it answers.
	if _, err := conn.Exec(context.Background(), `SELECT 2`); err != nil {
		b.Fatal(err)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", conn.PgConn().PID()))
	if err != nil {
		b.Skip("the kernel doesn't say what a process uses:", err)
	}
	var ns int64
	if _, err := fmt.Fscan(strings.NewReader(string(text)), &ns); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ns)
}
