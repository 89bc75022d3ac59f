package loop

import (
	"context"
	"sync"

	"agentd/state"
)

// slots bounds the threads that are worked on at once, and shares the room between
// accounts: one account has a bounded number of them, all together have twice as many, and who
// waits is let in account by account, not in the order of coming. So an account whose
// turns wait for a slow model leaves room for the others.
type slots struct {
	most int

	mu    sync.Mutex
	used  int
	by    map[string]int
	lines map[string][]chan struct{} // who waits, in the order of coming
	order []string                   // accounts with a line, the next one in front
}

func newSlots(most int) *slots {
	return &slots{most: most, by: map[string]int{}, lines: map[string][]chan struct{}{}}
}

// enter waits for a slot; false means that ctx ended first.
func (s *slots) enter(ctx context.Context, account string) bool {
	s.mu.Lock()
	if s.fits(account) && len(s.lines[account]) == 0 {
		s.takeSlot(account)
		s.mu.Unlock()
		return true
	}
	ready := make(chan struct{})
	if len(s.lines[account]) == 0 {
		s.order = append(s.order, account)
	}
	s.lines[account] = append(s.lines[account], ready)
	s.mu.Unlock()
	select {
	case <-ready:
		return true
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-ready: // it came in between
		s.giveSlot(account)
	default:
		s.leaveLine(account, ready)
	}
	return false
}

// leave gives a slot back.
func (s *slots) leave(account string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.giveSlot(account)
}

// waiting returns how many wait for a slot.
func (s *slots) waiting() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.lines {
		n += len(line)
	}
	return n
}

func (s *slots) fits(account string) bool {
	return s.used < 2*s.most && s.by[account] < s.most
}

func (s *slots) takeSlot(account string) {
	s.used++
	s.by[account]++
}

func (s *slots) giveSlot(account string) {
	s.used--
	if s.by[account]--; s.by[account] == 0 {
		delete(s.by, account)
	}
	s.admit()
}

// admit lets in the first of each line in turn while there is room.
func (s *slots) admit() {
	for tried := 0; tried < len(s.order) && s.used < 2*s.most; {
		account := s.order[0]
		s.order = s.order[1:]
		if !s.fits(account) {
			s.order = append(s.order, account)
			tried++
			continue
		}
		line := s.lines[account]
		close(line[0])
		s.takeSlot(account)
		if s.lines[account] = line[1:]; len(line) == 1 {
			delete(s.lines, account)
			continue
		}
		s.order = append(s.order, account)
		tried = 0
	}
}

func (s *slots) leaveLine(account string, ready chan struct{}) {
	line := s.lines[account]
	for i, c := range line {
		if c == ready {
			s.lines[account] = append(line[:i:i], line[i+1:]...)
			break
		}
	}
	if len(s.lines[account]) > 0 {
		return
	}
	delete(s.lines, account)
	for i, a := range s.order {
		if a == account {
			s.order = append(s.order[:i:i], s.order[i+1:]...)
			break
		}
	}
}

// accountOf returns the account of a session. One that can't be loaded has none; what follows
// says why.
func (l *Loop) accountOf(sessionID string) (account string) {
	_ = l.m.Peek(l.ctx, sessionID, func(s *state.Session) error {
		account = s.Account
		return nil
	})
	return account
}

// Threads returns how many threads are worked on, and how many wait until there is room.
func (l *Loop) Threads() (running, waiting int) {
	waiting = l.slots.waiting()
	l.slots.mu.Lock()
	defer l.slots.mu.Unlock()
	return l.slots.used, waiting
}
