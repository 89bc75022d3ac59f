package session_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"sync"
	"sync/atomic"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/store"
	"agentd/store/storetest"
)

func TestFeedHasEveryFactOfEverySessionOnce(t *testing.T) {
	k := newKit(t, nil)
	before := k.submit(command.SubmitTurn{}) // published before the feed began
	feed := k.m.SubscribeAll(admin)
	defer feed.Close()
	const sessions, turns = 8, 20
	var wg sync.WaitGroup
	for i := range sessions {
		wg.Go(func() {
			for range turns {
				k.submit(command.SubmitTurn{SessionID: fmt.Sprintf("sess_%d", i), Create: true})
			}
		})
	}
	got := map[string]uint64{}
	total := sessions * (4 + (turns-1)*3)
	for n := 0; n < total; {
		records, err := feed.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range records {
			if rec.Sequence != got[rec.SessionID]+1 {
				t.Fatalf("%s: %d after %d", rec.SessionID, rec.Sequence, got[rec.SessionID])
			}
			got[rec.SessionID] = rec.Sequence
			n++
		}
	}
	wg.Wait()
	if _, ok := got[before.SessionID]; ok {
		t.Error("the feed shows what was before it")
	}
}

func TestFeedShowsOnlyWhatTheCallerMaySee(t *testing.T) {
	k := newKit(t, nil)
	acme := command.Caller{Account: "acme", Actor: event.Actor{Kind: "user"}}
	feed := k.m.SubscribeAll(acme)
	defer feed.Close()
	k.submit(command.SubmitTurn{})
	mine := callAs[command.SubmitTurnResult](k, acme, &command.SubmitTurn{Input: event.Raw(`"x"`)})
	records, err := feed.Next(context.Background())
	if err != nil || records[0].SessionID != mine.SessionID {
		t.Errorf("got %v, %v", records, err)
	}
}

func TestOutputsBelongToTheirSession(t *testing.T) {
	k := newKit(t, func(o *session.Options) { o.InlineBytes = 10 })
	acme := command.Caller{Account: "acme", Actor: event.Actor{Kind: "user"}}
	r := callAs[command.SubmitTurnResult](k, acme, &command.SubmitTurn{Input: event.Raw(`"a long input"`)})
	ref := k.events(r.SessionID)[2].Payload.(*event.TurnSubmitted).InputRef
	b, mediaType, err := k.m.Output(context.Background(), acme, ref)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if content, err := io.ReadAll(b); err != nil || mediaType != "application/json" || string(content) != `[{"type":"text","text":"a long input"}]` {
		t.Errorf("got %s, %s, %v", content, mediaType, err)
	}
	other := command.Caller{Account: "other"}
	for _, ref := range []string{ref, "sha256:00", "../token", ""} {
		if _, _, err := k.m.Output(context.Background(), other, ref); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%q: got %v", ref, err)
		}
	}
}

// stalled is a store that doesn't answer a read before its context ends, once.
type stalled struct {
	store.Store
	once  *atomic.Bool
	began chan<- struct{}
}

func (s stalled) Read(ctx context.Context, sessionID string, r store.Range) iter.Seq2[store.Record, error] {
	if !s.once.CompareAndSwap(true, false) {
		return s.Store.Read(ctx, sessionID, r)
	}
	return func(yield func(store.Record, error) bool) {
		close(s.began)
		<-ctx.Done()
		yield(store.Record{}, ctx.Err())
	}
}

// TestFeedGivesUpAReadAndLosesNothing: whoever waits only for a while asks again, and
// gets what was being read when the while was over.
func TestFeedGivesUpAReadAndLosesNothing(t *testing.T) {
	stall, began := &atomic.Bool{}, make(chan struct{})
	k := newKitOn(t, stalled{storetest.NewMem(), stall, began}, nil)
	feed := k.m.SubscribeAll(admin)
	defer feed.Close()
	first := k.submit(command.SubmitTurn{SessionID: "sess_a", Create: true})
	var last uint64
	for last < first.Sequence {
		records, err := feed.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		last = records[len(records)-1].Sequence
	}
	stall.Store(true)
	k.submit(command.SubmitTurn{SessionID: "sess_a"})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-began
		cancel()
	}()
	if _, err := feed.Next(ctx); err == nil {
		t.Fatal("a read that didn't end gave something")
	}
	records, err := feed.Next(t.Context())
	if err != nil || len(records) == 0 || records[0].Sequence != last+1 {
		t.Fatalf("after it was given up: %v, %v; %d was the last before", records, err, last)
	}
}
