package find

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/clip"
	"agentd/store"
	"agentd/store/storefault"
)

// maxKeptDocs is how many bytes of the newest documents are kept in memory. Every fact that
// has a word of a query is looked up among them.
const maxKeptDocs = 64 << 20

// search answers the command.
func (f *Finder) search(ctx context.Context, caller command.Caller, p *command.Search) (*command.SearchResult, error) {
	words, err := parseQuery(p.Query)
	if err == nil && words == nil {
		err = fault.Param("query", "%q has no word: use letters or digits", clip.Text(p.Query, 100))
	}
	if err != nil {
		return nil, err
	}
	page, err := newHitPage(p)
	if err != nil {
		return nil, err
	}
	kinds, err := searchedKinds(p.Types)
	if err != nil {
		return nil, err
	}
	if p.SessionID != "" {
		if err := f.opt.See(ctx, caller, p.SessionID); err != nil {
			return nil, err
		}
	}
	if err := f.opt.CatchUp(ctx); err != nil {
		return nil, err
	}
	ctx = store.OnReplica(ctx, f.opt.Store)
	q := &wordQuestion{caller: caller, words: words, sessionID: p.SessionID, kinds: kinds, from: math.MinInt64, to: math.MaxInt64, tuning: f.tuning}
	if !p.From.IsZero() {
		q.from = ceilMilli(p.From.UnixNano())
	}
	if !p.To.IsZero() {
		q.to = ceilMilli(p.To.UnixNano())
	}
	res := &command.SearchResult{Hits: []command.SearchHit{}}
	for {
		page.found = page.found[:0]
		res.Truncated, err = f.eachMatch(ctx, q, page.offer)
		if !errors.Is(err, errGone) {
			break // else the segments were merged meanwhile
		}
	}
	if err != nil {
		return nil, storefault.Reading(err)
	}
	found := page.found
	if len(found) > page.size {
		found = found[:page.size]
		res.NextCursor = found[page.size-1].cursor()
	}
	for i := range found {
		hit, ok, err := f.hit(ctx, caller, &found[i], words)
		if err != nil {
			return nil, err
		}
		if ok {
			res.Hits = append(res.Hits, hit)
		}
	}
	return res, nil
}

func ceilMilli(nano int64) int64 { return (nano + 999_999) / 1_000_000 }

// hit reads the fact of a match; false if it was removed meanwhile.
func (f *Finder) hit(ctx context.Context, caller command.Caller, m *match, words []queryWord) (command.SearchHit, bool, error) {
	switch err := f.opt.See(ctx, caller, m.session); {
	case fault.KindOf(err) == fault.NotFound:
		return command.SearchHit{}, false, nil
	case err != nil:
		return command.SearchHit{}, false, err
	}
	e, err := f.readFact(ctx, m.session, m.sequence)
	if err != nil || e == nil {
		return command.SearchHit{}, false, err
	}
	return command.SearchHit{
		SessionID: m.session, ThreadID: e.ThreadID, TurnID: e.TurnID, EventID: e.ID, Sequence: e.Sequence, Type: string(e.Type), Time: e.Time,
		Snippet: snippet(textOf(ctx, f.opt.Store, e.Payload), words),
	}, true, nil
}

// searchedKinds returns which of the searched types are asked for.
func searchedKinds(types []string) ([]bool, error) {
	kinds := make([]bool, len(searchedTypes))
	if len(types) == 0 {
		for i := range kinds {
			kinds[i] = true
		}
		return kinds, nil
	}
	for _, t := range types {
		family, all := strings.CutSuffix(t, "*")
		searched := false
		for i, s := range searchedTypes {
			if string(s) == t || all && strings.HasPrefix(string(s), family) {
				kinds[i], searched = true, true
			}
		}
		if !searched {
			return nil, fault.Param("types", "%q is not searched; use some of %s, or a family such as tool.*", clip.Text(t, 100), typeNames())
		}
	}
	return kinds, nil
}

func typeNames() string {
	var names []string
	for _, t := range searchedTypes {
		names = append(names, string(t))
	}
	return strings.Join(names, ", ")
}

// match is a fact that has all words.
type match struct {
	score    float64
	time     int64
	session  string
	sequence uint64
}

// compareMatches orders matches: what comes first is less.
func compareMatches(a, b match) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.time, a.time), cmp.Compare(a.session, b.session), cmp.Compare(b.sequence, a.sequence))
}

