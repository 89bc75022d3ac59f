package admission_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"agentd/admission"
)

// A noisy account has its share and no more; others are let in while hundreds of its
// threads wait, and those that wait are let in account by account.
func TestSlotsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := admission.NewSlots(8, 4)
		in := make(chan string, 1000)
		enter := func(account string, n int) {
			for range n {
				go func() {
					if s.Enter(t.Context(), account, "sess") {
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
			s.Leave("noisy")
		}
		synctest.Wait()
		if got := count(); got["noisy"] != 1 || got["c"] != 1 {
			t.Errorf("two slots went to %v, want one to each account that waits", got)
		}
		for range 3 {
			s.Leave("b")
		}
		synctest.Wait()
		if got := count(); got["c"] != 1 || got["noisy"] != 1 {
			t.Errorf("three slots went to %v, want the last of c and the share of the noisy one", got)
		}
		if n := s.Load().Waiting; n != 94 {
			t.Errorf("%d wait, want 94", n)
		}
	})
}

// Who gives up waiting leaves the line, and a slot that came too late goes to the next.
func TestSlotsOfTheImpatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := admission.NewSlots(2, 1)
		if !s.Enter(t.Context(), "a", "sess") {
			t.Fatal("the first doesn't get in")
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan bool)
		go func() { ended <- s.Enter(ctx, "a", "sess") }()
		synctest.Wait()
		cancel()
		if <-ended {
			t.Error("who gave up got in")
		}
		s.Leave("a")
		if got := s.Load(); got != (admission.Load{}) || len(s.Accounts()) != 0 {
			t.Errorf("%+v is left", got)
		}
	})
}

// An account gets a few slots however many noisy ones there are: all of them together can't
// use everything up. Of one account, sessions are let in in turn.
func TestSlotsOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := admission.NewSlots(64, 32)
		in := make(chan string, 1000)
		enter := func(account, session string, n int) (got int) {
			for range n {
				go func() {
					if s.Enter(t.Context(), account, session) {
						in <- session
					}
				}()
			}
			synctest.Wait()
			return len(in)
		}
		if got := enter("noisy_1", "s1", 100) + enter("noisy_2", "s2", 100) - 32; got != 64 {
			t.Fatalf("the noisy ones have %d slots", got)
		}
		for len(in) > 0 {
			<-in
		}
		if got := enter("quiet", "q", 1); got != 1 || <-in != "q" {
			t.Error("a quiet account waits for noisy ones")
		}
		enter("noisy_1", "late", 2)
		var order []string
		for range 6 {
			s.Leave("noisy_1")
			synctest.Wait()
			for len(in) > 0 {
				order = append(order, <-in)
			}
		}
		if got := strings.Join(order, " "); strings.Count(got, "late") != 2 {
			t.Errorf("let in were %s: the later session waited for all of the earlier one", got)
		}
		if got := s.LoadOf("noisy_1"); got.Running+got.Waiting != 96 || s.Accounts()["quiet"].Running != 1 {
			t.Errorf("%+v, %+v", got, s.Accounts())
		}
	})
}

// However many accounts there are, together they have at most twice the total. What is left is
// shared more sparingly the less it is, and who waits gets in before others get more.
func TestSlotsOfThousandsOfAccounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const accounts, total = 5000, 256
		s := admission.NewSlots(total, total/2)
		name := func(i int) string { return "acct_" + strconv.Itoa(i) }
		for i := range accounts {
			for range 8 {
				s.TryEnter(name(i))
			}
		}
		load := s.Accounts()
		if used := s.Load().Running; used > 2*total || used < total {
			t.Fatalf("%d accounts have %d slots of %d, and want all", accounts, used, total)
		}
		if len(load) <= 2*total/8 {
			t.Errorf("%d accounts have all slots, and each its eight", len(load))
		}
		in := make(chan string, accounts)
		for i := range accounts {
			if load[name(i)].Running == 0 {
				go func() {
					if s.Enter(t.Context(), name(i), "sess") {
						in <- name(i)
					}
				}()
			}
		}
		synctest.Wait()
		if used := s.Load().Running; used > 2*total {
			t.Fatalf("%d slots are in use when the others wait", used)
		}
		// Those that have some give them back; each that waits gets its turn.
		for account, l := range load {
			for range l.Running {
				s.Leave(account)
			}
			if used := s.Load().Running; used > 2*total {
				t.Fatalf("%d slots are in use of %d", used, 2*total)
			}
		}
		for s.Load().Waiting > 0 {
			s.Leave(<-in)
		}
		synctest.Wait()
		for len(in) > 0 {
			s.Leave(<-in)
		}
		if got := s.Load(); got != (admission.Load{}) || len(s.Accounts()) != 0 {
			t.Errorf("%+v is left", got)
		}
	})
}
