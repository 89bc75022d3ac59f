package postgres

import (
	"encoding/json"
	"sync"
	"time"

	"agentd/store"
)

// A hint says what a node appended: sessions with the sequences from the first to the
// last. It is what NOTIFY carries, so that whoever listens need not ask the database.
// A payload that is the node's name alone says that there is something to look for;
// earlier versions send nothing else.

const (
	// maxPayload is below what PostgreSQL takes in one notification, 8,000 bytes.
	maxPayload = 7900
	// maxHinted is how many sessions wait for the next notification; when there are more
	// the others are told to look.
	maxHinted = 4096
)

// notifyGap is the shortest time between two notifications of a node that has so many
// other nodes to tell: the notifications of all nodes together don't grow with their
// number, and each carries more.
func notifyGap(others int) time.Duration {
	const each, most = 10 * time.Millisecond, 250 * time.Millisecond
	return min(time.Duration(others)*each, most)
}

// hintRange is what was appended to one session.
type hintRange struct{ first, last uint64 }

// hintQueue gathers what other nodes are to be told.
type hintQueue struct {
	mu     sync.Mutex
	ranges map[string]hintRange
	// overflow says that there was more than fits: whoever listens has to look.
	overflow bool
	others   int
}

// noteAppended keeps what a group appended. It reports whether there is something to tell.
func (q *hintQueue) noteAppended(units []*unit, others int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.others = others
	if others == 0 {
		return false
	}
	told := q.overflow
	for _, u := range units {
		if u.expected == anyHead || u.expected == noHead {
			continue
		}
		told = true
		q.merge(u.session, hintRange{uint64(u.expected) + 1, u.head})
	}
	return told
}

// askToLook has the others look for themselves.
func (q *hintQueue) askToLook() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.overflow = true
}

// merge adds a range. The lock is held.
func (q *hintQueue) merge(session string, r hintRange) {
	if q.ranges == nil {
		q.ranges = map[string]hintRange{}
	}
	if have, ok := q.ranges[session]; ok {
		r = hintRange{min(have.first, r.first), max(have.last, r.last)}
	} else if len(q.ranges) >= maxHinted {
		q.overflow = true
		return
	}
	q.ranges[session] = r
}

// takeRanges empties the queue.
func (q *hintQueue) takeRanges() (ranges map[string]hintRange, overflow bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	ranges, overflow = q.ranges, q.overflow
	q.ranges, q.overflow = nil, false
	return ranges, overflow
}

// giveBack puts back what could not be told.
func (q *hintQueue) giveBack(ranges map[string]hintRange, overflow bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.overflow = q.overflow || overflow
	for session, r := range ranges {
		q.merge(session, r)
	}
}

func (q *hintQueue) gap() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return notifyGap(q.others)
}

// payload is the form of a notification with ranges.
type payload struct {
	Node string `json:"node"`
	// Sessions, First and Last belong together by their places.
	Sessions []string `json:"s"`
	First    []uint64 `json:"f"`
	Last     []uint64 `json:"l"`
}

// payloads puts ranges into as many notifications as they need.
func payloads(node string, ranges map[string]hintRange, overflow bool) []string {
	var out []string
	if overflow {
		out = append(out, node)
	}
	p := payload{Node: node}
	size := 0
	flush := func() {
		if len(p.Sessions) == 0 {
			return
		}
		text, err := json.Marshal(&p)
		if err != nil || len(text) > maxPayload {
			text = []byte(node) // it can't be said, so they look
		}
		out = append(out, string(text))
		p, size = payload{Node: node}, 0
	}
	for session, r := range ranges {
		// Two numbers of at most 20 digits, quotes and commas; escapes may need six times
		// the bytes, which flush notices.
		n := len(session) + 46
		if size+n > maxPayload-len(node)-64 {
			flush()
		}
		p.Sessions, p.First, p.Last = append(p.Sessions, session), append(p.First, r.first), append(p.Last, r.last)
		size += n
	}
	flush()
	return out
}

// parsePayload returns what a notification says, and whether it says more than that there
// is something to look for.
func parsePayload(text string) (p payload, hints []store.Appended, ranged bool) {
	if len(text) == 0 || text[0] != '{' || json.Unmarshal([]byte(text), &p) != nil ||
		len(p.Sessions) != len(p.First) || len(p.Sessions) != len(p.Last) {
		return payload{Node: text}, nil, false
	}
	for i, session := range p.Sessions {
		hints = append(hints, store.Appended{SessionID: session, Sequence: p.Last[i], First: p.First[i]})
	}
	return p, hints, true
}

// told is what a follower has passed on since it last looked, so that the look need not
// say it again.
type told map[string]hintRange

// add notes what was passed on. Ranges with a gap between them are not joined: the later
// one is kept.
func (t told) add(h store.Appended) {
	r := hintRange{h.First, h.Sequence}
	if have, ok := t[h.SessionID]; ok && r.first <= have.last+1 && have.first <= r.last+1 {
		r = hintRange{min(have.first, r.first), max(have.last, r.last)}
	}
	t[h.SessionID] = r
}

// covers reports whether everything that a hint stands for was passed on.
func (t told) covers(h store.Appended) bool {
	r, ok := t[h.SessionID]
	return ok && h.First >= r.first && h.Sequence <= r.last
}
