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

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Session, b.Session),
		cmp.Compare(a.Model, b.Model), cmp.Compare(a.Tool, b.Tool))
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
func eachInPack(pack []byte, do func(Key, *Figures)) error {
	return eachRow(pack, func(text []byte) string { return string(text) }, func(p [keyParts]string, f *Figures) {
		do(Key{p[0], p[1], p[2], p[3], p[4]}, f)
	})
}

// keyParts is how many parts a key has: as in [Key], in its order.
const keyParts = 5

// eachRow is [eachInPack] with something else in place of the texts, which is asked for
// once for each in a pack. The empty text is the zero value.
func eachRow[T any](pack []byte, resolve func(text []byte) T, do func([keyParts]T, *Figures)) error {
	d := &packReader{rest: pack}
	texts := make([]T, 1, 1+min(d.number(), uint64(len(pack))))
	for range cap(texts) - 1 {
		texts = append(texts, resolve(d.text()))
	}
	var f Figures
	for range d.number() {
		var parts [keyParts]T
		for i := range parts {
			at := d.number()
			if at >= uint64(len(texts)) {
				return errPack
			}
			parts[i] = texts[at]
		}
		d.figures(&f)
		if d.failed {
			return errPack
		}
		do(parts, &f)
	}
	if d.failed {
		return errPack
	}
	return nil
}

// rowsInPack returns how many rows a pack has.
func rowsInPack(pack []byte) (uint32, error) {
	d := &packReader{rest: pack}
	for range d.number() {
		if d.text(); d.failed {
			return 0, errPack
		}
	}
	n := d.number()
	if d.failed || n > uint64(len(d.rest)) {
		return 0, errPack
	}
	return uint32(n), nil
}

// packReader reads a pack. After a failure it returns zeros.
type packReader struct {
	rest   []byte
	failed bool
}

func (d *packReader) number() uint64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 {
		d.failed = true
		d.rest = nil
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

func (d *packReader) text() []byte {
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

func (d *packReader) figures(f *Figures) {
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
