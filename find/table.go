package find

import (
	"context"
	"errors"
	"math"
	"math/bits"
	"slices"
	"sync"

	"agentd/index"
)

// table has the turns that have ended in memory, about 80 bytes each, so that a list
// filters, sorts and counts them without reading the store. It is filled from the
// segments, and then only from those that are new.
type table struct {
	mu       sync.Mutex
	rows     []tableRow
	alive    []uint64 // a bit for each row
	sessions []tableSession
	bySess   map[string]uint32
	texts    []string
	byText   map[string]uint32
	// blocks has the smallest and the largest key of each sort in every blockRows rows.
	blocks [sortCount][]keyRange
	// loaded are the segments that the rows are of.
	loaded  map[uint64]bool
	filters map[string]*rowFilter
}

// tableRow is a turn. Texts are places in the table's texts.
type tableRow struct {
	started    int64
	durationMs int64
	costUSD    float64
	segment    uint64
	// The tokens: input, output, cached, reasoning.
	tokens                                   [4]uint32
	session, first, last                     uint32
	status, outcome, model, workspace, tools uint32
}

type tableSession struct {
	id      string
	account uint32
	// rows are ordered by the sequence of the turn's first fact.
	rows []uint32
}

const blockRows = 1024

// The sorts of turns.
const (
	byStarted = iota
	byDuration
	byCost
	byTokens
	sortCount
)

// keyRange is a range of keys of a sort.
type keyRange struct{ least, most uint64 }

// sortKey returns what a row is ordered by.
func (r *tableRow) sortKey(by int) uint64 {
	switch by {
	case byDuration:
		return uint64(max(r.durationMs, 0))
	case byCost:
		return math.Float64bits(max(r.costUSD, 0))
	case byTokens:
		return uint64(r.tokens[0]) + uint64(r.tokens[1])
	default:
		return uint64(max(r.started, 0))
	}
}

func newTable() *table {
	return &table{bySess: map[string]uint32{}, byText: map[string]uint32{}, loaded: map[uint64]bool{}, filters: map[string]*rowFilter{}}
}

func (t *table) text(s string) uint32 {
	n, ok := t.byText[s]
	if !ok {
		n = uint32(len(t.texts))
		t.texts = append(t.texts, s)
		t.byText[s] = n
	}
	return n
}

// refresh loads what is new. The lock is held.
func (t *table) refresh(ctx context.Context, read index.Reader) error {
	for {
		m, err := loadManifest(ctx, read, TurnsName)
		if err != nil {
			return err
		}
		err = t.loadSegments(ctx, read, m)
		if errors.Is(err, errGone) {
			continue // there is a newer manifest
		}
		if err == nil {
			t.removeGone(m.gone)
		}
		return err
	}
}

// loadSegments takes over the rows of new segments. Rows of segments that are not there
// any more, and that no new one has, are gone.
func (t *table) loadSegments(ctx context.Context, read index.Reader, m *manifest) error {
	current := map[uint64]bool{}
	for _, s := range m.segments {
		current[s.id] = true
		if t.loaded[s.id] {
			continue
		}
		if err := readTurns(ctx, read, s, func(r *turnRow) { t.putRow(r, s.id) }); err != nil {
			return err
		}
		t.loaded[s.id] = true
	}
	vanished := false
	for id := range t.loaded {
		vanished = vanished || !current[id]
	}
	if !vanished {
		return nil
	}
	for i := range t.rows {
		if !current[t.rows[i].segment] {
			t.kill(uint32(i))
		}
	}
	for id := range t.loaded {
		if !current[id] {
			delete(t.loaded, id)
		}
	}
	return nil
}

func (t *table) kill(row uint32) { t.alive[row/64] &^= 1 << (row % 64) }

// removeGone drops the turns whose first facts were removed.
func (t *table) removeGone(gone map[string]uint64) {
	for id, through := range gone {
		n, ok := t.bySess[id]
		if !ok {
			continue
		}
		for _, row := range t.sessions[n].rows {
			if uint64(t.rows[row].first) <= through {
				t.kill(row)
			}
		}
	}
}

