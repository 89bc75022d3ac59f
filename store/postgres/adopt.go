package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"agentd/store"
)

// unowned is the owner of sessions that any node may take: they have work and no node
// has them.
const unowned = ""

// goneSQL returns the owners that are no live nodes, by one probe of the index for each
// owner that there is. There are as many as there are nodes, however many sessions they
// have.
const goneSQL = `
WITH RECURSIVE owners (owner) AS (
	(SELECT owner FROM agentd.sessions WHERE owner IS NOT NULL ORDER BY owner LIMIT 1)
	UNION ALL
	SELECT (SELECT s.owner FROM agentd.sessions s WHERE s.owner > o.owner ORDER BY s.owner LIMIT 1)
	FROM owners o WHERE o.owner IS NOT NULL
)
SELECT o.owner FROM owners o WHERE o.owner IS NOT NULL AND NOT EXISTS (
	SELECT 1 FROM agentd.nodes n WHERE n.node_id = o.owner AND n.lease_until > clock_timestamp())`

// adoptSQL takes sessions of an owner that is gone. Rows that another node is taking at
// this moment are passed over. The lease is looked at again: the owner may be back.
const adoptSQL = `
WITH picked AS (
	SELECT s.session_id FROM agentd.sessions s
	WHERE s.owner = $1
	AND EXISTS (SELECT 1 FROM agentd.index_entries x WHERE x.kind = $3 AND x.key = convert_to(s.session_id, 'UTF8'))
	AND NOT EXISTS (SELECT 1 FROM agentd.nodes n WHERE n.node_id = $1 AND n.lease_until > clock_timestamp())
	AND EXISTS (SELECT 1 FROM agentd.nodes n WHERE n.node_id = $2 AND n.incarnation = $5)
	AND NOT EXISTS (SELECT 1 FROM agentd.index_entries p WHERE p.kind = $6 AND p.key = convert_to(s.session_id, 'UTF8')
		AND split_part(convert_from(p.value, 'UTF8'), E'\n', 1) <> ALL($7))
	LIMIT $4 FOR UPDATE SKIP LOCKED
)
UPDATE agentd.sessions s SET owner = $2, epoch = s.epoch + 1 FROM picked p WHERE s.session_id = p.session_id
RETURNING s.session_id`

// freeSQL gives the other sessions of an owner that is gone free. They need no node; while
// they have an owner they are only in the way of those that do.
const freeSQL = `
WITH picked AS (
	SELECT s.session_id FROM agentd.sessions s
	WHERE s.owner = $1
	AND NOT EXISTS (SELECT 1 FROM agentd.index_entries x WHERE x.kind = $2 AND x.key = convert_to(s.session_id, 'UTF8'))
	AND NOT EXISTS (SELECT 1 FROM agentd.nodes n WHERE n.node_id = $1 AND n.lease_until > clock_timestamp())
	LIMIT $3 FOR UPDATE SKIP LOCKED
)
UPDATE agentd.sessions s SET owner = NULL, epoch = s.epoch + 1 FROM picked p WHERE s.session_id = p.session_id`

// lostSQL marks sessions that have work and no owner at all. Those are the ones whose place
// no node reached, for a node that does, those of a race of freeSQL with an owner that came
// back, and those that nodes of an earlier version left.
const lostSQL = `
UPDATE agentd.sessions s SET owner = '' FROM agentd.index_entries x
WHERE x.kind = $1 AND s.session_id = convert_from(x.key, 'UTF8') AND s.owner IS NULL
AND NOT EXISTS (SELECT 1 FROM agentd.index_entries p WHERE p.kind = $2 AND p.key = x.key
	AND split_part(convert_from(p.value, 'UTF8'), E'\n', 2) = $4
	AND split_part(convert_from(p.value, 'UTF8'), E'\n', 1) <> ALL($3))`

