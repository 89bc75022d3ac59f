package agentd_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/model/provider/script"
	"agentd/state"
	"agentd/store"
	"agentd/store/storetest"
)

// fullFor is a store without space for one session while it is on.
type fullFor struct {
	store.Store
	sessionID string
	on        atomic.Bool
	refused   atomic.Int64
}

func (f *fullFor) Append(ctx context.Context, batches []*store.Batch) []error {
	errs := make([]error, len(batches))
	for i, b := range batches {
		if f.on.Load() && b.SessionID == f.sessionID {
			f.refused.Add(1)
			errs[i] = store.ErrNoSpace
		} else {
			errs[i] = f.Store.Append(ctx, []*store.Batch{b})[0]
		}
	}
	return errs
}

// TestSessionIsTakenUpOnceThereIsSpace: what can't be taken up when a process starts is taken up
// as soon as it can be, without a command, also where no other node has the store open.
func TestSessionIsTakenUpOnceThereIsSpace(t *testing.T) {
	s := &fullFor{Store: storetest.NewMem(), sessionID: "sess_a"}
	open := func(stall time.Duration) *agentd.Runtime {
		t.Helper()
		answers := &script.Script{Answers: []script.Answer{{Text: "done", Stall: stall}}}
		r, err := agentd.Open(t.Context(), agentd.Options{Store: s, Provider: script.New("script", answers), Model: "test"})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	status := func(r *agentd.Runtime) string {
		t.Helper()
		res, err := r.Do(t.Context(), command.Local(), &command.ListTurns{SessionID: "sess_a"})
		if err != nil {
			t.Fatal(err)
		}
		turns, _ := res.(*command.ListTurnsResult)
		if turns == nil || len(turns.Turns) != 1 {
			t.Fatalf("turns: %+v", res)
		}
		return turns.Turns[0].Status
	}
	first := open(time.Hour)
	if _, err := first.Do(t.Context(), command.Local(), &command.SubmitTurn{SessionID: "sess_a", Create: true, Input: event.Raw(`"hello"`)}); err != nil {
		t.Fatal(err)
	}
	for status(first) != state.TurnRunning {
		time.Sleep(time.Millisecond)
	}
	s.on.Store(true) // so that its end leaves the turn as a crash does
	if err := first.Close(t.Context()); err != nil && !errors.Is(err, store.ErrNoSpace) {
		t.Fatal(err)
	}
	second := open(0)
	for before := s.refused.Load(); s.refused.Load() < before+2; {
		time.Sleep(time.Millisecond) // it is tried, and tried again
	}
	s.on.Store(false)
	for status(second) != state.TurnCompleted {
		time.Sleep(time.Millisecond)
	}
	if err := second.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
