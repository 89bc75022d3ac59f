//go:build unix

// Package pgtest runs private temporary PostgreSQL clusters for tests.
//
// A cluster lives in a temporary folder of its own, in AGENTD_TEST_POSTGRES_DIR if that is set
// ("make test" sets it to a folder in memory if there is plenty of it), listens on a Unix socket
// and a free loopback port, and asks for a random password. It is durable, as
// product code demands, except for the one that [Quick] returns. It never
// outlives its test binary, however that ends: a small watcher process holds a
// pipe from the binary and removes the cluster when the pipe breaks.
//
// PostgreSQL's own programs are taken from PATH or from Debian's folder. Where
// they are missing, tests skip by name, or fail if the environment has
// AGENTD_TEST_POSTGRES=require. As root the cluster runs as the user postgres,
// or else nobody, because PostgreSQL refuses to be root.
//
// All methods may be called by many goroutines, but restarting a cluster while
// others use it is the caller's business: use [Start] for that, and [Shared] or
// [Quick] for the rest.
package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// require is the value of AGENTD_TEST_POSTGRES that makes a missing PostgreSQL
// a failure.
const require = "require"

// folder is the variable that names the folder of the clusters; the default is that of
// temporary files. In memory databases are made and removed much faster.
const folder = "AGENTD_TEST_POSTGRES_DIR"

// common is a cluster that all tests of a binary share.
type common struct {
	settings string

	mu      sync.Mutex
	cluster *Cluster
	err     error
}

// The clusters that [Shared] and [Quick] return. They are package variables
// because the tests of a binary have nothing else in common; the watcher ends
// them.
var (
	shared = common{settings: durable}
	quick  = common{settings: hasty}
)

// Shared returns the cluster that all tests of this binary share, and starts it
// if need be. Tests must not stop it.
func Shared(tb testing.TB) *Cluster {
	tb.Helper()
	return shared.get(tb)
}

// Quick is like Shared, but its cluster doesn't flush to disk: for the many
// tests that are about anything but durability.
func Quick(tb testing.TB) *Cluster {
	tb.Helper()
	return quick.get(tb)
}

func (c *common) get(tb testing.TB) *Cluster {
	tb.Helper()
	bin := findPrograms(tb)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cluster == nil && c.err == nil {
		c.cluster, c.err = startCluster(bin, c.settings)
	}
	if c.err != nil {
		tb.Fatalf("pgtest: %v", c.err)
	}
	return c.cluster
}

// Start returns a cluster of the test's own, which it may stop and kill. It ends
// with the test.
func Start(tb testing.TB) *Cluster {
	tb.Helper()
	c, err := startCluster(findPrograms(tb), durable)
	if err != nil {
		tb.Fatalf("pgtest: %v", err)
	}
	tb.Cleanup(func() {
		if err := c.close(); err != nil {
			tb.Errorf("pgtest: %v", err)
		}
	})
	return c
}

// findPrograms returns the folder of PostgreSQL's programs, or ends the test.
func findPrograms(tb testing.TB) string {
	tb.Helper()
	bin, err := BinDir()
	if err == nil {
		return bin
	}
	if os.Getenv("AGENTD_TEST_POSTGRES") == require {
		tb.Fatalf("pgtest: %v; run scripts/postgres.sh", err)
	}
	tb.Skipf("skipped: all of this test needs PostgreSQL, and %v; run scripts/postgres.sh", err)
	return ""
}

// BinDir returns the folder of initdb and postgres: that of PATH, or the newest
// of Debian's.
func BinDir() (string, error) {
	if p, err := exec.LookPath("initdb"); err == nil {
		if p, err = filepath.EvalSymlinks(p); err == nil && hasProgram(filepath.Dir(p), "postgres") {
			return filepath.Dir(p), nil
		}
	}
	dirs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	slices.SortFunc(dirs, func(a, b string) int { return len(b) - len(a) + strings.Compare(b, a) })
	for _, dir := range dirs {
		if hasProgram(dir, "initdb") && hasProgram(dir, "postgres") {
			return dir, nil
		}
	}
	return "", errors.New("initdb and postgres are neither in PATH nor in /usr/lib/postgresql/*/bin")
}

func hasProgram(dir, program string) bool {
	_, err := os.Stat(filepath.Join(dir, program))
	return err == nil
}

// Database makes an empty database for the test and returns its URL over the
// loopback port. The database is dropped with the test if the cluster is up.
func (c *Cluster) Database(tb testing.TB) string {
	tb.Helper()
	return c.CopyOf(tb, "template0")
}

// CopyOf is like Database, but copies another database, which must have no connections.
func (c *Cluster) CopyOf(tb testing.TB, template string) string {
	tb.Helper()
	name := "test_" + strings.ToLower(rand.Text())
	create := "CREATE DATABASE " + name + " TEMPLATE " + template
	// Half the work where no file has to reach a disk; PostgreSQL 14 knows no other way.
	if c.settings == hasty && c.version() > 14 {
		create += " STRATEGY file_copy"
	}
	if err := c.exec(create); err != nil {
		tb.Fatalf("pgtest: create a database: %v", err)
	}
	tb.Cleanup(func() {
		if !c.running() {
			return
		}
		if err := c.exec("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			tb.Errorf("pgtest: drop the database: %v", err)
		}
	})
	return c.URL(name)
}

// version is the number of PostgreSQL's release, or 0 if its files don't say it.
func (c *Cluster) version() int {
	text, _ := os.ReadFile(filepath.Join(c.data(), "PG_VERSION"))
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return n
}

// URL returns the URL of a database of the cluster over the loopback port.
func (c *Cluster) URL(database string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(superuser, c.password), Host: fmt.Sprintf("127.0.0.1:%d", c.port), Path: database, RawQuery: "sslmode=disable"}
	return u.String()
}

// SocketURL returns the URL of a database of the cluster over the Unix socket.
func (c *Cluster) SocketURL(database string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(superuser, c.password), Path: "/" + database}
	u.RawQuery = url.Values{"host": {c.dir}, "port": {fmt.Sprint(c.port)}, "sslmode": {"disable"}}.Encode()
	return u.String()
}

// objectInUse is the SQLSTATE of a database that others were connected to. The server gives
// them five seconds to end, which on a busy machine may be too few.
const objectInUse = "55006"

func (c *Cluster) exec(sql string) error {
	for {
		err := c.tryExec(sql)
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != objectInUse {
			return err
		}
	}
}

func (c *Cluster) tryExec(sql string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, c.URL("postgres"))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return errors.Join(err, conn.Close(ctx))
}
