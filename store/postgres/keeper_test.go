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
	const appendRow = `INSERT INTO agentd.appends VALUES (pg_current_xact_id()::text::bigint, 'n', '{s}', '{1}');`
	k := &keeper{s: s, conn: conn}
	clearUp := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
		k.prunes = time.Time{}
		if err := k.clearUp(ctx); err != nil {
			t.Fatal(err)
		}
	}
	// Transactions of other tests may be older than ours.
	remember := func() {
		t.Helper()
		for last := int64(-1); k.before <= last || last < 0; {
			if err := conn.QueryRow(ctx, `SELECT max(xid) FROM agentd.appends`).Scan(&last); err != nil {
				t.Fatal(err)
			}
			if err := conn.QueryRow(ctx, xminSQL).Scan(&k.before); err != nil {
				t.Fatal(err)
			}
		}
	}
	counts := func(want ...int) {
		t.Helper()
		for i, table := range []string{"appends", "blob_uploads", "blob_chunks", "nodes"} {
			var n int
			if err := conn.QueryRow(ctx, "SELECT count(*) FROM agentd."+table).Scan(&n); err != nil || n != want[i] {
				t.Errorf("%s has %d rows, %v, want %d", table, n, err, want[i])
			}
		}
	}
	clearUp(appendRow + `
		INSERT INTO agentd.blob_uploads VALUES (1, 'live'), (2, 'dead');
		INSERT INTO agentd.blob_chunks VALUES (1, 0, ''), (2, 0, ''), (2, 1, '');
		INSERT INTO agentd.nodes VALUES ('dead', 'x', '', clock_timestamp() - interval '1 hour', now()),
			('long dead', 'x', '', clock_timestamp() - interval '1 year', now())`)
	counts(1, 2, 3, 3) // the first look only remembers where it was
	remember()
	clearUp(appendRow)
	counts(1, 1, 1, 2)
	var pruned, left int64
	err = conn.QueryRow(ctx, `SELECT p.xid, a.xid FROM agentd.appends_pruned p, agentd.appends a`).Scan(&pruned, &left)
	if err != nil || pruned == 0 || pruned > left {
		t.Errorf("appends are removed below %d, %v; one of %d is left", pruned, err, left)
	}
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
		var pruned int64
		err = s.pool.QueryRow(ctx, `SELECT xid, (SELECT count(*) FROM agentd.appends) FROM agentd.appends_pruned`).Scan(&pruned, &rows)
		if err != nil || rows != 0 || pruned != 0 {
			t.Errorf("round %d: %d rows below %d, %v", round, rows, pruned, err)
		}
		const foreign = `WITH a AS (INSERT INTO agentd.appends VALUES (1::bigint << 40, 'n', '{s}', '{1}')) UPDATE agentd.appends_pruned SET xid = 1::bigint << 40`
		if _, err := s.pool.Exec(ctx, foreign); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
