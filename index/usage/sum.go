package usage

import (
	"bytes"
	"container/heap"
	"hash/maphash"
)

// sumUp sums up the packs of a bucket and offers its rows.
func (a *answer) sumUp(bucket string, packs []pack) error {
	switch {
	case a.first.full() && len(packs) == 1 && packs[0].has == a.By: // its rows are only counted
		n, err := rowsInPack(packs[0].rows)
		if err != nil {
			return damaged(packs[0].key, err)
		}
		a.total += n
		return nil
	case a.By&BySession != 0:
		return a.mergeSessions(bucket, packs)
	default:
		return a.sumByText(bucket, packs)
	}
}

// mergeSessions sums up packs by session and by what else is asked for. There may be very
// many sessions: packs have their rows in the order of sessions, so that only the rows of
// one session have to be in memory.
func (a *answer) mergeSessions(bucket string, packs []pack) error {
	cursors := make(cursorHeap, 0, len(packs))
	for i := range packs {
		c := openPack(packs[i].rows)
		c.key = packs[i].key
		if c.next() {
			cursors = append(cursors, c)
		}
		if c.failed {
			return damaged(packs[i].key, errPack)
		}
	}
	heap.Init(&cursors)
	var rows []candidate // of one session
	offer := func() {
		for i := range rows {
			a.first.offer(bucket, &rows[i])
		}
		a.total += len(rows)
		rows = rows[:0]
	}
	for len(cursors) > 0 {
		c := cursors[0]
		if len(rows) > 0 && !bytes.Equal(rows[0].parts[sessionPart], c.session()) {
			offer()
		}
		rows = a.addRow(rows, c)
		session := c.places[sessionPart]
		switch {
		case c.next():
			if c.places[sessionPart] != session {
				heap.Fix(&cursors, 0)
			}
		case c.failed:
			return damaged(c.key, errPack)
		default:
			heap.Pop(&cursors)
		}
	}
	offer()
	return nil
}

// addRow adds the row that a cursor is at to the rows of its session, which are few.
func (a *answer) addRow(rows []candidate, c *packCursor) []candidate {
	for i := range rows {
		if a.sameParts(&rows[i], c) {
			rows[i].Sum(&c.figures)
			return rows
		}
	}
	if len(rows) < cap(rows) {
		rows = rows[:len(rows)+1]
	} else {
		rows = append(rows, candidate{})
	}
	row := &rows[len(rows)-1]
	for _, part := range a.parts {
		row.parts[part] = c.text(part)
	}
	row.Figures = c.figures
	return rows
}

func (a *answer) sameParts(row *candidate, c *packCursor) bool {
	for _, part := range a.parts {
		if part != sessionPart && !bytes.Equal(row.parts[part], c.text(part)) {
			return false
		}
	}
	return true
}

// cursorHeap has cursors by the sessions that they are at.
type cursorHeap []*packCursor

func (h *cursorHeap) Len() int { return len(*h) }
func (h *cursorHeap) Less(i, j int) bool {
	return bytes.Compare((*h)[i].session(), (*h)[j].session()) < 0
}
func (h *cursorHeap) Swap(i, j int) { (*h)[i], (*h)[j] = (*h)[j], (*h)[i] }
func (h *cursorHeap) Push(c any)    { *h = append(*h, c.(*packCursor)) }
func (h *cursorHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// rowKey names a row of a bucket: the numbers of the texts of its key.
type rowKey [keyParts]uint32

func (k *rowKey) hash() uint32 {
	h := uint64(0)
	for _, n := range k {
		h = (h ^ uint64(n)) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return uint32(h >> 32)
}

// textSums sums up rows by the texts of their keys, which have numbers: 0 is the empty one.
type textSums struct {
	texts  [][]byte
	byText finder
	seed   maphash.Seed
	keys   []rowKey
	sums   []Figures
	byKey  finder
}

// sumByText sums up packs by what is asked for other than sessions.
func (a *answer) sumByText(bucket string, packs []pack) error {
	if a.texts.texts == nil {
		a.texts.seed = maphash.MakeSeed()
		a.texts.numberOf(nil)
	}
	t := &a.texts
	t.keys, t.sums = t.keys[:0], t.sums[:0]
	t.byKey.reset()
	var numbers []uint32
	for i := range packs {
		c := openPack(packs[i].rows)
		numbers = numbers[:0]
		for _, text := range c.texts {
			numbers = append(numbers, t.numberOf(text))
		}
		for c.next() {
			var key rowKey
			for _, part := range a.parts {
				key[part] = numbers[c.places[part]]
			}
			t.sumOf(&key).Sum(&c.figures)
		}
		if c.failed {
			return damaged(packs[i].key, errPack)
		}
	}
	for i := range t.keys {
		row := candidate{Figures: t.sums[i]}
		for _, part := range a.parts {
			row.parts[part] = t.texts[t.keys[i][part]]
		}
		a.first.offer(bucket, &row)
	}
	a.total += len(t.keys)
	return nil
}

// sumOf returns the sums of a key.
func (t *textSums) sumOf(key *rowKey) *Figures {
	at, found := t.byKey.find(key.hash(), func(at uint32) bool { return t.keys[at] == *key })
	if !found {
		t.keys = append(t.keys, *key)
		t.sums = append(t.sums, Figures{})
	}
	return &t.sums[at]
}

// numberOf returns the number of a text, which stays as it is.
func (t *textSums) numberOf(text []byte) uint32 {
	n, found := t.byText.find(uint32(maphash.Bytes(t.seed, text)), func(n uint32) bool { return bytes.Equal(t.texts[n], text) })
	if !found {
		t.texts = append(t.texts, text)
	}
	return n
}
