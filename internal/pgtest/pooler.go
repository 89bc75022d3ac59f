//go:build unix

package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// poolerSettings are those of a PgBouncer in transaction mode with fewer connections to
// the database than the tests have to it.
const poolerSettings = `[databases]
* = host=127.0.0.1 port=%d
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %s
pool_mode = transaction
default_pool_size = 4
max_client_conn = 500
max_db_connections = 4
query_wait_timeout = 60
log_connections = 0
log_disconnections = 0
`

// poolerScript runs a pooler until its standard input ends, which the kernel sees to when
// the test binary dies. One that gave up before says why.
const poolerScript = `"$1" "$2" >"$2.log" 2>&1 &
pid=$!
cat >/dev/null
kill -TERM "$pid" 2>/dev/null
wait "$pid"
status=$? # 1 is how it ends when it is told to
if grep FATAL "$2.log"; then status=2; fi
rm -rf "$3"
[ "$status" -le 1 ]`

// Pooled returns the URL of a database, as [Cluster.Database] or [Cluster.URL] returned it,
// through a PgBouncer in transaction mode that the test has to itself. It ends with the test. Where PgBouncer
// is missing the test is skipped, or fails if PostgreSQL is required.
func (c *Cluster) Pooled(tb testing.TB, database string) string {
	tb.Helper()
	program, err := poolerProgram()
	if err != nil {
		if os.Getenv("AGENTD_TEST_POSTGRES") == require {
			tb.Fatalf("pgtest: %v; run scripts/pgbouncer.sh", err)
		}
		tb.Skipf("skipped: all of this test needs PgBouncer, and %v; run scripts/pgbouncer.sh", err)
	}
	u, err := url.Parse(database)
	if err != nil {
		tb.Fatalf("pgtest: %v", err)
	}
	port, stop, err := c.startPooler(program)
	if err != nil {
		tb.Fatalf("pgtest: start PgBouncer: %v", err)
	}
	tb.Cleanup(func() {
		if err := stop(); err != nil {
			tb.Errorf("pgtest: end PgBouncer: %v", err)
		}
	})
	u.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if err := answers(u.String()); err != nil {
		tb.Fatalf("pgtest: PgBouncer: %v", err)
	}
	return u.String()
}

// poolerProgram finds PgBouncer, which Debian keeps among the programs of root.
func poolerProgram() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("pgbouncer is neither in PATH nor in /usr/sbin")
}

func (c *Cluster) startPooler(program string) (port int, stop func() error, err error) {
	dir, err := os.MkdirTemp("", "agentd-pgbouncer-")
	if err != nil {
		return 0, nil, err
	}
	if port, err = freePort(); err != nil {
		return 0, nil, errors.Join(err, os.RemoveAll(dir))
	}
	conf, users := filepath.Join(dir, "pgbouncer.ini"), filepath.Join(dir, "users")
	err = errors.Join(
		os.WriteFile(users, fmt.Appendf(nil, "%q %q\n", superuser, c.password), 0o600),
		os.WriteFile(conf, fmt.Appendf(nil, poolerSettings, c.port, port, users), 0o600),
		c.handOver(dir), c.handOver(users), c.handOver(conf))
	if err != nil {
		return 0, nil, errors.Join(err, os.RemoveAll(dir))
	}
	cmd := c.command("/bin/sh", "-c", poolerScript, "sh", program, conf, dir)
	cmd.SysProcAttr.Setpgid = true
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	var leash io.Closer
	if leash, err = cmd.StdinPipe(); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return 0, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return port, func() error {
		if err := errors.Join(leash.Close(), cmd.Wait()); err != nil {
			return fmt.Errorf("%w\n%s", err, log.Bytes())
		}
		return nil
	}, nil
}

// handOver makes a file the server's user's.
func (c *Cluster) handOver(path string) error {
	if c.as == nil {
		return nil
	}
	return os.Chown(path, int(c.as.Uid), int(c.as.Gid))
}

// answers returns when a database answers.
func answers(url string) (err error) {
	const tries = 400
	for range tries {
		var conn *pgx.Conn
		ctx := context.Background()
		if conn, err = pgx.Connect(ctx, url); err == nil {
			return conn.Close(ctx)
		}
		time.Sleep(25 * time.Millisecond) // it says nowhere that it is ready
	}
	return err
}
