package usage

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"
	"sort"

	"agentd/store"
)

// source is a pack that is read, or a part of one.
type source struct {
	// key is that of the entry, for errors; chunks are found by it.
	key   string
	texts *sourceTexts
	// heads are those of the groups, rows the rows of the first of them.
	heads, rows []byte
	groups      int
	// index finds some of them; nil if there are few.
	index *groupIndex
	// starts are where chunks begin in the rows of all groups, and where the last one ends;
	// chunks are those that were read.
	starts []int
	chunks map[int][]byte
	// only says that only the groups of an account are wanted, whose place this is.
	only    bool
	account uint64
	// repeats says that more than one group may be of the same session.
	repeats bool
}

// sourceTexts are the texts of a pack, and of all its parts.
type sourceTexts struct {
	list [][]byte
	// numbers are those of the texts in an answer.
	numbers []uint32
}

// openPack reads a pack up to its groups.
func openPack(key string, value []byte) (*source, error) {
	d := &packReader{rest: value}
	texts := &sourceTexts{list: d.readTexts()}
	return d.openGroups(key, texts)
}

// openGroups reads what follows the texts, through the end.
func (d *packReader) openGroups(key string, texts *sourceTexts) (*source, error) {
	s := &source{key: key, texts: texts}
	s.groups = int(d.atMost(len(d.rest)))
	heads := d.number()
	chunks := d.atMost(len(d.rest))
	s.starts = make([]int, 1, 1+chunks)
	for i := range chunks {
		s.starts = append(s.starts, s.starts[i]+int(d.atMost(maxGroup)))
	}
	if s.groups > stride {
		s.index = d.readIndex(s.groups)
	}
	s.heads = d.bytes(heads)
	s.rows = d.rest
	if d.failed || chunks == 0 || s.starts[1] != len(s.rows) {
		return nil, damaged(key, errPack)
	}
	return s, nil
}

// segment is what an hour has in an entry with several of them.
type segment struct {
	hour string
	// body is encoded as what follows the texts of a pack.
	body []byte
	*source
}

// encodeSegments encodes segments: the texts of all of them, and then each with its hour.
func (d *dictionary) encodeSegments(segments []segment) []byte {
	slices.SortFunc(segments, func(a, b segment) int { return cmp.Compare(a.hour, b.hour) })
	b := binary.AppendUvarint(d.encodeTexts(), uint64(len(segments)))
	for _, s := range segments {
		b = binary.AppendUvarint(b, uint64(len(s.hour)))
		b = append(b, s.hour...)
		b = binary.AppendUvarint(b, uint64(len(s.body)))
		b = append(b, s.body...)
	}
	return b
}

