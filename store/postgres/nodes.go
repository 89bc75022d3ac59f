package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"agentd/store"
)

const nodesSQL = `
SELECT n.node_id, n.address, n.node_id = $1, n.lease_until > clock_timestamp(), n.heartbeat, n.lease_until, n.about
FROM agentd.nodes n
WHERE n.lease_until > clock_timestamp() OR coalesce(n.about ->> 'forgotten', '') <> 'true'
ORDER BY n.node_id <> $1, n.node_id`

// countOwnedSQL leaves out the names under which nodes write index entries alone.
const countOwnedSQL = `SELECT owner, count(*) FROM agentd.sessions WHERE owner = ANY ($1) AND head > 0 AND session_id <> $2 GROUP BY owner`

// forgetNodeSQL leaves the node's row: a process that was only out of reach finds it when it
// renews its lease, and is the node again. A row without a sign of life goes with the others.
const forgetNodeSQL = `
UPDATE agentd.nodes SET about = about || '{"forgotten": true}' WHERE node_id = $1 AND lease_until <= clock_timestamp() AND heartbeat <= $2`

// Forget implements [store.Shared].
func (s *Store) Forget(ctx context.Context, nodeID string, seen time.Time) error {
	if err := s.enterCall(ctx); err != nil {
		return err
	}
	defer s.calls.Done()
	if err := s.exec(ctx, forgetNodeSQL, nodeID, seen); err != nil {
		return wrapFailed("forget a node", err)
	}
	return nil
}

// Nodes implements [store.Shared].
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
		err := row.Scan(&n.ID, &n.Address, &n.Self, &n.Alive, &seen, &until, &n.About)
		n.LastSeen, n.LeaseUntil = seen.UTC(), until.UTC()
		return n, err
	})
	if err != nil {
		return nil, wrapFailed("list the nodes", err)
	}
	return out, nil
}

// CountOwned implements [store.Shared].
func (s *Store) CountOwned(ctx context.Context, shared string, nodeIDs ...string) (map[string]int64, error) {
	if err := s.enterCall(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	rows, err := collectRows(ctx, s, pgx.RowToStructByPos[owned], countOwnedSQL, nodeIDs, shared)
	if err != nil {
		return nil, wrapFailed("count the sessions of nodes", err)
	}
	counts := make(map[string]int64, len(rows))
	for _, r := range rows {
		counts[r.Owner] = r.Sessions
	}
	return counts, nil
}

// owned is how many sessions a node owns.
type owned struct {
	Owner    string
	Sessions int64
}
