package find

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/bits"
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

// listTurns answers list_turns.
func (f *Finder) listTurns(ctx context.Context, caller command.Caller, p *command.ListTurns) (*command.ListTurnsResult, error) {
	page, err := newTurnPage(p)
	if err != nil {
		return nil, err
	}
	if p.SessionID != "" {
		if err := f.opt.See(ctx, caller, p.SessionID); err != nil {
			return nil, err
		}
	}
	q, err := parseQuery(p.Query)
	if err != nil {
		return nil, err
	}
	if err := f.opt.CatchUp(ctx); err != nil {
		return nil, err
	}
	ctx = store.OnReplica(ctx, f.opt.Store)
	ask := &turnQuestion{ListTurns: p, caller: caller, queried: q != nil}
	if len(p.Tags) > 0 {
		if ask.tagged, err = f.opt.Tagged(ctx, caller, p.Tags); err != nil {
			return nil, err
		}
	}
	res := &command.ListTurnsResult{Turns: []command.TurnSummary{}}
	if q != nil {
		if ask.inputs, res.Truncated, err = f.matchingInputs(ctx, caller, p, q); err != nil {
			return nil, err
		}
	}
	if res.Total, err = f.collectTurns(ctx, ask, page); err != nil {
		return nil, storefault.Reading(err)
	}
	found := page.found
	if len(found) > page.size {
		found = found[:page.size]
		res.NextCursor = page.cursorAt(&found[page.size-1])
	}
	for i := range found {
		s, ok, err := f.turnSummary(ctx, found[i].row)
		if err != nil {
			return nil, err
		}
		if ok {
			res.Turns = append(res.Turns, s)
		}
	}
	return res, nil
}

// turnQuestion is what a list of turns is asked for.
type turnQuestion struct {
	*command.ListTurns
	caller command.Caller
	// inputs are the facts whose words match the query, queried says that there is one.
	inputs  []match
	queried bool
	// tagged are the sessions with the tags that are asked for.
	tagged map[string]bool
	// known has the same facts, once an open turn was compared with them.
	known map[factKey]bool
}

// keeps reports whether a turn is listed. It is the meaning of the filters; the table's
// filters are the same, kept.
func (q *turnQuestion) keeps(r *turnRow) bool {
	from, to := q.times()
	return q.caller.Sees(r.Account) &&
		(q.SessionID == "" || r.SessionID == q.SessionID) &&
		(q.Account == "" || r.Account == q.Account) &&
		(q.Status == "" || r.Status == q.Status) &&
		(q.Outcome == "" || r.Outcome == q.Outcome) &&
		(q.Workspace == "" || r.Workspace == q.Workspace) &&
		(q.Model == "" || isModel(r.Model, q.Model)) &&
		(q.Tool == "" || hasTool(r.Tools, q.Tool)) &&
		(len(q.Tags) == 0 || q.tagged[r.SessionID]) &&
		uint64(r.Started) >= from && uint64(r.Started) < to &&
		(!q.queried || q.hasInput(r))
}

// factKey names a fact.
type factKey struct {
	session  string
	sequence uint64
}

// hasInput reports whether a turn's input matches the query.
func (q *turnQuestion) hasInput(r *turnRow) bool {
	if q.known == nil {
		q.known = make(map[factKey]bool, len(q.inputs))
		for i := range q.inputs {
			q.known[factKey{q.inputs[i].session, q.inputs[i].sequence}] = true
		}
	}
	return q.known[factKey{r.SessionID, r.First}]
}

// times returns the range of start times, in microseconds.
func (q *turnQuestion) times() (from, to uint64) {
	to = math.MaxUint64
	if !q.From.IsZero() {
		from = uint64(max(ceilMicro(q.From.UnixNano()), 0))
	}
	if !q.To.IsZero() {
		to = uint64(max(ceilMicro(q.To.UnixNano()), 0))
	}
	return from, to
}

func ceilMicro(nano int64) int64 { return (nano + 999) / 1000 }

func isModel(model, asked string) bool {
	return model == asked || strings.HasSuffix(model, "/"+asked)
}

func hasTool(tools, asked string) bool {
	return slices.Contains(strings.Split(tools, "\n"), asked)
}

// collectTurns offers the turns that are asked for to a page and counts them.
func (f *Finder) collectTurns(ctx context.Context, q *turnQuestion, page *turnPage) (int64, error) {
	// Open turns are read first: one that ends meanwhile is then seen twice, and not never.
	var open []*turnRow
	if err := eachOpenTurn(ctx, f.opt.Store, func(_ string, r *turnRow) { open = append(open, r) }); err != nil {
		return 0, err
	}
	t := f.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.refresh(ctx, f.opt.Store); err != nil {
		return 0, err
	}
	set := t.selectRows(q)
	total := int64(0)
	for _, word := range set {
		total += int64(bits.OnesCount64(word))
	}
	t.offer(set, page)
	for _, r := range open {
		if q.keeps(r) && !t.hasTurn(r) {
			total++
			page.offer(turnPlace{page.direct(sortKeyOf(r, page.by)), r.SessionID, r.First, r})
		}
	}
	return total, nil
}

