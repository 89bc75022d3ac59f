package usage

import (
	"bytes"
	"hash/maphash"
	"math/bits"
	"slices"
	"sync"
)

// sessionPlace is where a group of a session is: in which source, its head, and its rows.
type sessionPlace struct{ source, head, rows uint32 }

// sessionSum is what a session used in a bucket, or a group that was added to another of its
// session.
type sessionSum struct {
	order order
	sessionPlace
	hash uint32
	// next is the number of another place of the session, counted from 1.
	next uint32
	// mixed and negative are as in a group, for all of them.
	mixed, negative bool
	// done says that its rows were offered, or are another's.
	done bool
}

// sessionSums sums up by session and by what else is asked for. There may be very many
// sessions with very many rows, of which few come first. So only the heads of all groups
// are read; a session has no row that comes before it.
type sessionSums struct {
	by      Dimension
	parts   []int
	sources []*source
	list    []sessionSum
	// others are the places of sessions after the first of each.
	others []otherPlace
	byID   finder
	// seen has the hashes of all groups, shared those that more than one may have.
	seen, shared hashSet
	// rows is scratch: those of one session.
	rows []topRow
}

// hashSeed is that of the hashes of sessions.
var hashSeed = maphash.MakeSeed()

// oldSums have the memory of earlier answers: it is much, and new memory is slow at first.
var oldSums = sync.Pool{New: func() any { return new(sessionSums) }}

type otherPlace struct {
	sessionPlace
	next uint32
}

// sumSessions sums up by session, offers the rows that come first, and returns how many
// there are.
func (a *answer) sumSessions(sources []*source, top *topRows) (int, error) {
	t := oldSums.Get().(*sessionSums) //nolint:forcetypeassert // the pool has nothing else
	defer func() {
		a.sessions, t.sources = nil, nil
		clear(t.rows[:cap(t.rows)]) // they hold on to what was read
		oldSums.Put(t)
	}()
	a.sessions = t
	t.by, t.parts, t.sources = a.by, a.parts, sources
	n, err := a.readSessions()
	if err != nil || top.wanted == 0 {
		return n, err
	}
	return n, a.offerFirst(top)
}

// readSessions reads the heads of all groups, and returns how many rows they have.
func (a *answer) readSessions() (int, error) {
	t := a.sessions
	groups := 0
	for _, s := range t.sources {
		groups += s.groups
	}
	t.list, t.others = slices.Grow(t.list[:0], groups), t.others[:0]
	alone := len(t.sources) == 1 && !t.sources[0].repeats
	if !alone {
		t.seen.reset(groups)
		t.shared.reset(groups)
	}
	total := 0
	var unclear []int // whose rows have to be counted
	for i, s := range t.sources {
		err := s.eachGroup(func(g *group, head, rows int) {
			hash := uint32(0)
			if !alone {
				hash = uint32(maphash.Bytes(hashSeed, g.session))
				if t.seen.insert(hash) {
					t.shared.insert(hash)
				}
			}
			at := sessionPlace{uint32(i), uint32(head), uint32(rows)}
			t.list = append(t.list, sessionSum{order: g.order, sessionPlace: at, hash: hash, mixed: g.mixed, negative: g.negative})
			if n, ok := g.count(t.by); ok {
				total += n
			} else {
				unclear = append(unclear, len(t.list)-1)
			}
		})
		if err != nil {
			return 0, err
		}
	}
	if !alone {
		total -= t.joinShared()
	}
	return a.countShared(total, unclear)
}

// joinShared adds each group to the first one of its session, and returns how many rows
// were counted of those that were added.
func (t *sessionSums) joinShared() int {
	counted := 0
	t.byID.reset()
	var firsts []uint32 // places in the list
	for i := range t.list {
		s := &t.list[i]
		if !t.shared.has(s.hash) {
			continue
		}
		id := t.sources[s.source].sessionAt(int(s.head))
		n, found := t.byID.find(s.hash, func(n uint32) bool {
			first := &t.list[firsts[n]]
			return bytes.Equal(t.sources[first.source].sessionAt(int(first.head)), id)
		})
		if found {
			counted += t.join(&t.list[firsts[n]], s)
		} else {
			firsts = append(firsts, uint32(i))
		}
	}
	return counted
}

