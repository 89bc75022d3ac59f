package storetest

import (
	"context"
	"errors"
	"testing"

	"agentd/event"
	"agentd/store"
)

// Facts returns all facts of a session that were not removed, decoded.
func Facts(tb testing.TB, s store.Store, sessionID string) []*event.Event {
	tb.Helper()
	base, err := s.Base(context.Background(), sessionID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		tb.Fatal(err)
	}
	var out []*event.Event
	for rec, err := range s.Read(context.Background(), sessionID, store.Range{After: base.Sequence}) {
		if err != nil {
			tb.Fatal(err)
		}
		e, err := event.Decode(rec.Data)
		if err != nil {
			tb.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}
