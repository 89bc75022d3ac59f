package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"agentd/internal/pgtest"
	"agentd/store"
	"agentd/store/postgres"
	"agentd/store/storetest"
)

// following is a Follow that a test pulls hints from.
type following struct {
	t    *testing.T
	next func() (store.Appended, error, bool)
	seen map[string]uint64 // how far the hints came, by session
}

func follow(t *testing.T, s store.Store) *following {
	t.Helper()
	next, stop := iter.Pull2(s.Follow(t.Context()))
	t.Cleanup(stop)
	return &following{t, next, map[string]uint64{}}
}

// until pulls hints until one has covered the session's sequence. Hints of several
// sessions come in any order. If none comes the test hangs, and the run's time limit
// says where.
func (f *following) until(session string, sequence uint64) {
	f.t.Helper()
	for f.seen[session] < sequence {
		h, err, ok := f.next()
		if err != nil || !ok {
			f.t.Fatalf("Follow ended: %v", err)
		}
		f.seen[h.SessionID] = max(f.seen[h.SessionID], h.Sequence)
	}
}

// pair opens a node that follows and one that writes.
func pair(t *testing.T, poll time.Duration) (reader, writer *postgres.Store, url string) {
	t.Helper()
	url = pgtest.Quick(t).Database(t)
	opts := func(id string) *postgres.Options {
		return &postgres.Options{NodeID: id, LeaseTTL: time.Hour, PollInterval: poll, AllowUnsafe: true}
	}
	reader, writer = openStore(t, url, opts("reader")), openStore(t, url, opts("writer"))
	t.Cleanup(func() {
		shut(t, writer)
		shut(t, reader)
	})
	return reader, writer, url
}

// grow appends a record to a session and returns its sequence.
func grow(t *testing.T, s store.Store, id string) uint64 {
	t.Helper()
	c := claim(t, s, id)
	records := storetest.Continue(id, c.Head, 1, 100)
	if err := appendOne(t.Context(), s, &store.Batch{SessionID: id, Epoch: c.Epoch, Records: records}); err != nil {
		t.Fatal(err)
	}
	return records[0].Sequence
}

