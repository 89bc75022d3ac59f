package postgres_test

import (
	"context"
	"iter"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"agentd/internal/pgtest"
	"agentd/store"
	"agentd/store/postgres"
	"agentd/store/storetest"
)

// replicated returns a database, the same on a standby, and a store that uses both.
func replicated(t *testing.T) (s *postgres.Store, standby *pgtest.Cluster, onStandby string) {
	t.Helper()
	primary := pgtest.Start(t)
	standby = pgtest.Replica(t, primary)
	address := primary.Database(t)
	onStandby = sameDatabase(t, address, standby)
	s = openStore(t, address, &postgres.Options{LeaseTTL: time.Hour, Replica: onStandby})
	t.Cleanup(func() { shut(t, s) })
	useReplica(t, s)
	return s, standby, onStandby
}

// sameDatabase returns the address of a database on another cluster.
func sameDatabase(t *testing.T, address string, on *pgtest.Cluster) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return on.URL(strings.TrimPrefix(u.Path, "/"))
}

// useReplica waits until the replica has everything.
func useReplica(t *testing.T, s *postgres.Store) {
	t.Helper()
	for err := s.UseReplica(t.Context()); err != nil; err = s.UseReplica(t.Context()) {
		t.Log(err)
	}
}

// readAt returns the last sequence of a session that reads see which may go to the replica,
// and whether it answered them.
func readAt(t *testing.T, s *postgres.Store, id string) (last uint64, byReplica bool) {
	t.Helper()
	before := s.ReplicaFigures().Reads
	ctx := s.OnReplica(t.Context())
	head, err := s.Head(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	for rec, err := range s.Read(ctx, id, store.Range{Reverse: true, Limit: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		last = rec.Sequence
	}
	if head.Sequence != last {
		t.Fatalf("the head is %d and the last record %d", head.Sequence, last)
	}
	return last, s.ReplicaFigures().Reads > before
}

// replicaCheck reads a session and holds the answer against what was acknowledged.
type replicaCheck struct {
	t *testing.T
	s *postgres.Store
}

// expect writes to a session, and reads what was written, from the replica or not.
func (c replicaCheck) expect(what string, replica bool) {
	c.t.Helper()
	want := grow(c.t, c.s, "a")
	if replica {
		useReplica(c.t, c.s)
	}
	got, by := readAt(c.t, c.s, "a")
	for replica && !by { // it fell behind, which is nothing wrong
		useReplica(c.t, c.s)
		got, by = readAt(c.t, c.s, "a")
	}
	if got != want {
		c.t.Fatalf("%s: read up to %d, %d was acknowledged", what, got, want)
	}
	if by != replica {
		c.t.Errorf("%s: answered by the replica: %v, want %v", what, by, replica)
	}
}

// exec runs a statement.
func exec(t *testing.T, address, sql string) {
	t.Helper()
	if _, err := connect(t, address).Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// TestReplicaAnswersWhatTheDatabaseWould: what was acknowledged is read, whether the replica
// keeps up, stands still, is away, or became a database of its own.
func TestReplicaAnswersWhatTheDatabaseWould(t *testing.T) {
	t.Parallel()
	s, standby, onStandby := replicated(t)
	c := replicaCheck{t, s}
	c.expect("a replica that keeps up", true)

	exec(t, onStandby, `SELECT pg_wal_replay_pause()`)
	conn := connect(t, onStandby)
	for state := ""; state != "paused"; {
		if err := conn.QueryRow(t.Context(), `SELECT pg_get_wal_replay_pause_state()`).Scan(&state); err != nil {
			t.Fatal(err)
		}
	}
	c.expect("a replica that stands still", false)
	c.expect("a replica that was set aside", false)
	if s.ReplicaFigures().Usable {
		t.Error("a replica that stands still is called usable")
	}
	exec(t, onStandby, `SELECT pg_wal_replay_resume()`)
	c.expect("a replica that goes on", true)

	standby.Kill(t)
	c.expect("a replica that is away", false)
	standby.Run(t)
	c.expect("a replica that is back", true)

	standby.Promote(t)
	c.expect("a replica that became a database of its own", false)
	if err := s.UseReplica(t.Context()); err == nil || !strings.Contains(err.Error(), "no standby of this database") {
		t.Errorf("it is used again: %v", err)
	}
}

// TestReplicaOfAnotherDatabase: a server that isn't a standby of this database is never read,
// and neither it nor one that isn't there keeps a store from opening.
func TestReplicaOfAnotherDatabase(t *testing.T) {
	t.Parallel()
	address := pgtest.Quick(t).Database(t)
	for name, replica := range map[string]string{
		"the database itself": address,
		"another one":         pgtest.Shared(t).Database(t),
		"none":                "postgres://127.0.0.1:1/none?sslmode=disable",
	} {
		s := openStore(t, address, &postgres.Options{LeaseTTL: time.Hour, AllowUnsafe: true, Replica: replica})
		if err := s.UseReplica(t.Context()); err == nil {
			t.Errorf("%s is used", name)
		}
		replicaCheck{t, s}.expect(name, false)
		shut(t, s)
	}
	_, err := postgres.Open(t.Context(), address, &postgres.Options{AllowUnsafe: true, Replica: "mysql://secret@host/database"})
	if err == nil || !strings.Contains(err.Error(), "replica: ") || strings.Contains(err.Error(), "secret") {
		t.Errorf("an address that is none: %v", err)
	}
}

// onReplica is a store all of whose reads may go to the replica.
type onReplica struct{ *postgres.Store }

func (s onReplica) Head(ctx context.Context, id string) (store.Head, error) {
	return s.Store.Head(s.OnReplica(ctx), id)
}

func (s onReplica) Read(ctx context.Context, id string, r store.Range) iter.Seq2[store.Record, error] {
	return s.Store.Read(s.OnReplica(ctx), id, r)
}

func (s onReplica) Base(ctx context.Context, id string) (store.Snapshot, error) {
	return s.Store.Base(s.OnReplica(ctx), id)
}

func (s onReplica) Snapshot(ctx context.Context, id, name string) (store.Snapshot, error) {
	return s.Store.Snapshot(s.OnReplica(ctx), id, name)
}

func (s onReplica) Snapshots(ctx context.Context, id string) iter.Seq2[store.Snapshot, error] {
	return s.Store.Snapshots(s.OnReplica(ctx), id)
}

func (s onReplica) Get(ctx context.Context, kind, key string) ([]byte, error) {
	return s.Store.Get(s.OnReplica(ctx), kind, key)
}

func (s onReplica) Scan(ctx context.Context, scan store.Scan) iter.Seq2[store.Entry, error] {
	return s.Store.Scan(s.OnReplica(ctx), scan)
}

func (s onReplica) Sessions(ctx context.Context, after string) iter.Seq2[string, error] {
	return s.Store.Sessions(s.OnReplica(ctx), after)
}

func (s onReplica) OpenBlob(ctx context.Context, ref string) (store.Blob, error) {
	return s.Store.OpenBlob(s.OnReplica(ctx), ref)
}

// replicaEngine opens stores that read from a replica.
type replicaEngine struct {
	engine
	replica string
}

func (e *replicaEngine) Open() store.Store {
	s := openStore(e.t, e.url, &postgres.Options{LeaseTTL: time.Hour, PollInterval: 50 * time.Millisecond, Replica: e.replica})
	useReplica(e.t, s)
	return onReplica{s}
}

func (e *replicaEngine) Second() (store.Store, bool) { return e.Open(), true }

// TestLongContractOnAReplica: a store whose reads go to a replica can't be told from one without.
func TestLongContractOnAReplica(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("the contract with a replica is checked only with AGENTD_TEST_LONG")
	}
	t.Parallel()
	primary := pgtest.Start(t)
	standby := pgtest.Replica(t, primary)
	storetest.Run(t, func(t *testing.T) storetest.Engine {
		address := primary.Database(t)
		return &replicaEngine{engine{t, address}, sameDatabase(t, address, standby)}
	})
}
