package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"agentd/store"
)

// baseSQL keeps what replaces the removed records, and aborts unless the last of
// them is stored with that hash, wasn't removed before and is not the session's last. It
// runs after the append of its transaction, which holds the session's row.
const baseSQL = `
WITH kept AS (
	INSERT INTO agentd.bases (session_id, sequence, hash, crc, data)
	SELECT e.session_id, e.sequence, e.hash, $4, $5
	FROM agentd.events e JOIN agentd.sessions s ON s.session_id = e.session_id
	WHERE e.session_id = $1 AND e.sequence = $2 AND e.hash = $3 AND e.sequence < s.head
		AND e.sequence > ` + baseOfSQL + `
	ON CONFLICT (session_id) DO UPDATE SET
		sequence = excluded.sequence, hash = excluded.hash, crc = excluded.crc, data = excluded.data
	RETURNING 1
)
SELECT agentd.require((SELECT count(*) FROM kept) = 1)`

// baseOfSQL is the last record that was removed from session $1. Rows up to it may still be
// there: those of months that are over go when their table does.
const baseOfSQL = `coalesce((SELECT x.sequence FROM agentd.bases x WHERE x.session_id = $1), 0)`

func trimFrom(table string) string {
	return `DELETE FROM ` + table + ` WHERE session_id = $1 AND sequence <= $2`
}

var trimSQL = trimFrom(allEvents)

const (
	baseReadSQL = `SELECT sequence, hash, crc, data FROM agentd.bases WHERE session_id = $1`
	baseAtSQL   = `SELECT sequence FROM agentd.bases WHERE session_id = $1`
	hashAtSQL   = `SELECT hash FROM agentd.events WHERE session_id = $1 AND sequence = $2 AND sequence > ` + baseOfSQL
)

// queueTrims removes records of units. A unit with a trim has no other batch. What may go
// later is left where it will go with its month; a session's base hides it.
func queueTrims(b *pgx.Batch, units []*unit, month *eventSQL) {
	for _, u := range units {
		t := u.trim
		if t == nil {
			continue
		}
		b.Queue(baseSQL, u.session, int64(t.Through), t.Hash[:], baseSum(u.session, t.Through, t.Hash, t.Data), nonNil(t.Data))
		from := []string{trimSQL}
		if t.Later && month != nil {
			from = month.trim
		}
		for _, sql := range from {
			b.Queue(sql, u.session, int64(t.Through))
		}
	}
}

// baseSum is the checksum of a base. No session id has a zero byte, so it is none
// of a record or a snapshot.
func baseSum(sessionID string, sequence uint64, hash store.Hash, data []byte) int64 {
	return checksum("\x00base\x00"+sessionID, sequence, hash[:], data)
}

// lookTrims finds out whether the last record that a unit removes is there.
func (s *Store) lookTrims(ctx context.Context, units []*unit, f *found) error {
	for _, u := range units {
		if u.trim == nil {
			continue
		}
		var hash []byte
		err := s.queryRow(ctx, []any{&hash}, hashAtSQL, u.session, clamp(u.trim.Through))
		switch {
		case errors.Is(err, pgx.ErrNoRows):
		case err != nil:
			return err
		case toHash(hash) == u.trim.Hash:
			f.trims[u.session] = true
		}
	}
	return nil
}

// judgeTrim says why a unit's records can't be removed, or nil.
func (f found) judgeTrim(u *unit, head int64) error {
	if u.trim == nil {
		return nil
	}
	head = max(head, int64(u.head))
	if !f.trims[u.session] || clamp(u.trim.Through) >= head {
		return fmt.Errorf("%w: session %s can't be removed through record %d", store.ErrConflict, u.session, u.trim.Through)
	}
	return nil
}

// Base returns what replaced the records that were removed. See [store.Store].
func (s *Store) Base(ctx context.Context, sessionID string) (store.Snapshot, error) {
	if err := s.enterCall(ctx); err != nil {
		return store.Snapshot{}, err
	}
	defer s.calls.Done()
	base := store.Snapshot{SessionID: sessionID}
	var sequence, crc int64
	var hash []byte
	err := s.queryRow(ctx, []any{&sequence, &hash, &crc, &base.Data}, baseReadSQL, sessionID)
	if errors.Is(err, pgx.ErrNoRows) {
		return store.Snapshot{}, fmt.Errorf("%w: base of session %s", store.ErrNotFound, sessionID)
	}
	if err != nil {
		return store.Snapshot{}, wrapFailed("read the base of "+sessionID, err)
	}
	base.Sequence, base.Hash = uint64(sequence), toHash(hash)
	if baseSum(sessionID, base.Sequence, base.Hash, base.Data) != crc {
		return store.Snapshot{}, fmt.Errorf("%w: session %s: its base doesn't match its checksum", store.ErrCorrupt, sessionID)
	}
	return base, nil
}

// absent says why the records through one are not there: a *store.TrimmedError if
// they were removed, perhaps between two pages, else what is given.
func (s *Store) absent(ctx context.Context, sessionID string, through int64, otherwise error) error {
	var base int64
	err := s.queryRow(ctx, []any{&base}, baseAtSQL, sessionID)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return otherwise
	case err != nil:
		return wrapFailed("read "+sessionID, err)
	case base >= through:
		return &store.TrimmedError{SessionID: sessionID, Through: uint64(base)}
	}
	return otherwise
}
