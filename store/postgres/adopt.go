package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"agentd/store"
)

// unowned is the owner of sessions that any node may take: they have work and no node
// has them.
const unowned = ""

// The statements below look a session's entries up by their key, in subqueries that give a
// value: a join, which EXISTS becomes, is planned as a comparison of all entries with all
// sessions while the database doesn't know how many there are.

// goneSQL returns the owners that are no live nodes, by one probe of the index for each
// owner that there is. There are as many as there are nodes, however many sessions they
// have. Like the statements below it gets the moment of [lease.witness]: a lease that ended
// after it isn't held against its node.
const goneSQL = `
WITH RECURSIVE owners (owner) AS (
	(SELECT owner FROM agentd.sessions WHERE owner IS NOT NULL ORDER BY owner LIMIT 1)
	UNION ALL
	SELECT (SELECT s.owner FROM agentd.sessions s WHERE s.owner > o.owner ORDER BY s.owner LIMIT 1)
	FROM owners o WHERE o.owner IS NOT NULL
)
SELECT o.owner FROM owners o WHERE o.owner IS NOT NULL AND NOT EXISTS (
	SELECT 1 FROM agentd.nodes n WHERE n.node_id = o.owner AND n.lease_until > least(clock_timestamp(), $1))`

// pickSQL locks sessions of an owner that is gone. Rows that another node is taking at
// this moment are passed over. The lease is looked at again: the owner may be back.
const pickSQL = `
SELECT s.session_id FROM agentd.sessions s
WHERE s.owner = $1
AND (SELECT true FROM agentd.index_entries x WHERE x.kind = $3 AND x.key = convert_to(s.session_id, 'UTF8'))
AND NOT EXISTS (SELECT 1 FROM agentd.nodes n WHERE n.node_id = $1 AND n.lease_until > least(clock_timestamp(), $8))
AND EXISTS (SELECT 1 FROM agentd.nodes n WHERE n.node_id = $2 AND n.incarnation = $5)
AND coalesce((SELECT split_part(convert_from(p.value, 'UTF8'), E'\n', 1) = ANY($7)
	FROM agentd.index_entries p WHERE p.kind = $6 AND p.key = convert_to(s.session_id, 'UTF8')), true)
LIMIT $4 FOR UPDATE SKIP LOCKED`

// takeSQL takes the sessions that were locked.
const takeSQL = `UPDATE agentd.sessions SET owner = $2, epoch = epoch + 1 WHERE session_id = ANY ($1)`

// settleSQL says which of the sessions are there, whether what was under way with each has
// ended, and whether this node has it then. A transaction whose connection broke may still be
// at its commit.
const settleSQL = `
WITH settled AS (SELECT session_id, owner FROM agentd.sessions WHERE session_id = ANY ($1) FOR UPDATE SKIP LOCKED)
SELECT s.session_id, f.session_id IS NOT NULL, coalesce(f.owner = $2, false)
FROM agentd.sessions s LEFT JOIN settled f USING (session_id) WHERE s.session_id = ANY ($1)`

// freeSQL gives the other sessions of an owner that is gone free. They need no node; while
// they have an owner they are only in the way of those that do.
const freeSQL = `
WITH picked AS (
	SELECT s.session_id FROM agentd.sessions s
	WHERE s.owner = $1
	AND (SELECT true FROM agentd.index_entries x WHERE x.kind = $2 AND x.key = convert_to(s.session_id, 'UTF8')) IS NULL
	AND NOT EXISTS (SELECT 1 FROM agentd.nodes n WHERE n.node_id = $1 AND n.lease_until > least(clock_timestamp(), $4))
	LIMIT $3 FOR UPDATE SKIP LOCKED
)
UPDATE agentd.sessions s SET owner = NULL, epoch = s.epoch + 1 FROM picked p WHERE s.session_id = p.session_id`

// lostSQL marks sessions that have work and no owner at all. Those are the ones whose place
// no node reached, for a node that does, those of a race of freeSQL with an owner that came
// back, and those that nodes of an earlier version left.
const lostSQL = `
UPDATE agentd.sessions s SET owner = '' FROM agentd.index_entries x
WHERE x.kind = $1 AND s.session_id = convert_from(x.key, 'UTF8') AND s.owner IS NULL
AND coalesce((SELECT split_part(convert_from(p.value, 'UTF8'), E'\n', 2) <> $4 OR split_part(convert_from(p.value, 'UTF8'), E'\n', 1) = ANY($3)
	FROM agentd.index_entries p WHERE p.kind = $2 AND p.key = x.key), true)`

