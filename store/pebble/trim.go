package pebble

import (
	"context"
	"errors"
	"fmt"

	"agentd/store"

	pdb "github.com/cockroachdb/pebble/v2"
)

// checkTrim checks a removal against what is stored: the last record that goes has
// that hash, and one is left. What a batch before it in the same call removes is
// still stored.
func (s *Store) checkTrim(in *store.Batch, c *session) error {
	t := in.Trim
	v, err := getCopy(s.db, eventKey(in.SessionID, t.Through))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("pebble: trim session %s: %w", in.SessionID, err)
	}
	var rec store.Record
	if err == nil {
		if rec, err = parseEvent(t.Through, v); err != nil {
			return fmt.Errorf("pebble: trim session %s: record %d: %w", in.SessionID, t.Through, err)
		}
	}
	if err != nil || rec.Hash != t.Hash || t.Through <= c.trimmed || t.Through >= c.next.Sequence+uint64(len(in.Records)) {
		return fmt.Errorf("%w: session %s can't be removed through record %d", store.ErrConflict, in.SessionID, t.Through)
	}
	return nil
}

// putTrim removes records and keeps what replaces them, in one batch.
func putTrim(b *pdb.Batch, session string, t *store.Trim) error {
	if err := b.DeleteRange(eventKey(session, 0), eventKey(session, t.Through+1), nil); err != nil {
		return err
	}
	return b.Set(nameKey(keyBase, session), snapshotValue(t.Through, t.Hash, t.Data), nil)
}

// Base returns what replaced the records that were removed.
func (s *Store) Base(ctx context.Context, sessionID string) (store.Snapshot, error) {
	done, err := s.calls.enter(ctx)
	if err != nil {
		return store.Snapshot{}, err
	}
	defer done()
	base, err := s.base(sessionID)
	if err != nil {
		return store.Snapshot{}, fmt.Errorf("pebble: base of session %s: %w", sessionID, err)
	}
	return base, nil
}

func (s *Store) base(sessionID string) (store.Snapshot, error) {
	v, err := s.getDurable(nameKey(keyBase, sessionID))
	if err != nil {
		return store.Snapshot{}, err
	}
	return parseSnapshot(sessionID, "", v)
}

// absent says why the records through one are not there: a *store.TrimmedError if
// they were removed, else what is given. The base may be newer than what is being
// read; then so much the more was removed.
func (s *Store) absent(sessionID string, through uint64, otherwise error) error {
	base, err := s.base(sessionID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return otherwise
	case err != nil:
		return err
	case base.Sequence >= through:
		return &store.TrimmedError{SessionID: sessionID, Through: base.Sequence}
	}
	return otherwise
}

// missing says why a walk found no record from one through another.
func (w *walk) missing(from, through uint64) error {
	return w.s.absent(w.session, through, fmt.Errorf("%w: records %d to %d are missing", store.ErrCorrupt, from, through))
}
