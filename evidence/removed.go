package evidence

import (
	"context"
	"errors"
	"fmt"

	"agentd/state"
	"agentd/store"
)

// based is a source of facts that may lack the first ones of a session.
type based interface {
	// Base returns what replaced the facts that were removed, or store.ErrNotFound.
	Base(ctx context.Context, sessionID string) (store.Snapshot, error)
}

// Removed returns what replaced the facts of a session that retention removed, its
// sequence being 0 if none were.
func Removed(ctx context.Context, facts Facts, sessionID string) (store.Snapshot, error) {
	none := store.Snapshot{SessionID: sessionID, Hash: store.Genesis(sessionID)}
	b, ok := facts.(based)
	if !ok {
		return none, nil
	}
	base, err := b.Base(ctx, sessionID)
	if errors.Is(err, store.ErrNotFound) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("evidence: read: %w", err)
	}
	return base, nil
}

// RemovedNote says in words which facts are missing.
func RemovedNote(base *store.Snapshot) string {
	return fmt.Sprintf("the facts 1 to %d of the session were removed by retention before this was made", base.Sequence)
}

// beginAt has the collector continue from what replaced the removed facts.
func (c *collector) beginAt(base *store.Snapshot) error {
	c.base = base
	if base.Sequence == 0 {
		return nil
	}
	var err error
	if c.state, err = state.DecodeBase(base.Data); err != nil {
		return fmt.Errorf("evidence: the base that replaces the facts through %d: %w", base.Sequence, err)
	}
	return nil
}
