package postgres_test

import (
	"errors"
	"testing"
	"time"

	"agentd/internal/pgtest"
	"agentd/store"
	"agentd/store/postgres"
	"agentd/store/storetest"
)

// extend appends records to a session and returns its head.
func extend(t *testing.T, s store.Store, sessionID string, n int) store.Head {
	t.Helper()
	c := claim(t, s, sessionID)
	records := storetest.Continue(sessionID, c.Head, n, 100)
	if err := appendOne(t.Context(), s, &store.Batch{SessionID: sessionID, Epoch: c.Epoch, Records: records}); err != nil {
		t.Fatal(err)
	}
	return storetest.HeadOf(records)
}

// TestRestoredToAMoment restores a database to an earlier moment under nodes that run. Each
// of them notices, whether it was there at that moment or not, and does nothing any more;
// nodes that open it find it as it was.
func TestRestoredToAMoment(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Start(t)
	cluster.KeepLog(t)
	url := cluster.Database(t)
	const ttl = 3 * time.Second
	older := node(t, url, "named", ttl)
	there := node(t, url, "there", ttl)
	extend(t, there, "s", 3)
	cluster.BackUp(t)
	want := extend(t, there, "s", 2)
	moment := cluster.Moment(t)
	if err := there.Announce(t.Context()); err != nil {
		t.Fatal(err)
	}
	extend(t, there, "s", 5)
	later, named := node(t, url, "later", ttl), node(t, url, "named", ttl)
	shut(t, older)
	ends := make(chan error, 1)
	go func() {
		for _, err := range later.Follow(t.Context()) {
			if err != nil {
				ends <- err
			}
		}
	}()
	cluster.RestoreTo(t, moment)
	for name, s := range map[string]*postgres.Store{"there": there, "later": later, "named": named} {
		<-s.Failed()
		if _, err := s.Claim(t.Context(), "s"); !errors.Is(err, store.ErrRestored) || !errors.Is(s.Err(), store.ErrRestored) {
			t.Errorf("%s: %v, %v", name, err, s.Err())
		}
		if _, held := s.Term(); held {
			t.Errorf("%s still has its lease", name)
		}
		t.Cleanup(func() { shut(t, s) })
	}
	if err := <-ends; !errors.Is(err, store.ErrRestored) {
		t.Errorf("Follow ends with %v", err)
	}
	s := node(t, url, "there", ttl)
	defer shut(t, s)
	if c := claim(t, s, "s"); c.Head != want {
		t.Errorf("the session is at %d, want %d", c.Head.Sequence, want.Sequence)
	}
	extend(t, s, "s", 1)
}
