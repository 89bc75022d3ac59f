package postgres_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"agentd/internal/pgtest"
	"agentd/store"
	"agentd/store/postgres"
	"agentd/store/storetest"
)

// fill takes all connections that a server has left, and returns how to give them back.
func fill(t *testing.T, url string) (giveBack func()) {
	t.Helper()
	var taken []*pgx.Conn
	giveBack = func() {
		for _, conn := range taken {
			if err := conn.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		taken = nil
	}
	for {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			return giveBack
		}
		taken = append(taken, conn)
	}
}

// TestNoConnectionLeft: with as many connections as it has, a store does all that it is
// asked for; with none it says so, and goes on when there are some. It never opens more than
// it may.
func TestNoConnectionLeft(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Start(t)
	url := cluster.Database(t)
	admin := connect(t, url)
	execute(t, admin, `ALTER SYSTEM SET max_connections = 20`)
	if err := admin.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	cluster.Restart(t)
	const most = 4
	s := openStore(t, url, &postgres.Options{LeaseTTL: time.Hour, MaxConns: most})
	defer shut(t, s)
	write := func(sessions int) []error {
		errs := make([]error, sessions)
		var writing sync.WaitGroup
		for i := range sessions {
			writing.Go(func() {
				id := fmt.Sprint("sess_", i)
				c, err := s.Claim(t.Context(), id)
				if err == nil {
					err = appendOne(t.Context(), s, &store.Batch{SessionID: id, Epoch: c.Epoch, Records: storetest.Continue(id, c.Head, 1, 100)})
				}
				errs[i] = err
			})
		}
		writing.Wait()
		return errs
	}
	if err := errors.Join(write(1)...); err != nil { // it has one connection at least
		t.Fatal(err)
	}
	giveBack := fill(t, url)
	had := s.PoolFigures()
	if err := errors.Join(write(30)...); err != nil {
		t.Errorf("with the connections that it had: %v", err)
	}
	if f := s.PoolFigures(); f.Used+f.Idle != had.Used+had.Idle {
		t.Errorf("%+v, want the connections that it had: %+v", f, had)
	}
	giveBack()
	if err := errors.Join(write(30)...); err != nil {
		t.Errorf("with connections again: %v", err)
	}
	if f := s.PoolFigures(); f.Used+f.Idle > most {
		t.Errorf("%+v, want %d connections at most", f, most)
	}

	// None at all: another store of the same process has opened none yet.
	giveBack = fill(t, url)
	if _, err := postgres.Open(t.Context(), url, nil); !errors.Is(err, store.ErrFull) {
		t.Errorf("a store opened without a connection: %v", err)
	}
	giveBack()
	other := openStore(t, url, &postgres.Options{LeaseTTL: 500 * time.Millisecond, MaxConns: most})
	defer shut(t, other)
	// A connection that it had, or opened to clear up, may end after all others were taken.
	says := func(what string, call func() error) {
		t.Helper()
		var err error
		var filled []func()
		for range 10 {
			other.ResetPool()
			filled = append(filled, fill(t, url))
			if err = call(); errors.Is(err, store.ErrFull) {
				break
			}
		}
		for _, giveBack := range filled {
			giveBack()
		}
		if !errors.Is(err, store.ErrFull) {
			t.Errorf("%s = %v, want ErrFull", what, err)
		}
	}
	says("Claim", func() error { _, err := other.Claim(t.Context(), "sess_other"); return err })
	says("Append", func() error {
		return appendOne(t.Context(), other, &store.Batch{SessionID: "sess_other", Epoch: 1})
	})
	claim(t, other, "sess_other")
}
