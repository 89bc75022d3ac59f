package loop

import (
	"context"
	"testing"
	"testing/synctest"
)

// A noisy account has its share and no more; others are let in while hundreds of its
// threads wait, and those that wait are let in account by account.
func TestSlotsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(4)
		in := make(chan string, 1000)
		enter := func(account string, n int) {
			for range n {
				go func() {
					if s.enter(t.Context(), account) {
						in <- account
					}
				}()
			}
			synctest.Wait()
		}
		count := func() map[string]int {
			out := map[string]int{}
			for len(in) > 0 {
				out[<-in]++
			}
			return out
		}
		enter("noisy", 100)
		if got := count(); got["noisy"] != 4 {
			t.Fatalf("the noisy account has %v of 8 slots, want 4", got)
		}
		enter("b", 3)
		enter("c", 3)
		if got := count(); got["b"] != 3 || got["c"] != 1 {
			t.Fatalf("the others have %v, want 3 and what is left", got)
		}
		for range 2 {
			s.leave("noisy")
		}
		synctest.Wait()
		if got := count(); got["noisy"] != 1 || got["c"] != 1 {
			t.Errorf("two slots went to %v, want one to each account that waits", got)
		}
		for range 3 {
			s.leave("b")
		}
		synctest.Wait()
		if got := count(); got["c"] != 1 || got["noisy"] != 1 {
			t.Errorf("three slots went to %v, want the last of c and the share of the noisy one", got)
		}
		if n := s.waiting(); n != 94 {
			t.Errorf("%d wait, want 94", n)
		}
	})
}

// Who gives up waiting leaves the line, and a slot that came too late goes to the next.
func TestSlotsOfTheImpatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		if !s.enter(t.Context(), "a") {
			t.Fatal("the first doesn't get in")
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan bool)
		go func() { ended <- s.enter(ctx, "a") }()
		synctest.Wait()
		cancel()
		if <-ended {
			t.Error("who gave up got in")
		}
		s.leave("a")
		if s.waiting() != 0 || s.used != 0 || len(s.order) != 0 {
			t.Errorf("%d wait, %d are used, lines %v", s.waiting(), s.used, s.order)
		}
	})
}
