package postgres

import (
	"context"
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
// lease: one of the pool's own may be free by then, or another client's.
func (s *Store) whenRoom(ctx context.Context, do func() error) error {
	until := time.Now().Add(s.opts.LeaseTTL / 2)
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := do()
		if !isFull(err) || time.Now().After(until) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
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
