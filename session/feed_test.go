package session_test

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
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
