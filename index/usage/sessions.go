package usage

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
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
	// counted is how many rows were counted of the group.
	counted int
	// next is the number of another place of the session, counted from 1.
	next uint32
	// mixed and negative are as in a group, for all of them.
	mixed, negative bool
	// done says that its rows were offered, or are another's.
	done bool
	// best is the number of the row that was offered alone, counted from 1; order is then
	// that of the others.
	best int
}

// sessionSums sums up by session and by what else is asked for. There may be very many
// sessions with very many rows, of which few come first. A session has no row that comes
// before it, and packs have those first that used most. So of large packs only the heads of
// groups are read that may come first, that may be of a session which is elsewhere, too, or
// that are special.
type sessionSums struct {
	by      Dimension
	parts   []int
	sources []*source
	// alone says that no two groups are of the same session.
	alone bool
	// list are the groups whose heads were read.
	list []sessionSum
	// others are the places of sessions after the first of each.
	others []otherPlace
	byID   finder
	// seen has the hashes of all groups, shared those that more than one may have.
	seen, shared hashSet
	// rows is scratch: those of one session.
	rows []topRow
}

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

// readSessions reads the heads of groups that don't stand for themselves, and returns how
// many rows all have.
func (a *answer) readSessions() (int, error) {
	t := a.sessions
	groups := 0
	for _, s := range t.sources {
		groups += s.groups
	}
	t.list, t.others = t.list[:0], t.others[:0]
	if t.alone = len(t.sources) == 1 && !t.sources[0].repeats; t.alone {
		groups = 0
	}
	t.seen.reset(groups)
	t.shared.reset(groups)
	total := 0
	for i, s := range t.sources {
		if s.ordered() {
			total += s.index.countBy(t.by, s.groups)
			t.noteHashes(s.index)
			continue
		}
		err := s.eachGroup(func(g *group, head, rows int) {
			of := t.sumOf(i, g, head, rows)
			t.noteHash(of.hash)
			t.list = append(t.list, of)
			total += of.counted
		})
		if err != nil {
			return 0, err
		}
	}
	for i, s := range t.sources {
		if s.ordered() {
			if err := t.readLinked(i); err != nil {
				return 0, err
			}
		}
	}
	if !t.alone {
		total -= t.joinShared()
	}
	return a.countAgain(total)
}

// ordered reports whether only some heads need be read, by the index of the pack.
func (s *source) ordered() bool { return s.index != nil && !s.repeats }

// noteHash notes the hash of a group's session.
func (t *sessionSums) noteHash(hash uint32) {
	if !t.alone && t.seen.insert(hash) {
		t.shared.insert(hash)
	}
}

func (t *sessionSums) noteHashes(x *groupIndex) {
	if t.alone {
		return
	}
	for hashes := x.hashes; len(hashes) >= hashSize; hashes = hashes[hashSize:] {
		t.noteHash(binary.LittleEndian.Uint32(hashes))
	}
}

func (t *sessionSums) sumOf(source int, g *group, head, rows int) sessionSum {
	at := sessionPlace{uint32(source), uint32(head), uint32(rows)}
	return sessionSum{order: g.order, sessionPlace: at, hash: sessionHash(g.session), counted: g.countBy(t.by, 1), mixed: g.mixed, negative: g.negative}
}

// readLinked reads the heads of a pack's groups that may be of the same session as others,
// or are special.
func (t *sessionSums) readLinked(source int) error {
	s := t.sources[source]
	special, heads := s.index.special, s.readHeads()
	for i := range s.groups {
		if len(special) > 0 && special[0] == i {
			special = special[1:]
		} else if t.alone || !t.shared.has(s.index.hash(i)) {
			continue
		}
		if err := heads.readAt(i); err != nil {
			return err
		}
		t.list = append(t.list, t.sumOf(source, &heads.group, heads.head, heads.rows))
	}
	return nil
}

// linked reports whether readLinked has read the head of a group.
func (t *sessionSums) linked(g *group, hash uint32) bool {
	return g.mixed || g.negative || !t.alone && t.shared.has(hash)
}

// hashSeed makes a hash that callers can't foresee. They choose the ids of sessions, and could
// choose many of which the stored hashes are the same: to find one would mean to look at all.
var hashSeed = maphash.MakeSeed()

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
		n, found := t.byID.find(uint32(maphash.Bytes(hashSeed, id)), func(n uint32) bool {
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
	return added.counted
}

// countAgain corrects the number of rows by those of sessions that are in several places,
// and of groups that have rows of several accounts or workspaces.
func (a *answer) countAgain(total int) (int, error) {
	t := a.sessions
	for i := range t.list {
		s := &t.list[i]
		joined, mixed := s.next != 0 && t.by&(ByModel|ByTool) != 0, s.mixed && t.by&(ByAccount|ByWorkspace) != 0
		if s.done || !joined && !mixed {
			continue
		}
		n, err := a.countOf(s)
		if err != nil {
			return 0, err
		}
		total += n - s.counted
	}
	return total, nil
}

// countOf returns how many rows a session has.
func (a *answer) countOf(s *sessionSum) (int, error) {
	keys := &a.texts
	keys.reset()
	err := a.eachRowOf(s, func(from *source, _ *group, r *rowReader) {
		key := a.keyOf(from, r)
		keys.place(&key)
		r.skipFigures()
	})
	return len(keys.keys), err
}

// expand reads the rows of a session.
func (a *answer) expand(s *sessionSum) error {
	t := a.sessions
	t.rows = t.rows[:0]
	return a.eachRowOf(s, func(from *source, g *group, r *rowReader) {
		var parts [keyParts][]byte
		for _, part := range t.parts {
			parts[part] = from.texts.list[r.places[part]]
		}
		parts[sessionPart] = g.session
		r.addFigures(t.rowOf(&parts))
	})
}

// eachRowOf calls do with each row of a session, in all places. It reads the figures of the
// row that it is given or passes over them.
func (a *answer) eachRowOf(s *sessionSum, do func(from *source, g *group, r *rowReader)) error {
	t := a.sessions
	at, next := s.sessionPlace, s.next
	var g group
	for {
		from := t.sources[at.source]
		from.groupAt(int(at.head), &g)
		r, err := from.rowsOf(a.ctx, a.entries, &g, int(at.rows))
		if err != nil {
			return err
		}
		for r.next() {
			do(from, &g, &r)
		}
		if r.failed {
			return damaged(from.key, errPack)
		}
		if next == 0 {
			return nil
		}
		at, next = t.others[next-1].sessionPlace, t.others[next-1].next
	}
}

// rowOf returns the sums of a row of the session that is expanded, which has few.
func (t *sessionSums) rowOf(parts *[keyParts][]byte) *Figures {
next:
	for i := range t.rows {
		for _, part := range slices.Backward(t.parts) { // most differ in the tool
			if part != sessionPart && !bytes.Equal(t.rows[i].parts[part], parts[part]) {
				continue next
			}
		}
		return &t.rows[i].Figures
	}
	t.rows = append(t.rows, topRow{parts: *parts})
	return &t.rows[len(t.rows)-1].Figures
}
