package admission

import "time"

// Quantum says how many writes of one account go to the store together. While one account
// writes alone, all of them do: a large group is cheaper. While several write, a large group
// of one account would keep the others waiting: when it is durable, all who waited for it
// want a processor at once, and the one writer of another account comes after them, again at
// each of its writes. So a group then holds so few of each account that who waited for it
// goes on about as soon as it was durable.
//
// It is for one goroutine at a time. The zero value is not valid; see [NewQuantum].
type Quantum struct {
	most, size int
	seen       map[string]time.Time
}

// Bounds of a quantum while several accounts write.
const (
	leastQuantum = 8
	firstQuantum = 16
	growQuantum  = 2
)

// seenFor is how long an account counts as one that writes.
const seenFor = time.Second

// leastLag is how late a caller may go on whatever the store takes: below it there is nothing
// to gain.
const leastLag = time.Millisecond

// NewQuantum returns a quantum of at most so many writes.
func NewQuantum(most int) *Quantum {
	return &Quantum{most: most, size: min(most, firstQuantum), seen: map[string]time.Time{}}
}

// See says that an account writes.
func (q *Quantum) See(account string, now time.Time) { q.seen[account] = now }

// Size returns how many writes of one account go together now.
func (q *Quantum) Size(now time.Time) int {
	for account, at := range q.seen {
		if now.Sub(at) > seenFor {
			delete(q.seen, account)
		}
	}
	if len(q.seen) < 2 {
		q.size = min(q.most, firstQuantum)
		return q.most
	}
	return q.size
}

// Adjust is told how long a group took to become durable, and how much later the last one
// that waited for it went on.
func (q *Quantum) Adjust(took, lag time.Duration) {
	if lag > max(took/2, leastLag) {
		q.size = max(min(leastQuantum, q.most), q.size/2)
		return
	}
	q.size = min(q.most, q.size+growQuantum)
}
