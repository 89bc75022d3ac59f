package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// minServer is the first server version with all that the engine uses.
const minServer = 140000

var errNoCancelling = errors.New("a pooler is not asked to cancel statements")

var errURL = errors.New(`not a database URL; it must look like "postgres://user:password@host:5432/database"`)

// parseURL returns the pool's configuration. Its errors never hold the URL,
// which may have a password in any of its parts.
func parseURL(raw string, opts Options) (*pgxpool.Config, error) {
	if !strings.HasPrefix(raw, "postgres://") && !strings.HasPrefix(raw, "postgresql://") {
		return nil, errURL
	}
	config, err := pgxpool.ParseConfig(raw)
	if err != nil {
		return nil, errors.Join(errURL, parseReason(err))
	}
	if opts.MaxConns > 0 {
		config.MaxConns = int32(min(opts.MaxConns, 1<<16))
	}
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "agentd"
	}
	return config, nil
}

// connect makes a connection beside the pool. Its role shows in the server's
// list of connections.
func (s *Store) connect(ctx context.Context, role string) (*pgx.Conn, error) {
	config := s.conn.Copy()
	config.RuntimeParams["application_name"] += " " + role
	if s.pooled {
		withoutCancelling(config)
	}
	return pgx.ConnectConfig(ctx, config)
}

// reconnect replaces a connection by one with the present configuration.
func (s *Store) reconnect(ctx context.Context, old *pgx.Conn) (*pgx.Conn, error) {
	if err := old.Close(ctx); err != nil {
		return nil, err
	}
	return s.connect(ctx, "lease")
}

// isPooled reports whether something between this process and the database shares
// connections: the process that answers isn't the one that greeted. It asks in a way
// that every pooler passes on.
func isPooled(ctx context.Context, conn *pgx.Conn) (bool, error) {
	// The encoding is said at the start; with another one no statement can be sent.
	if is := conn.PgConn().ParameterStatus("server_encoding"); is != "" && is != "UTF8" {
		return false, fmt.Errorf("the database has the encoding %s, agentd needs UTF8: make another one, with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0", is)
	}
	var pid int64
	if err := conn.QueryRow(ctx, `SELECT pg_backend_pid()`, pgx.QueryExecModeSimpleProtocol).Scan(&pid); err != nil {
		return false, fmt.Errorf("look for a pooler: %w", err)
	}
	return uint32(pid) != conn.PgConn().PID(), nil
}

// withoutSession has statements described once and then sent whole, so that nothing is
// kept in a session of the database.
func withoutSession(c *pgx.ConnConfig) {
	c.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	c.StatementCacheCapacity = 0
}

// byIndexAlone has statements find rows by index, one by one, which is what all of them mean.
// A prepared statement keeps its plan until the table is analyzed: one that was made while the
// table had a few rows would read all of it each time, however many there are by then. What has
// no index, such as the list of nodes, counts as so dear then that it would be compiled first.
func byIndexAlone(c *pgx.ConnConfig) {
	for _, name := range []string{"enable_seqscan", "enable_hashjoin", "enable_mergejoin", "jit"} {
		c.RuntimeParams[name] = "off"
	}
}

// withoutCancelling keeps a connection that is yet to be made from asking for its statement
// to be cancelled. The driver does so over a second connection when a call's context ends,
// and PgBouncer before 1.21 may end itself over such a request. A pooler gives up by itself
// what a closed connection left half done.
func withoutCancelling(c *pgx.ConnConfig) {
	var connected atomic.Bool
	dial := c.DialFunc
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if connected.Load() {
			return nil, errNoCancelling
		}
		return dial(ctx, network, address)
	}
	c.AfterConnect = func(context.Context, *pgconn.PgConn) error {
		connected.Store(true)
		return nil
	}
}

// withoutCancellingPooled is withoutCancelling where there is a pooler, which each connection
// finds out for itself: the other end may be away when the store is opened, or be replaced.
func withoutCancellingPooled(c *pgx.ConnConfig) {
	var pooled atomic.Bool
	dial := c.DialFunc
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if pooled.Load() {
			return nil, errNoCancelling
		}
		return dial(ctx, network, address)
	}
	c.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		answers, err := conn.Exec(ctx, `SELECT pg_backend_pid()::text`).ReadAll()
		if err != nil {
			return fmt.Errorf("look for a pooler: %w", err)
		}
		greeted := strconv.FormatUint(uint64(conn.PID()), 10)
		pooled.Store(len(answers) != 1 || len(answers[0].Rows) != 1 || string(answers[0].Rows[0][0]) != greeted)
		return nil
	}
}

// parseReason returns the innermost cause of a parse error if it can't quote the URL.
func parseReason(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			break
		}
		err = next
	}
	var quoting *url.Error
	var number *strconv.NumError
	if errors.As(err, &quoting) || errors.As(err, &number) || strings.Contains(err.Error(), "://") {
		return nil
	}
	return fmt.Errorf("cause: %w", err)
}

// locationOf names the database without credentials.
func locationOf(c *pgx.ConnConfig) string {
	if strings.HasPrefix(c.Host, "/") {
		return "postgres:///" + c.Database + "?host=" + c.Host
	}
	return "postgres://" + net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))) + "/" + c.Database
}

// checkServer refuses a server that is too old or doesn't keep what it
// acknowledges.
func checkServer(ctx context.Context, conn *pgx.Conn, allowUnsafe bool) error {
	var version int
	var fsync, pages, commit string
	err := conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('fsync'),
		current_setting('full_page_writes'), current_setting('synchronous_commit')`).Scan(&version, &fsync, &pages, &commit)
	if err != nil {
		return fmt.Errorf("read the server's settings: %w", err)
	}
	if version < minServer {
		return fmt.Errorf("the server has version %d, agentd needs PostgreSQL %d or newer", version/10000, minServer/10000)
	}
	if allowUnsafe {
		return nil
	}
	var off []string
	for _, setting := range [][2]string{{"fsync", fsync}, {"full_page_writes", pages}, {"synchronous_commit", commit}} {
		if setting[1] == "off" {
			off = append(off, setting[0])
		}
	}
	if len(off) > 0 {
		return fmt.Errorf("the server may lose acknowledged data because %s is off; turn it on", strings.Join(off, ", "))
	}
	return nil
}