// displacedSQL finds the sessions of an owner that is gone whose place this node doesn't
// reach for sure.
const displacedSQL = `
SELECT s.session_id FROM agentd.sessions s
JOIN agentd.index_entries x ON x.kind = $2 AND x.key = convert_to(s.session_id, 'UTF8')
JOIN agentd.index_entries p ON p.kind = $3 AND p.key = x.key
WHERE s.owner = $1
AND split_part(convert_from(p.value, 'UTF8'), E'\n', 1) <> ALL($4)
AND split_part(convert_from(p.value, 'UTF8'), E'\n', 2) <> $5
AND NOT EXISTS (SELECT 1 FROM agentd.nodes n WHERE n.node_id = $1 AND n.lease_until > clock_timestamp())
ORDER BY s.session_id LIMIT $6`

const ownSQL = `
SELECT s.session_id FROM agentd.sessions s
WHERE s.owner = $1 AND EXISTS (SELECT 1 FROM agentd.index_entries x WHERE x.kind = $2 AND x.key = convert_to(s.session_id, 'UTF8'))
ORDER BY s.session_id`

const (
	// freed is how many sessions are given free at once.
	freed = 500
	// sweepEvery is how often sessions without any owner are looked for.
	sweepEvery = time.Minute
)

// Adopt implements [store.Shared].
func (s *Store) Adopt(ctx context.Context, which *store.Adoption, limit int) ([]string, error) {
	if err := s.enterCall(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	if s.sweepDue() {
		if err := s.exec(ctx, lostSQL, which.Kind, which.Places, marks(which), store.PlacedAway); err != nil {
			return nil, wrapFailed("adopt sessions", err)
		}
	}
	gone, err := collectRows(ctx, s, pgx.RowTo[string], goneSQL)
	if err != nil {
		return nil, wrapFailed("adopt sessions", err)
	}
	var ids []string
	for _, owner := range gone {
		taken, err := collectRows(ctx, s, pgx.RowTo[string], adoptSQL, owner, s.opts.NodeID, which.Kind, limit-len(ids), s.incarnation, which.Places, marks(which))
		if err != nil {
			return ids, wrapFailed("adopt sessions", err)
		}
		if ids = append(ids, taken...); len(ids) >= limit {
			return ids, nil
		}
		if owner == unowned {
			continue
		}
		if err := s.exec(ctx, freeSQL, owner, which.Kind, freed); err != nil {
			return ids, wrapFailed("adopt sessions", err)
		}
	}
	return ids, nil
}

// marks are never nil: to SQL that would be unknown.
func marks(which *store.Adoption) []string { return append([]string{}, which.Reach...) }

// Displaced implements [store.Shared].
func (s *Store) Displaced(ctx context.Context, which *store.Adoption, limit int) ([]string, error) {
	if err := s.enterCall(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	gone, err := collectRows(ctx, s, pgx.RowTo[string], goneSQL)
	if err != nil {
		return nil, wrapFailed("look for sessions", err)
	}
	var ids []string
	for _, owner := range gone {
		found, err := collectRows(ctx, s, pgx.RowTo[string], displacedSQL, owner, which.Kind, which.Places, marks(which), store.PlacedAway, limit-len(ids))
		if err != nil {
			return ids, wrapFailed("look for sessions", err)
		}
		if ids = append(ids, found...); len(ids) >= limit {
			break
		}
	}
	return ids, nil
}

// sweepDue reports whether sessions without any owner are to be looked for, which the
// first call does.
func (s *Store) sweepDue() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Before(s.sweeps) {
		return false
	}
	s.sweeps = now.Add(sweepEvery)
	return true
}

// Owned implements [store.Shared].
func (s *Store) Owned(ctx context.Context, kind string) ([]string, error) {
	if err := s.enterCall(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	ids, err := collectRows(ctx, s, pgx.RowTo[string], ownSQL, s.opts.NodeID, kind)
	if err != nil {
		return nil, wrapFailed("list this node's sessions", err)
	}
	return ids, nil
}

var _ store.Shared = (*Store)(nil)