// hasTurn reports whether a turn that was open has ended.
func (t *table) hasTurn(r *turnRow) bool {
	n, ok := t.bySess[r.SessionID]
	if !ok {
		return false
	}
	_, found := t.rowAt(&t.sessions[n], uint32(r.First))
	return found
}

// selectRows returns the rows that are asked for.
func (t *table) selectRows(q *turnQuestion) []uint64 {
	set := slices.Clone(t.alive)
	keep := func(bits []uint64) {
		for i := range set {
			set[i] &= bits[i]
		}
	}
	equals := func(want string) func(string) bool { return func(text string) bool { return text == want } }
	account := func(t *table, r *tableRow) uint32 { return t.sessions[r.session].account }
	if !q.caller.Admin {
		keep(t.filter("account="+q.caller.Account, account, equals(q.caller.Account)))
	}
	for _, c := range []struct {
		name, want string
		column     func(*table, *tableRow) uint32
		keeps      func(string) bool
	}{
		{"account=", q.Account, account, equals(q.Account)},
		{"status=", q.Status, func(_ *table, r *tableRow) uint32 { return r.status }, equals(q.Status)},
		{"outcome=", q.Outcome, func(_ *table, r *tableRow) uint32 { return r.outcome }, equals(q.Outcome)},
		{"workspace=", q.Workspace, func(_ *table, r *tableRow) uint32 { return r.workspace }, equals(q.Workspace)},
		{"model=", q.Model, func(_ *table, r *tableRow) uint32 { return r.model }, func(text string) bool { return isModel(text, q.Model) }},
		{"tool=", q.Tool, func(_ *table, r *tableRow) uint32 { return r.tools }, func(text string) bool { return hasTool(text, q.Tool) }},
	} {
		if c.want != "" {
			keep(t.filter(c.name+c.want, c.column, c.keeps))
		}
	}
	if q.SessionID != "" {
		keep(t.rowsOf(q.SessionID))
	}
	if len(q.Tags) > 0 {
		keep(t.rowsOf(slices.Collect(maps.Keys(q.tagged))...))
	}
	if q.queried {
		keep(t.rowsWith(q.inputs))
	}
	if from, to := q.times(); from > 0 || to < math.MaxUint64 {
		t.withinTime(set, from, to)
	}
	return set
}

func (t *table) rowsOf(sessionIDs ...string) []uint64 {
	set := make([]uint64, len(t.alive))
	for _, id := range sessionIDs {
		if n, ok := t.bySess[id]; ok {
			for _, row := range t.sessions[n].rows {
				set[row/64] |= 1 << (row % 64)
			}
		}
	}
	return set
}

func (t *table) rowsWith(inputs []match) []uint64 {
	set := make([]uint64, len(t.alive))
	session, n, ok := "", uint32(0), false
	for i := range inputs {
		if inputs[i].session != session { // they come by the time, so that a session's are often together
			session = inputs[i].session
			n, ok = t.bySess[session]
		}
		if !ok {
			continue
		}
		if at, found := t.rowAt(&t.sessions[n], uint32(inputs[i].sequence)); found {
			row := t.sessions[n].rows[at]
			set[row/64] |= 1 << (row % 64)
		}
	}
	return set
}

// offer offers the rows of a set to a page, the most promising first, and leaves out
// what can't be on it.
func (t *table) offer(set []uint64, page *turnPage) {
	ranges := t.blocks[page.by]
	order := make([]int, len(ranges))
	best := make([]uint64, len(ranges))
	for b, r := range ranges {
		order[b], best[b] = b, max(page.direct(r.least), page.direct(r.most))
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(best[b], best[a]) })
	const words = blockRows / 64
	for _, b := range order {
		if len(page.found) > page.size && best[b] < page.found[page.size].key {
			return
		}
		worst := min(page.direct(ranges[b].least), page.direct(ranges[b].most))
		if page.behind != nil && worst > page.behind.key {
			continue
		}
		for w, word := range set[b*words : min((b+1)*words, len(set))] {
			for ; word != 0; word &= word - 1 {
				t.offerRow(uint32(b*blockRows+w*64+bits.TrailingZeros64(word)), page)
			}
		}
	}
}

func (t *table) offerRow(row uint32, page *turnPage) {
	r := &t.rows[row]
	key := page.direct(r.sortKey(page.by))
	if page.behind != nil && key > page.behind.key || len(page.found) > page.size && key < page.found[page.size].key {
		return
	}
	at := turnPlace{key: key, session: t.sessions[r.session].id, first: uint64(r.first)}
	if page.fits(at) {
		at.row = t.turnRow(row)
		page.offer(at)
	}
}

