package usage

import (
	"bytes"
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

// addAll adds other sums.
func (s sums) addAll(other sums) {
	for k, f := range other {
		s.record(k, f)
	}
}

// compareKeys orders the rows of a group. The tool comes first, because most differ in it.
func compareKeys(a, b Key) int {
	if c := cmp.Compare(a.Tool, b.Tool); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.Account, b.Account), cmp.Compare(a.Workspace, b.Workspace))
}

// A pack is
//
//	the texts of its keys, each once, but for the sessions
//	the number of its groups, the size of their heads, and the sizes of the rows in each entry
//	if there are many groups, what finds some of them; see [groupIndex]
//	the head of each group: its session, and what is asked for most often
//	the rows of the groups
//
// A group is what a session used, or, in packs without sessions, all there is. Those that
// used most come first. The rows of a large pack are in several entries, so that who asks
// for those that used most needs only the first. What a day's hours have is in one entry,
// see encodeSegments.

// keyParts is how many parts a key has: as in [Key], in its order.
const keyParts = 5

// The places of the parts.
const (
	accountPart = iota
	workspacePart
	sessionPart
	modelPart
	toolPart
)

// order is what rows are ordered by: the figures of [orderFigures].
type order [3]int64

var orderFigures = [len(order{})]int{CostNanoUSD, Turns, ToolCalls}

func (f *Figures) order() order {
	return order{f[orderFigures[0]], f[orderFigures[1]], f[orderFigures[2]]}
}

// compare orders rows: those that used most come first.
func (o *order) compare(other *order) int {
	for i, n := range o {
		if n != other[i] {
			return cmp.Compare(other[i], n)
		}
	}
	return 0
}

// group is a group of a pack. Its texts are places in the list of the pack's.
type group struct {
	session []byte
	// size is that of its rows.
	size int
	// mixed says that its rows don't all have the same account and workspace, and have them
	// themselves. Those of the group are then the first row's.
	mixed bool
	// negative says that it has rows that are more than all of them together.
	negative           bool
	account, workspace uint64
	rowCounts
	order order
	// rows are encoded; only where a pack is written.
	rows []byte
}

// rowCounts are how many models, tools and pairs of both groups have.
type rowCounts struct{ models, tools, pairs uint64 }

// countBy returns how many rows so many groups have by those parts and their sessions, if
// those of each have the same account and workspace.
func (c *rowCounts) countBy(by Dimension, groups int) int {
	switch by & (ByModel | ByTool) {
	case ByModel:
		return int(c.models)
	case ByTool:
		return int(c.tools)
	case ByModel | ByTool:
		return int(c.pairs)
	default:
		return groups
	}
}

// The flags of a group.
const (
	flagMixed = 1 << iota
	flagNegative
)

// flagBits is how many bits the flags have.
const flagBits = 2

func (g *group) appendHead(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(g.session)))
	b = append(b, g.session...)
	head := uint64(g.size) << flagBits
	if g.mixed {
		head |= flagMixed
	}
	if g.negative {
		head |= flagNegative
	}
	for _, n := range [...]uint64{head, g.account, g.workspace, g.models, g.tools, g.pairs} {
		b = binary.AppendUvarint(b, n)
	}
	for _, n := range g.order {
		b = binary.AppendVarint(b, n)
	}
	return b
}

// dictionary numbers the texts of a pack; 0 is the empty one.
type dictionary struct {
	texts  []string
	places map[string]uint64
}

func newDictionary() *dictionary {
	return &dictionary{texts: []string{""}, places: map[string]uint64{"": 0}}
}

func (d *dictionary) place(text string) uint64 {
	at, ok := d.places[text]
	if !ok {
		at = uint64(len(d.texts))
		d.texts = append(d.texts, text)
		d.places[text] = at
	}
	return at
}

func (d *dictionary) encodeTexts() []byte {
	b := binary.AppendUvarint(nil, uint64(len(d.texts)-1))
	for _, text := range d.texts[1:] {
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
	}
	return b
}

