package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"agentd/internal/pgtest"
	"agentd/store"
	"agentd/store/postgres"
	"agentd/store/storetest"
)

// timeIn is a moment of a month of 2026.
func timeIn(month int) time.Time {
	return time.Date(2026, time.Month(month), 10, 12, 0, 0, 0, time.UTC)
}

// setMonth has a store append to the table of a month.
func setMonth(tb testing.TB, s *postgres.Store, month int) {
	tb.Helper()
	s.SetTime(func() time.Time { return timeIn(month) })
	if err := s.KeepMonths(tb.Context()); err != nil {
		tb.Fatal(err)
	}
}

// scattered is an engine whose records go to three months in turn, share rows in every second
// append, and which may keep what it removes for a while.
type scattered struct{ engine }

func (e *scattered) Open() store.Store {
	s := openStore(e.t, e.url, nil)
	for month := 1; month <= 3; month++ {
		setMonth(e.t, s, month)
	}
	var n, appends atomic.Int64
	s.SetTime(func() time.Time { return timeIn(1 + int(n.Add(1)%3)) })
	s.SetPacking(func() bool { return appends.Add(1)%2 == 0 })
	return later{s}
}

func (e *scattered) Second() (store.Store, bool) { return e.Open(), true }

// later has all trims take their time.
type later struct{ *postgres.Store }

func (s later) Append(ctx context.Context, batches []*store.Batch) []error {
	list := slices.Clone(batches)
	for i, b := range list {
		if b.Trim != nil {
			changed, trim := *b, *b.Trim
			trim.Later = true
			changed.Trim = &trim
			list[i] = &changed
		}
	}
	return s.Store.Append(ctx, list)
}

// TestContractOverMonths runs the suite with records that are in no order in the tables.
func TestContractOverMonths(t *testing.T) {
	t.Parallel()
	storetest.RunOfRecords(t, scatteredEngine)
}

func scatteredEngine(t *testing.T) storetest.Engine { return &scattered{*newEngine(t)} }

// lengthen appends records to a session.
func lengthen(tb testing.TB, s store.Store, id string, n int) []store.Record {
	tb.Helper()
	c, err := s.Claim(tb.Context(), id)
	if err != nil {
		tb.Fatal(err)
	}
	list := storetest.Continue(id, c.Head, n, 700)
	if err := appendOne(tb.Context(), s, &store.Batch{SessionID: id, Epoch: c.Epoch, Records: list}); err != nil {
		tb.Fatal(err)
	}
	return list
}

// trimThrough removes records of a session as retention does.
func trimThrough(tb testing.TB, s store.Store, id string, last store.Record, soon bool) {
	tb.Helper()
	c, err := s.Claim(tb.Context(), id)
	if err != nil {
		tb.Fatal(err)
	}
	trim := &store.Trim{Through: last.Sequence, Hash: last.Hash, Data: []byte("folded"), Later: !soon}
	if err := appendOne(tb.Context(), s, &store.Batch{SessionID: id, Epoch: c.Epoch, Trim: trim}); err != nil {
		tb.Fatal(err)
	}
}

// reads fails unless a session has just these records after a sequence.
func reads(tb testing.TB, s store.Store, id string, after uint64, want []store.Record) {
	tb.Helper()
	for _, reverse := range []bool{false, true} {
		var got []store.Record
		for r, err := range s.Read(tb.Context(), id, store.Range{After: after, Reverse: reverse}) {
			if err != nil {
				tb.Fatalf("%s: %v", id, err)
			}
			got = append(got, r)
		}
		if reverse {
			slices.Reverse(got)
		}
		if !slices.EqualFunc(got, want, func(a, b store.Record) bool {
			return a.Sequence == b.Sequence && a.Hash == b.Hash && bytes.Equal(a.Data, b.Data)
		}) {
			tb.Errorf("%s after %d, reverse %v: %d records, want %d", id, after, reverse, len(got), len(want))
		}
	}
}

// isTrimmed fails unless a session's beginning is said to be gone.
func isTrimmed(tb testing.TB, s store.Store, id string, through uint64) {
	tb.Helper()
	for _, err := range s.Read(tb.Context(), id, store.Range{}) {
		if gone, ok := errors.AsType[*store.TrimmedError](err); !ok || gone.Through != through {
			tb.Errorf("%s from the beginning: %v, want that it is gone through %d", id, err, through)
		}
		return
	}
	tb.Errorf("%s reads as empty", id)
}

