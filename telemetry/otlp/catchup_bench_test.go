package otlp

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"agentd/event"
	"agentd/store"
	"agentd/store/pebble"
)

// crowdOfSessions is how many sessions the catch-up is measured with.
const crowdOfSessions = 100_000

// BenchmarkCatchUp measures what the exporter does at its start in a store with
// 100,000 sessions of which a collector has everything. The first time, in a store
// without marks, it looks at all of them; that is only logged.
func BenchmarkCatchUp(b *testing.B) {
	s, err := pebble.Open(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	seedSessions(b, s, crowdOfSessions)
	once := time.Now()
	catchUpOnce(b, s) // all sessions, because the store has no marks yet
	b.Logf("the first time: %v", time.Since(once))
	for b.Loop() {
		catchUpOnce(b, s)
	}
}

func catchUpOnce(b *testing.B, s store.Store) {
	b.Helper()
	e := benchExporter(s)
	if _, err := e.catchUp(b.Context()); err != nil {
		b.Fatal(err)
	}
	if len(e.behind) > 0 {
		b.Fatalf("%d sessions are behind", len(e.behind))
	}
	e.positions.release(b.Context())
	e.marks.release(b.Context())
}

// benchExporter returns an exporter that sends nothing.
func benchExporter(s store.Store) *Exporter {
	e := New(s, Options{Collector: Collector{Endpoint: "http://127.0.0.1:9"}, QueueSize: 1000})
	e.began = time.Now()
	return e
}

// seedSessions writes sessions of one fact each, all of which was sent.
func seedSessions(tb testing.TB, s store.Store, n int) {
	tb.Helper()
	p := &positions{store: s}
	if _, err := p.firstSent(tb.Context(), time.Now().Add(-time.Hour)); err != nil {
		tb.Fatal(err)
	}
	const atOnce = 1000
	for first := 0; first < n; first += atOnce {
		var batches []*store.Batch
		sent := map[string]position{}
		for i := first; i < min(first+atOnce, n); i++ {
			id := fmt.Sprintf("sess_%08d", i)
			c, err := s.Claim(tb.Context(), id)
			if err != nil {
				tb.Fatal(err)
			}
			batches = append(batches, &store.Batch{SessionID: id, Epoch: c.Epoch, Records: []store.Record{{Sequence: 1, Data: sessionFact(tb, id, 1)}}})
			sent[id] = position{Sent: 1, From: 1}
		}
		for _, err := range s.Append(tb.Context(), batches) {
			if err != nil {
				tb.Fatal(err)
			}
		}
		if err := p.save(tb.Context(), sent); err != nil {
			tb.Fatal(err)
		}
	}
}

// sessionFact is a fact that telemetry shows nothing of.
func sessionFact(tb testing.TB, id string, sequence uint64) []byte {
	tb.Helper()
	data, err := json.Marshal(map[string]any{
		"schemaVersion": event.SchemaStandard, "id": fmt.Sprintf("evt_%s_%d", id, sequence), "type": event.TypeSessionCreated, "sequence": sequence, "timestamp": time.Now().UTC(), "sessionId": id, "payload": map[string]any{},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return data
}
