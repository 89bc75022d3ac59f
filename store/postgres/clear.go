package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// A node clears up over its pool, beside everything else: a statement that waits for a lock
// on a table keeps neither the lease nor what other nodes are told waiting.

const (
	// clearing is how often a node clears up, clearPatience how long that may wait for locks.
	clearing      = time.Minute
	clearPatience = 10 * time.Second
	// forget is how long a dead node's row is kept, for people.
	forget    = 24 * time.Hour
	forgetSQL = `DELETE FROM agentd.nodes WHERE lease_until < clock_timestamp() - $1::interval`
)

// clearUpUntil clears up until ctx ends, and removes months that are no longer needed.
func (s *Store) clearUpUntil(ctx context.Context) {
	defer close(s.cleared)
	prune := time.Now().Add(clearing)
	for wait := min(s.opts.LeaseTTL/3, clearing); ; wait = clearing {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if s.Err() != nil {
			continue
		}
		if err := s.clearUp(ctx); err != nil && ctx.Err() == nil {
			s.opts.Logger.Warn("postgres: what is no longer needed could not be removed; it is tried again", "node", s.opts.NodeID, "error", err)
		}
		if now := time.Now(); now.After(prune) {
			prune = now.Add(pruneEvery)
			if err := s.pruneMonths(ctx, pruneAfter); err != nil && ctx.Err() == nil {
				s.opts.Logger.Warn("postgres: a month of events could not be cleared up; it is tried again", "error", err)
			}
		}
	}
}

// clearUp removes what is no longer needed and sees to the tables of months. Every node does
// it; it is cheap when another one was quicker.
func (s *Store) clearUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, clearPatience)
	defer cancel()
	return s.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		if _, err := conn.Exec(ctx, reapUploadsSQL); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, forgetSQL, forget); err != nil {
			return err
		}
		s.tryMonths(ctx, conn.Conn())
		return nil
	})
}
