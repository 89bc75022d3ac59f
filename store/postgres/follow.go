package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"agentd/store"
)

// position is what a follower has seen: every transaction below max but those
// that were open. It is a snapshot of the database, so a transaction that got
// its id early and commits late is not passed over.
type position struct {
	min, max int64
	open     []int64
	text     string // PostgreSQL's form
}

// followTimeout bounds each exchange of a follower, so that a server which
// vanished without a word is noticed.
const followTimeout = 30 * time.Second

const positionSQL = `SELECT pg_current_snapshot()::text`

// parsePosition reads PostgreSQL's form, xmin:xmax:open,open and so on.
func parsePosition(text string) (position, error) {
	p := position{text: text}
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return p, fmt.Errorf("%q is not a snapshot", text)
	}
	numbers := parts[:2]
	if parts[2] != "" {
		numbers = append(numbers[:2:2], strings.Split(parts[2], ",")...)
	}
	p.open = make([]int64, 0, len(numbers)-2)
	for i, s := range numbers {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return p, fmt.Errorf("%q is not a snapshot", text)
		}
		switch i {
		case 0:
			p.min = n
		case 1:
			p.max = n
		default:
			p.open = append(p.open, n)
		}
	}
	return p, nil
}

func startPosition(ctx context.Context, conn *pgx.Conn) (position, error) {
	var text string
	if err := conn.QueryRow(ctx, positionSQL).Scan(&text); err != nil {
		return position{}, fmt.Errorf("read the position: %w", err)
	}
	return parsePosition(text)
}

// pollSQL reads what a position couldn't see, and the new position, in one
// snapshot. It has at least one row.
const pollSQL = `
SELECT now.at, h.session_id, h.head, h.first
FROM (SELECT pg_current_snapshot()::text) now (at) LEFT JOIN (
	SELECT x.session_id, max(x.head) AS head, min(coalesce(x.before, -1)) + 1 AS first
	FROM agentd.appends a, unnest(a.sessions, a.heads, a.befores) AS x (session_id, head, before)
	WHERE (a.xid >= $1 OR a.xid = ANY ($2)) AND a.node_id <> $3 AND x.head > 0
	GROUP BY x.session_id
) h ON true`

// Follow yields what other nodes append. See [store.Store].
//
// What was appended since the store was opened may be repeated at the start. After a
// broken connection it goes on where it was.
func (s *Store) Follow(ctx context.Context) iter.Seq2[store.Appended, error] {
	return func(yield func(store.Appended, error) bool) {
		if err := s.enterCall(ctx); err != nil {
			yield(store.Appended{}, err)
			return
		}
		defer s.calls.Done()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.closing, cancel)()
		f := &follower{s: s, at: s.start, yield: yield}
		defer f.disconnect()
		f.run(ctx)
		if !f.stopped && s.closing.Err() != nil {
			yield(store.Appended{}, store.ErrClosed)
		}
	}
}

// errStopped says that the caller left the loop.
var errStopped = errors.New("stopped")

// follower is one loop over Follow.
type follower struct {
	s       *Store
	yield   func(store.Appended, error) bool
	conn    *pgx.Conn
	at      position
	stopped bool
}

// run goes on until ctx ends or the caller leaves the loop, whatever happens to
// the connection.
func (f *follower) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := f.step(ctx)
		if errors.Is(err, errStopped) {
			f.stopped = true
			return
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		f.s.opts.Logger.Warn("postgres: follow", "node", f.s.opts.NodeID, "error", err)
		f.disconnect()
		select {
		case <-ctx.Done():
		case <-time.After(f.s.opts.PollInterval):
		}
	}
}

// step looks once and waits for a reason to look again.
func (f *follower) step(ctx context.Context) error {
	if err := f.connect(ctx); err != nil {
		return err
	}
	if err := f.poll(ctx); err != nil {
		return err
	}
	return f.await(ctx)
}

func (f *follower) connect(ctx context.Context) error {
	if f.conn != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, followTimeout)
	defer cancel()
	conn, err := f.s.connect(ctx, "follow")
	if err != nil {
		return err
	}
	f.conn = conn
	_, err = conn.Exec(ctx, "LISTEN "+channel)
	return err
}

func (f *follower) disconnect() {
	if f.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = f.conn.Close(ctx) // it may be broken already
	f.conn = nil
}

// poll yields what the position couldn't see and moves it.
func (f *follower) poll(ctx context.Context) error {
	hints, err := f.pollAppended(ctx)
	if err != nil {
		return err
	}
	return f.emit(hints)
}

func (f *follower) pollAppended(ctx context.Context) ([]store.Appended, error) {
	ctx, cancel := context.WithTimeout(ctx, followTimeout)
	defer cancel()
	rows, err := f.conn.Query(ctx, pollSQL, f.at.max, f.at.open, f.s.opts.NodeID)
	if err != nil {
		return nil, err
	}
	var text string
	var session *string
	var head, first *int64
	var hints []store.Appended
	_, err = pgx.ForEachRow(rows, []any{&text, &session, &head, &first}, func() error {
		if session != nil && head != nil && first != nil {
			hints = append(hints, store.Appended{SessionID: *session, Sequence: uint64(*head), First: uint64(*first)})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	f.at, err = parsePosition(text)
	return hints, err
}

func (f *follower) emit(hints []store.Appended) error {
	for _, h := range hints {
		if !f.yield(h, nil) {
			return errStopped
		}
	}
	return nil
}

// gather is how long a follower lets hints gather before it looks, so that many appends of
// other nodes cost one look.
const gather = 5 * time.Millisecond

// await returns when another node has notified, or after the poll interval. While nobody
// follows a session on this node a look in that interval is soon enough, and costs the
// same however much others append.
func (f *follower) await(ctx context.Context) error {
	if !f.s.isAwaited() {
		select {
		case <-ctx.Done():
		case <-f.s.awaitedNow:
		case <-time.After(f.s.opts.PollInterval):
		}
		f.drain()
		return nil
	}
	wait, cancel := context.WithTimeout(ctx, f.s.opts.PollInterval)
	defer cancel()
	for {
		n, err := f.conn.WaitForNotification(wait)
		switch {
		case err == nil && n.Payload == f.s.opts.NodeID:
			continue
		case err == nil:
			select {
			case <-ctx.Done():
			case <-time.After(gather):
			}
			f.drain()
			return nil
		case wait.Err() != nil && !f.conn.IsClosed():
			return nil
		default:
			return err
		}
	}
}

// drain forgets the notifications that have arrived: one look serves them all.
func (f *follower) drain() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for {
		if _, err := f.conn.WaitForNotification(ended); err != nil {
			return
		}
	}
}

// Await implements [store.Shared].
func (s *Store) Await(awaited func() bool) { s.awaited.Store(&awaited) }

// Awaited implements [store.Shared].
func (s *Store) Awaited() {
	select {
	case s.awaitedNow <- struct{}{}:
	default:
	}
}

func (s *Store) isAwaited() bool {
	awaited := s.awaited.Load()
	return awaited == nil || (*awaited)()
}
