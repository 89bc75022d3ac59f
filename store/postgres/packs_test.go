package postgres_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"agentd/internal/pgtest"
	"agentd/store"
	"agentd/store/postgres"
	"agentd/store/storetest"
)

// rowsOf counts the rows of a session.
func rowsOf(t *testing.T, conn *pgx.Conn, id string) (n int) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM agentd.events WHERE session_id = $1`, id).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestPacksWaitForFormerNodes: while a node of the version before has a lease, there is a row
// for each record, which its statements read. The rows of both kinds are one session.
func TestPacksWaitForFormerNodes(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	conn := connect(t, url)
	if err := postgres.MigrateTo(t.Context(), conn, 9); err != nil {
		t.Fatal(err)
	}
	execute(t, conn, `INSERT INTO agentd.nodes (node_id, incarnation, address, lease_until, heartbeat) VALUES ('former', 'x', '', now() + interval '1 hour', now())`)
	s := openStore(t, url, nil) // migrates
	defer shut(t, s)
	other := openStore(t, url, nil)
	defer shut(t, other)
	var all []store.Record
	grow := func(rows int) {
		t.Helper()
		before := rowsOf(t, conn, "s")
		all = append(all, lengthen(t, s, "s", 5)...)
		if n := rowsOf(t, conn, "s") - before; n != rows {
			t.Errorf("5 records have %d rows, want %d", n, rows)
		}
		for _, reader := range []*postgres.Store{s, other} {
			reads(t, reader, "s", 0, all)
			reads(t, reader, "s", uint64(len(all)-2), all[len(all)-2:])
		}
	}
	for range 2 {
		grow(5) // the first of them is tried with a pack, and rejected
	}
	rows, err := conn.Query(t.Context(), formerReadSQL, "s", 0, 1000, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := pgx.CollectRows(rows, pgx.RowTo[int64]); err != nil || len(got) != len(all) {
		t.Errorf("the former version reads %v, %v; want %d records", got, err, len(all))
	}
	execute(t, conn, `UPDATE agentd.nodes SET lease_until = now() WHERE node_id = 'former'`)
	grow(5) // it learns of it with this append
	grow(1)
	grow(1)
	// It was only out of reach. What it appends goes with the rest, and packs end.
	execute(t, conn, `UPDATE agentd.nodes SET lease_until = now() + interval '1 hour' WHERE node_id = 'former'`)
	grow(5)
	execute(t, conn, `UPDATE agentd.sessions SET epoch = 100 WHERE session_id = 's'`)
	for _, r := range storetest.Continue("s", storetest.HeadOf(all), 3, 100) {
		execute(t, conn, formerAppendSQL, "s", 100, r.Sequence, r.Hash[:], postgres.Checksum("s", r), r.Data)
		all = append(all, r)
	}
	grow(5)
	execute(t, conn, `DELETE FROM agentd.nodes WHERE node_id = 'former'`)
	grow(5)
	grow(1)
}

// TestATrimWithinAPack: what is removed is gone from the database, also where it shared a row
// with what stays, and what stays is as it was.
func TestATrimWithinAPack(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	s := openStore(t, url, nil)
	defer shut(t, s)
	conn := connect(t, url)
	for _, later := range []bool{false, true} {
		id := fmt.Sprint("s", later)
		setMonth(t, s, 1)
		all := slices.Concat(lengthen(t, s, id, 10), lengthen(t, s, id, 10))
		setMonth(t, s, 2)
		all = append(all, lengthen(t, s, id, 10)...)
		if n := rowsOf(t, conn, id); n != 3 {
			t.Fatalf("there are %d rows, want 3", n)
		}
		for _, through := range []int{1, 4, 9, 10, 15, 20, 21, 29} {
			trimThrough(t, s, id, all[through-1], !later)
			isTrimmed(t, s, id, uint64(through))
			reads(t, s, id, uint64(through), all[through:])
			spans, err := s.ReadSpans(t.Context(), []store.Span{{SessionID: id, First: uint64(through), Last: 30}, {SessionID: id, First: uint64(through + 1), Last: 30}})
			if err != nil || spans[0] != nil || len(spans[1]) != 30-through {
				t.Errorf("spans after a trim through %d: %d and %d records, %v", through, len(spans[0]), len(spans[1]), err)
			}
			c := claim(t, s, id)
			again := &store.Batch{SessionID: id, Epoch: c.Epoch, Trim: &store.Trim{Through: uint64(through), Hash: all[through-1].Hash}}
			if err := appendOne(t.Context(), s, again); !errors.Is(err, store.ErrConflict) {
				t.Errorf("record %d was removed again: %v", through, err)
			}
			wrong := &store.Batch{SessionID: id, Epoch: c.Epoch, Trim: &store.Trim{Through: uint64(through + 1), Hash: all[0].Hash}}
			if err := appendOne(t.Context(), s, wrong); !errors.Is(err, store.ErrConflict) {
				t.Errorf("record %d was removed by another hash: %v", through+1, err)
			}
		}
		if n := rowsOf(t, conn, id); n != 1 && !later {
			t.Errorf("%d rows are left of one record", n)
		}
	}
}

// TestATrimLeavesNoBytes looks into the rows.
func TestATrimLeavesNoBytes(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	s := openStore(t, url, nil)
	defer shut(t, s)
	conn := connect(t, url)
	c := claim(t, s, "s")
	all := storetest.Continue("s", c.Head, 6, 60)
	if err := appendOne(t.Context(), s, &store.Batch{SessionID: "s", Epoch: c.Epoch, Records: all}); err != nil {
		t.Fatal(err)
	}
	trimThrough(t, s, "s", all[3], false)
	rows, err := conn.Query(t.Context(), `SELECT data FROM agentd.events`)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		t.Fatal(err)
	}
	stored := bytes.Join(list, nil)
	for i, r := range all {
		if there := bytes.Contains(stored, r.Data); there != (i > 3) {
			t.Errorf("record %d is stored: %v", r.Sequence, there)
		}
	}
}

// TestATrimOfADamagedPack changes nothing.
func TestATrimOfADamagedPack(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	s := openStore(t, url, nil)
	defer shut(t, s)
	all := lengthen(t, s, "s", 10)
	execute(t, connect(t, url), `UPDATE agentd.events SET data = set_byte(data, 400, get_byte(data, 400) # 1)`)
	c := claim(t, s, "s")
	trim := &store.Batch{SessionID: "s", Epoch: c.Epoch, Trim: &store.Trim{Through: 5, Hash: all[4].Hash}}
	if err := appendOne(t.Context(), s, trim); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("a trim within a damaged pack: %v, want ErrCorrupt", err)
	}
	if _, err := s.Base(t.Context(), "s"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("it left a base: %v", err)
	}
}

