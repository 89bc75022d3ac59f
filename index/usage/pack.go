package usage

import (
	"cmp"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
)

// errPack says that a pack isn't one.
var errPack = errors.New("index/usage: a pack is damaged")

// sums are figures by key.
type sums map[Key]*Figures

func (s sums) record(k Key, f *Figures) {
	at := s[k]
	if at == nil {
		at = &Figures{}
		s[k] = at
	}
	at.Sum(f)
}

// compareKeys orders the rows of packs. The session comes first, because packs are merged
// by it.
func compareKeys(a, b Key) int {
	if c := cmp.Compare(a.Session, b.Session); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Tool, b.Tool))
}

// appendPack encodes sums: the texts of the keys, each once, and then a row for each key,
// with which figures are not 0, and these. The same sums have the same bytes.
func appendPack(b []byte, s sums) []byte {
	keys := slices.SortedFunc(maps.Keys(s), compareKeys)
	places := map[string]uint64{"": 0}
	var texts []string
	place := func(text string) uint64 {
		at, ok := places[text]
		if !ok {
			texts = append(texts, text)
			at = uint64(len(texts))
			places[text] = at
		}
		return at
	}
	var rows []byte
	for _, k := range keys {
		for _, text := range [...]string{k.Account, k.Workspace, k.Session, k.Model, k.Tool} {
			rows = binary.AppendUvarint(rows, place(text))
		}
		rows = appendFigures(rows, s[k])
	}
	b = binary.AppendUvarint(b, uint64(len(texts)))
	for _, text := range texts {
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
	}
	b = binary.AppendUvarint(b, uint64(len(keys)))
	return append(b, rows...)
}

func appendFigures(b []byte, f *Figures) []byte {
	set := uint64(0)
	for i, n := range f {
		if n != 0 {
			set |= 1 << i
		}
	}
	b = binary.AppendUvarint(b, set)
	for _, n := range f {
		if n != 0 {
			b = binary.AppendVarint(b, n)
		}
	}
	return b
}

// eachInPack calls do with the rows of a pack. The figures are used again.
func eachInPack(rows []byte, do func(Key, *Figures)) error {
	c := openPack(rows)
	texts := make([]string, len(c.texts))
	for i, text := range c.texts {
		texts[i] = string(text)
	}
	for c.next() {
		do(Key{texts[c.places[0]], texts[c.places[1]], texts[c.places[2]], texts[c.places[3]], texts[c.places[4]]}, &c.figures)
	}
	if c.failed {
		return errPack
	}
	return nil
}

// keyParts is how many parts a key has: as in [Key], in its order.
const keyParts = 5

// sessionPart is the place of the session among them.
const sessionPart = 2

// packCursor reads the rows of a pack, one after the other.
type packCursor struct {
	packReader
	// key is that of the entry that has the pack, for errors.
	key string
	// texts are those of the keys, left is how many rows follow.
	texts [][]byte
	left  uint64
	// places are those of the texts of the row that the cursor is at, figures are its.
	places  [keyParts]uint64
	figures Figures
}

// openPack returns a cursor before the first row.
func openPack(rows []byte) *packCursor {
	c := &packCursor{packReader: packReader{rest: rows}}
	n := min(c.number(), uint64(len(rows)))
	c.texts = make([][]byte, 1, 1+n) // the first is the empty one
	for range n {
		c.texts = append(c.texts, c.readText())
	}
	c.left = c.number()
	return c
}

// next moves to the next row. It returns false at the end, and if the pack is damaged.
func (c *packCursor) next() bool {
	if c.left == 0 || c.failed {
		return false
	}
	c.left--
	for i := range c.places {
		if c.places[i] = c.number(); c.places[i] >= uint64(len(c.texts)) {
			c.failed = true
			return false
		}
	}
	c.readFigures(&c.figures)
	return !c.failed
}

func (c *packCursor) text(part int) []byte { return c.texts[c.places[part]] }

func (c *packCursor) session() []byte { return c.texts[c.places[sessionPart]] }

// rowsInPack returns how many rows a pack has.
func rowsInPack(rows []byte) (int, error) {
	d := &packReader{rest: rows}
	for range d.number() {
		if d.readText(); d.failed {
			return 0, errPack
		}
	}
	n := d.number()
	if d.failed || n > uint64(len(d.rest)) {
		return 0, errPack
	}
	return int(n), nil
}

// packReader reads a pack. After a failure it returns zeros.
type packReader struct {
	rest   []byte
	failed bool
}

func (d *packReader) number() uint64 {
	if len(d.rest) > 0 && d.rest[0] < 0x80 { // most are small
		n := d.rest[0]
		d.rest = d.rest[1:]
		return uint64(n)
	}
	n, size := binary.Uvarint(d.rest)
	if size <= 0 {
		d.failed = true
		d.rest = nil
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

func (d *packReader) readText() []byte {
	n := d.number()
	if n > uint64(len(d.rest)) {
		d.failed = true
		d.rest = nil
		return nil
	}
	text := d.rest[:n]
	d.rest = d.rest[n:]
	return text
}

func (d *packReader) readFigures(f *Figures) {
	set := d.number()
	if set >= 1<<figureCount {
		d.failed = true
		return
	}
	*f = Figures{}
	for i := range f {
		if set&(1<<i) == 0 {
			continue
		}
		n, size := binary.Varint(d.rest)
		if size <= 0 {
			d.failed = true
			return
		}
		d.rest = d.rest[size:]
		f[i] = n
	}
}
