package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"agentd/internal/pgtest"
	"agentd/store"
	"agentd/store/postgres"
	"agentd/store/storetest"
)

// lineLog is a log whose lines can be waited for.
type lineLog struct {
	slog.Handler
	mu    sync.Mutex
	lines []string
	more  chan struct{}
}

func newLineLog() *lineLog { return &lineLog{more: make(chan struct{}, 1)} }

func (l *lineLog) Enabled(context.Context, slog.Level) bool { return true }

func (l *lineLog) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	l.mu.Lock()
	l.lines = append(l.lines, line)
	l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
	return nil
}

// linesWith returns the lines that have a text.
func (l *lineLog) linesWith(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.lines), func(line string) bool { return !strings.Contains(line, text) })
}

// earliestSQL has what a node of the first version writes all the time: records with the row
// that says so, its sign of life, a blob.
const earliestSQL = `
WITH moved AS (
	UPDATE agentd.sessions s SET head = $3, hash = $4 WHERE s.session_id = $1 AND s.epoch = $2 AND s.head = $3 - 1 RETURNING 1
), inserted AS (
	INSERT INTO agentd.events (session_id, sequence, hash, crc, data) VALUES ($1, $3, $4, $5, $6)
), noted AS (
	INSERT INTO agentd.appends (xid, node_id, sessions, heads) VALUES (pg_current_xact_id()::text::bigint, $1, ARRAY[$1], ARRAY[$3])
), lives AS (
	UPDATE agentd.nodes SET heartbeat = clock_timestamp() WHERE node_id = $1
), stored AS (
	INSERT INTO agentd.blobs (sum, size) VALUES ($4, 0)
)
SELECT agentd.require((SELECT count(*) FROM moved) = 1)`

// formerNode is a node of an earlier version that appends to a session with statements that it
// prepared before.
type formerNode struct {
	conn    *pgx.Conn
	id      string
	records []store.Record
	written *atomic.Int64
}

// appendUntil appends records until ctx ends. A lock that it waits for without end is an error.
func (f *formerNode) appendUntil(ctx context.Context) error {
	if _, err := f.conn.Exec(ctx, `SET lock_timeout = '60s'`); err != nil {
		return err
	}
	for ctx.Err() == nil {
		r := storetest.Continue(f.id, storetest.HeadOf(f.records), 1, 100)[0]
		// Not under ctx: an append whose outcome isn't known would end the test.
		_, err := f.conn.Exec(context.WithoutCancel(ctx), earliestSQL, f.id, 1, r.Sequence, r.Hash[:], postgres.Checksum(f.id, r), r.Data)
		if err != nil {
			return fmt.Errorf("%s after %d records: %w", f.id, len(f.records), err)
		}
		f.records = append(f.records, r)
		f.written.Add(1)
	}
	return nil
}

// TestMigrationsDontHoldOthersUp migrates databases of every earlier version, while a
// transaction that reads all tables doesn't end and nodes of that version append. They go on
// appending for as long as the new node waits, which says once what it waits for; when the
// reader has ended the node is ready, and nothing is lost.
func TestMigrationsDontHoldOthersUp(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Quick(t)
	for version := 1; version < postgres.Version(); version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			t.Parallel()
			migrateBeside(t, cluster.Database(t), version)
		})
	}
}

func migrateBeside(t *testing.T, url string, version int) {
	conn := connect(t, url)
	if err := postgres.MigrateTo(t.Context(), conn, version); err != nil {
		t.Fatal(err)
	}
	var written atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	nodes, failed := make([]*formerNode, 3), make(chan error, 3)
	for i := range nodes {
		nodes[i] = &formerNode{conn: connect(t, url), id: fmt.Sprint("s", i), written: &written}
		execute(t, conn, `INSERT INTO agentd.sessions (session_id, epoch) VALUES ($1, 1)`, nodes[i].id)
		execute(t, conn, `INSERT INTO agentd.nodes (node_id, incarnation, address, lease_until, heartbeat) VALUES ($1, '', '', now(), now())`, nodes[i].id)
		go func() { failed <- nodes[i].appendUntil(ctx) }()
	}
	reader := readEverything(t, url)

	log, opened := newLineLog(), make(chan *postgres.Store, 1)
	go func() {
		s, err := postgres.Open(context.WithoutCancel(t.Context()), url, &postgres.Options{AllowUnsafe: true, LeaseTTL: time.Hour, Logger: slog.New(log)})
		if err != nil {
			t.Errorf("open: %v", err)
		}
		opened <- s
	}()
	var s *postgres.Store
	// Until it has tried some times, unless nothing that it changes is held.
	for s == nil && len(log.linesWith("a step was held up")) < 3 {
		select {
		case s = <-opened:
		case err := <-failed:
			t.Fatalf("a node of version %d: %v", version, err)
		case <-log.more:
		}
	}
	waited := s == nil
	for goal := written.Load() + 100; written.Load() < goal; {
		select {
		case err := <-failed:
			t.Fatalf("a node of version %d: %v", version, err)
		default:
		}
	}
	if err := reader.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s == nil {
		s = <-opened
	}
	if s == nil {
		t.FailNow()
	}
	defer shut(t, s)
	stop()
	for range nodes {
		if err := <-failed; err != nil {
			t.Errorf("a node of version %d: %v", version, err)
		}
	}
	for _, n := range nodes {
		reads(t, s, n.id, 0, n.records)
	}
	checkTold(t, log, waited)
}

