package storetest

import (
	"context"
	"testing"

	"agentd/event"
	"agentd/store"
)

// Facts returns all facts of a session, decoded.
func Facts(tb testing.TB, s store.Store, sessionID string) []*event.Event {
	tb.Helper()
	var out []*event.Event
	for rec, err := range s.Read(context.Background(), sessionID, store.Range{}) {
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
