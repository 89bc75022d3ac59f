package session_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/store/storetest"
)

// nodes are two managers over the same data, the first of which follows what the
// other appends.
func nodes(t *testing.T) (here, there *kit, other *storetest.Mem) {
	t.Helper()
	first := storetest.NewMem()
	other = first.Node()
	here = newKitOn(t, first, nil)
	there = newKitOn(t, other, nil)
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() {
		for a, err := range first.Follow(ctx) {
			if err != nil {
				t.Error(err)
				return
			}
			here.m.Hint(a)
		}
	})
	t.Cleanup(func() { cancel(); following.Wait() })
	return here, there, other
}

// grow appends a fact to a turn's session.
func (k *kit) grow(r *command.SubmitTurnResult) {
	k.Helper()
	k.emit(r.SessionID, event.Event{
		Type: event.TypeModelDelta, Scope: event.Scope{ThreadID: r.ThreadID, TurnID: r.TurnID, TaskID: r.TaskID, RunID: r.RunID},
		Payload: &event.ModelDelta{Text: "x"},
	})
}

// warm returns once the feed hears of what the other node appends.
func warm(t *testing.T, feed *session.Feed, there *kit) {
	t.Helper()
	r := there.submit(command.SubmitTurn{SessionID: "sess_warm", Create: true})
	for {
		there.grow(r)
		// Nothing tells when Follow has begun; a longer wait only makes fewer facts.
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		records, err := feed.Next(ctx)
		cancel()
		if len(records) > 0 {
			return
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
}

func TestFeedShowsWhatOtherNodesAppend(t *testing.T) {
	here, there, other := nodes(t)
	feed := here.feed(admin, "")
	defer feed.Close()
	warm(t, feed, there)
	const each, facts = 4, 50
	var writers sync.WaitGroup
	for i := range each {
		for name, k := range map[string]*kit{"here": here, "there": there} {
			writers.Go(func() {
				r := k.submit(command.SubmitTurn{SessionID: fmt.Sprintf("sess_%s_%d", name, i), Create: true})
				for range facts {
					k.grow(r)
				}
			})
		}
	}
	var moved *command.SubmitTurnResult
	writers.Go(func() {
		moved = there.submit(command.SubmitTurn{SessionID: "sess_moves", Create: true})
		for range facts {
			there.grow(moved)
		}
	})
	got, want := map[string]uint64{}, uint64((2*each+1)*(4+facts))
	read := func(total uint64) {
		t.Helper()
		for n := uint64(0); n < total; {
			records, err := feed.Next(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			for _, rec := range records {
				if rec.SessionID == "sess_warm" {
					continue
				}
				if rec.Sequence != got[rec.SessionID]+1 {
					t.Fatalf("%s: %d after %d", rec.SessionID, rec.Sequence, got[rec.SessionID])
				}
				got[rec.SessionID] = rec.Sequence
				n++
			}
		}
	}
	read(want)
	writers.Wait()
	other.Expire() // the other node is taken for dead
	for range facts {
		here.grow(moved)
	}
	read(facts)
}

// Reading facts needs no ownership: the owner goes on writing, also when another
// node could have claimed its session.
func TestFactsOfAnotherNodesSessionAreReadWithoutAClaim(t *testing.T) {
	first := storetest.NewMem()
	other := first.Node()
	here := newKitOn(t, first, nil)
	there := newKitOn(t, other, func(o *session.Options) { o.InlineBytes = 4 })
	acme := command.Caller{Account: "acme", Actor: event.Actor{Kind: "user"}}
	r := callAs[command.SubmitTurnResult](there, acme, &command.SubmitTurn{Input: event.Raw(`"a long input"`)})
	for _, expired := range []bool{false, true} {
		if expired {
			other.Expire()
		}
		events, last, err := here.m.Events(t.Context(), acme, r.SessionID, 0, 100)
		if err != nil || uint64(len(events)) != last || last < r.Sequence {
			t.Fatalf("%d events, last %d, %v", len(events), last, err)
		}
		sub, err := here.m.Subscribe(t.Context(), r.SessionID, 0)
		if err != nil {
			t.Fatal(err)
		}
		follow(here, sub, 0, last)
		sub.Close()
		e, err := event.Decode(events[r.Sequence-1].Data)
		if err != nil {
			t.Fatal(err)
		}
		blob, _, err := here.m.Output(t.Context(), acme, e.Payload.(*event.TurnSubmitted).InputRef)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, blob); err != nil {
			t.Error(err)
		}
		blob.Close()
		stranger := command.Caller{Account: "other"}
		if _, _, err := here.m.Events(t.Context(), stranger, r.SessionID, 0, 100); fault.KindOf(err) != fault.NotFound {
			t.Errorf("another account: %v", err)
		}
		if err := here.m.See(t.Context(), admin, "sess_none"); fault.KindOf(err) != fault.NotFound {
			t.Errorf("no session: %v", err)
		}
		there.grow(r) // it would be fenced if reading had claimed the session
	}
}
