package postgres_test

import (
	"strings"
	"testing"
	"time"

	"agentd/internal/pgtest"
)

// TestClearingUpDoesNotHoldTheLeaseUp: what a node clears up waits for a lock that another
// client holds, and the lease is renewed meanwhile.
func TestClearingUpDoesNotHoldTheLeaseUp(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	shut(t, node(t, url, "first", time.Hour)) // it makes the tables
	tx, err := connect(t, url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `LOCK TABLE agentd.blob_uploads IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	s := node(t, url, "a", time.Second)
	defer shut(t, s)
	conn := connect(t, url)
	for waiting := ""; waiting == ""; {
		if err := conn.QueryRow(t.Context(), `
			SELECT coalesce(min(a.application_name), '') FROM pg_locks l JOIN pg_stat_activity a USING (pid)
			WHERE NOT l.granted AND l.relation = 'agentd.blob_uploads'::regclass`).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(waiting, "lease") {
			t.Fatalf("the connection that renews the lease waits for the lock: %s", waiting)
		}
	}
	beats(t, url)
	beats(t, url)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}