// openSegments reads segments, in the order of their hours.
func openSegments(key string, value []byte) ([]segment, error) {
	d := packReader{rest: value}
	texts := &sourceTexts{list: d.readTexts()}
	n := min(d.number(), uint64(len(d.rest)))
	out := make([]segment, 0, n)
	for range n {
		hour := d.bytes(d.number())
		s := segment{hour: string(hour), body: d.bytes(d.number())}
		if d.failed || len(hour) != len(hourForm) {
			return nil, damaged(key, errPack)
		}
		var err error
		if s.source, err = (&packReader{rest: s.body}).openGroups(key, texts); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	if d.failed || n == 0 || len(d.rest) > 0 {
		return nil, damaged(key, errPack)
	}
	return out, nil
}

// maxGroup is more than the rows of any group have.
const maxGroup = 1 << 31

// eachGroup calls do with the head of each group that is wanted, where it is among the
// heads, and where its rows begin. The group is used again.
func (s *source) eachGroup(do func(g *group, head, rows int)) error {
	h := s.readHeads()
	for range s.groups {
		if err := h.read(); err != nil {
			return err
		}
		if !s.only || h.group.account == s.account {
			do(&h.group, h.head, h.rows)
		}
	}
	if len(h.rest) > 0 || h.rows+h.group.size != s.starts[len(s.starts)-1] {
		return damaged(s.key, errPack)
	}
	return nil
}

// keepAccount leaves out the groups of other accounts, and reports whether any are left.
func (s *source) keepAccount(account string) bool {
	i := slices.IndexFunc(s.texts.list, func(text []byte) bool { return string(text) == account })
	s.only, s.account = true, uint64(max(i, 0))
	return i >= 0
}

// groupAt reads the head of a group again.
func (s *source) groupAt(head int, g *group) {
	d := packReader{rest: s.heads[head:]}
	d.readGroup(g)
}

// sessionAt returns the session of a group.
func (s *source) sessionAt(head int) []byte {
	d := packReader{rest: s.heads[head:]}
	return d.bytes(d.number())
}

// rowsOf returns the rows of a group.
func (s *source) rowsOf(ctx context.Context, entries Entries, g *group, at int) (rowReader, error) {
	i := sort.SearchInts(s.starts, at+1) - 1
	if i+1 >= len(s.starts) || at+g.size > s.starts[i+1] {
		return rowReader{}, damaged(s.key, errPack)
	}
	rows := s.rows
	if i > 0 {
		var err error
		if rows, err = s.chunkOf(ctx, entries, i); err != nil {
			return rowReader{}, err
		}
	}
	at -= s.starts[i]
	r := rowReader{packReader: packReader{rest: rows[at : at+g.size]}, mixed: g.mixed, texts: uint64(len(s.texts.list))}
	r.places[accountPart], r.places[workspacePart] = g.account, g.workspace
	return r, nil
}

func (s *source) chunkOf(ctx context.Context, entries Entries, i int) ([]byte, error) {
	if rows, ok := s.chunks[i]; ok {
		return rows, nil
	}
	rows, err := entries.Get(ctx, Name, chunkKey(s.key, i))
	if errors.Is(err, store.ErrNotFound) {
		return nil, damaged(s.key, err)
	}
	if err != nil {
		return nil, err
	}
	if len(rows) != s.starts[i+1]-s.starts[i] {
		return nil, damaged(s.key, errPack)
	}
	if s.chunks == nil {
		s.chunks = map[int][]byte{}
	}
	s.chunks[i] = rows
	return rows, nil
}

// eachRow calls do with each row of each group that is wanted. It reads the figures of the
// row that it is given or passes over them.
func (s *source) eachRow(ctx context.Context, entries Entries, do func(r *rowReader)) error {
	var failed error
	err := s.eachGroup(func(g *group, _, at int) {
		if failed != nil {
			return
		}
		r, err := s.rowsOf(ctx, entries, g, at)
		if err != nil {
			failed = err
			return
		}
		for r.next() {
			do(&r)
		}
		if r.failed {
			failed = damaged(s.key, errPack)
		}
	})
	if err != nil {
		return err
	}
	return failed
}

// sums returns the sums of a group.
func (s *source) sums(ctx context.Context, entries Entries, g *group, at int) (sums, error) {
	r, err := s.rowsOf(ctx, entries, g, at)
	if err != nil {
		return nil, err
	}
	out := sums{}
	for r.next() {
		f := &Figures{}
		r.addFigures(f)
		text := func(part int) string { return string(s.texts.list[r.places[part]]) }
		out.record(Key{text(accountPart), text(workspacePart), string(g.session), text(modelPart), text(toolPart)}, f)
	}
	if r.failed {
		return nil, damaged(s.key, errPack)
	}
	return out, nil
}

// rowReader reads the rows of a group.
type rowReader struct {
	packReader
	mixed bool
	texts uint64
	// places are those of the texts of the row; a row has no session.
	places [keyParts]uint64
}

// next moves to the next row, whose figures must be read or passed over.
func (r *rowReader) next() bool {
	if len(r.rest) == 0 || r.failed {
		return false
	}
	if r.mixed {
		r.places[accountPart], r.places[workspacePart] = r.number(), r.number()
	}
	r.places[modelPart], r.places[toolPart] = r.number(), r.number()
	for _, place := range r.places {
		if place >= r.texts {
			r.failed = true
		}
	}
	return !r.failed
}

func (r *rowReader) addFigures(f *Figures) {
	set := r.number()
	if set >= 1<<figureCount {
		r.failed = true
		return
	}
	rest := r.rest
	for ; set != 0; set &= set - 1 {
		at := bits.TrailingZeros64(set)
		if len(rest) > 0 && rest[0] < 0x80 { // most are small
			f[at] += signed(uint64(rest[0]))
			rest = rest[1:]
			continue
		}
		n, size := binary.Uvarint(rest)
		if size <= 0 {
			r.failed = true
			return
		}
		f[at] += signed(n)
		rest = rest[size:]
	}
	r.rest = rest
}

func (r *rowReader) skipFigures() {
	set := r.number()
	if set >= 1<<figureCount {
		r.failed = true
		return
	}
	left := bits.OnesCount64(set)
	for i, b := range r.rest {
		if left == 0 {
			r.rest = r.rest[i:]
			return
		}
		if b < 0x80 {
			left--
		}
	}
	r.rest = nil
	r.failed = left > 0
}
