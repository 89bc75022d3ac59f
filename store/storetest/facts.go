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
		if len(rec.Data) > event.MaxBytes {
			tb.Errorf("fact %d of session %s has %d bytes, the limit is %d: %.300s …", rec.Sequence, sessionID, len(rec.Data), event.MaxBytes, rec.Data)
		}
		e, err := store.DecodeFact(context.Background(), s, rec.Data)
		if err != nil {
			tb.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}
