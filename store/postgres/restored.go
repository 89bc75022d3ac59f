package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"agentd/store"
)

// A database can be restored to an earlier moment while a node runs, which then has facts
// in memory, and has shown some, that there never were, and would go on looking for what
// others append at a place that is yet to come. So the node's row counts its renewals: one
// that was acknowledged and isn't there says that the database went back. A standby that
// lost nothing has them all, and the node goes on.

const (
	// A renewal that was given up may arrive late.
	renewSQL = `
UPDATE agentd.nodes SET address = $3, lease_until = clock_timestamp() + $4::interval, heartbeat = clock_timestamp(), about = $5,
	beats = greatest(beats, $6)
WHERE node_id = $1 AND incarnation = $2 AND beats >= $7
RETURNING heartbeat`
	standingSQL = `SELECT incarnation, heartbeat FROM agentd.nodes WHERE node_id = $1`
	silenceSQL  = `SELECT clock_timestamp() - $1::timestamptz >= $2::interval`
)

// errGone says that the node's row was removed because it was silent for too long.
var errGone = errors.New("postgres: the node was forgotten")

// notRenewed returns why the node's row couldn't be renewed.
func (k *keeper) notRenewed(ctx context.Context) error {
	var incarnation string
	var heartbeat time.Time
	err := k.conn.QueryRow(ctx, standingSQL, k.s.opts.NodeID).Scan(&incarnation, &heartbeat)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		// By the clock that rows are removed by: this machine may have slept, and its own
		// clock may have jumped.
		var removed bool
		if err := k.conn.QueryRow(ctx, silenceSQL, k.acknowledged, forget).Scan(&removed); err != nil {
			return err
		}
		if removed {
			return errGone
		}
		return k.s.restoredError()
	case err != nil:
		return err
	case incarnation != k.s.incarnation && !heartbeat.Before(k.s.registered):
		return k.s.loseName()
	default:
		return k.s.restoredError()
	}
}

func (s *Store) restoredError() error {
	return fmt.Errorf("%w: what node %s recorded lately isn't there any more; start the node again", store.ErrRestored, s.opts.NodeID)
}

// fail makes all calls end with err from now on, because what this process knows of the
// database doesn't hold any more.
func (s *Store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure != nil {
		return
	}
	s.failure = err
	s.lease.giveUp()
	s.setFailing()
	s.opts.Logger.Error("postgres: the node ends", "node", s.opts.NodeID, "error", err)
}

// Failed returns a channel that is closed when the store can't go on; Err says why.
func (s *Store) Failed() <-chan struct{} { return s.failing.Done() }