// displacedSQL finds the sessions of owners that are gone whose place this node doesn't
// reach for sure, and the turn that this node has in trying them. Those of other nodes come
// from the end: a node that helps out takes last what the other one takes first.
const displacedSQL = `
WITH takers AS (
	SELECT greatest(count(*), 1) AS number, count(*) FILTER (WHERE node_id < $7) AS rank
	FROM agentd.nodes WHERE lease_until > clock_timestamp() AND coalesce(about ->> 'state', '') = ''
), found AS (
	SELECT s.session_id, (t.number + t.rank - (hashtext(s.session_id) & 2147483647) % t.number) % t.number AS turn,
		(SELECT convert_from(p.value, 'UTF8') FROM agentd.index_entries p WHERE p.kind = $3 AND p.key = convert_to(s.session_id, 'UTF8')) AS place
	FROM takers t, agentd.sessions s
	WHERE s.owner = ANY($1)
	AND (SELECT true FROM agentd.index_entries x WHERE x.kind = $2 AND x.key = convert_to(s.session_id, 'UTF8'))
	AND NOT EXISTS (SELECT 1 FROM agentd.nodes n WHERE n.node_id = s.owner AND n.lease_until > least(clock_timestamp(), $8))
)
SELECT session_id, turn FROM found
WHERE split_part(place, E'\n', 1) <> ALL($4) AND split_part(place, E'\n', 2) <> $5
ORDER BY turn, CASE WHEN turn = 0 THEN session_id END, session_id DESC LIMIT $6`

const ownSQL = `
SELECT s.session_id FROM agentd.sessions s
WHERE s.owner = $1 AND (SELECT true FROM agentd.index_entries x WHERE x.kind = $2 AND x.key = convert_to(s.session_id, 'UTF8'))
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
	ids, err := s.settleAdopted(ctx)
	if err != nil {
		return nil, wrapFailed("adopt sessions", err)
	}
	if len(ids) >= limit {
		return ids, nil
	}
	gone, err := collectRows(ctx, s, pgx.RowTo[string], goneSQL, s.lease.witness())
	if err != nil {
		return ids, wrapFailed("adopt sessions", err)
	}
	for _, owner := range gone {
		taken, err := s.adoptFrom(ctx, owner, which, limit-len(ids))
		if err != nil {
			return ids, wrapFailed("adopt sessions", err)
		}
		if ids = append(ids, taken...); len(ids) >= limit {
			return ids, nil
		}
		if owner == unowned {
			continue
		}
		if err := s.exec(ctx, freeSQL, owner, which.Kind, freed, s.lease.witness()); err != nil {
			return ids, wrapFailed("adopt sessions", err)
		}
	}
	return ids, nil
}

// adoptFrom takes sessions of an owner that is gone. Their ids are known before they are taken:
// if the outcome isn't, they are looked at again, see settleAdopted.
func (s *Store) adoptFrom(ctx context.Context, owner string, which *store.Adoption, limit int) ([]string, error) {
	var picked []string
	var unknown error
	err := s.retryOnce(ctx, func(p *pgxpool.Pool) error {
		picked = nil
		err := pgx.BeginFunc(ctx, p, func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, pickSQL, owner, s.opts.NodeID, which.Kind, limit, s.incarnation, which.Places, marks(which), s.lease.witness())
			if err != nil {
				return err
			}
			if picked, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil || len(picked) == 0 {
				return err
			}
			_, err = tx.Exec(ctx, takeSQL, picked, s.opts.NodeID)
			return err
		})
		if err != nil && len(picked) > 0 {
			unknown = err
			return nil // to do it again would take others
		}
		return err
	})
	if err != nil || unknown == nil {
		return picked, err
	}
	s.mu.Lock()
	s.unsettled = append(s.unsettled, picked...)
	s.mu.Unlock()
	return nil, unknown
}

// settleAdopted returns the sessions that this node has taken after all, of those that it
// couldn't know of whether it has. Those of which it still can't stay for the next call.
func (s *Store) settleAdopted(ctx context.Context) ([]string, error) {
	s.mu.Lock()
	unsettled := s.unsettled
	s.unsettled = nil
	s.mu.Unlock()
	if len(unsettled) == 0 {
		return nil, nil
	}
	var own, open []string
	err := s.retryOnce(ctx, func(p *pgxpool.Pool) error {
		own, open = nil, nil
		rows, err := p.Query(ctx, settleSQL, unsettled, s.opts.NodeID)
		if err != nil {
			return err
		}
		var id string
		var settled, taken bool
		_, err = pgx.ForEachRow(rows, []any{&id, &settled, &taken}, func() error {
			switch {
			case !settled:
				open = append(open, id)
			case taken:
				own = append(own, id)
			}
			return nil
		})
		return err
	})
	if err != nil {
		own, open = nil, unsettled
	}
	s.mu.Lock()
	s.unsettled = append(s.unsettled, open...)
	s.mu.Unlock()
	return own, err
}

// marks are never nil: to SQL that would be unknown.
func marks(which *store.Adoption) []string { return append([]string{}, which.Reach...) }

// Displaced implements [store.Shared].
func (s *Store) Displaced(ctx context.Context, which *store.Adoption, limit int) ([]store.Displaced, error) {
	if err := s.enterCall(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	gone, err := collectRows(ctx, s, pgx.RowTo[string], goneSQL, s.lease.witness())
	if err != nil {
		return nil, wrapFailed("look for sessions", err)
	}
	if len(gone) == 0 {
		return nil, nil
	}
	found, err := collectRows(ctx, s, pgx.RowToStructByPos[store.Displaced], displacedSQL, gone, which.Kind, which.Places, marks(which), store.PlacedAway, limit, s.opts.NodeID, s.lease.witness())
	if err != nil {
		return nil, wrapFailed("look for sessions", err)
	}
	return found, nil
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
