package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// A node that was there before the database went away knows that leases ended for that reason
// alone: see [lease.witness]. A node that starts afterwards has only what the rows say. If any
// node renewed its lease after another one's had ended, the database was in reach and the other
// one is gone. If none did, perhaps nobody could, so the node that starts leaves the sessions
// of that one alone for as long as a lease.
//
// What it begins with is evidence for the next one that starts, which would take the first sign
// of life after an outage for a proof that the others are gone. So before that sign the silent
// nodes are given a lease in their rows, where all see it: by a node that is back after an
// outage, and by one that starts while no other has a lease. They are given it once, until they
// renew it: commands that open the database for themselves, one after the other, wait once.

// seenSQL returns the end of what can't have been an outage: the last sign of life, or when the
// time was over that a node was given. There is no row if no lease ended after that.
const seenSQL = `
WITH seen AS (
	SELECT greatest(max(heartbeat), max(lease_until) FILTER (WHERE lease_until <= clock_timestamp() AND about ->> 'awaited' = 'true')) AS at
	FROM agentd.nodes
)
SELECT at FROM seen WHERE EXISTS (
	SELECT 1 FROM agentd.nodes n WHERE n.node_id <> $1 AND n.lease_until > seen.at AND n.lease_until <= clock_timestamp())`

// awaitSQL locks rows in one order: two nodes that start together would otherwise wait for each
// other. Where the third parameter is false, nodes that have a lease decide for themselves.
const awaitSQL = `
WITH silent AS (
	SELECT n.node_id FROM agentd.nodes n
	WHERE n.node_id <> $1 AND n.lease_until <= clock_timestamp()
	AND coalesce(n.about ->> 'awaited', '') <> 'true' AND coalesce(n.about ->> 'forgotten', '') <> 'true'
	AND NOT EXISTS (SELECT 1 FROM agentd.nodes w WHERE w.node_id <> n.node_id AND w.heartbeat > n.lease_until)
	AND ($3 OR NOT EXISTS (SELECT 1 FROM agentd.nodes l WHERE l.node_id <> $1 AND l.lease_until > clock_timestamp()))
	ORDER BY n.node_id FOR UPDATE
)
UPDATE agentd.nodes n SET lease_until = clock_timestamp() + $2::interval, about = n.about || '{"awaited": true}'
FROM silent s WHERE n.node_id = s.node_id`

// lookForOutage gives other nodes the time to come back if the database may have been away. For
// those whose leases it didn't renew it returns since when that may be; otherwise the zero time.
func (s *Store) lookForOutage(ctx context.Context, conn *pgx.Conn) (since time.Time, err error) {
	if err := s.awaitOthers(ctx, conn, false); err != nil {
		return time.Time{}, err
	}
	err = conn.QueryRow(ctx, seenSQL, s.opts.NodeID).Scan(&since)
	if errors.Is(err, pgx.ErrNoRows) {
		return time.Time{}, nil
	}
	return since, err
}

// awaitOthers gives a lease to the nodes that may only have been cut off from the database. It
// is called before this node's row says that the database is in reach again.
func (s *Store) awaitOthers(ctx context.Context, conn *pgx.Conn, certain bool) error {
	tag, err := conn.Exec(ctx, awaitSQL, s.opts.NodeID, s.opts.LeaseTTL, certain)
	if n := tag.RowsAffected(); n > 0 {
		s.opts.Logger.Info("postgres: the database may have been out of reach for other nodes too; their sessions are left alone for as long as a lease",
			"node", s.opts.NodeID, "nodes", n, "lease", s.opts.LeaseTTL.String())
	}
	return err
}
