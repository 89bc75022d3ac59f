package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"agentd/internal/pgtest"
	"agentd/store/postgres"
	"agentd/store/storetest"
)

// TestPoolerIsNoticed: a store says so, and only then.
func TestPoolerIsNoticed(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Quick(t)
	direct := cluster.Database(t)
	for address, pooled := range map[string]bool{direct: false, cluster.Pooled(t, direct): true} {
		var log bytes.Buffer
		s := openStore(t, address, &postgres.Options{AllowUnsafe: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		shut(t, s)
		if got := strings.Contains(log.String(), "pooler"); got != pooled {
			t.Errorf("noticed %v, want %v: %s", got, pooled, log.String())
		}
	}
}

// TestFollowThroughAPooler: hints come without notifications, also from a node that is
// connected directly, and the other way round.
func TestFollowThroughAPooler(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Quick(t)
	direct := cluster.Database(t)
	opts := func(id string) *postgres.Options {
		return &postgres.Options{NodeID: id, LeaseTTL: time.Hour, AllowUnsafe: true}
	}
	a, b := openStore(t, cluster.Pooled(t, direct), opts("pooled")), openStore(t, direct, opts("direct"))
	t.Cleanup(func() {
		shut(t, a)
		shut(t, b)
	})
	atA, atB := follow(t, a), follow(t, b)
	for range 5 {
		atB.until("a", grow(t, a, "a"))
		atA.until("b", grow(t, b, "b"))
	}
}

// TestPoolerIsNotAskedToCancel: a call that is given up asks the database to cancel its
// statement, but never a pooler, which could end over it.
func TestPoolerIsNotAskedToCancel(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Quick(t)
	direct := cluster.Database(t)
	for address, asked := range map[string]bool{direct: true, cluster.Pooled(t, direct): false} {
		p, through := newProxy(t, address)
		s := openStore(t, through, &postgres.Options{AllowUnsafe: true, MaxConns: 2, LeaseTTL: time.Hour})
		for range 3 {
			held := p.Mute()
			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error, 1)
			go func() {
				_, err := s.Nodes(ctx)
				failed <- err
			}()
			<-held
			cancel()
			if err := <-failed; !errors.Is(err, context.Canceled) {
				t.Errorf("a call that is given up: %v", err)
			}
			p.Mend()
			if _, err := s.Nodes(t.Context()); err != nil {
				t.Errorf("the call after it: %v", err)
			}
		}
		shut(t, s) // waits until the connections that were given up are closed
		if got := p.cancels.Load(); got > 0 != asked {
			t.Errorf("%s: %d requests to cancel, want some: %v", address, got, asked)
		}
	}
}

// TestReplicaBehindAPooler: a standby behind a pooler answers what the database would, and the
// pooler is not asked to cancel, though the database itself is reached directly.
func TestReplicaBehindAPooler(t *testing.T) {
	t.Parallel()
	primary := pgtest.Start(t)
	standby := pgtest.Replica(t, primary)
	address := primary.Database(t)
	onStandby := sameDatabase(t, address, standby)
	for { // the pooler would remember for a while that it wasn't there
		conn, err := pgx.Connect(t.Context(), onStandby)
		if err == nil {
			_ = conn.Close(t.Context())
			break
		}
	}
	p, through := newProxy(t, standby.Pooled(t, onStandby))
	s := openStore(t, address, &postgres.Options{LeaseTTL: time.Hour, Replica: through})
	useReplica(t, s)
	for range 10 {
		replicaCheck{t, s}.expect("a replica behind a pooler", true)
	}
	for range 3 {
		useReplica(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		on := s.OnReplica(ctx)
		held, failed := p.Mute(), make(chan error, 1)
		go func() {
			_, err := s.Head(on, "a")
			failed <- err
		}()
		<-held
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("a read that is given up: %v", err)
		}
		p.Mend()
		replicaCheck{t, s}.expect("the read after it", true)
	}
	shut(t, s)
	if got := p.cancels.Load(); got > 0 {
		t.Errorf("%d requests to cancel reached the pooler", got)
	}
}

// TestLongContractBehindAPooler: nothing rests on a session of the database.
func TestLongContractBehindAPooler(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("the contract behind a pooler is checked only with AGENTD_TEST_LONG")
	}
	t.Parallel()
	cluster := pgtest.Quick(t)
	pooler, err := url.Parse(cluster.Pooled(t, cluster.URL("postgres")))
	if err != nil {
		t.Fatal(err)
	}
	storetest.Run(t, func(t *testing.T) storetest.Engine {
		direct, err := url.Parse(cluster.Database(t))
		if err != nil {
			t.Fatal(err)
		}
		direct.Host = pooler.Host
		return &engine{t: t, url: direct.String()}
	})
}
