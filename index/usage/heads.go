package usage

import "encoding/binary"

// stride is how many groups lie between those that an index says the places of. Packs with
// no more have none: all of their heads are read.
const stride = 8

// groupIndex is kept with packs of many groups, so that a query by session needn't read the
// heads of all of them: which sessions may be elsewhere, too, their hashes say.
type groupIndex struct {
	// rowCounts are those of all groups together.
	rowCounts
	// special are the groups that are mixed or negative, in their order.
	special []int
	// hashes are those of the sessions of all groups, marks say where each stride's first
	// head is among the heads and where its rows begin, but for the first stride's.
	hashes, marks []byte
}

const (
	hashSize = 4
	markSize = 8
)

// sessionHash is kept in entries: another one would be another form of them.
func sessionHash(session []byte) uint32 {
	h := uint32(2166136261)
	for _, b := range session {
		h = (h ^ uint32(b)) * 16777619
	}
	h ^= h >> 15 // the lower bits are used most, and are mixed least
	h *= 0x2c1b3c6d
	return h ^ h>>13
}

func (x *groupIndex) hash(i int) uint32 { return binary.LittleEndian.Uint32(x.hashes[hashSize*i:]) }

// indexWriter makes the index of a pack from its groups.
type indexWriter struct {
	groupIndex
	groups, rows int
}

// addGroup adds the next group, whose head is there.
func (w *indexWriter) addGroup(g *group, head int) {
	if w.groups > 0 && w.groups%stride == 0 {
		w.marks = binary.LittleEndian.AppendUint32(w.marks, uint32(head))
		w.marks = binary.LittleEndian.AppendUint32(w.marks, uint32(w.rows))
	}
	if g.mixed || g.negative {
		w.special = append(w.special, w.groups)
	}
	w.hashes = binary.LittleEndian.AppendUint32(w.hashes, sessionHash(g.session))
	w.models += g.models
	w.tools += g.tools
	w.pairs += g.pairs
	w.groups++
	w.rows += len(g.rows)
}

func (w *indexWriter) appendTo(b []byte) []byte {
	for _, n := range [...]uint64{w.models, w.tools, w.pairs, uint64(len(w.special))} {
		b = binary.AppendUvarint(b, n)
	}
	for _, i := range w.special {
		b = binary.AppendUvarint(b, uint64(i))
	}
	b = append(b, w.hashes...)
	return append(b, w.marks...)
}

// readIndex reads the index of a pack with so many groups.
func (d *packReader) readIndex(groups int) *groupIndex {
	x := &groupIndex{rowCounts: rowCounts{d.number(), d.number(), d.number()}}
	last := -1
	for range d.atMost(groups) {
		i := int(d.atMost(groups - 1))
		if i <= last {
			d.failed = true
		}
		x.special = append(x.special, i)
		last = i
	}
	x.hashes = d.bytes(uint64(hashSize * groups))
	x.marks = d.bytes(uint64(markSize * ((groups - 1) / stride)))
	return x
}

// headReader reads heads of the groups of a pack, in their order.
type headReader struct {
	*source
	packReader
	// next is the number of the group that follows.
	next int
	// group is the one that was read last, if one was, head where it is, and rows where its
	// rows begin.
	group      group
	begun      bool
	head, rows int
}

func (s *source) readHeads() headReader {
	return headReader{source: s, packReader: packReader{rest: s.heads}}
}

// read reads the head that follows.
func (h *headReader) read() error {
	last := h.group.order
	h.head, h.rows = len(h.heads)-len(h.rest), h.rows+h.group.size
	g := &h.group
	h.readGroup(g)
	switch {
	case h.failed, g.size > maxGroup, max(g.account, g.workspace) >= uint64(len(h.texts.list)),
		h.begun && last.compare(&g.order) > 0,
		h.index != nil && sessionHash(g.session) != h.index.hash(h.next):
		return damaged(h.key, errPack)
	}
	h.next++
	h.begun = true
	return nil
}

// readAt reads the head of a group after the last one.
func (h *headReader) readAt(i int) error {
	if mark := i / stride; mark > h.next/stride {
		at := h.index.marks[markSize*(mark-1):]
		head := binary.LittleEndian.Uint32(at)
		if uint64(head) > uint64(len(h.heads)) {
			return damaged(h.key, errPack)
		}
		h.rest, h.next = h.heads[head:], mark*stride
		h.rows, h.group.size = int(binary.LittleEndian.Uint32(at[4:])), 0
	}
	for h.next <= i {
		if err := h.read(); err != nil {
			return err
		}
	}
	return nil
}