// rowsIn counts the rows of a table; -1 if there is none.
func rowsIn(t *testing.T, conn *pgx.Conn, table string) (n int64) {
	t.Helper()
	var there bool
	if err := conn.QueryRow(t.Context(), `SELECT to_regclass($1) IS NOT NULL`, table).Scan(&there); err != nil {
		t.Fatal(err)
	}
	if !there {
		return -1
	}
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM ONLY `+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// The statements of the version before there were months.
const (
	formerAppendSQL = `
WITH moved AS (
	UPDATE agentd.sessions s SET head = $3, hash = $4 WHERE s.session_id = $1 AND s.epoch = $2 AND s.head = $3 - 1 RETURNING 1
), inserted AS (
	INSERT INTO agentd.events (session_id, sequence, hash, crc, data) VALUES ($1, $3, $4, $5, $6)
)
SELECT agentd.require((SELECT count(*) FROM moved) = 1)`
	formerReadSQL = `SELECT sequence FROM agentd.events
		WHERE session_id = $1 AND sequence > $2 AND sequence < $3 ORDER BY sequence LIMIT $4`
	formerTrimSQL = `DELETE FROM agentd.events WHERE session_id = $1 AND sequence <= $2`
)

// TestMonthsBesideAFormerVersion migrates a database that has records, while a writer of the
// version before goes on, with statements that it prepared before the migration: each reads
// what the other appended, and removes it.
func TestMonthsBesideAFormerVersion(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	conn := connect(t, url)
	if err := postgres.MigrateTo(t.Context(), conn, 8); err != nil {
		t.Fatal(err)
	}
	all := map[string][]store.Record{}
	former := func(id string, n int) {
		t.Helper()
		for _, r := range storetest.Continue(id, storetest.HeadOf(all[id]), n, 100) {
			execute(t, conn, formerAppendSQL, id, 1, r.Sequence, r.Hash[:], postgres.Checksum(id, r), r.Data)
			all[id] = append(all[id], r)
		}
	}
	formerReads := func(id string) {
		t.Helper()
		rows, err := conn.Query(t.Context(), formerReadSQL, id, 0, 1000, 1000)
		if err != nil {
			t.Fatal(err)
		}
		got, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil || len(got) != len(all[id]) || !slices.IsSorted(got) {
			t.Errorf("the former version reads %v of %s, %v; want %d", got, id, err, len(all[id]))
		}
	}
	execute(t, conn, `INSERT INTO agentd.nodes (node_id, incarnation, address, lease_until, heartbeat) VALUES ('former', 'x', '', now() + interval '1 hour', now())`)
	for _, id := range []string{"a", "b"} {
		execute(t, conn, `INSERT INTO agentd.sessions (session_id, epoch) VALUES ($1, 1)`, id)
		former(id, 5)
		formerReads(id)
	}

	s := openStore(t, url, nil) // migrates
	defer shut(t, s)
	setMonth(t, s, 1)
	if n := rowsIn(t, conn, "agentd.events"); n != 10 {
		t.Errorf("%d rows are where they were, want all 10", n)
	}
	former("a", 5) // it goes on
	formerReads("a")
	reads(t, s, "a", 0, all["a"])
	all["b"] = append(all["b"], lengthen(t, s, "b", 5)...)
	setMonth(t, s, 2)
	all["b"] = append(all["b"], lengthen(t, s, "b", 5)...)
	for table, want := range map[string]int64{"agentd.events": 15, "agentd.events_202601": 5, "agentd.events_202602": 5} {
		if n := rowsIn(t, conn, table); n != want {
			t.Errorf("%s has %d rows, want %d", table, n, want)
		}
	}
	formerReads("b")
	execute(t, conn, `UPDATE agentd.sessions SET epoch = 1 WHERE session_id = 'b'`) // the former takes it
	former("b", 3)
	formerReads("b")
	reads(t, s, "b", 0, all["b"])
	for _, month := range []int{3, 4, 9} { // everything is long ago
		setMonth(t, s, month)
		reads(t, s, "b", 0, all["b"])
		reads(t, s, "b", 7, all["b"][7:])
	}
	spans, err := s.ReadSpans(t.Context(), []store.Span{{SessionID: "b", First: 4, Last: 17}, {SessionID: "a", First: 1, Last: 10}, {SessionID: "a", First: 9, Last: 11}})
	if err != nil || len(spans[0]) != 14 || len(spans[1]) != 10 || spans[2] != nil {
		t.Errorf("spans over months: %d, %d, %d, %v", len(spans[0]), len(spans[1]), len(spans[2]), err)
	}
	execute(t, conn, formerTrimSQL, "b", 12)
	if n := rowsIn(t, conn, "agentd.events_202601"); n != 0 {
		t.Errorf("the former version left %d rows of what it removed", n)
	}
}

// TestMonthsGo removes sessions as retention does. Nobody can read what is hidden, and months go when
// nothing in them is needed; what is needed moves once nothing more is hidden.
func TestMonthsGo(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	s := openStore(t, url, nil)
	defer shut(t, s)
	conn := connect(t, url)
	packNothing(s)
	all := map[string][]store.Record{}
	for month := 1; month <= 3; month++ {
		setMonth(t, s, month)
		for i := range 10 {
			id := fmt.Sprint("s", i)
			all[id] = append(all[id], lengthen(t, s, id, 10)...)
		}
	}
	prune := func() {
		t.Helper()
		if err := s.PruneMonths(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	has := func(january, february, rest int64) {
		t.Helper()
		for table, want := range map[string]int64{"agentd.events_202601": january, "agentd.events_202602": february, "agentd.events": rest} {
			if n := rowsIn(t, conn, table); n != want {
				t.Errorf("%s has %d rows, want %d", table, n, want)
			}
		}
	}
	for i := range 9 {
		id := fmt.Sprint("s", i)
		trimThrough(t, s, id, all[id][14], false)
		isTrimmed(t, s, id, 15)
		reads(t, s, id, 15, all[id][15:])
		if spans, err := s.ReadSpans(t.Context(), []store.Span{{SessionID: id, First: 15, Last: 16}, {SessionID: id, First: 16, Last: 17}}); err != nil || spans[0] != nil || len(spans[1]) != 2 {
			t.Errorf("spans about what is hidden: %v, %v", spans, err)
		}
		c := claim(t, s, id)
		again := &store.Batch{SessionID: id, Epoch: c.Epoch, Trim: &store.Trim{Through: 5, Hash: all[id][4].Hash, Later: true}}
		if err := appendOne(t.Context(), s, again); !errors.Is(err, store.ErrConflict) {
			t.Errorf("what is hidden was removed again: %v", err)
		}
	}
	has(100, 100, 0)
	prune() // more may become hidden, so it waits
	has(100, 100, 0)
	prune() // nothing more did: 10 rows of January move, and 45 of February are deleted
	has(-1, 55, 10)
	trimThrough(t, s, "s0", all["s0"][19], true) // at once, also what is in a month that is over
	has(-1, 50, 10)
	for i := range 10 {
		if id := fmt.Sprint("s", i); i > 0 {
			trimThrough(t, s, id, all[id][19], false)
		}
	}
	prune() // nothing of February is needed
	has(-1, -1, 0)
	for id, list := range all {
		isTrimmed(t, s, id, 20)
		reads(t, s, id, 20, list[20:])
	}
	setMonth(t, s, 1) // a node whose clock is wrong
	all["s1"] = append(all["s1"], lengthen(t, s, "s1", 3)...)
	setMonth(t, s, 3)
	reads(t, s, "s1", 20, all["s1"][20:])
}

// TestMonthsGoWithoutLog compares what it costs to remove a month of sessions row by row and as
// a whole: the first writes log for each row, the second doesn't.
func TestMonthsGoWithoutLog(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t).Database(t) // the log is that of the whole server
	s := openStore(t, url, nil)
	defer shut(t, s)
	conn := connect(t, url)
	packNothing(s) // so that there are many rows
	const sessions, records = 40, 100
	ids := func(month int, do func(id string)) {
		for i := range sessions {
			do(fmt.Sprint("s", month, "-", i))
		}
	}
	last := map[string]store.Record{}
	for month := 1; month <= 2; month++ {
		setMonth(t, s, month)
		ids(month, func(id string) { last[id] = lengthen(t, s, id, records)[records-1] })
	}
	setMonth(t, s, 3)
	for id := range last {
		lengthen(t, s, id, 1)
	}
	log := func(do func()) (written int64) {
		t.Helper()
		var before string
		if err := conn.QueryRow(t.Context(), `SELECT pg_current_wal_insert_lsn()::text`).Scan(&before); err != nil {
			t.Fatal(err)
		}
		do()
		if err := conn.QueryRow(t.Context(), `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1::pg_lsn)::bigint`, before).Scan(&written); err != nil {
			t.Fatal(err)
		}
		return written
	}
	execute(t, conn, `VACUUM agentd.events_202601, agentd.events_202602`) // as autovacuum does by then
	execute(t, conn, `CHECKPOINT`)
	deleted := log(func() {
		ids(1, func(id string) { trimThrough(t, s, id, last[id], true) })
		execute(t, conn, `VACUUM agentd.events_202601`)
	})
	execute(t, conn, `CHECKPOINT`)
	dropped := log(func() {
		ids(2, func(id string) { trimThrough(t, s, id, last[id], false) })
		if err := s.PruneMonths(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	if n := rowsIn(t, conn, "agentd.events_202602"); n != -1 {
		t.Fatalf("the month has %d rows", n)
	}
	t.Logf("log for %d records: %d bytes row by row, %d as a whole", sessions*records, deleted, dropped)
	if dropped*10 > deleted {
		t.Errorf("%d records cost %d bytes of log row by row and %d as a whole", sessions*records, deleted, dropped)
	}
}

// TestAMonthWithoutATable: records go to the table that has no month, and are found there.
func TestAMonthWithoutATable(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	s := openStore(t, url, nil)
	defer shut(t, s)
	conn := connect(t, url)
	packNothing(s)
	setMonth(t, s, 1)
	all := lengthen(t, s, "s", 5)
	s.SetTime(func() time.Time { return timeIn(5) })
	all = append(all, lengthen(t, s, "s", 5)...)
	reads(t, s, "s", 0, all)
	if n := rowsIn(t, conn, "agentd.events"); n != 5 {
		t.Errorf("%d rows are in the table without a month, want 5", n)
	}
	setMonth(t, s, 5)
	execute(t, conn, `DROP TABLE agentd.events_202605`) // by whoever takes the month for over
	all = append(all, lengthen(t, s, "s", 5)...)
	reads(t, s, "s", 0, all)
	trimThrough(t, s, "s", all[11], false)
	isTrimmed(t, s, "s", 12)
	reads(t, s, "s", 12, all[12:])
}

// TestMonthsGoBesideReadersAndWriters drops a month under nodes that read and append there.
func TestMonthsGoBesideReadersAndWriters(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	a, b := openStore(t, url, nil), openStore(t, url, nil)
	defer shut(t, a)
	defer shut(t, b)
	conn := connect(t, url)
	for round := 1; round <= 5; round++ {
		setMonth(t, a, round)
		setMonth(t, b, round) // it stays there, its clock being late
		kept, gone := fmt.Sprint("kept", round), fmt.Sprint("gone", round)
		list := lengthen(t, a, kept, 10)
		old := lengthen(t, a, gone, 50)
		setMonth(t, a, round+1)
		lengthen(t, a, gone, 1)
		trimThrough(t, a, gone, old[49], false)
		done := make(chan struct{})
		var others sync.WaitGroup
		others.Go(func() {
			for {
				reads(t, a, kept, 0, list)
				select {
				case <-done:
					return
				default:
				}
			}
		})
		others.Go(func() {
			id, n := fmt.Sprint("late", round), 0
			for {
				lengthen(t, b, id, 1)
				n++
				select {
				case <-done:
					lengthen(t, b, id, 1)
					if h, err := a.Head(t.Context(), id); err != nil || h.Sequence != uint64(n+1) {
						t.Errorf("%s is at %d, %v; want %d", id, h.Sequence, err, n+1)
					}
					return
				default:
				}
			}
		})
		table := fmt.Sprint("agentd.events_", 202600+round)
		for rowsIn(t, conn, table) >= 0 {
			if err := a.DropMonth(t.Context(), 202600+round); err != nil {
				t.Logf("it is tried again: %v", err)
			}
		}
		close(done)
		others.Wait()
		reads(t, b, kept, 0, list)
		isTrimmed(t, b, gone, 50)
	}
}