// readEverything begins a transaction that has read all tables.
func readEverything(t *testing.T, url string) pgx.Tx {
	t.Helper()
	conn := connect(t, url)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rows, err := tx.Query(t.Context(), `SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname = 'agentd'`)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		if _, err := tx.Exec(t.Context(), `SELECT count(*) FROM `+table); err != nil {
			t.Fatal(err)
		}
	}
	return tx
}

// checkTold: a node that waited said so once, and that it was over.
func checkTold(t *testing.T, log *lineLog, waited bool) {
	t.Helper()
	warned, done := log.linesWith("WARN"), log.linesWith("the tables are up to date")
	if !waited {
		if len(done) > 0 {
			t.Errorf("a node that didn't wait says %q", done)
		}
		return
	}
	if len(warned) != 1 || !strings.Contains(warned[0], "while a long transaction uses them") || !strings.Contains(warned[0], "longest=process ") || len(done) != 1 {
		t.Errorf("a node that waited says %q and %q", warned, done)
	}
}

// TestMigrationsCanBeLeft: a node that waits for its turn, or for a transaction, ends when it
// is told to, and the next one does what it left.
func TestMigrationsCanBeLeft(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	if err := postgres.MigrateTo(t.Context(), connect(t, url), 1); err != nil {
		t.Fatal(err)
	}
	reader := readEverything(t, url)
	logs := []*lineLog{newLineLog(), newLineLog()}
	ends := make([]chan error, 2)
	ctx, stop := context.WithCancel(t.Context())
	for i, says := range []string{"long transaction", "another node brings the tables up to date"} {
		ends[i] = make(chan error, 1)
		go func() {
			s, err := postgres.Open(ctx, url, &postgres.Options{AllowUnsafe: true, Logger: slog.New(logs[i])})
			if err == nil {
				shut(t, s)
			}
			ends[i] <- err
		}()
		for len(logs[i].linesWith(says)) == 0 {
			<-logs[i].more
		}
	}
	stop()
	for i := range ends {
		if err := <-ends[i]; !errors.Is(err, context.Canceled) {
			t.Errorf("a node that was told to end while it waited: %v", err)
		}
	}
	if err := reader.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	shut(t, openStore(t, url, nil))
}

// TestStepsWithoutATransaction: an index that an attempt left half made is made again, and
// the step is noted once it is there.
func TestStepsWithoutATransaction(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	shut(t, openStore(t, url, nil))
	conn := connect(t, url)
	execute(t, conn, `INSERT INTO agentd.meta (name, value) VALUES ('a', 'same'), ('b', 'same')`)
	const text = postgres.AloneMark + "CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS meta_values ON agentd.meta (value);\n"
	further := func() error { return postgres.MigrateFurther(t.Context(), conn, text, slog.New(slog.DiscardHandler)) }
	valid := func() (is bool) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), `SELECT indisvalid FROM pg_index WHERE indexrelid = 'agentd.meta_values'::regclass`).Scan(&is); err != nil {
			t.Fatal(err)
		}
		return is
	}
	if err := further(); err == nil || valid() {
		t.Fatalf("an index that can't be made: %v", err)
	}
	execute(t, conn, `DELETE FROM agentd.meta WHERE name = 'b'`)
	for range 2 {
		if err := further(); err != nil || !valid() {
			t.Errorf("the index is valid: %v, %v", valid(), err)
		}
	}
}

// TestStepsThatTakeLongAreCut: a step that takes long, which the rule should have refused, doesn't
// keep its locks.
func TestStepsThatTakeLongAreCut(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	shut(t, openStore(t, url, nil))
	conn, own, log := connect(t, url), connect(t, url), newLineLog()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- postgres.MigrateFurther(ctx, own, "LOCK TABLE agentd.meta; SELECT pg_sleep(3600)", slog.New(log))
	}()
	for len(log.linesWith("a step was held up")) == 0 {
		<-log.more
	}
	execute(t, conn, `INSERT INTO agentd.meta (name, value) VALUES ('a', 'goes on')`)
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the step: %v", err)
	}
}