// join adds a group to the first one of its session, and returns how many rows were counted
// of it.
func (t *sessionSums) join(s, added *sessionSum) int {
	added.done = true
	t.others = append(t.others, otherPlace{added.sessionPlace, s.next})
	s.next = uint32(len(t.others))
	for i, n := range added.order {
		s.order[i] += n
	}
	s.negative = s.negative || added.negative
	var first, g group
	from, other := t.sources[s.source], t.sources[added.source]
	from.groupAt(int(s.head), &first)
	other.groupAt(int(added.head), &g)
	s.mixed = s.mixed || g.mixed || !bytes.Equal(from.texts.list[first.account], other.texts.list[g.account]) ||
		!bytes.Equal(from.texts.list[first.workspace], other.texts.list[g.workspace])
	n, _ := g.count(t.by) // none if it was not counted
	return n
}

// hashSet is a set of hashes that may say to have one that it hasn't.
type hashSet struct {
	bits []uint64
	mask uint32
}

// reset forgets all, and makes room for so many.
func (s *hashSet) reset(hashes int) {
	words := 1 << bits.Len(uint(hashes)/4) // 16 to 32 bits for each
	s.bits = slices.Grow(s.bits[:0], words)[:words]
	clear(s.bits)
	s.mask = uint32(words*64 - 1)
}

// insert adds a hash, and reports whether it may have been there.
func (s *hashSet) insert(hash uint32) bool {
	had := s.has(hash)
	s.bits[hash&s.mask/64] |= 1 << (hash % 64)
	return had
}

func (s *hashSet) has(hash uint32) bool { return s.bits[hash&s.mask/64]&(1<<(hash%64)) != 0 }

// countShared corrects the number of rows by those of sessions that are in several places,
// and adds those that were not counted.
func (a *answer) countShared(total int, unclear []int) (int, error) {
	t := a.sessions
	var g group
	for i := range t.list {
		s := &t.list[i]
		if s.next == 0 || !s.mixed && t.by&(ByModel|ByTool) == 0 { // one row, wherever it is
			continue
		}
		t.sources[s.source].groupAt(int(s.head), &g)
		if n, ok := g.count(t.by); ok {
			total -= n
			unclear = append(unclear, i)
		}
	}
	for _, i := range unclear {
		if t.list[i].done {
			continue
		}
		if err := a.expand(&t.list[i], func(r *rowReader, _ *Figures) { r.skipFigures() }); err != nil {
			return 0, err
		}
		total += len(t.rows)
	}
	return total, nil
}

// expand reads the rows of a session. Figures are read into sums or passed over.
func (a *answer) expand(s *sessionSum, figures func(*rowReader, *Figures)) error {
	t := a.sessions
	t.rows = t.rows[:0]
	at, next := s.sessionPlace, s.next
	for {
		if err := a.expandPlace(at, figures); err != nil {
			return err
		}
		if next == 0 {
			return nil
		}
		at, next = t.others[next-1].sessionPlace, t.others[next-1].next
	}
}

func (a *answer) expandPlace(at sessionPlace, figures func(*rowReader, *Figures)) error {
	t := a.sessions
	s := t.sources[at.source]
	var g group
	s.groupAt(int(at.head), &g)
	r, err := s.rowsOf(a.ctx, a.entries, &g, int(at.rows))
	if err != nil {
		return err
	}
	for r.next() {
		var parts [keyParts][]byte
		for _, part := range t.parts {
			parts[part] = s.texts.list[r.places[part]]
		}
		parts[sessionPart] = g.session
		figures(&r, t.rowOf(&parts))
	}
	if r.failed {
		return damaged(s.key, errPack)
	}
	return nil
}

