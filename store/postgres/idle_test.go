package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"agentd/internal/pgtest"
	"agentd/store"
	"agentd/store/postgres"
)

// TestIdleNodesReadNoMoreOfMoreSessions: what a node asks all the time reads as much of the
// database however many sessions there are, at rest or of other nodes.
func TestIdleNodesReadNoMoreOfMoreSessions(t *testing.T) {
	t.Parallel()
	const looks, few, many = 20, 10, 5000
	url := pgtest.Quick(t).Database(t)
	other := node(t, url, "other", time.Hour)
	defer shut(t, other)
	conn := connect(t, url)
	made := 0
	// readBy returns how many rows a node reads while there are as many sessions.
	readBy := func(sessions int) (rows int64) {
		execute(t, conn, fmt.Sprintf(`
			INSERT INTO agentd.sessions (session_id, epoch, head, owner) SELECT 's' || i, 1, 1, CASE i %% 2 WHEN 0 THEN 'other' END FROM generate_series(%[1]d + 1, %[2]d) i;
			INSERT INTO agentd.index_entries SELECT 'place', convert_to('s' || i, 'UTF8'), convert_to(E'node:other\n\n{}', 'UTF8') FROM generate_series(%[1]d + 1, %[2]d) i`, made, sessions))
		made = sessions
		before := rowsRead(t, url)
		s := openStore(t, url+"&application_name=idle", &postgres.Options{NodeID: "idle", LeaseTTL: time.Hour, PollInterval: time.Hour, MaxConns: 1, AllowUnsafe: true})
		which := &store.Adoption{Kind: "open", Places: "place", Reach: []string{"node:idle"}}
		for range looks {
			if ids, err := s.Adopt(t.Context(), which, 64); err != nil || len(ids) > 0 {
				t.Fatalf("adopted %v, %v", ids, err)
			}
			if found, err := s.Displaced(t.Context(), which, 64); err != nil || len(found) > 0 {
				t.Fatalf("found %v, %v", found, err)
			}
			if _, err := s.Nodes(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		closeCounted(t, conn, s)
		return rowsRead(t, url) - before
	}
	if first, last := readBy(few), readBy(many); last > first+10*looks {
		t.Errorf("an idle node reads %d rows beside %d sessions, and %d beside %d", first, few, last, many)
	} else {
		t.Logf("%d rows beside %d sessions, %d beside %d", first, few, last, many)
	}
	if owned, err := other.CountOwned(t.Context(), "s2", "other", "idle"); err != nil || owned["other"] != many/2-1 || owned["idle"] != 0 {
		t.Errorf("the nodes own %v, %v", owned, err)
	}
}

// rowsRead is how many rows of the sessions and of the index were read by connections that
// are gone.
func rowsRead(t *testing.T, url string) (rows int64) {
	t.Helper()
	conn := connect(t, url)
	if err := conn.QueryRow(t.Context(), `
		SELECT (SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE schemaname = 'agentd' AND relname IN ('sessions', 'index_entries'))
		+ (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE schemaname = 'agentd' AND relname IN ('sessions', 'index_entries'))`).Scan(&rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestLookingForWorkReadsByKey: what a node reads to find its own sessions, and those of a
// node that is gone, is about these and not about all that have work. Nothing analyzes the
// tables before.
func TestLookingForWorkReadsByKey(t *testing.T) {
	t.Parallel()
	const gone = 20
	url := pgtest.Quick(t).Database(t)
	other := node(t, url, "other", time.Hour)
	defer shut(t, other)
	conn := connect(t, url)
	execute(t, conn, `ALTER TABLE agentd.sessions SET (autovacuum_enabled = off)`)
	execute(t, conn, `ALTER TABLE agentd.index_entries SET (autovacuum_enabled = off)`)
	made := 0
	readBeside := func(sessions int) (rows int64) {
		execute(t, conn, fmt.Sprintf(`
			INSERT INTO agentd.sessions (session_id, epoch, owner)
				SELECT 's' || i, 1, CASE WHEN i <= %[3]d THEN 'dead' WHEN i <= 2 * %[3]d THEN 'idle' ELSE 'other' END FROM generate_series(%[1]d + 1, %[2]d) i;
			INSERT INTO agentd.index_entries SELECT 'open', convert_to('s' || i, 'UTF8'), '' FROM generate_series(%[1]d + 1, %[2]d) i;
			INSERT INTO agentd.index_entries SELECT 'place', convert_to('s' || i, 'UTF8'), convert_to(E'node:dead\n\n{}', 'UTF8') FROM generate_series(%[1]d + 1, %[2]d) i`, made, sessions, gone))
		made = sessions
		before := rowsRead(t, url)
		s := openStore(t, url+"&application_name=idle", &postgres.Options{NodeID: "idle", LeaseTTL: time.Hour, PollInterval: time.Hour, MaxConns: 1, AllowUnsafe: true})
		which := &store.Adoption{Kind: "open", Places: "place", Reach: []string{"node:idle"}}
		for range 10 {
			if found, err := s.Displaced(t.Context(), which, 64); err != nil || len(found) != gone {
				t.Fatalf("%d sessions are found, %v", len(found), err)
			}
			if ids, err := s.Owned(t.Context(), "open"); err != nil || len(ids) != gone {
				t.Fatalf("the node has %d sessions, %v", len(ids), err)
			}
		}
		closeCounted(t, conn, s)
		return rowsRead(t, url) - before
	}
	if first, last := readBeside(3*gone), readBeside(2000); last > 2*first {
		t.Errorf("a node reads %d rows beside %d sessions with work, and %d beside 2000", first, 3*gone, last)
	} else {
		t.Logf("%d rows beside %d sessions with work, %d beside 2000", first, 3*gone, last)
	}
}

// closeCounted closes a store whose connections are named idle. What a connection counted is
// there to read once it is gone.
func closeCounted(t *testing.T, conn *pgx.Conn, s *postgres.Store) {
	t.Helper()
	shut(t, s)
	for open := 1; open > 0; {
		if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'idle%'`).Scan(&open); err != nil {
			t.Fatal(err)
		}
	}
}
