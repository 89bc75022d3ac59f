package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentd/internal/pgtest"
	"agentd/store"
	"agentd/store/postgres"
	"agentd/store/storetest"
)

// node opens a store as a named node.
func node(t *testing.T, url, id string, ttl time.Duration) *postgres.Store {
	t.Helper()
	return openStore(t, url, &postgres.Options{NodeID: id, Address: id + ":8700", LeaseTTL: ttl, PollInterval: 50 * time.Millisecond, AllowUnsafe: true})
}

// TestRaceForSessions: of two nodes that claim a session at once one gets it, and
// the other learns who.
func TestRaceForSessions(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	nodes := []*postgres.Store{node(t, url, "a", time.Hour), node(t, url, "b", time.Hour)}
	defer shut(t, nodes[0])
	defer shut(t, nodes[1])
	for i := range 30 {
		id := fmt.Sprintf("s%d", i)
		claims, errs := make([]store.Claim, 2), make([]error, 2)
		var racing sync.WaitGroup
		for n, s := range nodes {
			racing.Go(func() { claims[n], errs[n] = s.Claim(t.Context(), id) })
		}
		racing.Wait()
		winner := 0
		if errs[0] != nil {
			winner = 1
		}
		name := string("ab"[winner])
		var owned *store.OwnedError
		if errs[winner] != nil || !errors.As(errs[1-winner], &owned) {
			t.Fatalf("%s: the claims end with %v, want one owner", id, errs)
		}
		if owned.Owner != name || owned.Address != name+":8700" || !owned.Until.After(time.Now()) {
			t.Errorf("%s: the loser is told %+v, the winner is %s", id, owned, name)
		}
		if err := nodes[winner].Release(t.Context(), id, claims[winner].Epoch); err != nil {
			t.Fatal(err)
		}
		if c := claim(t, nodes[1-winner], id); c.Epoch <= claims[winner].Epoch {
			t.Errorf("%s: epoch %d follows %d", id, c.Epoch, claims[winner].Epoch)
		}
	}
}

// TestFormerOwnerIsFenced: a node that was away longer than its lease, and has
// not noticed, can't write to a session that another node took.
func TestFormerOwnerIsFenced(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	a, b := node(t, url, "a", time.Hour), node(t, url, "b", time.Hour)
	defer shut(t, a)
	defer shut(t, b)
	all := storetest.Records("s", 1, 3, 100)
	old := claim(t, a, "s")
	if err := appendOne(t.Context(), a, &store.Batch{SessionID: "s", Epoch: old.Epoch, Records: all[:1]}); err != nil {
		t.Fatal(err)
	}
	// By its own clock a has most of an hour left.
	execute(t, connect(t, url), `UPDATE agentd.nodes SET lease_until = clock_timestamp() WHERE node_id = 'a'`)
	c := claim(t, b, "s")
	if c.Epoch <= old.Epoch || c.Head.Sequence != 1 {
		t.Errorf("the new owner's claim is %+v", c)
	}
	late := &store.Batch{SessionID: "s", Epoch: old.Epoch, Records: all[1:2], Index: []store.IndexOp{{Entry: store.Entry{Kind: "k", Key: "late"}}}}
	if err := appendOne(t.Context(), a, late); !errors.Is(err, store.ErrFenced) {
		t.Errorf("the former owner's append: %v, want ErrFenced", err)
	}
	if _, err := b.Get(t.Context(), "k", "late"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a part of the fenced batch was written: %v", err)
	}
	if err := a.Release(t.Context(), "s", old.Epoch); err != nil {
		t.Error(err)
	}
	if err := appendOne(t.Context(), b, &store.Batch{SessionID: "s", Epoch: c.Epoch, Records: all[1:]}); err != nil {
		t.Errorf("the owner's append: %v", err)
	}
	var owned *store.OwnedError
	if _, err := a.Claim(t.Context(), "s"); !errors.As(err, &owned) || owned.Owner != "b" {
		t.Errorf("the former owner's claim: %v, want it owned by b", err)
	}
}

