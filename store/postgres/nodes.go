package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"agentd/store"
)

const nodesSQL = `
SELECT n.node_id, n.address, n.node_id = $1, n.lease_until > clock_timestamp(), n.heartbeat, n.lease_until, n.about,
	(SELECT count(*) FROM agentd.sessions s WHERE s.owner = n.node_id)
FROM agentd.nodes n ORDER BY n.node_id <> $1, n.node_id`

// Nodes implements [store.NodeLister].
func (s *Store) Nodes(ctx context.Context) ([]store.Node, error) {
	if err := s.enterCall(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	rows, err := s.pool.Query(ctx, nodesSQL, s.opts.NodeID)
	if err != nil {
		return nil, wrapFailed("list the nodes", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (store.Node, error) {
		var n store.Node
		var seen, until time.Time
		err := row.Scan(&n.ID, &n.Address, &n.Self, &n.Alive, &seen, &until, &n.About, &n.Sessions)
		n.LastSeen, n.LeaseUntil = seen.UTC(), until.UTC()
		return n, err
	})
	if err != nil {
		return nil, wrapFailed("list the nodes", err)
	}
	return out, nil
}