// groupOf encodes the rows of a group.
func (d *dictionary) groupOf(session string, s sums) group {
	keys := slices.SortedFunc(maps.Keys(s), compareKeys)
	g := group{session: []byte(session), account: d.place(keys[0].Account), workspace: d.place(keys[0].Workspace)}
	for _, k := range keys {
		g.mixed = g.mixed || k.Account != keys[0].Account || k.Workspace != keys[0].Workspace
	}
	var has [3]distinct
	for _, k := range keys {
		f, model, tool := s[k], d.place(k.Model), d.place(k.Tool)
		if g.mixed {
			g.rows = binary.AppendUvarint(g.rows, d.place(k.Account))
			g.rows = binary.AppendUvarint(g.rows, d.place(k.Workspace))
		}
		g.rows = binary.AppendUvarint(g.rows, model)
		g.rows = binary.AppendUvarint(g.rows, tool)
		g.rows = appendFigures(g.rows, f)
		for i, n := range f.order() {
			g.order[i] += n
			g.negative = g.negative || n < 0
		}
		if session != "" {
			has[0].record(model)
			has[1].record(tool)
			has[2].record(model<<32 | tool)
		}
	}
	g.models, g.tools, g.pairs = has[0].count(), has[1].count(), has[2].count()
	g.size = len(g.rows)
	return g
}

// distinct counts different numbers, of which there are few.
type distinct struct{ few []uint64 }

func (d *distinct) record(n uint64) {
	if len(d.few) == 0 || d.few[len(d.few)-1] != n && !slices.Contains(d.few, n) {
		d.few = append(d.few, n)
	}
}

func (d *distinct) count() uint64 { return uint64(len(d.few)) }

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

// defaultChunk is [Projection.ChunkSize] without a number.
const defaultChunk = 64 << 10

// appendGroups sorts and encodes groups, and returns the rows that go into entries of their
// own.
func appendGroups(b []byte, groups []group, chunkSize int) (out []byte, chunks [][]byte) {
	slices.SortFunc(groups, func(a, b group) int {
		if c := a.order.compare(&b.order); c != 0 {
			return c
		}
		return bytes.Compare(a.session, b.session)
	})
	var heads, rows []byte
	var index indexWriter
	for i := range groups {
		g := &groups[i]
		if len(rows) > 0 && len(rows)+len(g.rows) > chunkSize {
			chunks = append(chunks, rows)
			rows = nil
		}
		index.addGroup(g, len(heads))
		heads = g.appendHead(heads)
		rows = append(rows, g.rows...)
	}
	chunks = append(chunks, rows)
	b = binary.AppendUvarint(b, uint64(len(groups)))
	b = binary.AppendUvarint(b, uint64(len(heads)))
	b = binary.AppendUvarint(b, uint64(len(chunks)))
	for _, rows := range chunks {
		b = binary.AppendUvarint(b, uint64(len(rows)))
	}
	if len(groups) > stride {
		b = index.appendTo(b)
	}
	b = append(b, heads...)
	return append(b, chunks[0]...), chunks[1:]
}

// encodeSession encodes the sums of one session as a pack.
func encodeSession(session string, s sums) []byte {
	d := newDictionary()
	groups := []group{d.groupOf(session, s)}
	b, _ := appendGroups(d.encodeTexts(), groups, maxGroup)
	return b
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
	return d.longNumber()
}

func (d *packReader) longNumber() uint64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 {
		d.failed = true
		d.rest = nil
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

// atMost reads a number that can't be larger.
func (d *packReader) atMost(most int) uint64 {
	n := d.number()
	if n > uint64(most) {
		d.failed = true
		return 0
	}
	return n
}

func (d *packReader) bytes(n uint64) []byte {
	if n > uint64(len(d.rest)) {
		d.failed = true
		d.rest = nil
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *packReader) readTexts() [][]byte {
	n := min(d.number(), uint64(len(d.rest)))
	texts := make([][]byte, 1, 1+n) // the first is the empty one
	for range n {
		texts = append(texts, d.bytes(d.number()))
	}
	return texts
}

// readGroup reads the head of a group.
func (d *packReader) readGroup(g *group) {
	g.session = d.bytes(d.number())
	var fields [groupFields]uint64
	rest, at := d.rest, 0
	for i := range fields {
		if at >= len(rest) {
			d.failed = true
			return
		}
		if b := rest[at]; b < 0x80 { // most are small
			fields[i] = uint64(b)
			at++
			continue
		}
		n, size := binary.Uvarint(rest[at:])
		if size <= 0 {
			d.failed = true
			return
		}
		fields[i] = n
		at += size
	}
	d.rest = rest[at:]
	head := fields[0]
	g.mixed, g.negative = head&flagMixed != 0, head&flagNegative != 0
	g.size = int(head >> flagBits)
	g.account, g.workspace = fields[1], fields[2]
	g.rowCounts = rowCounts{fields[3], fields[4], fields[5]}
	g.order = order{signed(fields[6]), signed(fields[7]), signed(fields[8])}
}

// groupFields is how many numbers the head of a group has after its session.
const groupFields = 9

func signed(n uint64) int64 { return int64(n>>1) ^ -int64(n&1) }
