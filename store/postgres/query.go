package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// retryOnce runs do, which must be safe to repeat, on a connection of the pool. A
// connection may have died since it was last used, with the server's restart for
// example, so after a failure of the connection do is run once more on a new one.
func (s *Store) retryOnce(ctx context.Context, do func(*pgxpool.Pool) error) error {
	err := s.whenRoom(ctx, func() error { return do(s.pool) })
	if isConnection(err) && ctx.Err() == nil {
		s.pool.Reset()
		err = do(s.pool)
	}
	return classifyError(err)
}

// Bounds of the pause before a connection is asked for again.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = 320 * time.Millisecond
)

// whenRoom runs do again while the database has no connection left, for half the time of a
// lease: one of the pool's own may be free by then, or another client's. That time begins with
// the first call that found none, not with each: who waited for another call is answered with it.
func (s *Store) whenRoom(ctx context.Context, do func() error) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := do()
		if full := s.fullFor(isFull(err)); !isFull(err) || full > s.opts.LeaseTTL/2 {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// lack is since when the database has had no connection left, and when that was seen last.
type lack struct {
	mu          sync.Mutex
	since, seen time.Time
}

// fullFor notes whether the database had a connection, and returns for how long it has had none.
// What was seen long ago says nothing of the time in between.
func (s *Store) fullFor(full bool) time.Duration {
	l, now := &s.lack, time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !full {
		l.since = time.Time{}
		return 0
	}
	if l.since.IsZero() || now.Sub(l.seen) > s.opts.LeaseTTL/2 {
		l.since = now
	}
	l.seen = now
	return now.Sub(l.since)
}

// queryRow reads one row, or returns pgx.ErrNoRows.
func (s *Store) queryRow(ctx context.Context, dest []any, sql string, args ...any) error {
	return s.readOnce(ctx, func(p *pgxpool.Pool) error { return p.QueryRow(ctx, sql, args...).Scan(dest...) })
}

// exec runs a statement that is safe to repeat.
func (s *Store) exec(ctx context.Context, sql string, args ...any) error {
	return s.retryOnce(ctx, func(p *pgxpool.Pool) error {
		_, err := p.Exec(ctx, sql, args...)
		return err
	})
}

// collectRows reads rows. After a failure of the connection it begins again.
func collectRows[T any](ctx context.Context, s *Store, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	var list []T
	err := s.readOnce(ctx, func(p *pgxpool.Pool) error {
		rows, err := p.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, scan)
		return err
	})
	return list, err
}
