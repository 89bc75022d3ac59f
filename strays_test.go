package agentd_test

import (
	"context"
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

// fullFor is a store that doesn't write one session while it is on.
type fullFor struct {
	store.Store
	sessionID string
	err       error
	on        atomic.Bool
	refused   atomic.Int64
}

func (f *fullFor) Append(ctx context.Context, batches []*store.Batch) []error {
	errs := make([]error, len(batches))
	for i, b := range batches {
		if f.on.Load() && b.SessionID == f.sessionID {
			f.refused.Add(1)
			errs[i] = f.err
		} else {
			errs[i] = f.Store.Append(ctx, []*store.Batch{b})[0]
		}
	}
	return errs
}

// turnOf returns the status of the one turn of a session.
func turnOf(t *testing.T, r *agentd.Runtime, sessionID string) string {
	t.Helper()
	res, err := r.Do(t.Context(), command.Local(), &command.ListTurns{SessionID: sessionID})
	if err != nil {
		t.Fatal(err)
	}
	turns, _ := res.(*command.ListTurnsResult)
	if turns == nil || len(turns.Turns) != 1 {
		t.Fatalf("turns: %+v", res)
	}
	return turns.Turns[0].Status
}

// leftBehind returns a runtime that starts while it can't write a session with a turn under way,
// and the store, which goes on refusing.
func leftBehind(t *testing.T, err error) (*fullFor, *agentd.Runtime) {
	t.Helper()
	s := &fullFor{Store: storetest.NewMem(), sessionID: "sess_a", err: err}
	open := func(stall time.Duration) *agentd.Runtime {
		answers := &script.Script{Answers: []script.Answer{{Text: "done", Stall: stall}}}
		r, err := agentd.Open(t.Context(), agentd.Options{Store: s, Provider: script.New("script", answers), Model: "test"})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := open(time.Hour)
	if _, err := first.Do(t.Context(), command.Local(), &command.SubmitTurn{SessionID: "sess_a", Create: true, Input: event.Raw(`"hello"`)}); err != nil {
		t.Fatal(err)
	}
	for turnOf(t, first, "sess_a") != state.TurnRunning {
		time.Sleep(time.Millisecond)
	}
	s.on.Store(true) // so that its end leaves the turn as a crash does
	_ = first.Close(context.WithoutCancel(t.Context()))
	s.refused.Store(0)
	return s, open(0)
}

// TestSessionIsTakenUpOnceThereIsSpace: what can't be taken up when a process starts is taken up
// as soon as it can be, without a command, also where no other node has the store open.
func TestSessionIsTakenUpOnceThereIsSpace(t *testing.T) {
	s, r := leftBehind(t, store.ErrNoSpace)
	for s.refused.Load() < 2 {
		time.Sleep(time.Millisecond) // it is tried, and tried again
	}
	s.on.Store(false)
	for turnOf(t, r, "sess_a") != state.TurnCompleted {
		time.Sleep(time.Millisecond)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestSessionOfAFailedStoreIsLeftAlone: a store that failed takes nothing until it is opened
// again, and isn't tried again and again.
func TestSessionOfAFailedStoreIsLeftAlone(t *testing.T) {
	s, r := leftBehind(t, store.ErrFailed)
	for s.refused.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(3 * time.Second)
	if n := s.refused.Load(); n > 4 {
		t.Errorf("it was tried %d times", n)
	}
	_ = r.Close(t.Context())
}