// turnSorts are the names of the sorts.
var turnSorts = map[string]int{"": byStarted, "started": byStarted, "duration": byDuration, "cost": byCost, "tokens": byTokens}

func sortKeyOf(r *turnRow, by int) uint64 {
	row := tableRow{started: r.Started, durationMs: r.DurationMs, costUSD: r.CostUSD, tokens: [4]uint32{small(r.Usage.InputTokens), small(r.Usage.OutputTokens)}}
	return row.sortKey(by)
}

// turnPage collects the turns that come next behind a place in the order.
type turnPage struct {
	size      int
	by        int
	ascending bool
	behind    *turnPlace
	// found are the first of those that come behind it, in order: one more than fits.
	found []turnPlace
}

// turnPlace is a turn's place in an order. The largest key comes first.
type turnPlace struct {
	key     uint64
	session string
	first   uint64
	row     *turnRow
}

func newTurnPage(p *command.ListTurns) (*turnPage, error) {
	g := &turnPage{size: p.Size(), by: turnSorts[p.Sort], ascending: p.Order == "asc"}
	if p.Cursor == "" {
		return g, nil
	}
	parts := strings.Split(p.Cursor, "\n")
	if len(parts) != 4 || parts[0] != g.order() {
		return nil, fault.Param("cursor", "is of a list in another order; repeat its sort and order, or leave the cursor out to start from the beginning")
	}
	key, err := strconv.ParseUint(parts[1], 16, 64)
	first, err2 := strconv.ParseUint(parts[3], 10, 64)
	if err != nil || err2 != nil {
		return nil, fault.Param("cursor", "was not returned by list_turns; leave it out to start from the beginning")
	}
	g.behind = &turnPlace{key: key, session: parts[2], first: first}
	return g, nil
}

// order names the order in cursors.
func (g *turnPage) order() string { return fmt.Sprintf("%d %v", g.by, g.ascending) }

func (g *turnPage) cursorAt(at *turnPlace) string {
	return fmt.Sprintf("%s\n%x\n%s\n%d", g.order(), at.key, at.session, at.first)
}

// direct turns a key around where the smallest comes first.
func (g *turnPage) direct(key uint64) uint64 {
	if g.ascending {
		return ^key
	}
	return key
}

// compare orders two places: what comes first is less. Turns that are alike are ordered
// by session and sequence.
func (g *turnPage) compare(a, b turnPlace) int {
	if c := cmp.Compare(b.key, a.key); c != 0 {
		return c
	}
	c := cmp.Or(cmp.Compare(a.session, b.session), cmp.Compare(a.first, b.first))
	if g.ascending {
		return c
	}
	return -c
}

func (g *turnPage) fits(at turnPlace) bool {
	return (g.behind == nil || g.compare(at, *g.behind) > 0) && (len(g.found) <= g.size || g.compare(at, g.found[g.size]) < 0)
}

func (g *turnPage) offer(at turnPlace) {
	if !g.fits(at) {
		return
	}
	i, _ := slices.BinarySearchFunc(g.found, at, g.compare)
	if len(g.found) > g.size {
		g.found = g.found[:g.size]
	}
	g.found = slices.Insert(g.found, i, at)
}

// previewSize is how many bytes of a turn's input are shown.
const previewSize = 200

// turnSummary reads what the index doesn't have from the turn's first fact; false if it
// was removed meanwhile.
func (f *Finder) turnSummary(ctx context.Context, r *turnRow) (command.TurnSummary, bool, error) {
	e, err := f.readFact(ctx, r.SessionID, r.First)
	if err != nil || e == nil {
		return command.TurnSummary{}, false, err
	}
	p, ok := e.Payload.(*event.TurnSubmitted)
	if !ok {
		return command.TurnSummary{}, false, storefault.Reading(fmt.Errorf("%w: fact %d of session %s is no turn", store.ErrCorrupt, r.First, r.SessionID))
	}
	preview := p.Preview
	if preview == "" {
		preview = inputText(ctx, f.opt.Store, p.Input, p.InputRef, "")
	}
	s := command.TurnSummary{
		TurnID: e.TurnID, SessionID: r.SessionID, ThreadID: e.ThreadID, Account: r.Account, Status: r.Status, Outcome: r.Outcome,
		Preview: clip.Text(strings.TrimSpace(preview), previewSize), Model: r.Model, Workspace: r.Workspace,
		CostUSD: r.CostUSD, Usage: r.Usage, FirstSequence: r.First, LastSequence: r.Last,
		StartedAt: r.startedAt(), DurationMs: r.DurationMs,
	}
	if r.Tools != "" {
		s.Tools = strings.Split(r.Tools, "\n")
	}
	return s, true, nil
}
