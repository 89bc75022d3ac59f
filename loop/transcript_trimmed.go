package loop

import (
	"context"
	"errors"
	"fmt"

	"agentd/event"
	"agentd/model"
	"agentd/store"
)

// removedNote tells the model that it doesn't see the beginning.
const removedNote = "Note: the earlier messages of this conversation were removed by this runtime's retention. Only what follows is known."

// removes reports whether facts tell that the beginning of their session was removed:
// what was said there must not be sent any longer.
func removes(facts []event.Event) bool {
	for i := range facts {
		if p, ok := facts[i].Payload.(*event.SnapshotRepaired); ok && facts[i].ChannelID == "" && p.Status == "unavailable" {
			return true
		}
	}
	return false
}

// loadTrimmed derives the conversation of a thread whose first facts were removed:
// the summary that stood for them, if there was one, a note, and what followed. It is
// false if what the conversation begins with is still there. A session is trimmed only
// at rest, so no turn lies on both sides.
func (t *transcripts) loadTrimmed(ctx context.Context, c *conversation, k key, at position) (bool, error) {
	base, err := t.store.Base(ctx, k.session)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("loop: base of session %s: %w", k.session, err)
	}
	if at.from > base.Sequence || (at.boundary != nil && at.boundary.Sequence > base.Sequence) {
		return false, nil
	}
	switch {
	case at.boundary != nil && at.boundary.SummaryRef != "":
		summary, err := readBlob(ctx, t.store, at.boundary.SummaryRef, 1<<20)
		if err != nil {
			return false, err
		}
		c.covers = at.boundary.ThroughSequence
		c.appendMessage(&model.Message{Role: model.RoleUser, Text: summaryIntro + summary})
	case at.fork != nil:
		if err := t.loadFork(ctx, c, at.fork, maxForks); err != nil {
			return false, err
		}
	}
	c.appendMessage(&model.Message{Role: model.RoleUser, Text: removedNote})
	return true, t.loadAll(ctx, c, k, store.Range{After: base.Sequence, Before: at.through + 1})
}
