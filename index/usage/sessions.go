package usage

import (
	"bytes"
	"container/heap"
	"hash/maphash"
	"slices"
)

// sessionPlace is where a group of a session is: in which source, its head, and its rows.
type sessionPlace struct{ source, head, rows uint32 }

// sessionSum is what a session used in a bucket.
type sessionSum struct {
	order order
	sessionPlace
	// next is the number of another place of the session, counted from 1.
	next uint32
	// mixed and negative are as in a group, for all of them.
	mixed, negative bool
	// shown says that its rows were offered.
	shown bool
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
	seed   maphash.Seed
	// rows is scratch: those of one session.
	rows []topRow
}

type otherPlace struct {
	sessionPlace
	next uint32
}

// sumSessions sums up by session, offers the rows that come first, and returns how many
// there are.
func (a *answer) sumSessions(sources []*source, top *topRows) (int, error) {
	t := &a.sessions
	if t.seed == (maphash.Seed{}) {
		t.seed = maphash.MakeSeed()
	}
	t.by, t.parts, t.sources = a.by, a.parts, sources
	groups := 0
	for _, s := range sources {
		groups += s.groups
	}
	t.list, t.others = slices.Grow(t.list[:0], groups), t.others[:0]
	t.byID.reset()
	t.byID.expect(groups)
	n, err := a.readSessions()
	if err != nil || top.wanted == 0 {
		return n, err
	}
	return n, a.offerFirst(top)
}

// readSessions reads the heads of all groups, and returns how many rows they have.
func (a *answer) readSessions() (int, error) {
	t := &a.sessions
	alone := len(t.sources) == 1 && !t.sources[0].repeats
	total := 0
	var unclear []int // whose rows have to be counted
	for i, s := range t.sources {
		err := s.eachGroup(func(g *group, head, rows int) {
			at := sessionPlace{uint32(i), uint32(head), uint32(rows)}
			if !alone {
				if t.joinFound(g, at) {
					return
				}
			}
			t.list = append(t.list, sessionSum{order: g.order, sessionPlace: at, mixed: g.mixed, negative: g.negative})
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
	return a.countShared(total, unclear)
}

// joinFound adds a group to the session that it is of, if there is one already.
func (t *sessionSums) joinFound(g *group, at sessionPlace) bool {
	hash := uint32(maphash.Bytes(t.seed, g.session))
	i, found := t.byID.find(hash, func(i uint32) bool {
		s := &t.list[i]
		return bytes.Equal(t.sources[s.source].sessionAt(int(s.head)), g.session)
	})
	if !found {
		return false
	}
	s := &t.list[i]
	t.others = append(t.others, otherPlace{at, s.next})
	s.next = uint32(len(t.others))
	for i, n := range g.order {
		s.order[i] += n
	}
	s.negative = s.negative || g.negative
	var first group
	from, other := t.sources[s.source], t.sources[at.source].texts.list
	from.groupAt(int(s.head), &first)
	s.mixed = s.mixed || g.mixed || !bytes.Equal(from.texts.list[first.account], other[g.account]) ||
		!bytes.Equal(from.texts.list[first.workspace], other[g.workspace])
	return true
}

// countShared corrects the number of rows by those of sessions that are in several places,
// and adds those that were not counted.
func (a *answer) countShared(total int, unclear []int) (int, error) {
	t := &a.sessions
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
		if err := a.expand(&t.list[i]); err != nil {
			return 0, err
		}
		total += len(t.rows)
	}
	return total, nil
}

// expand reads the rows of a session.
func (a *answer) expand(s *sessionSum) error {
	t := &a.sessions
	t.rows = t.rows[:0]
	at, next := s.sessionPlace, s.next
	for {
		if err := a.expandPlace(at); err != nil {
			return err
		}
		if next == 0 {
			return nil
		}
		at, next = t.others[next-1].sessionPlace, t.others[next-1].next
	}
}

func (a *answer) expandPlace(at sessionPlace) error {
	t := &a.sessions
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
		r.addFigures(t.rowOf(&parts))
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
	t := &a.sessions
	offer := func(s *sessionSum) error {
		s.shown = true
		if err := a.expand(s); err != nil {
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
		if s := &t.list[i]; !s.shown && t.mayComeBefore(s, top.last) {
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
	last := row.Figures.order()
	if c := s.order.compare(&last); c != 0 || s.mixed {
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
	h := &sessionHeap{t, make([]uint32, 0, min(wanted, len(t.list)))}
	for i := range t.list {
		switch {
		case len(h.list) < wanted:
			h.list = append(h.list, uint32(i))
			if len(h.list) == wanted {
				heap.Init(h)
			}
		case t.list[i].order.compare(&t.list[h.list[0]].order) < 0:
			h.list[0] = uint32(i)
			heap.Fix(h, 0)
		}
	}
	return h.list
}

// sessionHeap has sessions of which the last one is on top.
type sessionHeap struct {
	*sessionSums
	list []uint32
}

func (h *sessionHeap) Len() int { return len(h.list) }
func (h *sessionHeap) Less(i, j int) bool {
	return h.sessionSums.list[h.list[i]].order.compare(&h.sessionSums.list[h.list[j]].order) > 0
}
func (h *sessionHeap) Swap(i, j int) { h.list[i], h.list[j] = h.list[j], h.list[i] }
func (h *sessionHeap) Push(any)      {}
func (h *sessionHeap) Pop() any      { return nil }