// TestRangesOverPacks reads every range of a session whose rows have one to several records.
func TestRangesOverPacks(t *testing.T) {
	t.Parallel()
	s := openStore(t, pgtest.Quick(t).Database(t), nil)
	defer shut(t, s)
	var all []store.Record
	for _, n := range []int{1, 3, 1, 1, 40, 2} {
		all = append(all, lengthen(t, s, "s", n)...)
	}
	end := uint64(len(all))
	for after := uint64(0); after <= end; after += 1 + after%3 {
		for before := after; before <= end+2; before++ {
			for _, limit := range []int{0, 1, 5} {
				for _, reverse := range []bool{false, true} {
					want := all[after:max(after, min(end, max(before, 1)-1))]
					if before == 0 {
						want = all
					}
					want = slices.Clone(want)
					if reverse {
						slices.Reverse(want)
					}
					if limit > 0 {
						want = want[:min(limit, len(want))]
					}
					var got []store.Record
					r := store.Range{After: after, Before: before, Limit: limit, Reverse: reverse}
					for record, err := range s.Read(t.Context(), "s", r) {
						if err != nil {
							t.Fatalf("%+v: %v", r, err)
						}
						got = append(got, record)
					}
					if !slices.EqualFunc(got, want, func(a, b store.Record) bool {
						return a.Sequence == b.Sequence && a.Hash == b.Hash && bytes.Equal(a.Data, b.Data)
					}) {
						t.Fatalf("%+v: %d records, want %d", r, len(got), len(want))
					}
				}
			}
		}
	}
	var spans []store.Span
	for first := uint64(1); first <= end; first++ {
		for last := first; last <= end; last++ {
			spans = append(spans, store.Span{SessionID: "s", First: first, Last: last})
		}
	}
	lists, err := s.ReadSpans(t.Context(), spans)
	if err != nil {
		t.Fatal(err)
	}
	for i, span := range spans {
		if uint64(len(lists[i])) != span.Last-span.First+1 || lists[i][0].Sequence != span.First {
			t.Fatalf("%+v: %d records", span, len(lists[i]))
		}
	}
}
