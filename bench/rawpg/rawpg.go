// Package rawpg is the floor that agentd's journal over PostgreSQL is measured
// against: the same bytes, inserted by fenced group commit, and nothing else. A
// group is one statement that moves the sessions' heads, checks their epochs and
// inserts the rows. There is no hash, no checksum, no state, no change feed and no
// one to wake; whatever agentd costs more is the price of those.
package rawpg

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
)

const schema = `
CREATE TABLE sessions (session_id text COLLATE "C" PRIMARY KEY, epoch bigint NOT NULL, head bigint NOT NULL) WITH (fillfactor = 60);
CREATE TABLE events (session_id text COLLATE "C", sequence bigint, data bytea NOT NULL, PRIMARY KEY (session_id, sequence))`

const insertSQL = `
WITH u AS (
	SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bytea[]) AS u (session_id, epoch, sequence, data)
), moved AS (
	UPDATE sessions s SET head = u.sequence FROM u
	WHERE s.session_id = u.session_id AND s.epoch = u.epoch AND s.head = u.sequence - 1 RETURNING 1
), inserted AS (
	INSERT INTO events SELECT session_id, sequence, data FROM u
)
SELECT count(*) FROM moved`

// Log inserts for many goroutines, each of which has a session of its own.
type Log struct {
	conn *pgx.Conn

	mu      sync.Mutex
	queue   []*entry
	leading bool
}

type entry struct {
	session  string
	sequence int64
	data     []byte
	err      error
	done     bool
	wake     chan bool
}

// Create makes the tables in an empty database, with so many sessions.
func Create(ctx context.Context, url string, sessions int) (*Log, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("rawpg: %w", err)
	}
	l := &Log{conn: conn}
	if _, err := conn.Exec(ctx, schema); err != nil {
		return nil, fmt.Errorf("rawpg: %w", err)
	}
	for n := range sessions {
		if _, err := conn.Exec(ctx, `INSERT INTO sessions VALUES ($1, 1, 0)`, name(n)); err != nil {
			return nil, fmt.Errorf("rawpg: %w", err)
		}
	}
	return l, nil
}

// name is as long as the id of a session.
func name(n int) string { return fmt.Sprintf("sess_%026d", n) }

// Append returns when data is durable as the record with that sequence of session n.
// Whoever finds nobody committing commits for all who wait, and hands over when its
// own data is done.
func (l *Log) Append(n int, sequence int64, data []byte) error {
	e := &entry{session: name(n), sequence: sequence, data: data, wake: make(chan bool, 1)}
	l.mu.Lock()
	l.queue = append(l.queue, e)
	lead := !l.leading
	l.leading = true
	l.mu.Unlock()
	if !lead {
		lead = <-e.wake
	}
	for lead && !e.done {
		l.commit(e)
	}
	if lead {
		l.handOver()
	}
	return e.err
}

func (l *Log) commit(own *entry) {
	l.mu.Lock()
	group := l.queue
	l.queue = nil
	l.mu.Unlock()
	err := l.insert(group)
	for _, e := range group {
		e.err, e.done = err, true
		if e != own {
			e.wake <- false
		}
	}
}

func (l *Log) insert(group []*entry) error {
	sessions, data := make([]string, len(group)), make([][]byte, len(group))
	epochs, sequences := make([]int64, len(group)), make([]int64, len(group))
	for i, e := range group {
		sessions[i], epochs[i], sequences[i], data[i] = e.session, 1, e.sequence, e.data
	}
	var moved int
	if err := l.conn.QueryRow(context.Background(), insertSQL, sessions, epochs, sequences, data).Scan(&moved); err != nil {
		return err
	}
	if moved != len(group) {
		return errors.New("rawpg: fenced")
	}
	return nil
}

func (l *Log) handOver() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		l.leading = false
		return
	}
	l.queue[0].wake <- true
}

// Close closes the connection.
func (l *Log) Close() error { return l.conn.Close(context.Background()) }
