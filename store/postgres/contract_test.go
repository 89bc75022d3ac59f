package postgres_test

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"agentd/internal/pgtest"
	"agentd/store"
	"agentd/store/postgres"
	"agentd/store/storetest"
)

// engine opens stores on one database.
type engine struct {
	t   *testing.T
	url string
}

func (e *engine) Open() store.Store { return openStore(e.t, e.url, nil) }

func (e *engine) Second() (store.Store, bool) { return openStore(e.t, e.url, nil), true }

// openStore opens a store with options for tests on a quick cluster, if none are
// given. Its lease ends with the store and not with the time.
func openStore(tb testing.TB, url string, opts *postgres.Options) *postgres.Store {
	tb.Helper()
	if opts == nil {
		opts = &postgres.Options{LeaseTTL: time.Hour, PollInterval: 50 * time.Millisecond, AllowUnsafe: true}
	}
	s, err := postgres.Open(context.WithoutCancel(tb.Context()), url, opts)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func TestContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Engine { return newEngine(t) })
}

func newEngine(t *testing.T) *engine { return &engine{t: t, url: migrated(t)} }

// migrated makes a database that has the tables and is empty otherwise. To copy one is less
// than to bring each up to date.
func migrated(t *testing.T) string {
	t.Helper()
	cluster := pgtest.Quick(t)
	template.Do(func() {
		const name = "migrated"
		conn := connect(t, cluster.URL("postgres"))
		if _, err := conn.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
			t.Fatal(err)
		}
		conn = connect(t, cluster.URL(name))
		if err := postgres.MigrateTo(t.Context(), conn, postgres.Version()); err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		template.name = name
	})
	if template.name == "" {
		t.Fatal("the database with the tables was not made, see the first test that failed")
	}
	return cluster.CopyOf(t, template.name)
}

var template struct {
	sync.Once
	name string
}

// unpacked is an engine that writes a row for each record, as earlier versions do.
type unpacked struct{ engine }

func (e *unpacked) Open() store.Store {
	s := openStore(e.t, e.url, nil)
	packNothing(s)
	return s
}

func (e *unpacked) Second() (store.Store, bool) { return e.Open(), true }

func packNothing(s *postgres.Store) { s.SetPacking(func() bool { return false }) }

func TestContractWithoutPacks(t *testing.T) {
	t.Parallel()
	storetest.RunOfRecords(t, unpackedEngine)
}

func unpackedEngine(t *testing.T) storetest.Engine { return &unpacked{*newEngine(t)} }

// TestLongContractOfEachForm runs the whole suite with each form in which records are kept.
func TestLongContractOfEachForm(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("the whole contract with records in rows of their own, and over months, is checked only with AGENTD_TEST_LONG")
	}
	t.Parallel()
	t.Run("without packs", func(t *testing.T) { storetest.Run(t, unpackedEngine) })
	t.Run("over months", func(t *testing.T) { storetest.Run(t, scatteredEngine) })
}
