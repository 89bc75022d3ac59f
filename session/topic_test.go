package session_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
)

// follow reads a session's facts up to a sequence and checks that each comes once
// and in order.
func follow(k *kit, s *session.Subscription, after, last uint64) {
	for next := after + 1; next <= last; {
		records, err := s.Next(context.Background())
		if err != nil {
			k.Error(err)
			return
		}
		for _, rec := range records {
			if rec.Sequence != next {
				k.Errorf("got %d, want %d", rec.Sequence, next)
				return
			}
			if e, err := event.Decode(rec.Data); err != nil || e.Sequence != next {
				k.Errorf("fact %d: %v, %v", next, e, err)
				return
			}
			next++
		}
	}
}

// The tail in memory is short and trimmed all the time, readers that fall behind
// read the store, and all share the records.
func TestEverySubscriberIsToldWhileTheTailIsTrimmed(t *testing.T) {
	const subscribers, facts = 50, 300
	k := newKit(t, func(o *session.Options) { o.TailEvents = 3 })
	r := k.submit(command.SubmitTurn{})
	scope := event.Scope{ThreadID: r.ThreadID, TurnID: r.TurnID, TaskID: r.TaskID, RunID: r.RunID}
	var readers sync.WaitGroup
	for range subscribers {
		s, err := k.m.Subscribe(context.Background(), r.SessionID, r.Sequence)
		if err != nil {
			t.Fatal(err)
		}
		readers.Go(func() {
			defer s.Close()
			follow(k, s, r.Sequence, r.Sequence+facts)
		})
	}
	for n := 0; n < facts; {
		batch := min(1+n%7, facts-n)
		events := make([]event.Event, batch)
		for i := range events {
			events[i] = event.Event{Type: event.TypeModelDelta, Scope: scope, Payload: &event.ModelDelta{Text: fmt.Sprint(n + i)}}
		}
		k.emit(r.SessionID, events...)
		n += batch
	}
	readers.Wait()
	if f := k.m.Figures(); f.Subscribers != 0 {
		t.Errorf("%d subscribers are left", f.Subscribers)
	}
}

// Who subscribes while facts are written has a cursor, and misses nothing
// between the store and the first wake-up.
func TestSubscribingWhileFactsAreWritten(t *testing.T) {
	const rounds = 200
	k := newKit(t, nil)
	r := k.submit(command.SubmitTurn{})
	scope := event.Scope{ThreadID: r.ThreadID, TurnID: r.TurnID, TaskID: r.TaskID, RunID: r.RunID}
	var writer sync.WaitGroup
	writer.Go(func() {
		for range rounds {
			k.emit(r.SessionID, event.Event{Type: event.TypeModelDelta, Scope: scope, Payload: &event.ModelDelta{Text: "x"}})
		}
	})
	for i := range uint64(rounds) {
		s, err := k.m.Subscribe(context.Background(), r.SessionID, r.Sequence+i)
		if err != nil {
			t.Fatal(err)
		}
		follow(k, s, r.Sequence+i, r.Sequence+i+1)
		s.Close()
		s.Close() // once is enough, twice does no harm
	}
	writer.Wait()
	if f := k.m.Figures(); f.Subscribers != 0 {
		t.Errorf("%d subscribers are left", f.Subscribers)
	}
}

// A batch is used again for the next command. Who waits for it to become durable
// must not see the next one's outcome, and no fact may show up twice.
func TestCommandsAndReadsOfOneSessionShareTheJournal(t *testing.T) {
	const clients, each = 16, 30
	k := newKit(t, nil)
	r := k.submit(command.SubmitTurn{})
	scope := event.Scope{ThreadID: r.ThreadID, TurnID: r.TurnID, TaskID: r.TaskID, RunID: r.RunID}
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := range each {
				if c%2 == 0 {
					k.emit(r.SessionID, event.Event{Type: event.TypeModelDelta, Scope: scope, Payload: &event.ModelDelta{Text: fmt.Sprintf("%d/%d", c, i)}})
					continue
				}
				call[session.GetSessionResult](k, &command.GetSession{SessionID: r.SessionID})
				k.refused(admin, &command.GetSession{SessionID: "sess_none"}, fault.NotFound)
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, e := range k.events(r.SessionID) {
		if d, ok := e.Payload.(*event.ModelDelta); ok {
			if seen[d.Text] {
				t.Errorf("%s is there twice", d.Text)
			}
			seen[d.Text] = true
		}
	}
	if len(seen) != clients/2*each {
		t.Errorf("%d facts are there, %d were written", len(seen), clients/2*each)
	}
	k.verified()
}
