package work

import (
	"container/heap"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"agentd/state"
)

// place is where a task runs, as limits see it.
type place struct{ taskID, sessionID, account string }

// slots is what the scheduler keeps of the runtime's own attempts: which run, and
// which wait for room. It can be rebuilt from the facts at any time.
//
// A session's tasks are started in the order of their priority and, within one,
// of their waiting; the sessions take turns, so that one with many tasks doesn't
// keep another waiting. An attempt that waits for a person holds no room; when it
// goes on, the limits may be passed by those that were answered.
type slots struct {
	limits Limits

	mu sync.Mutex
	// held are the attempts that run, reserved those that are about to.
	held, reserved       map[string]place
	perSession, perAccnt map[string]int
	waiting              map[string]*line
	// ring are the sessions with a line, in the order of their turns.
	ring []string
}

// line is the tasks of a session that wait for room.
type line struct {
	account string
	heap    entries
	known   map[string]bool
}

type entry struct {
	taskID   string
	priority int64
	since    uint64
}

func newSlots(l Limits) *slots {
	for _, d := range []struct {
		field *int
		value int
	}{{&l.Runtime, 64}, {&l.Session, 16}, {&l.Account, 32}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	return &slots{
		limits: l, held: map[string]place{}, reserved: map[string]place{},
		perSession: map[string]int{}, perAccnt: map[string]int{}, waiting: map[string]*line{},
	}
}

// priorities are the words that are understood; other words are normal.
var priorities = map[string]int64{"lowest": -20, "low": -10, "normal": 0, "medium": 0, "high": 10, "urgent": 20, "highest": 20, "critical": 30}

// priorityOf reads a task's priority: a number, or a word.
func priorityOf(s string) int64 {
	if n, err := strconv.ParseFloat(s, 64); err == nil {
		return int64(min(max(n, -1e9), 1e9))
	}
	return priorities[strings.ToLower(s)]
}

// wait puts a task in line. One that is there already stays where it is.
func (s *slots) wait(p place, t *state.Task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.reserved[p.taskID]; taken {
		return
	}
	l := s.waiting[p.sessionID]
	if l == nil {
		l = &line{account: p.account, known: map[string]bool{}}
		s.waiting[p.sessionID] = l
		s.ring = append(s.ring, p.sessionID)
	}
	if l.known[p.taskID] {
		return
	}
	l.known[p.taskID] = true
	heap.Push(&l.heap, entry{p.taskID, priorityOf(t.Priority), t.StatusSequence})
}

// reserve takes room for a task that is to start now. A task that stands in
// line goes first.
func (s *slots) reserve(p place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.waiting[p.sessionID]; l != nil && len(l.heap) > 0 {
		return false
	}
	if !s.room(p.sessionID, p.account) {
		return false
	}
	s.acquire(s.reserved, p)
	return true
}

// settle says what became of a reservation.
func (s *slots) settle(p place, started bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(s.reserved, p.taskID)
	if started {
		s.acquire(s.held, p)
	}
}

// set notes whether a task's attempt runs.
func (s *slots) set(p place, runs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if runs {
		s.acquire(s.held, p)
	} else {
		s.release(s.held, p.taskID)
	}
}

// next takes the task whose turn it is and reserves room for it; false if there
// is no room or no task waits.
func (s *slots) next() (place, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full() {
		return place{}, false
	}
	for i, sessionID := range s.ring {
		l := s.waiting[sessionID]
		if !s.room(sessionID, l.account) {
			continue
		}
		e, _ := heap.Pop(&l.heap).(entry)
		delete(l.known, e.taskID)
		s.ring = slices.Delete(s.ring, i, i+1)
		if len(l.heap) > 0 {
			s.ring = append(s.ring, sessionID)
		} else {
			delete(s.waiting, sessionID)
		}
		p := place{e.taskID, sessionID, l.account}
		s.acquire(s.reserved, p)
		return p, true
	}
	return place{}, false
}

func (s *slots) room(sessionID, account string) bool {
	return !s.full() && s.perSession[sessionID] < s.limits.Session && (account == "" || s.perAccnt[account] < s.limits.Account)
}

func (s *slots) full() bool { return len(s.held)+len(s.reserved) >= s.limits.Runtime }

// why says what a task waits for that is put in line now.
func (s *slots) why(sessionID, account string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.full():
		return fmt.Sprintf("waits for room: the runtime works on %d tasks, the most at once", s.limits.Runtime)
	case s.perSession[sessionID] >= s.limits.Session:
		return fmt.Sprintf("waits for room: %d tasks of the session are worked on, the most at once", s.limits.Session)
	case account != "" && s.perAccnt[account] >= s.limits.Account:
		return fmt.Sprintf("waits for room: %d tasks of the account are worked on, the most at once", s.limits.Account)
	}
	return "waits for its turn"
}

func (s *slots) acquire(in map[string]place, p place) {
	if _, ok := in[p.taskID]; ok {
		return
	}
	in[p.taskID] = p
	s.perSession[p.sessionID]++
	s.perAccnt[p.account]++
}

func (s *slots) release(in map[string]place, taskID string) {
	p, ok := in[taskID]
	if !ok {
		return
	}
	delete(in, taskID)
	if s.perSession[p.sessionID]--; s.perSession[p.sessionID] == 0 {
		delete(s.perSession, p.sessionID)
	}
	if s.perAccnt[p.account]--; s.perAccnt[p.account] == 0 {
		delete(s.perAccnt, p.account)
	}
}

// entries is a heap: the highest priority first, then who waits longest.
type entries []entry //nolint:recvcheck // as heap.Interface wants it

func (h entries) Len() int { return len(h) }
func (h entries) Less(i, j int) bool {
	if h[i].priority != h[j].priority {
		return h[i].priority > h[j].priority
	}
	return h[i].since < h[j].since
}
func (h entries) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements [heap.Interface].
func (h *entries) Push(x any) { *h = append(*h, x.(entry)) } //nolint:forcetypeassert // only entries are pushed

// Pop implements [heap.Interface].
func (h *entries) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
