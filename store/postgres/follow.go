package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
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
		defer context.AfterFunc(s.failing, cancel)()
		f := &follower{s: s, at: s.start, yield: yield}
		defer f.disconnect()
		f.run(ctx)
		if err := s.Err(); !f.stopped && err != nil {
			yield(store.Appended{}, err)
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
	// listens says that the connection gets notifications, told what they said since the
	// last look.
	listens bool
	told    told
	// pause is until the next look through a pooler, which passes on no notifications.
	pause time.Duration
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
	// What is appended from here on is told, what was before is found.
	if err := f.listen(ctx); err != nil {
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
	f.conn, f.listens = conn, false
	return nil
}

// listen begins or ends to get notifications, as they are wanted. A node on which nobody
// follows a session costs those that append nothing.
func (f *follower) listen(ctx context.Context) error {
	wanted := f.s.isAwaited() && !f.s.pooled
	if f.listens == wanted {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, followTimeout)
	defer cancel()
	verb := "LISTEN "
	if !wanted {
		verb = "UNLISTEN "
	}
	if _, err := f.conn.Exec(ctx, verb+channel); err != nil {
		return err
	}
	f.listens = wanted
	return nil
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
	known := f.told
	f.told = told{}
	hints = slices.DeleteFunc(hints, known.covers)
	f.pace(len(hints) > 0)
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

// soon is the shortest pause between two looks through a pooler.
const soon = 10 * time.Millisecond

// pace sets the pause until the next look through a pooler: short while there is
// something to find.
func (f *follower) pace(found bool) {
	if f.pause *= 2; found || f.pause == 0 {
		f.pause = soon
	}
	f.pause = min(f.pause, f.s.opts.PollInterval)
}

// await passes on what other nodes notify of, and returns when it is time to look: because
// a notification says so, or after an interval, since a node may die between a commit and
// its notification. While nobody follows a session on this node there are no
// notifications, and a look in the poll interval is soon enough.
func (f *follower) await(ctx context.Context) error {
	if !f.listens {
		return f.sleep(ctx)
	}
	wait, cancel := context.WithTimeout(ctx, 2*f.s.opts.PollInterval)
	defer cancel()
	for {
		n, err := f.conn.WaitForNotification(wait)
		switch {
		case err != nil && wait.Err() != nil && !f.conn.IsClosed():
			return nil
		case err != nil:
			return err
		}
		p, hints, ranged := parsePayload(n.Payload)
		switch {
		case p.Node == f.s.opts.NodeID:
			continue
		case !ranged:
			return nil
		}
		for _, h := range hints {
			f.told.add(h)
		}
		if err := f.emit(hints); err != nil {
			return err
		}
	}
}

// sleep waits until it is time to look again, without notifications.
func (f *follower) sleep(ctx context.Context) error {
	pause := f.s.opts.PollInterval
	if f.s.pooled && f.s.isAwaited() {
		pause = f.pause
	}
	select {
	case <-ctx.Done():
	case <-f.s.awaitedNow:
	case <-time.After(pause):
	}
	return nil
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
