//go:build unix

package pgtest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestClusterKeepsDataOverStopAndKill(t *testing.T) {
	t.Parallel()
	c := Start(t)
	ctx := t.Context()
	url := c.Database(t)
	run(ctx, t, url, "CREATE TABLE t (n int); INSERT INTO t VALUES (1)")
	c.Restart(t)
	run(ctx, t, url, "INSERT INTO t VALUES (2)")
	c.Kill(t)
	if _, err := pgx.Connect(ctx, url); err == nil {
		t.Fatal("the server still takes connections after Kill")
	}
	c.Run(t)
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatalf("connect after a crash: %v\n%s", err, c.Log())
	}
	var n int
	if err := conn.QueryRow(ctx, "SELECT count(*) FROM t").Scan(&n); err != nil || n != 2 {
		t.Errorf("found %d rows, %v, want 2", n, err)
	}
	if err := conn.Close(ctx); err != nil {
		t.Error(err)
	}
}

func TestDatabasesAreApart(t *testing.T) {
	t.Parallel()
	c := Quick(t)
	if c != Quick(t) {
		t.Error("Quick started a second cluster")
	}
	ctx := t.Context()
	for range 2 {
		run(ctx, t, c.Database(t), "CREATE TABLE t (n int)")
	}
	run(ctx, t, c.SocketURL("postgres"), "SELECT 1")
}

func run(ctx context.Context, t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := conn.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	if _, err := conn.Exec(ctx, sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}
