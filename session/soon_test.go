package session_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/session"
	"agentd/state"
	"agentd/store"
	"agentd/store/storetest"
)

// soon decides a warning that nobody waits for.
func (k *kit) soon(r *command.SubmitTurnResult, message string) (wait func() error) {
	k.Helper()
	wait, err := k.m.EmitSoon(context.Background(), r.SessionID, event.ByLoop, func(tx *session.Tx) error {
		tx.Emit(event.Event{Type: event.TypeRuntimeWarning, Payload: &event.RuntimeNotice{Code: "test", Message: message}})
		return nil
	})
	if err != nil {
		k.Fatal(err)
	}
	return wait
}

// TestFactsThatNobodyWaitsForBecomeDurable: without any other fact after them, and
// their followers are told.
func TestFactsThatNobodyWaitsForBecomeDurable(t *testing.T) {
	k := newKit(t, nil)
	r := k.submit(command.SubmitTurn{})
	before := len(k.events(r.SessionID))
	sub, err := k.m.Subscribe(context.Background(), r.SessionID, uint64(before))
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	k.soon(r, "first")
	records, err := sub.Next(context.Background())
	if err != nil || len(records) != 1 || len(k.events(r.SessionID)) != before+1 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	k.verified()
}

// TestFactsThatNobodyWaitsForGoWithTheNext: one append for both, in their order.
func TestFactsThatNobodyWaitsForGoWithTheNext(t *testing.T) {
	faulty := storetest.Faulty(storetest.NewMem())
	k := newKitOn(t, faulty, nil)
	other, r := k.submit(command.SubmitTurn{}), k.submit(command.SubmitTurn{})
	calls := faulty.Calls(storetest.OpAppend)
	reached, release := faulty.HoldAppend(1)
	var wg sync.WaitGroup
	wg.Go(func() { k.finish(other) }) // is being stored while the rest is decided
	within(t, reached)
	wait := k.soon(r, "first")
	if !k.sees(r, 1) {
		t.Error("what is decided next doesn't see it")
	}
	wg.Go(func() { k.finish(r) })
	for !k.sees(r, 2) { // until both are decided
	}
	release()
	wg.Wait()
	if err := wait(); err != nil {
		t.Error(err)
	}
	if n := faulty.Calls(storetest.OpAppend) - calls; n != 2 {
		t.Errorf("%d appends", n)
	}
	types := k.types(r.SessionID)
	if at := len(types) - 4; at < 0 || types[at] != event.TypeRuntimeWarning || types[at+1] != event.TypeTurnStarted {
		t.Errorf("%v", types)
	}
	k.verified()
}

// sees reports whether a session's state has so many facts more than are stored.
func (k *kit) sees(r *command.SubmitTurnResult, more uint64) (ok bool) {
	k.Helper()
	head, err := k.store.Head(context.Background(), r.SessionID)
	if err != nil {
		k.Fatal(err)
	}
	if err := k.m.Peek(context.Background(), r.SessionID, func(s *state.Session) error {
		ok = s.Sequence >= head.Sequence+more
		return nil
	}); err != nil {
		k.Fatal(err)
	}
	return ok
}

// TestAReadWaitsForFactsThatNobodyWaitsFor: what is shown is durable, whoever wrote it.
func TestAReadWaitsForFactsThatNobodyWaitsFor(t *testing.T) {
	faulty := storetest.Faulty(storetest.NewMem())
	k := newKitOn(t, faulty, nil)
	r := k.submit(command.SubmitTurn{})
	reached, release := faulty.HoldAppend(1)
	k.soon(r, "first")
	within(t, reached)
	read, answered := make(chan uint64, 1), make(chan struct{})
	go func() {
		defer close(answered)
		if err := k.m.View(context.Background(), r.SessionID, func(s *state.Session) error {
			read <- s.Sequence
			return nil
		}); err != nil {
			t.Error(err)
		}
	}()
	seen := within(t, read)
	select {
	case <-answered:
		t.Error("a read was answered with facts that are not durable")
	default:
	}
	release()
	within(t, answered)
	if head, err := k.store.Head(context.Background(), r.SessionID); err != nil || head.Sequence != seen {
		t.Errorf("read %d, stored %d, %v", seen, head.Sequence, err)
	}
}

// TestFactsThatNobodyWaitsForCanFail: the session goes on as if they had never been,
// what was decided on them fails too, and who asks is told.
func TestFactsThatNobodyWaitsForCanFail(t *testing.T) {
	faulty := storetest.Faulty(storetest.NewMem())
	k := newKitOn(t, faulty, nil)
	r := k.submit(command.SubmitTurn{})
	before := len(k.events(r.SessionID))
	faulty.FailAppend(1, store.ErrNoSpace)
	wait := k.soon(r, "never stored")
	if err := wait(); !errors.Is(err, store.ErrNoSpace) {
		t.Errorf("got %v", err)
	}
	k.view(r.SessionID, func(s *state.Session) {
		if int(s.Sequence) != before {
			t.Errorf("the state is at %d, %d facts are stored", s.Sequence, before)
		}
	})
	if err := k.soon(r, "stored")(); err != nil {
		t.Error(err)
	}
	if n := len(k.events(r.SessionID)); n != before+1 {
		t.Errorf("%d facts, had %d", n, before)
	}
	k.verified()
}

// TestClosingStoresWhatNobodyWaitsFor: a manager that ends leaves nothing behind.
func TestClosingStoresWhatNobodyWaitsFor(t *testing.T) {
	k := newKit(t, nil)
	r := k.submit(command.SubmitTurn{})
	before := len(k.events(r.SessionID))
	for range 10 {
		k.soon(r, "the last words")
	}
	k.reopen(nil)
	if n := len(k.events(r.SessionID)); n != before+10 {
		t.Errorf("%d facts, had %d", n, before)
	}
	k.verified()
}

// TestManyWritersWithAndWithoutWaiting: whatever is waited for and what isn't, every
// fact is stored once, in the order of its session.
func TestManyWritersWithAndWithoutWaiting(t *testing.T) {
	k := newKit(t, nil)
	var wg sync.WaitGroup
	sessions := make([]*command.SubmitTurnResult, 8)
	for i := range sessions {
		sessions[i] = k.submit(command.SubmitTurn{})
	}
	for i, r := range sessions {
		wg.Go(func() {
			for n := range 60 {
				switch (n + i) % 3 {
				case 0, 1:
					k.soon(r, "soon")
				default:
					k.emit(r.SessionID, event.Event{Type: event.TypeRuntimeWarning, Payload: &event.RuntimeNotice{Code: "test", Message: "now"}})
				}
			}
		})
	}
	wg.Wait()
	for _, r := range sessions {
		k.view(r.SessionID, func(*state.Session) {})
		if n := len(k.events(r.SessionID)); n != 64 {
			t.Errorf("%d facts", n)
		}
	}
	k.verified()
}