func small(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// putRow takes over a row. One that is known is now of another segment.
func (t *table) putRow(r *turnRow, segment uint64) {
	n, ok := t.bySess[r.SessionID]
	if !ok {
		n = uint32(len(t.sessions))
		t.sessions = append(t.sessions, tableSession{id: r.SessionID, account: t.text(r.Account)})
		t.bySess[r.SessionID] = n
	}
	s := &t.sessions[n]
	at, found := t.rowAt(s, uint32(r.First))
	if found {
		t.rows[s.rows[at]].segment = segment
		return
	}
	row := uint32(len(t.rows))
	s.rows = slices.Insert(s.rows, at, row)
	t.rows = append(t.rows, tableRow{
		started: r.Started, durationMs: r.DurationMs, costUSD: r.CostUSD, segment: segment,
		tokens:  [4]uint32{small(r.Usage.InputTokens), small(r.Usage.OutputTokens), small(r.Usage.CachedInputTokens), small(r.Usage.ReasoningTokens)},
		session: n, first: uint32(r.First), last: uint32(r.Last),
		status: t.text(r.Status), outcome: t.text(r.Outcome), model: t.text(r.Model), workspace: t.text(r.Workspace), tools: t.text(r.Tools),
	})
	if row%64 == 0 {
		t.alive = append(t.alive, 0)
	}
	t.alive[row/64] |= 1 << (row % 64)
	for by := range t.blocks {
		key := t.rows[row].sortKey(by)
		if row%blockRows == 0 {
			t.blocks[by] = append(t.blocks[by], keyRange{key, key})
		}
		b := &t.blocks[by][row/blockRows]
		b.least, b.most = min(b.least, key), max(b.most, key)
	}
}

// rowAt finds the turn of a session that begins with a fact.
func (t *table) rowAt(s *tableSession, first uint32) (int, bool) {
	return slices.BinarySearchFunc(s.rows, first, func(row, first uint32) int { return int(int64(t.rows[row].first) - int64(first)) })
}

// turnRow returns a row as it is stored.
func (t *table) turnRow(row uint32) *turnRow {
	r := &t.rows[row]
	s := &t.sessions[r.session]
	out := &turnRow{
		SessionID: s.id, Account: t.texts[s.account], First: uint64(r.first), Last: uint64(r.last),
		Status: t.texts[r.status], Outcome: t.texts[r.outcome], Model: t.texts[r.model], Workspace: t.texts[r.workspace], Tools: t.texts[r.tools],
		Started: r.started, DurationMs: r.durationMs, CostUSD: r.costUSD,
	}
	out.Usage.InputTokens, out.Usage.OutputTokens = int64(r.tokens[0]), int64(r.tokens[1])
	out.Usage.CachedInputTokens, out.Usage.ReasoningTokens = int64(r.tokens[2]), int64(r.tokens[3])
	return out
}

// rowFilter is the rows that have a text in a column, a bit for each. It is kept, and
// extended by the rows that are new when it is used again.
type rowFilter struct {
	column func(*table, *tableRow) uint32
	keeps  func(text string) bool
	bits   []uint64
	rows   int
	// known says for each text whether it is kept: 0 unknown, 1 no, 2 yes.
	known []uint8
}

// maxFilters is how many filters are kept.
const maxFilters = 64

// filter returns the rows whose column has a text that is kept. The name tells filters
// apart.
func (t *table) filter(name string, column func(*table, *tableRow) uint32, keeps func(string) bool) []uint64 {
	f := t.filters[name]
	if f == nil {
		if len(t.filters) >= maxFilters {
			clear(t.filters)
		}
		f = &rowFilter{column: column, keeps: keeps}
		t.filters[name] = f
	}
	f.bits = append(f.bits, make([]uint64, len(t.alive)-len(f.bits))...)
	f.known = append(f.known, make([]uint8, len(t.texts)-len(f.known))...)
	for ; f.rows < len(t.rows); f.rows++ {
		text := f.column(t, &t.rows[f.rows])
		if f.known[text] == 0 {
			f.known[text] = 1
			if f.keeps(t.texts[text]) {
				f.known[text] = 2
			}
		}
		if f.known[text] == 2 {
			f.bits[f.rows/64] |= 1 << (f.rows % 64)
		}
	}
	return f.bits
}

// withinTime takes the rows out of a set that started before from or at or after to.
func (t *table) withinTime(set []uint64, from, to uint64) {
	const words = blockRows / 64
	for b, r := range t.blocks[byStarted] {
		part := set[b*words : min((b+1)*words, len(set))]
		switch {
		case r.least >= from && r.most < to:
		case r.most < from || r.least >= to:
			clear(part)
		default:
			for w, word := range part {
				for rest := word; rest != 0; rest &= rest - 1 {
					bit := bits.TrailingZeros64(rest)
					if key := t.rows[b*blockRows+w*64+bit].sortKey(byStarted); key < from || key >= to {
						part[w] &^= 1 << bit
					}
				}
			}
		}
	}
}
