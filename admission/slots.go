package admission

import (
	"context"
	"slices"
	"sync"
)

// Slots bounds what is done at once and shares the room between accounts, and within an
// account between sessions. One account has a bounded part. Who waits is let in account by
// account, and of one account session by session, not in the order of coming. Beyond its total
// there is as much room again for accounts that have less than a few, so that neither one
// account nor several together keep another one waiting. The fuller that room is, the fewer
// an account gets there, one at last, so that it lasts for many accounts. It is never exceeded.
//
// All methods may be called by many goroutines.
type Slots struct {
	total, most, few int

	mu    sync.Mutex
	used  int
	by    map[string]int
	lines map[string]*line // of accounts in which someone waits
	order []string         // these accounts, the next one in front
}

const (
	// fewSlots is what every account gets while hardly more than the total is in use, unless
	// there are few at all.
	fewSlots = 8
	// hardBound is how many times the total all accounts together may have.
	hardBound = 2
)

// NewSlots returns so many slots, of which one account may have most, and as many again for
// accounts that have few.
func NewSlots(total, most int) *Slots {
	return &Slots{total: total, most: most, few: min(fewSlots, total/16), by: map[string]int{}, lines: map[string]*line{}}
}

// line is who waits in one account.
type line struct {
	waiting int
	by      map[string][]chan struct{} // by session, in the order of coming
	order   []string                   // these sessions, the next one in front
}

// TryEnter takes a slot if one is free and no other work of the account is waiting. The
// caller releases it with Leave.
func (s *Slots) TryEnter(account string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tryTaking(account)
}

func (s *Slots) tryTaking(account string) bool {
	if s.lines[account] != nil || !s.fits(account) {
		return false
	}
	s.takeSlot(account)
	return true
}

// Enter waits for a slot; false means that ctx ended first. Who got one calls Leave.
func (s *Slots) Enter(ctx context.Context, account, session string) bool {
	s.mu.Lock()
	if s.tryTaking(account) {
		s.mu.Unlock()
		return true
	}
	ready := make(chan struct{})
	s.joinLine(account, session, ready) // the next slot that becomes free is looked for there
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
		s.leaveLine(account, session, ready)
	}
	return false
}

// Leave gives a slot back.
func (s *Slots) Leave(account string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.giveSlot(account)
}

// Load is how many slots are in use, and how many wait for one.
type Load struct{ Running, Waiting int }

// Load returns what all accounts have together.
func (s *Slots) Load() Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := Load{Running: s.used}
	for _, l := range s.lines {
		all.Waiting += l.waiting
	}
	return all
}

// LoadOf returns what one account has.
func (s *Slots) LoadOf(account string) Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := Load{Running: s.by[account]}
	if l := s.lines[account]; l != nil {
		own.Waiting = l.waiting
	}
	return own
}

// Accounts returns the load of each account that has any.
func (s *Slots) Accounts() map[string]Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]Load, len(s.by))
	for account, n := range s.by {
		out[account] = Load{Running: n}
	}
	for account, l := range s.lines {
		out[account] = Load{Running: s.by[account], Waiting: l.waiting}
	}
	return out
}

func (s *Slots) fits(account string) bool {
	own := s.by[account]
	if s.used < s.total {
		return own < max(s.most, s.few)
	}
	// A few are left to each account when the total is in use, none when the bound is reached.
	return own*(hardBound-1)*s.total < s.few*(hardBound*s.total-s.used)
}

func (s *Slots) takeSlot(account string) {
	s.used++
	s.by[account]++
}

func (s *Slots) giveSlot(account string) {
	s.used--
	if s.by[account]--; s.by[account] == 0 {
		delete(s.by, account)
	}
	s.admitWaiting()
}

// admitWaiting lets in the first of each line in turn while there is room.
func (s *Slots) admitWaiting() {
	for tried := 0; tried < len(s.order); {
		account := s.order[0]
		s.order = s.order[1:]
		if !s.fits(account) {
			s.order = append(s.order, account)
			tried++
			continue
		}
		l := s.lines[account]
		close(l.next())
		s.takeSlot(account)
		tried = 0
		if l.waiting == 0 {
			delete(s.lines, account)
			continue
		}
		s.order = append(s.order, account)
	}
}

func (s *Slots) joinLine(account, session string, ready chan struct{}) {
	l := s.lines[account]
	if l == nil {
		l = &line{by: map[string][]chan struct{}{}}
		s.lines[account] = l
		s.order = append(s.order, account)
	}
	if len(l.by[session]) == 0 {
		l.order = append(l.order, session)
	}
	l.by[session] = append(l.by[session], ready)
	l.waiting++
}

// next takes the one that is let in next out of the line.
func (l *line) next() chan struct{} {
	session := l.order[0]
	l.order = l.order[1:]
	ready := l.by[session][0]
	l.waiting--
	if l.by[session] = l.by[session][1:]; len(l.by[session]) == 0 {
		delete(l.by, session)
	} else {
		l.order = append(l.order, session)
	}
	return ready
}

func (s *Slots) leaveLine(account, session string, ready chan struct{}) {
	l := s.lines[account]
	l.by[session] = slices.DeleteFunc(l.by[session], func(c chan struct{}) bool { return c == ready })
	l.waiting--
	if len(l.by[session]) == 0 {
		delete(l.by, session)
		l.order = slices.DeleteFunc(l.order, func(id string) bool { return id == session })
	}
	if l.waiting == 0 {
		delete(s.lines, account)
		s.order = slices.DeleteFunc(s.order, func(a string) bool { return a == account })
	}
}