// TestFollowIsWoken: with a poll interval of hours, hints come by NOTIFY.
func TestFollowIsWoken(t *testing.T) {
	t.Parallel()
	reader, writer, url := pair(t, time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	hints := make(chan store.Appended)
	var following sync.WaitGroup
	following.Go(func() {
		for h, err := range reader.Follow(ctx) {
			if err != nil {
				t.Error(err)
			}
			hints <- h
		}
	})
	listening(t, url)
	for range 5 {
		at := grow(t, writer, "s")
		for h := range hints {
			if h.SessionID == "s" && h.Sequence >= at {
				break
			}
		}
	}
	cancel()
	following.Wait()
}

// listening waits until a follower listens.
func listening(t *testing.T, url string) {
	t.Helper()
	conn := connect(t, url)
	for n := 0; n == 0; {
		err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'agentd follow' AND state = 'idle' AND query LIKE '%appends%'`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestFollowSurvivesItsConnection: appends made while the follower has no
// connection are covered when it has one again.
func TestFollowSurvivesItsConnection(t *testing.T) {
	t.Parallel()
	reader, writer, url := pair(t, 20*time.Millisecond)
	f := follow(t, reader)
	f.until("s", grow(t, writer, "s"))
	conn := connect(t, url)
	for range 3 {
		cutFollower(t, conn)
		other, at := grow(t, writer, "t"), grow(t, writer, "s")
		f.until("s", at)
		f.until("t", other)
	}
}

// cutFollower ends the follower's connection and waits until the server has let go
// of it, so that nobody takes it for the next one.
func cutFollower(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	var pid int
	for pid == 0 { // it may be about to connect again
		err := conn.QueryRow(t.Context(), `SELECT coalesce(max(pid), 0) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'agentd follow'`).Scan(&pid)
		if err != nil {
			t.Fatalf("the follower's connection: %v", err)
		}
	}
	execute(t, conn, fmt.Sprintf(`SELECT pg_terminate_backend(%d)`, pid))
	for there := true; there; {
		if err := conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)`, pid).Scan(&there); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFollowSurvivesTheServer: so are those around a crash.
func TestFollowSurvivesTheServer(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Start(t)
	url := cluster.Database(t)
	reader := openStore(t, url, &postgres.Options{PollInterval: 20 * time.Millisecond})
	defer shut(t, reader)
	writer := openStore(t, url, &postgres.Options{})
	defer shut(t, writer)
	next, stop := iter.Pull2(reader.Follow(t.Context()))
	defer stop()
	f := &following{t, next, map[string]uint64{}}
	f.until("s", grow(t, writer, "s"))
	at := grow(t, writer, "s") // nobody has looked yet when the server dies
	cluster.Kill(t)
	cluster.Run(t)
	f.until("s", at)
	f.until("t", grow(t, writer, "t"))
}

// TestFollowLateCommit: a transaction that got its id before another, and
// commits after the follower has seen the other, is not passed over.
func TestFollowLateCommit(t *testing.T) {
	t.Parallel()
	reader, writer, url := pair(t, 10*time.Millisecond)
	f := follow(t, reader)
	f.until("s", grow(t, writer, "s"))
	tx, err := connect(t, url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = tx.Exec(t.Context(), `INSERT INTO agentd.appends VALUES (pg_current_xact_id()::text::bigint, 'slow', '{late}', '{7}')`)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		f.until("s", grow(t, writer, "s"))
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.until("late", 7)
}

// TestChangesLateCommit: neither do the changes pass over a transaction that got its id
// early and commits late, whatever was read before, and from whichever position it goes on.
func TestChangesLateCommit(t *testing.T) {
	t.Parallel()
	reader, writer, url := pair(t, time.Hour)
	at, err := reader.Position(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tx, err := connect(t, url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = tx.Exec(t.Context(), `INSERT INTO agentd.appends VALUES (pg_current_xact_id()::text::bigint, 'slow', '{late,later}', '{7,9}', '{3,8}')`)
	if err != nil {
		t.Fatal(err)
	}
	positions := []string{at}
	want := []string{"s 1-1", "s 2-2"}
	for range want {
		grow(t, writer, "s")
	}
	read := func(after string) (list []string) {
		t.Helper()
		for c, err := range reader.Changes(t.Context(), after) {
			if err != nil {
				t.Fatalf("after %q: %v", after, err)
			}
			list = append(list, fmt.Sprintf("%s %d-%d", c.SessionID, c.First, c.Last))
			positions = append(positions, c.Position)
		}
		return list
	}
	if got := read(at); !slices.Equal(got, want) {
		t.Errorf("before the commit: %v, want %v", got, want)
	}
	seen := positions
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	grow(t, writer, "s")
	for i, position := range seen {
		got := read(position)
		slices.Sort(got)
		rest := append([]string{"late 4-7", "later 9-9"}, append(want, "s 3-3")[i:]...)
		if !slices.Equal(got, rest) {
			t.Errorf("after change %d: %v, want %v", i, got, rest)
		}
	}
}

// TestFollowLeavesOutItsOwn: a node is not told of what it wrote itself.
func TestFollowLeavesOutItsOwn(t *testing.T) {
	t.Parallel()
	reader, writer, _ := pair(t, 10*time.Millisecond)
	f := follow(t, reader)
	grow(t, reader, "own")
	grow(t, writer, "s")
	for {
		h, err, ok := f.next()
		if err != nil || !ok {
			t.Fatal(err)
		}
		if h.SessionID == "own" {
			t.Error("the node was told of its own append")
		}
		if h.SessionID == "s" {
			return
		}
	}
}

// TestCloseEndsFollow also while nothing happens.
func TestCloseEndsFollow(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	s := openStore(t, url, &postgres.Options{PollInterval: time.Hour, AllowUnsafe: true})
	ended := make(chan error, 1)
	go func() {
		for _, err := range s.Follow(t.Context()) {
			ended <- err
		}
		close(ended)
	}()
	listening(t, url)
	shut(t, s)
	if err := <-ended; !errors.Is(err, store.ErrClosed) {
		t.Errorf("Follow ended with %v, want ErrClosed", err)
	}
}
