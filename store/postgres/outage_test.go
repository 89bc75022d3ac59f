package postgres_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"agentd/internal/pgtest"
	"agentd/store"
)

// TestNodesAreWaitedForAfterAnOutage: while the database was away all leases end. The first node
// that reaches it again leaves the sessions of a node that had a lease until then, which is back
// a moment later and knows how what it does ended; but not those of one that was gone before, nor
// for longer than a lease.
func TestNodesAreWaitedForAfterAnOutage(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	b, a := node(t, url, "b", time.Hour), node(t, url, "a", time.Hour)
	defer shut(t, a)
	defer shut(t, b)
	conn := connect(t, url)
	const left = `
		INSERT INTO agentd.nodes VALUES ('dead', 'x', '', clock_timestamp() - interval '1 hour', clock_timestamp() - interval '2 hours', '{}');
		INSERT INTO agentd.sessions (session_id, epoch, owner) VALUES ('of b', 1, 'b'), ('with a file', 1, 'b'), ('of a dead one', 1, 'dead');
		INSERT INTO agentd.index_entries SELECT 'open', convert_to(session_id, 'UTF8'), '' FROM agentd.sessions WHERE owner IS NOT NULL;
		INSERT INTO agentd.index_entries VALUES ('place', convert_to('with a file', 'UTF8'), convert_to(E'node:b\n\n{}', 'UTF8'))`
	which := &store.Adoption{Kind: "open", Places: "place"}
	takes := func(when string, sessions, displaced []string) {
		t.Helper()
		ids, err := a.Adopt(t.Context(), which, 64)
		slices.Sort(ids)
		if err != nil || !slices.Equal(ids, sessions) {
			t.Fatalf("%s: the other node takes %q, want %q: %v", when, ids, sessions, err)
		}
		found, err := a.Displaced(t.Context(), which, 64)
		var away []string
		for _, f := range found {
			away = append(away, f.SessionID)
		}
		if err != nil || !slices.Equal(away, displaced) {
			t.Fatalf("%s: %q are displaced, want %q: %v", when, away, displaced, err)
		}
	}
	owner := func(when, want string) {
		t.Helper()
		_, err := a.Claim(t.Context(), "of b")
		owned, is := errors.AsType[*store.OwnedError](err)
		if is != (want != "") || is && owned.Owner != want || !is && err != nil {
			t.Fatalf("%s: a claim ends with %v, want the owner %q", when, err, want)
		}
	}
	execute(t, conn, left)
	a.LoseDatabase(time.Minute)
	execute(t, conn, `UPDATE agentd.nodes SET lease_until = clock_timestamp() WHERE node_id = 'b'`)
	takes("while the lease isn't renewed yet", []string{"of a dead one"}, nil)
	owner("while the lease isn't renewed yet", "b")
	a.FindDatabase(50 * time.Minute)
	takes("after an outage", nil, nil)
	owner("after an outage", "b")
	a.LoseDatabase(time.Minute)
	a.FindDatabase(10 * time.Minute)
	takes("after an outage that no lease ends in", []string{"of b"}, []string{"with a file"})
	owner("after an outage that no lease ends in", "")
}
