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
	WHERE e.session_id = $1 AND e.sequence = $2 AND substr(e.hash, 1, 32) = $3 AND e.sequence < s.head
		AND e.sequence > ` + baseOfSQL + `
	ON CONFLICT (session_id) DO UPDATE SET
		sequence = excluded.sequence, hash = excluded.hash, crc = excluded.crc, data = excluded.data
	RETURNING 1
)
SELECT agentd.require((SELECT count(*) FROM kept) = 1)`

// baseCutSQL is baseSQL for a trim that ends within a pack: the row is replaced by one with the
// records that stay, unless it isn't the one that was read any more. So no row has records that
// were removed beside others that weren't. It goes to the table that has no month, because a
// role that can't update rows can append and delete them.
const baseCutSQL = `
WITH cut AS (
	DELETE FROM agentd.events e WHERE e.session_id = $1 AND e.sequence = $6 AND e.hash = $7 AND e.crc = $8
	RETURNING e.session_id, e.sequence
), rest AS (
	INSERT INTO agentd.events (session_id, sequence, hash, crc, data)
	SELECT c.session_id, c.sequence, $9::bytea, $10::bigint, $11::bytea FROM cut c
	RETURNING session_id
), kept AS (
	INSERT INTO agentd.bases (session_id, sequence, hash, crc, data)
	SELECT r.session_id, $2::bigint, $3::bytea, $4::bigint, $5::bytea
	FROM rest r JOIN agentd.sessions s ON s.session_id = r.session_id
	WHERE $2 < s.head AND $2 > ` + baseOfSQL + `
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
	// rowAtSQL finds the row that has a record, if there is one: the first that ends there or
	// a few sequences further on.
	rowAtSQL = `SELECT sequence, hash, crc, data FROM agentd.events
		WHERE session_id = $1 AND sequence >= $2 AND sequence < $3 AND sequence > ` + baseOfSQL + ` ORDER BY sequence LIMIT 1`
)

// queueTrims removes records of units. A unit with a trim has no other batch. What may go
// later is left where it will go with its month; a session's base hides it.
func queueTrims(b *pgx.Batch, units []*unit, month *eventSQL, c *cut) {
	for _, u := range units {
		t := u.trim
		if t == nil {
			continue
		}
		args := []any{u.session, int64(t.Through), t.Hash[:], baseSum(u.session, t.Through, t.Hash, t.Data), nonNil(t.Data)}
		if c == nil {
			b.Queue(baseSQL, args...)
		} else {
			b.Queue(baseCutSQL, append(args, c.old.sequence, c.old.key, c.old.crc, c.rest.key, c.rest.crc, c.rest.data)...)
		}
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

// cut is a pack of which a trim leaves some records.
type cut struct{ old, rest eventRow }

// findCut returns the pack that the trim of a wave cuts, nil if there is none. A unit with a
// trim is a wave of its own.
func (s *Store) findCut(ctx context.Context, units []*unit) (*cut, error) {
	var c *cut
	var err error
	if units[0].trim != nil {
		c, _, err = s.lookTrim(ctx, units[0])
	}
	return c, err
}

// lookTrim reports whether the last record that a unit removes is there, and returns what the
// trim cuts.
func (s *Store) lookTrim(ctx context.Context, u *unit) (c *cut, there bool, err error) {
	through := clamp(u.trim.Through)
	var row eventRow
	err = s.queryRow(ctx, []any{&row.sequence, &row.key, &row.crc, &row.data}, rowAtSQL, u.session, through, beyondPack(clamp(u.trim.Through+1)))
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	case row.sequence == through:
		return nil, toHash(row.key) == u.trim.Hash, nil
	case row.first() > through:
		return nil, false, nil
	}
	list, err := row.records(u.session)
	if err != nil {
		return nil, false, err
	}
	at := through - row.first()
	if list[at].Hash != u.trim.Hash {
		return nil, false, nil
	}
	var rest []*store.Record
	for i := at + 1; i < int64(len(list)); i++ {
		rest = append(rest, &list[i])
	}
	p := packer{packs: true}
	return &cut{old: row, rest: p.rowOf(u.session, rest)}, true, nil
}

// lookTrims finds out whether the last record that a unit removes is there.
func (s *Store) lookTrims(ctx context.Context, units []*unit, f *found) error {
	for _, u := range units {
		if u.trim == nil {
			continue
		}
		_, there, err := s.lookTrim(ctx, u)
		if err != nil {
			return err
		}
		f.trims[u.session] = there
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
