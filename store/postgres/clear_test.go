package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"agentd/internal/pgtest"
)

// TestClearUp removes what is old and leaves what is not.
func TestClearUp(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	url := pgtest.Quick(t).Database(t)
	s, err := Open(ctx, url, &Options{NodeID: "live", LeaseTTL: time.Hour, AllowUnsafe: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	clearUp := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
		if err := s.clearUp(ctx); err != nil {
			t.Fatal(err)
		}
	}
	counts := func(want ...int) {
		t.Helper()
		for i, table := range []string{"blob_uploads", "blob_chunks", "nodes"} {
			var n int
			if err := conn.QueryRow(ctx, "SELECT count(*) FROM agentd."+table).Scan(&n); err != nil || n != want[i] {
				t.Errorf("%s has %d rows, %v, want %d", table, n, err, want[i])
			}
		}
	}
	clearUp(`
		INSERT INTO agentd.blob_uploads VALUES (1, 'live'), (2, 'dead');
		INSERT INTO agentd.blob_chunks VALUES (1, 0, ''), (2, 0, ''), (2, 1, '');
		INSERT INTO agentd.nodes VALUES ('dead', 'x', '', clock_timestamp() - interval '1 hour', now()),
			('long dead', 'x', '', clock_timestamp() - interval '1 year', now())`)
	counts(1, 1, 2)
}

// TestRestoredDump: ids of transactions of another cluster are forgotten.
func TestRestoredDump(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	url := pgtest.Quick(t).Database(t)
	for round := range 2 {
		s, err := Open(ctx, url, &Options{AllowUnsafe: true})
		if err != nil {
			t.Fatal(err)
		}
		var rows int
		if err := s.pool.QueryRow(ctx, `SELECT count(*) FROM agentd.appends`).Scan(&rows); err != nil || rows != 0 {
			t.Errorf("round %d: %d rows, %v", round, rows, err)
		}
		if _, err := s.pool.Exec(ctx, `INSERT INTO agentd.appends VALUES (1::bigint << 40, 'n', '{s}', '{1}')`); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
