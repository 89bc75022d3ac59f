package loop_test

import (
	"context"
	"iter"
	"sync/atomic"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/store"
	"agentd/store/storetest"
)

// countedStore counts what is read of a session's facts.
type countedStore struct {
	store.Store
	reads atomic.Int64
}

func (s *countedStore) Read(ctx context.Context, id string, r store.Range) iter.Seq2[store.Record, error] {
	if id == "sess_a" {
		s.reads.Add(1)
	}
	return s.Store.Read(ctx, id, r)
}

// TestFirstTurnReadsNothingBack makes a session, follows it from its start and has a turn with
// a tool run in it: what was just written is in memory, for the follower and for the model.
func TestFirstTurnReadsNothingBack(t *testing.T) {
	counted := &countedStore{Store: storetest.NewMem()}
	k := &runtimetest.Kit{T: t, Store: counted, Dir: t.TempDir(), Script: &script.Script{Answers: []script.Answer{
		runtimetest.CallsTool("list_files", map[string]any{"path": "."}), runtimetest.Says("done"),
	}}}
	k.Open()
	t.Cleanup(k.Close)
	runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
	counted.reads.Store(0) // whether there is such a session was looked up
	sub, err := k.Runtime.Subscribe(t.Context(), command.Local(), "sess_a", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	r := k.Submit("sess_a", "look")
	for next, ended := uint64(1), false; !ended; {
		records, err := sub.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range records {
			if rec.Sequence != next {
				t.Fatalf("fact %d after %d", rec.Sequence, next-1)
			}
			next++
			var e event.Event
			if _, err := event.DecodeHeader(rec.Data, &e); err != nil {
				t.Fatal(err)
			}
			ended = ended || e.Type == event.TypeTurnCompleted && e.TurnID == r.TurnID
		}
	}
	if n := counted.reads.Load(); n != 0 {
		t.Errorf("the facts of a session that was just made were read %d times", n)
	}
}
