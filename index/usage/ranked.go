package usage

import "bytes"

// offerFirst offers the rows that come first: those of the sessions that come first, and
// then those of all others that may have one before the last of these.
func (a *answer) offerFirst(top *topRows) error {
	t := a.sessions
	offer := func(s *sessionSum) error {
		s.done = true
		if err := a.expand(s); err != nil {
			return err
		}
		for i := range t.rows {
			if i+1 != s.best {
				top.offer(&t.rows[i])
			}
		}
		return nil
	}
	first, packs, err := t.firstSessions(top.wanted)
	if err != nil {
		return err
	}
	// The best row of each of them shows which others needn't be kept.
	if len(first) == top.wanted {
		for _, ranked := range first {
			if err := a.offerBest(&t.list[ranked.place], top); err != nil {
				return err
			}
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
	for i := range packs {
		err := t.eachUnlinked(&packs[i], func(s *sessionSum) (bool, error) {
			if t.mayComeBefore(s, top.last) {
				return true, offer(s)
			}
			// Those that used the same are in the order of their sessions.
			return t.by&(ByAccount|ByWorkspace) != 0 && s.order == top.last.order, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// offerBest offers the best row of a session.
func (a *answer) offerBest(s *sessionSum, top *topRows) error {
	if err := a.expand(s); err != nil {
		return err
	}
	rows := a.sessions.rows
	best, of := 0, order{}
	for i := range rows {
		if o := rows[i].Figures.order(); i == 0 || o.compare(&of) < 0 {
			best, of = i, o
		}
	}
	top.offer(&rows[best])
	for i, n := range of {
		s.order[i] -= n
	}
	s.best, s.done = best+1, len(rows) == 1
	return nil
}

// orderedPack is a pack whose heads are read in their order.
type orderedPack struct {
	source int
	heads  headReader
}

// eachUnlinked calls do with the groups of a pack whose heads were not read yet, until it
// returns false.
func (t *sessionSums) eachUnlinked(p *orderedPack, do func(*sessionSum) (bool, error)) error {
	for h := &p.heads; h.next < h.groups; {
		if err := h.read(); err != nil {
			return err
		}
		s := t.sumOf(p.source, &h.group, h.head, h.rows)
		if t.linked(&h.group, s.hash) {
			continue
		}
		if more, err := do(&s); err != nil || !more {
			return err
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

// firstSessions returns sessions that come first, and the packs that may have more of them,
// as far as they were read. Which of those that used the same are among them is left open:
// they needn't be compared, which is most of the work where many are alike.
func (t *sessionSums) firstSessions(wanted int) (first []rankedSession, packs []orderedPack, err error) {
	// rank reports whether a session is among the first. Once full, they are a heap with the last one at 0.
	rank := func(s *sessionSum, place int) bool {
		switch {
		case len(first) < wanted:
			if first = append(first, rankedSession{s.order, uint32(place)}); len(first) == wanted {
				for at := len(first)/2 - 1; at >= 0; at-- {
					sink(first, at)
				}
			}
		case s.order.compare(&first[0].order) < 0:
			first[0] = rankedSession{s.order, uint32(place)}
			sink(first, 0)
		default:
			return false
		}
		return true
	}
	for i := range t.list {
		if s := &t.list[i]; !s.done {
			rank(s, i)
		}
	}
	for i, s := range t.sources {
		if !s.ordered() {
			continue
		}
		p := orderedPack{i, s.readHeads()}
		err := t.eachUnlinked(&p, func(s *sessionSum) (bool, error) {
			t.list = append(t.list, *s)
			return rank(s, len(t.list)-1), nil
		})
		if err != nil {
			return nil, nil, err
		}
		packs = append(packs, p)
	}
	return first, packs, nil
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
