//go:build unix

package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// KeepLog has the cluster archive its log from now on, so that it can be restored to any
// moment after the next [Cluster.BackUp]. It restarts the server.
func (c *Cluster) KeepLog(tb testing.TB) {
	tb.Helper()
	if out, err := c.command("mkdir", c.archive()).CombinedOutput(); err != nil {
		tb.Fatalf("pgtest: make the archive: %v\n%s", err, out)
	}
	for _, sql := range []string{
		"ALTER SYSTEM SET archive_mode = 'on'",
		fmt.Sprintf("ALTER SYSTEM SET archive_command = 'test ! -f %[1]s/%%f && cp %%p %[1]s/%%f'", c.archive()),
	} {
		if err := c.exec(sql); err != nil {
			tb.Fatalf("pgtest: %v", err)
		}
	}
	c.Restart(tb)
}

func (c *Cluster) archive() string { return filepath.Join(c.dir, "archive") }

// BackUp makes a base backup of the running cluster.
func (c *Cluster) BackUp(tb testing.TB) {
	tb.Helper()
	secret := filepath.Join(c.dir, "pgpass")
	if err := errors.Join(os.WriteFile(secret, []byte("*:*:*:*:"+c.password+"\n"), 0o600), c.handOver(secret)); err != nil {
		tb.Fatalf("pgtest: %v", err)
	}
	at := fmt.Sprintf("host=127.0.0.1 port=%d user=%s passfile=%s sslmode=disable", c.port, superuser, secret)
	cmd := c.command(filepath.Join(c.bin, "pg_basebackup"), "--pgdata", filepath.Join(c.dir, "backup"), "--dbname", at,
		"--checkpoint", "fast", "--wal-method", "none", "--no-sync")
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("pgtest: pg_basebackup: %v\n%s", err, out)
	}
}

// Moment returns the database's time, for [Cluster.RestoreTo]. Something must be committed
// after it.
func (c *Cluster) Moment(tb testing.TB) string {
	tb.Helper()
	return c.ask(tb, `SELECT clock_timestamp()::text`)
}

// RestoreTo replaces the cluster's data by what it was at a moment, from the backup and the
// archived log, and runs it again, on the same port. What came later is gone.
func (c *Cluster) RestoreTo(tb testing.TB, moment string) {
	tb.Helper()
	last := c.ask(tb, `SELECT pg_walfile_name(pg_switch_wal())`)
	for c.ask(tb, `SELECT coalesce(last_archived_wal, '') FROM pg_stat_archiver`) < last {
		time.Sleep(25 * time.Millisecond) // it says nowhere that it is done
	}
	c.Stop(tb)
	move := fmt.Sprintf(`mv data "lost.$$" && cp -R backup data && touch data/recovery.signal && cat >>data/postgresql.auto.conf <<'END'
restore_command = 'cp %s/%%f %%p'
recovery_target_time = '%s'
recovery_target_action = 'promote'
END`, c.archive(), moment)
	if out, err := c.command("/bin/sh", "-c", move).CombinedOutput(); err != nil {
		tb.Fatalf("pgtest: restore: %v\n%s", err, out)
	}
	c.Run(tb)
	for c.ask(tb, `SELECT pg_is_in_recovery()::text`) != "false" {
		time.Sleep(25 * time.Millisecond) // it takes reads before it takes writes
	}
}

// ask returns the one value that a statement has.
func (c *Cluster) ask(tb testing.TB, sql string) string {
	tb.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, c.URL("postgres"))
	if err != nil {
		tb.Fatalf("pgtest: %v", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	var value string
	if err := conn.QueryRow(ctx, sql).Scan(&value); err != nil {
		tb.Fatalf("pgtest: %s: %v", sql, err)
	}
	return strings.TrimSpace(value)
}