// TestDeadNodeLosesItsSessions: a node that can't reach the database keeps its
// sessions until its lease is over by the database's clock, and not longer.
func TestDeadNodeLosesItsSessions(t *testing.T) {
	t.Parallel()
	direct := pgtest.Quick(t).Database(t)
	p, url := newProxy(t, direct)
	a, b := node(t, url, "a", 600*time.Millisecond), node(t, direct, "b", time.Hour)
	defer shut(t, b)
	defer shut(t, a)
	old := claim(t, a, "s")
	conn := connect(t, direct)
	beats(t, direct)
	p.Cut()
	var until time.Time
	if err := conn.QueryRow(t.Context(), `SELECT lease_until FROM agentd.nodes WHERE node_id = 'a'`).Scan(&until); err != nil {
		t.Fatal(err)
	}
	var owned *store.OwnedError
	for {
		_, err := b.Claim(t.Context(), "s")
		if err == nil {
			break
		}
		if !errors.As(err, &owned) || owned.Owner != "a" {
			t.Fatalf("claim: %v", err)
		}
	}
	var over bool
	if err := conn.QueryRow(t.Context(), `SELECT clock_timestamp() >= $1`, until).Scan(&over); err != nil || !over {
		t.Errorf("the session was taken before the lease ended: %v, %v", over, err)
	}
	p.Mend()
	err := errors.New("not tried")
	for err != nil && !errors.Is(err, store.ErrFenced) {
		err = appendOne(t.Context(), a, &store.Batch{SessionID: "s", Epoch: old.Epoch, Records: storetest.Records("s", 1, 1, 100)})
	}
	if err == nil {
		t.Error("the node that was away could append")
	}
}

// beats waits until node a has renewed its lease.
func beats(t *testing.T, url string) {
	t.Helper()
	conn := connect(t, url)
	var first, now time.Time
	const sql = `SELECT heartbeat FROM agentd.nodes WHERE node_id = 'a'`
	if err := conn.QueryRow(t.Context(), sql).Scan(&first); err != nil {
		t.Fatal(err)
	}
	for !now.After(first) {
		if err := conn.QueryRow(t.Context(), sql).Scan(&now); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSameNameAgain: a node that is started again under its name has its
// sessions at once, and the process before can neither write nor end the lease.
func TestSameNameAgain(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	before := node(t, url, "a", time.Hour)
	old := claim(t, before, "s")
	now, other := node(t, url, "a", time.Hour), node(t, url, "b", time.Hour)
	defer shut(t, now)
	defer shut(t, other)
	claim(t, now, "s")
	err := appendOne(t.Context(), before, &store.Batch{SessionID: "s", Epoch: old.Epoch, Records: storetest.Records("s", 1, 1, 100)})
	if !errors.Is(err, store.ErrFenced) {
		t.Errorf("append by the process before: %v, want ErrFenced", err)
	}
	shut(t, before)
	var owned *store.OwnedError
	if _, err := other.Claim(t.Context(), "s"); !errors.As(err, &owned) {
		t.Errorf("claim by another node: %v, want the lease to hold", err)
	}
}

// TestAnnouncedStateStays: what a node says of itself is seen elsewhere once Announce has
// returned, and no heartbeat that was under way takes it back.
func TestAnnouncedStateStays(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	a, b := node(t, url, "a", 30*time.Millisecond), node(t, url, "b", time.Hour)
	defer shut(t, b)
	var state atomic.Value
	state.Store("")
	a.Describe(func() store.About { return store.About{State: state.Load().(string)} })
	for i := range 50 {
		want := []string{"draining", "drained", ""}[i%3]
		state.Store(want)
		for {
			err := a.Announce(t.Context())
			if err == nil {
				break
			}
			t.Logf("not told yet, as a third of so short a lease passes on a busy machine: %v", err)
		}
		for range 5 {
			if got := aboutOf(t, b, "a").State; got != want {
				t.Fatalf("round %d: the other node is told %q, want %q", i, got, want)
			}
		}
	}
	shut(t, a)
	if err := a.Announce(t.Context()); !errors.Is(err, store.ErrClosed) {
		t.Errorf("after the end: %v, want ErrClosed", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Announce(over); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that is gone: %v", err)
	}
}

// aboutOf returns what a node is told of another.
func aboutOf(t *testing.T, s *postgres.Store, id string) store.About {
	t.Helper()
	nodes, err := s.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if n.ID == id {
			return n.About
		}
	}
	t.Fatalf("node %s is not among %+v", id, nodes)
	return store.About{}
}