func (m *match) cursor() string {
	return fmt.Sprintf("%x\n%d\n%s\n%d", math.Float64bits(m.score), m.time, m.session, m.sequence)
}

// hitPage collects the best matches behind a place.
type hitPage struct {
	size   int
	behind *match
	found  []match
}

func newHitPage(p *command.Search) (*hitPage, error) {
	g := &hitPage{size: p.Size()}
	if p.Cursor == "" {
		return g, nil
	}
	parts := strings.Split(p.Cursor, "\n")
	if len(parts) == 4 {
		score, err1 := strconv.ParseUint(parts[0], 16, 64)
		at, err2 := strconv.ParseInt(parts[1], 10, 64)
		sequence, err3 := strconv.ParseUint(parts[3], 10, 64)
		if err1 == nil && err2 == nil && err3 == nil {
			g.behind = &match{math.Float64frombits(score), at, parts[2], sequence}
			return g, nil
		}
	}
	return nil, fault.Param("cursor", "was not returned by search; leave it out to start from the beginning")
}

func (g *hitPage) offer(m match) {
	full := len(g.found) > g.size
	if g.behind != nil && compareMatches(m, *g.behind) <= 0 || full && compareMatches(m, g.found[g.size]) >= 0 {
		return
	}
	i, _ := slices.BinarySearchFunc(g.found, m, compareMatches)
	if full {
		g.found = g.found[:g.size]
	}
	g.found = slices.Insert(g.found, i, m)
}

// wordQuestion is what is looked for in the segments of words.
type wordQuestion struct {
	caller    command.Caller
	words     []queryWord
	sessionID string
	kinds     []bool
	from, to  int64 // in milliseconds
	tuning    searchTuning
}

// eachMatch calls f with the facts that have all words. It reports whether there are more
// than are looked at.
func (f *Finder) eachMatch(ctx context.Context, q *wordQuestion, offer func(match)) (truncated bool, err error) {
	m, err := loadManifest(ctx, f.opt.Store, WordsName)
	if err != nil {
		return false, err
	}
	segments, err := f.openSegments(ctx, m)
	if err != nil {
		return false, err
	}
	room := &searchRoom{}
	searches := make([]*segmentSearch, 0, len(segments))
	for _, w := range slices.Backward(segments) {
		searches = append(searches, &segmentSearch{wordQuestion: q, segment: w, gone: m.gone, offer: offer, room: room, expanded: make([][]dictWord, len(q.words))})
	}
	if truncated, err = q.expandWords(ctx, searches); err != nil {
		return false, err
	}
	left := f.opt.MaxRanked
	for _, s := range searches {
		s.left = left
		if err := s.run(ctx); err != nil || s.full {
			return s.full, err
		}
		left = s.left
	}
	return truncated, nil
}

// openSegments opens the segments of a manifest; what is open already stays so.
func (f *Finder) openSegments(ctx context.Context, m *manifest) ([]*wordSegment, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := make(map[uint64]*wordSegment, len(m.segments))
	out := make([]*wordSegment, 0, len(m.segments))
	for _, s := range m.segments {
		w := f.open[s.id]
		if w == nil {
			var err error
			if w, err = openWords(ctx, f.opt.Store, WordsName, s, f.cache); err != nil {
				return nil, err
			}
		}
		now[s.id] = w
		out = append(out, w)
	}
	f.open = now
	kept := 0
	for _, w := range slices.Backward(out) {
		kept += docSize * w.docs
		w.keepDocs.Store(kept <= maxKeptDocs)
	}
	return out, nil
}

// matchingInputs returns the inputs that have all words of a query.
func (f *Finder) matchingInputs(ctx context.Context, caller command.Caller, p *command.ListTurns, words []queryWord) (out []match, truncated bool, err error) {
	kinds := make([]bool, len(searchedTypes))
	kinds[slices.Index(searchedTypes, event.TypeTurnSubmitted)] = true
	q := &wordQuestion{caller: caller, words: words, sessionID: p.SessionID, kinds: kinds, from: math.MinInt64, to: math.MaxInt64, tuning: f.tuning}
	for {
		out = out[:0]
		truncated, err = f.eachMatch(ctx, q, func(m match) { out = append(out, m) })
		if !errors.Is(err, errGone) {
			return out, truncated, storefault.Reading(err)
		}
	}
}
