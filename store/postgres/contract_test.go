package postgres_test

import (
	"context"
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
	cluster := pgtest.Quick(t)
	storetest.Run(t, func(t *testing.T) storetest.Engine {
		return &engine{t: t, url: cluster.Database(t)}
	})
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
	cluster := pgtest.Quick(t)
	storetest.Run(t, func(t *testing.T) storetest.Engine {
		return &unpacked{engine{t: t, url: cluster.Database(t)}}
	})
}
