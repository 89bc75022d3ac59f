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

// TestNodesThatStartWaitAfterAnOutage: to a node that starts after the database was away, all
// nodes look gone. It leaves their sessions alone, and so do the next ones that start, but not
// those of a node that was silent while another one wasn't.
func TestNodesThatStartWaitAfterAnOutage(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	shut(t, node(t, url, "schema", time.Hour))
	conn := connect(t, url)
	// The leases of "up" and "back" ended with the outage, that of "dead" before.
	execute(t, conn, `
		INSERT INTO agentd.nodes SELECT id, 'x', '', clock_timestamp() - until, clock_timestamp() - seen, '{}', 0 FROM (VALUES
			('up', interval '1 minute', interval '3 minutes'), ('back', '2 minutes', '4 minutes'), ('dead', '2 hours', '3 hours')) v (id, until, seen);
		INSERT INTO agentd.sessions (session_id, epoch, owner) VALUES ('of up', 1, 'up'), ('of back', 1, 'back'), ('of dead', 1, 'dead'), ('idle', 1, 'up');
		INSERT INTO agentd.index_entries SELECT 'open', convert_to(session_id, 'UTF8'), '' FROM agentd.sessions WHERE session_id LIKE 'of %'`)
	which := &store.Adoption{Kind: "open", Places: "place"}
	takes := func(when, id string, want ...string) {
		t.Helper()
		n := node(t, url, id, time.Hour)
		t.Cleanup(func() { shut(t, n) })
		ids, err := n.Adopt(t.Context(), which, 64)
		if err != nil || !slices.Equal(ids, want) {
			t.Errorf("%s: node %s takes %q, want %q: %v", when, id, ids, want, err)
		}
		_, err = n.Claim(t.Context(), "idle")
		if owned, is := errors.AsType[*store.OwnedError](err); !is || owned.Owner != "up" {
			t.Errorf("%s: a claim at node %s ends with %v, want the owner up", when, id, err)
		}
	}
	takes("the first after the outage", "first", "of dead")
	takes("the second", "second")
	takes("a node that had a lease then", "back")
	takes("a node that starts then", "third")
	// Each is waited for once.
	execute(t, conn, `UPDATE agentd.nodes SET lease_until = clock_timestamp() WHERE node_id = 'up'`)
	execute(t, conn, `UPDATE agentd.nodes SET heartbeat = clock_timestamp() WHERE node_id = 'third'`)
	n := node(t, url, "fourth", time.Hour)
	defer shut(t, n)
	ids, err := n.Adopt(t.Context(), which, 64)
	if err != nil || !slices.Equal(ids, []string{"of up"}) {
		t.Errorf("after that a node takes %q: %v", ids, err)
	}
}

// TestCommandsWaitOnceAfterAnOutage: programs that open the database for themselves, one after
// the other, leave nothing by which the next could see that the others were waited for, but the
// rows of those.
func TestCommandsWaitOnceAfterAnOutage(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	shut(t, node(t, url, "schema", time.Hour))
	conn := connect(t, url)
	execute(t, conn, `
		INSERT INTO agentd.nodes VALUES ('gone', 'x', '', clock_timestamp() - interval '1 minute', clock_timestamp() - interval '2 minutes', '{}');
		INSERT INTO agentd.sessions (session_id, epoch, owner) VALUES ('left', 1, 'gone')`)
	claim := func() error {
		n := node(t, url, "command", time.Hour)
		defer shut(t, n)
		_, err := n.Claim(t.Context(), "left")
		return err
	}
	if owned, is := errors.AsType[*store.OwnedError](claim()); !is || time.Until(owned.Until) < 0 {
		t.Errorf("the first command finds %v, want an owner with a lease", owned)
	}
	execute(t, conn, `UPDATE agentd.nodes SET lease_until = clock_timestamp() WHERE node_id = 'gone'`)
	if err := claim(); err != nil {
		t.Errorf("a command after that: %v", err)
	}
}

// TestNodesThatAreSilentLaterAreNotWaitedFor: a lease that ends while a node is there is over,
// also for one that started a moment before.
func TestNodesThatAreSilentLaterAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	gone, heir := node(t, url, "gone", time.Hour), node(t, url, "heir", time.Hour)
	defer shut(t, gone)
	defer shut(t, heir)
	claim(t, gone, "left")
	execute(t, connect(t, url), `UPDATE agentd.nodes SET lease_until = clock_timestamp() WHERE node_id = 'gone'`)
	claim(t, heir, "left")
}

// TestNodesThatStartBesideOthersWait: a node whose lease hasn't ended yet may have been cut off as
// those whose lease has, and will say so with its next renewal. Until then a node that starts
// leaves it alone, and its lease as it is: the other one knows better.
func TestNodesThatStartBesideOthersWait(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	gone, here := node(t, url, "gone", time.Hour), node(t, url, "here", time.Hour)
	defer shut(t, gone)
	defer shut(t, here)
	claim(t, gone, "left")
	execute(t, connect(t, url), `UPDATE agentd.nodes SET lease_until = clock_timestamp() WHERE node_id = 'gone'`)
	n := node(t, url, "starts", time.Hour)
	defer shut(t, n)
	_, err := n.Claim(t.Context(), "left")
	if owned, is := errors.AsType[*store.OwnedError](err); !is || owned.Owner != "gone" {
		t.Errorf("a claim at the node that starts ends with %v, want the owner gone", err)
	}
	claim(t, here, "left")
}