// rowOf returns the sums of a row of the session that is expanded, which has few.
func (t *sessionSums) rowOf(parts *[keyParts][]byte) *Figures {
next:
	for i := range t.rows {
		for _, part := range t.parts {
			if part != sessionPart && !bytes.Equal(t.rows[i].parts[part], parts[part]) {
				continue next
			}
		}
		return &t.rows[i].Figures
	}
	t.rows = append(t.rows, topRow{parts: *parts})
	return &t.rows[len(t.rows)-1].Figures
}

// offerFirst offers the rows that come first: those of the sessions that come first, and
// then those of all others that may have one before the last of these.
func (a *answer) offerFirst(top *topRows) error {
	t := a.sessions
	offer := func(s *sessionSum) error {
		s.done = true
		if err := a.expand(s, (*rowReader).addFigures); err != nil {
			return err
		}
		for i := range t.rows {
			top.offer(&t.rows[i])
		}
		return nil
	}
	for _, i := range t.firstSessions(top.wanted) {
		if err := offer(&t.list[i]); err != nil {
			return err
		}
	}
	top.cut()
	for i := range t.list {
		if s := &t.list[i]; !s.done && t.mayComeBefore(s, top.last) {
			if err := offer(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// mayComeBefore reports whether a session may have a row that comes before another one.
func (t *sessionSums) mayComeBefore(s *sessionSum, row *topRow) bool {
	if row == nil || s.negative {
		return true
	}
	if c := s.order.compare(&row.order); c != 0 || s.mixed {
		return c <= 0
	}
	parts := t.partsOf(s)
	for _, part := range [...]int{accountPart, workspacePart, sessionPart} {
		if c := bytes.Compare(parts[part], row.parts[part]); c != 0 {
			return c < 0
		}
	}
	return true
}

// partsOf returns what all rows of a session have in common, unless they are mixed.
func (t *sessionSums) partsOf(s *sessionSum) (parts [keyParts][]byte) {
	from := t.sources[s.source]
	if t.by&(ByAccount|ByWorkspace) == 0 {
		parts[sessionPart] = from.sessionAt(int(s.head))
		return parts
	}
	var g group
	from.groupAt(int(s.head), &g)
	parts[sessionPart] = g.session
	if t.by&ByAccount != 0 {
		parts[accountPart] = from.texts.list[g.account]
	}
	if t.by&ByWorkspace != 0 {
		parts[workspacePart] = from.texts.list[g.workspace]
	}
	return parts
}

// firstSessions returns sessions that come first. Which of those that used the same are among
// them is left open: they needn't be compared, which is most of the work where many are alike.
func (t *sessionSums) firstSessions(wanted int) []uint32 {
	first := make([]rankedSession, 0, min(wanted, len(t.list))) // once full, a heap with the last one at 0
	for i := range t.list {
		s := &t.list[i]
		switch {
		case s.done:
		case len(first) < wanted:
			if first = append(first, rankedSession{s.order, uint32(i)}); len(first) == wanted {
				for at := len(first)/2 - 1; at >= 0; at-- {
					sink(first, at)
				}
			}
		case s.order.compare(&first[0].order) < 0:
			first[0] = rankedSession{s.order, uint32(i)}
			sink(first, 0)
		}
	}
	out := make([]uint32, len(first))
	for i := range first {
		out[i] = first[i].place
	}
	return out
}

// rankedSession is a session by its place in the list.
type rankedSession struct {
	order order
	place uint32
}

// sink moves what is at a place of a heap down to where it belongs.
func sink(heap []rankedSession, at int) {
	moved := heap[at]
	for {
		below := 2*at + 1
		if below >= len(heap) {
			break
		}
		if other := below + 1; other < len(heap) && heap[other].order.compare(&heap[below].order) > 0 {
			below = other
		}
		if heap[below].order.compare(&moved.order) <= 0 {
			break
		}
		heap[at] = heap[below]
		at = below
	}
	heap[at] = moved
}
