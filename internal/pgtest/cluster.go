//go:build unix

package pgtest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

const (
	superuser = "agentd"
	// patience is how many seconds PostgreSQL's programs wait for the server. They take no
	// more than they need; on a busy machine that may be much.
	patience = "600"
)

// Cluster is one PostgreSQL server with its data.
type Cluster struct {
	bin, dir string
	settings string
	port     int
	password string
	as       *syscall.Credential // nil for this process's own user
	watcher  *exec.Cmd
	leash    io.Closer // the watcher removes everything when it breaks

	mu sync.Mutex // one start or stop at a time
}

// Settings of all clusters: small, with room for the many connections of tests
// that run side by side.
const (
	settings = `
listen_addresses = '127.0.0.1'
max_connections = 200
shared_buffers = '64MB'
max_wal_size = '1GB'
log_min_messages = warning
logging_collector = off
`
	durable = settings + `
fsync = on
full_page_writes = on
synchronous_commit = on
`
	hasty = settings + `
fsync = off
full_page_writes = off
synchronous_commit = off
`
)

func startCluster(bin, settings string) (*Cluster, error) {
	c := &Cluster{bin: bin, settings: settings, password: rand.Text()}
	if err := c.prepare(); err != nil {
		return nil, errors.Join(err, c.close())
	}
	if err := c.begin(); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// prepare makes the folder, the watcher and an empty cluster.
func (c *Cluster) prepare() error {
	if err := c.makeFolder(); err != nil {
		return err
	}
	return c.initialize()
}

// makeFolder makes the folder, with a watcher that removes it, and chooses a port.
func (c *Cluster) makeFolder() error {
	var err error
	if c.as, err = serverUser(); err != nil {
		return err
	}
	if c.dir, err = os.MkdirTemp(os.Getenv(folder), "agentd-pg-"); err != nil {
		return err
	}
	if c.as != nil {
		if err := os.Chown(c.dir, int(c.as.Uid), int(c.as.Gid)); err != nil {
			return err
		}
	}
	if err := c.watch(); err != nil {
		return fmt.Errorf("start the watcher: %w", err)
	}
	c.port, err = freePort()
	return err
}

// serverUser returns whom the server runs as; nil for this user.
func serverUser() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(errUID, errGID); err != nil {
			return nil, fmt.Errorf("user %s: %w", name, err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("this process is root, which PostgreSQL refuses to be, and there is neither a user postgres nor nobody")
}

// watchScript waits for its standard input to end, which the kernel sees to when
// the test binary dies, and removes the server and the folder.
const watchScript = `cat >/dev/null
pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null) && kill -QUIT "$pid" 2>/dev/null
while [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
rm -rf "$1"`

func (c *Cluster) watch() error {
	// In a group of its own, so that an interrupt at the terminal spares it.
	c.watcher = c.command("/bin/sh", "-c", watchScript, "sh", c.dir)
	c.watcher.SysProcAttr.Setpgid = true
	leash, err := c.watcher.StdinPipe()
	if err != nil {
		return err
	}
	c.leash = leash
	return c.watcher.Start()
}

// command returns a command that runs as the server's user in the cluster's
// folder.
func (c *Cluster) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.as}
	return cmd
}

func (c *Cluster) initialize() error {
	secret := filepath.Join(c.dir, "password")
	if err := os.WriteFile(secret, []byte(c.password+"\n"), 0o600); err != nil {
		return err
	}
	if c.as != nil {
		if err := os.Chown(secret, int(c.as.Uid), int(c.as.Gid)); err != nil {
			return err
		}
	}
	cmd := c.command(filepath.Join(c.bin, "initdb"), "--pgdata", c.data(), "--username", superuser, "--pwfile", secret,
		"--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--data-checksums", "--no-sync")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	conf := c.settings + fmt.Sprintf("port = %d\nunix_socket_directories = '%s'\n", c.port, c.dir)
	f, err := os.OpenFile(filepath.Join(c.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(conf)
	return errors.Join(err, f.Close())
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

// freePort returns a port that is free. It stays so until the server begins, and
// between two runs of it: it lies below those that the kernel gives to connections.
func freePort() (port int, err error) {
	for range 100 {
		port = 15000 + mathrand.IntN(15000)
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, err
}

// begin starts the server and returns when it takes connections. pg_ctl does
// the waiting; the server is its child and not ours.
func (c *Cluster) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	cmd := c.control("start", "--log", filepath.Join(c.dir, "log"), "--wait", "--timeout", patience)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("start the server: %w\n%s\n%s", err, out, c.Log())
	}
	return nil
}

func (c *Cluster) control(args ...string) *exec.Cmd {
	return c.command(filepath.Join(c.bin, "pg_ctl"), append(args, "--pgdata", c.data())...)
}

func (c *Cluster) stop(mode string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.running() {
		return nil
	}
	if out, err := c.control("stop", "--mode", mode, "--wait", "--timeout", patience).CombinedOutput(); err != nil {
		return fmt.Errorf("stop the server: %w\n%s", err, out)
	}
	return nil
}

// running reports whether the server was started and not stopped.
func (c *Cluster) running() bool {
	_, err := os.Stat(filepath.Join(c.data(), "postmaster.pid"))
	return err == nil
}

// Log returns what the server wrote to its log.
func (c *Cluster) Log() string {
	b, err := os.ReadFile(filepath.Join(c.dir, "log"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// Stop shuts the server down: it ends all connections and writes everything out.
func (c *Cluster) Stop(tb testing.TB) {
	tb.Helper()
	if err := c.stop("fast"); err != nil {
		tb.Fatalf("pgtest: %v", err)
	}
}

// Kill ends the server at once, as a crash does: the next start recovers.
func (c *Cluster) Kill(tb testing.TB) {
	tb.Helper()
	if err := c.stop("immediate"); err != nil {
		tb.Fatalf("pgtest: %v", err)
	}
}

// Run starts the server again, on the same port with the same data.
func (c *Cluster) Run(tb testing.TB) {
	tb.Helper()
	if err := c.begin(); err != nil {
		tb.Fatalf("pgtest: %v", err)
	}
}

// Restart stops the server and starts it again.
func (c *Cluster) Restart(tb testing.TB) {
	tb.Helper()
	c.Stop(tb)
	c.Run(tb)
}

// close removes the cluster through its watcher.
func (c *Cluster) close() error {
	if c.watcher == nil || c.watcher.Process == nil {
		if c.dir == "" {
			return nil
		}
		return os.RemoveAll(c.dir)
	}
	return errors.Join(c.leash.Close(), c.watcher.Wait())
}
