//go:build unix

package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Standby returns a second cluster that follows primary: every commit that primary
// acknowledges from now on is on its disk. It becomes a cluster like others with
// [Cluster.Promote], and ends with the test.
func Standby(tb testing.TB, primary *Cluster) *Cluster {
	tb.Helper()
	c := &Cluster{bin: primary.bin, password: primary.password}
	tb.Cleanup(func() {
		if err := c.close(); err != nil {
			tb.Errorf("pgtest: %v", err)
		}
	})
	if err := c.copyFrom(primary); err != nil {
		tb.Fatalf("pgtest: make a standby: %v", err)
	}
	if err := c.begin(); err != nil {
		tb.Fatalf("pgtest: start the standby: %v", err)
	}
	if err := primary.awaitStandby(); err != nil {
		tb.Fatalf("pgtest: the standby doesn't follow: %v\n%s", err, c.Log())
	}
	return c
}

// Replica is like Standby, but commits don't wait for it.
func Replica(tb testing.TB, primary *Cluster) *Cluster {
	tb.Helper()
	c := Standby(tb, primary)
	for _, sql := range []string{"ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()"} {
		if err := primary.exec(sql); err != nil {
			tb.Fatalf("pgtest: wait for no standby: %v", err)
		}
	}
	return c
}

// copyFrom makes the folder and fills it with a copy of what a running cluster has.
func (c *Cluster) copyFrom(primary *Cluster) error {
	if err := c.makeFolder(); err != nil {
		return err
	}
	secret := filepath.Join(c.dir, "pgpass")
	if err := errors.Join(os.WriteFile(secret, []byte("*:*:*:*:"+primary.password+"\n"), 0o600), c.handOver(secret)); err != nil {
		return err
	}
	at := fmt.Sprintf("host=127.0.0.1 port=%d user=%s passfile=%s sslmode=disable application_name=standby", primary.port, superuser, secret)
	cmd := c.command(filepath.Join(c.bin, "pg_basebackup"), "--pgdata", c.data(), "--dbname", at,
		"--write-recovery-conf", "--checkpoint", "fast", "--wal-method", "stream", "--no-sync")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup: %w\n%s", err, out)
	}
	// Where it listens is its own, and it waits for no standby until it has one.
	f, err := os.OpenFile(filepath.Join(c.data(), "postgresql.auto.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "port = '%d'\nunix_socket_directories = '%s'\nsynchronous_standby_names = ''\n", c.port, c.dir)
	return errors.Join(err, f.Close())
}

// awaitStandby returns once commits wait for a standby that has caught up.
func (c *Cluster) awaitStandby() error {
	for _, sql := range []string{"ALTER SYSTEM SET synchronous_standby_names = 'standby'", "SELECT pg_reload_conf()"} {
		if err := c.exec(sql); err != nil {
			return err
		}
	}
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, c.URL("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	for {
		var n int
		if err := conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'`).Scan(&n); err != nil || n > 0 {
			return err
		}
		time.Sleep(25 * time.Millisecond) // it says nowhere that it is ready
	}
}

// Promote makes a standby take writes. Its primary is stopped before.
func (c *Cluster) Promote(tb testing.TB) {
	tb.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if out, err := c.control("promote", "--wait", "--timeout", patience).CombinedOutput(); err != nil {
		tb.Fatalf("pgtest: promote the standby: %v\n%s\n%s", err, out, c.Log())
	}
}
