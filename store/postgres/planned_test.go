package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"agentd/internal/pgtest"
	"agentd/store"
	"agentd/store/postgres"
	"agentd/store/storetest"
)

// TestStatementsArePlannedOnce: what a turn asks again and again isn't planned anew each time.
// PostgreSQL plans a statement five times for its values before it compares.
func TestStatementsArePlannedOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	s := openStore(t, url, &postgres.Options{LeaseTTL: time.Hour, MaxConns: 1, AllowUnsafe: true})
	defer shut(t, s)
	conn := connect(t, url)
	execute(t, conn, `INSERT INTO agentd.index_entries SELECT 'turn', convert_to('a' || i, 'UTF8'), 'value' FROM generate_series(1, 5000) i`)
	execute(t, conn, `ANALYZE agentd.index_entries`)
	turns(t, s)
	plans, err := s.Planned(t.Context())
	if err != nil || len(plans) == 0 {
		t.Fatalf("%d statements are prepared, %v", len(plans), err)
	}
	for text, n := range plans {
		if n[0] > 10 {
			t.Errorf("planned %d times, run with one plan %d times: %s", n[0], n[1], text)
		}
	}
}

// TestAYoungDatabaseIsReadByIndex: the plans that statements get while their tables are empty don't
// read whole tables once these have grown. Nothing analyzes the tables meanwhile.
func TestAYoungDatabaseIsReadByIndex(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	conn := connect(t, url)
	s := openStore(t, url, &postgres.Options{LeaseTTL: time.Hour, MaxConns: 1, AllowUnsafe: true})
	turns(t, s)
	shut(t, s)
	// What a connection counted is there to read once it is gone.
	for others := 1; others > 0; {
		if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`).Scan(&others); err != nil {
			t.Fatal(err)
		}
	}
	for _, table := range []string{"sessions", "index_entries", "events"} {
		var rows, scans int64
		if err := conn.QueryRow(t.Context(), `SELECT seq_scan, seq_tup_read FROM pg_stat_user_tables WHERE schemaname = 'agentd' AND relname = $1`, table).Scan(&scans, &rows); err != nil {
			t.Fatal(err)
		}
		if rows > 0 {
			t.Errorf("%s was read as a whole %d times, %d rows", table, scans, rows)
		}
	}
}

// turns appends to three sessions as their turns do, and reads the index in between.
func turns(t *testing.T, s *postgres.Store) {
	t.Helper()
	const sessions, rounds = 3, 40
	var epochs [sessions]uint64
	for i := range epochs {
		epochs[i] = claim(t, s, fmt.Sprint("s", i)).Epoch
	}
	for round := range rounds {
		var group []*store.Batch
		for i, epoch := range epochs {
			id := fmt.Sprint("s", i)
			group = append(group, &store.Batch{
				SessionID: id, Epoch: epoch, Records: storetest.Records(id, uint64(2*round+1), 2, 100),
				Index: []store.IndexOp{
					{Entry: store.Entry{Kind: "turn", Key: fmt.Sprint(id, "/", round), Value: []byte("value")}},
					{Entry: store.Entry{Kind: "open", Key: id}, Delete: round%2 == 0},
				},
			})
		}
		for _, err := range s.Append(t.Context(), group) {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, scan := range []store.Scan{{Kind: "turn", Prefix: "s1/"}, {Kind: "turn", Prefix: "s2/", After: "s2/3", Limit: 5}, {Kind: "turn", Prefix: "none", Reverse: true}} {
			for _, err := range s.Scan(t.Context(), scan) {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
