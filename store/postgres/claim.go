package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"agentd/store"
)

// A claim succeeds in one statement, so that of two nodes one comes first. The
// lease is compared with the database's clock. A process whose name another one took
// over claims nothing any more. With the fourth parameter the session is taken from a live
// owner too; the last one is [lease.witness].
const claimSQL = `
INSERT INTO agentd.sessions AS s (session_id, epoch, owner)
SELECT $1, 1, $2 WHERE EXISTS (SELECT 1 FROM agentd.nodes n WHERE n.node_id = $2 AND n.incarnation = $3)
ON CONFLICT (session_id) DO UPDATE SET epoch = s.epoch + 1, owner = $2
WHERE $4 OR s.owner IS NULL OR s.owner = $2 OR NOT EXISTS (
	SELECT 1 FROM agentd.nodes n WHERE n.node_id = s.owner AND n.lease_until > least(clock_timestamp(), $5))
RETURNING epoch, head, hash`

const incarnationSQL = `SELECT EXISTS (SELECT 1 FROM agentd.nodes WHERE node_id = $1 AND incarnation <> $2)`

const ownerSQL = `
SELECT n.node_id, n.address, n.lease_until FROM agentd.sessions s JOIN agentd.nodes n ON n.node_id = s.owner
WHERE s.session_id = $1`

// Releasing takes a new epoch as well: a former owner can't write.
const releaseSQL = `UPDATE agentd.sessions SET owner = NULL, epoch = epoch + 1 WHERE session_id = $1 AND epoch = $2 AND owner IS NOT NULL`

// Yielding leaves the session for the next node that adopts.
const yieldSQL = `UPDATE agentd.sessions SET owner = '', epoch = epoch + 1 WHERE session_id = $1 AND epoch = $2 AND owner IS NOT NULL`

// Claim makes the caller the one writer of a session. See [store.Store].
func (s *Store) Claim(ctx context.Context, sessionID string) (store.Claim, error) {
	return s.claim(ctx, sessionID, false)
}

// ClaimAnyway implements [store.Shared].
func (s *Store) ClaimAnyway(ctx context.Context, sessionID string) (store.Claim, error) {
	return s.claim(ctx, sessionID, true)
}

// firstEpoch is that of the first claim of a session.
const firstEpoch = 1

// ClaimNew implements [store.Shared]. The first append makes the session's row, so that a new
// session takes no transaction of its own.
func (s *Store) ClaimNew(ctx context.Context, sessionID string) (store.Claim, error) {
	if err := s.enterCall(ctx); err != nil {
		return store.Claim{}, err
	}
	defer s.calls.Done()
	if err := checkText("session id", sessionID); err != nil {
		return store.Claim{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unwritten[sessionID] = struct{}{}
	return store.Claim{Epoch: firstEpoch, Head: headRow{}.value()}, nil
}

// takeNew marks the units that are the first of their sessions. Whether or not they
// are written, a later claim looks for the session's row.
func (s *Store) takeNew(units []*unit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range units {
		if _, is := s.unwritten[u.session]; is {
			delete(s.unwritten, u.session)
			u.isNew = u.epoch == firstEpoch
		}
	}
}

// forgetNew reports whether a session was claimed as a new one and nothing was written.
func (s *Store) forgetNew(sessionID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, is := s.unwritten[sessionID]
	delete(s.unwritten, sessionID)
	return is
}

func (s *Store) claim(ctx context.Context, sessionID string, anyway bool) (store.Claim, error) {
	if err := s.enterCall(ctx); err != nil {
		return store.Claim{}, err
	}
	defer s.calls.Done()
	if err := checkText("session id", sessionID); err != nil {
		return store.Claim{}, err
	}
	s.forgetNew(sessionID)
	// An owner that is found dead between the two statements is worth another try.
	for range 10 {
		claim, err := s.tryClaim(ctx, sessionID, anyway)
		if !errors.Is(err, pgx.ErrNoRows) {
			return claim, err
		}
	}
	return store.Claim{}, fmt.Errorf("postgres: claim %s: its owner keeps changing", sessionID)
}

// tryClaim tries once. The error is pgx.ErrNoRows if the owner went away in the meantime.
func (s *Store) tryClaim(ctx context.Context, sessionID string, anyway bool) (store.Claim, error) {
	var epoch int64
	var row headRow
	err := s.queryRow(ctx, []any{&epoch, &row.head, &row.hash}, claimSQL, sessionID, s.opts.NodeID, s.incarnation, anyway, s.lease.witness())
	if err == nil {
		return store.Claim{Epoch: uint64(epoch), Head: row.value()}, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return store.Claim{}, wrapFailed("claim "+sessionID, err)
	}
	if err := s.checkReplaced(ctx); err != nil {
		return store.Claim{}, wrapFailed("claim "+sessionID, err)
	}
	owned := &store.OwnedError{SessionID: sessionID}
	err = s.queryRow(ctx, []any{&owned.Owner, &owned.Address, &owned.Until}, ownerSQL, sessionID)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return store.Claim{}, err
	case err != nil:
		return store.Claim{}, wrapFailed("claim "+sessionID, err)
	default:
		return store.Claim{}, owned
	}
}

// checkReplaced says so if another process took over this node's name.
func (s *Store) checkReplaced(ctx context.Context) error {
	var replaced bool
	if err := s.queryRow(ctx, []any{&replaced}, incarnationSQL, s.opts.NodeID, s.incarnation); err != nil {
		return err
	}
	if replaced {
		return s.loseName()
	}
	return nil
}

// Release gives a claim up. See [store.Store].
func (s *Store) Release(ctx context.Context, sessionID string, epoch uint64) error {
	if err := s.enterCall(ctx); err != nil {
		return err
	}
	defer s.calls.Done()
	if s.forgetNew(sessionID) {
		return nil
	}
	if err := s.exec(ctx, releaseSQL, sessionID, int64(epoch)); err != nil {
		return wrapFailed("release "+sessionID, err)
	}
	return nil
}

// Yield implements [store.Shared].
func (s *Store) Yield(ctx context.Context, sessionID string, epoch uint64) error {
	if err := s.enterCall(ctx); err != nil {
		return err
	}
	defer s.calls.Done()
	if s.forgetNew(sessionID) {
		return nil
	}
	if err := s.exec(ctx, yieldSQL, sessionID, int64(epoch)); err != nil {
		return wrapFailed("yield "+sessionID, err)
	}
	s.keeper.wake()
	return nil
}
