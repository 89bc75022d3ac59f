package session

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"agentd/event"
	"agentd/fault"
	"agentd/state"
	"agentd/store"
	"agentd/store/storetest"
)

// unreachedStore fails claims once it is let go.
type unreachedStore struct {
	*storetest.Mem
	fails   error
	claims  atomic.Int64
	release chan struct{}
}

func (s *unreachedStore) Claim(context.Context, string) (store.Claim, error) {
	s.claims.Add(1)
	<-s.release
	return store.Claim{}, s.fails
}

// TestCommandsBehindOneThatFoundNoStoreAreAnsweredWithIt: commands for a session that wait while
// one of them looks for the store in vain are told the same, and don't look one after the other.
// One that was given up by its caller says nothing to the others.
func TestCommandsBehindOneThatFoundNoStoreAreAnsweredWithIt(t *testing.T) {
	for _, fails := range []error{store.ErrFull, store.ErrUnavailable} {
		s := &unreachedStore{Mem: storetest.NewMem(), fails: fmt.Errorf("claim: %w", fails), release: make(chan struct{})}
		m := New(Options{Store: s, RuntimeID: "rt_test"})
		const commands = 7
		errs := make([]error, commands)
		var all sync.WaitGroup
		for i := range commands {
			all.Go(func() {
				if i%2 == 0 {
					errs[i] = m.Peek(t.Context(), "sess_a", func(*state.Session) error { return nil })
				} else {
					errs[i] = m.Emit(t.Context(), "sess_a", event.ByRuntime, func(*Tx) error { return nil })
				}
			})
		}
		for waiting := 0; waiting < commands; runtime.Gosched() {
			m.mu.Lock()
			if w := m.writers["sess_a"]; w != nil {
				waiting = w.users
			}
			m.mu.Unlock()
		}
		close(s.release)
		all.Wait()
		for i, err := range errs {
			var f *fault.Error
			if !errors.As(err, &f) || f.Kind != fault.Unavailable || f.RetryAfter == 0 {
				t.Errorf("%v: command %d ends with %v, want unavailable with a time to come again", fails, i, err)
			}
		}
		if n := s.claims.Load(); n != 1 {
			t.Errorf("%v: the store was asked %d times for %d commands that waited for the first", fails, n, commands)
		}
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}
