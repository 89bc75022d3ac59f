package usage_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"agentd/event"
	"agentd/index"
	"agentd/index/usage"
	"agentd/store"
	"agentd/store/storetest"
)

// feeder folds batches into a store, as the indexer does.
type feeder struct {
	testing.TB
	store store.Store
	epoch uint64
}

func newFeeder(t testing.TB) *feeder {
	t.Helper()
	return newFeederOn(t, storetest.NewMem())
}

func newFeederOn(t testing.TB, s store.Store) *feeder {
	t.Helper()
	claim, err := s.Claim(t.Context(), "/index")
	if err != nil {
		t.Fatal(err)
	}
	return &feeder{t, s, claim.Epoch}
}

// apply stores changes; a crash before it loses them.
func (f *feeder) apply(ops []store.IndexOp, err error) int {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
	if len(ops) == 0 {
		return 0
	}
	if errs := f.store.Append(context.Background(), []*store.Batch{{SessionID: "/index", Epoch: f.epoch, Index: ops}}); errs[0] != nil {
		f.Fatal(errs[0])
	}
	return len(ops)
}

// world makes random facts, each once, in the order of their sessions.
type world struct {
	rng      *rand.Rand
	now      time.Time
	sessions []*worldSession
	requests int
}

type worldSession struct {
	account, workspace, id string
	turn                   string
	turns                  int
	model                  string
	waiting                map[string]*naiveAction
}

type naiveAction struct {
	at          time.Time
	model, tool string
}

var accounts = []string{"", "acme", "a/b*", "*"}

func newWorld(seed uint64) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 1)), now: time.Date(2025, 11, 28, 20, 17, 0, 0, time.UTC)}
	for i := range 30 {
		w.sessions = append(w.sessions, &worldSession{
			account: accounts[i%len(accounts)], workspace: fmt.Sprintf("/w/%d", i%3), id: fmt.Sprintf("sess_%d", i), waiting: map[string]*naiveAction{},
		})
	}
	return w
}

// naive counts as a scan over all facts would.
type naive map[naiveKey]*usage.Figures

type naiveKey struct {
	hour time.Time
	usage.Key
}

func (n naive) count(at time.Time, k usage.Key, figure int, by int64) {
	key := naiveKey{at.Truncate(time.Hour), k}
	if n[key] == nil {
		n[key] = &usage.Figures{}
	}
	n[key][figure] += by
}

// next makes the facts of one step, and counts them.
func (w *world) next(n naive) []index.Fact {
	w.now = w.now.Add(time.Duration(w.rng.IntN(4*3600)) * time.Second / time.Duration(1+w.rng.IntN(40)))
	if w.rng.IntN(200) == 0 {
		w.now = w.now.Add(20 * 24 * time.Hour)
	}
	s := w.sessions[w.rng.IntN(len(w.sessions))]
	switch w.rng.IntN(60) {
	case 0: // its turns work elsewhere
		s.workspace = fmt.Sprintf("/w/%d", w.rng.IntN(3))
	case 1: // it was deleted, and another account chose the same id
		if len(s.waiting) == 0 && s.turn == "" {
			s.account = accounts[w.rng.IntN(len(accounts))]
		}
	}
	at := w.now
	if w.rng.IntN(30) == 0 { // another node's clock, or an import
		at = at.Add(-time.Duration(w.rng.IntN(90*24)) * time.Hour)
	}
	fact := func(p event.Payload, t event.Type, scope event.Scope) index.Fact {
		e := &index.Event{Type: t, Time: at, TurnID: scope.TurnID, ActionID: scope.ActionID, Payload: p}
		return index.Fact{SessionID: s.id, Account: s.account, Workspace: s.workspace, Event: e}
	}
	key := func(model, tool string) usage.Key {
		return usage.Key{Account: s.account, Workspace: s.workspace, Session: s.id, Model: model, Tool: tool}
	}
	if s.turn == "" {
		s.turns++
		s.turn, s.model = fmt.Sprintf("turn_%d", s.turns), ""
	}
	in := event.Scope{TurnID: s.turn}
	tool := []string{"shell", "read_file", "edit_file"}[w.rng.IntN(3)]
	switch w.rng.IntN(7) {
	case 0, 1:
		w.requests++
		id := fmt.Sprint("mreq_", w.requests)
		s.model = "vendor/" + []string{"large", "small"}[w.rng.IntN(2)]
		out := []index.Fact{fact(&event.ModelRequested{Provider: "vendor", Model: s.model[7:], ModelRequestID: id}, event.TypeModelRequested, in)}
		n.count(at, key(s.model, ""), usage.ModelCalls, 1)
		if w.rng.IntN(5) == 0 {
			n.count(at, key(s.model, ""), usage.ModelFailures, 1)
			return append(out, fact(&event.ModelFailed{ModelRequestID: id}, event.TypeModelFailed, in))
		}
		cost := float64(w.rng.IntN(100000)) / 1e7
		switch w.rng.IntN(40) {
		case 0: // a price that someone mistyped
			cost = -cost
		case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10:
			cost = 0.001 // many are alike
		}
		n.count(at, key(s.model, ""), usage.InputTokens, 10)
		n.count(at, key(s.model, ""), usage.OutputTokens, 3)
		n.count(at, key(s.model, ""), usage.CostNanoUSD, int64(math.Round(cost*1e9)))
		return append(out, fact(&event.ModelCompleted{ModelRequestID: id, Usage: event.Usage{InputTokens: 10, OutputTokens: 3}}, event.TypeModelCompleted, in),
			fact(&event.CostRecorded{ModelRequestID: id, CostUSD: &cost}, event.TypeCostRecorded, in))
	case 2:
		n.count(at, key(s.model, tool), usage.ToolCalls, 1)
		return []index.Fact{fact(&event.ToolStarted{ToolName: tool}, event.TypeToolStarted, in)}
	case 3:
		n.count(at, key(s.model, tool), usage.ToolFailures, 1)
		return []index.Fact{fact(&event.ToolFailed{ToolName: tool}, event.TypeToolFailed, in)}
	case 4:
		w.requests++
		id := fmt.Sprint("action_", w.requests)
		s.waiting[id] = &naiveAction{at, s.model, tool}
		in.ActionID = id
		return []index.Fact{fact(&event.ActionRequired{ActionType: "tool_permission", ToolName: tool}, event.TypeActionRequired, in)}
	case 5:
		ids := slices.Sorted(maps.Keys(s.waiting))
		if len(ids) == 0 {
			return nil
		}
		asked := s.waiting[ids[0]]
		delete(s.waiting, ids[0])
		in.ActionID = ids[0]
		n.count(at, key(asked.model, asked.tool), usage.Approvals, 1)
		n.count(at, key(asked.model, asked.tool), usage.ApprovalWaitMs, max(at.Sub(asked.at).Milliseconds(), 0))
		return []index.Fact{fact(&event.ActionResolved{}, event.TypeActionResolved, in)}
	}
	n.count(at, key(s.model, ""), usage.Turns, 1)
	s.turn = ""
	switch w.rng.IntN(4) {
	case 0:
		n.count(at, key(s.model, ""), usage.Failures, 1)
		return []index.Fact{fact(&event.TurnFailed{Status: "failed"}, event.TypeTurnFailed, in)}
	case 1:
		n.count(at, key(s.model, ""), usage.Cancelled, 1)
		return []index.Fact{fact(&event.TurnFailed{Status: "cancelled"}, event.TypeTurnFailed, in)}
	}
	return []index.Fact{fact(&event.TurnCompleted{}, event.TypeTurnCompleted, in)}
}

// naiveRows answers a query from the naive count.
func (n naive) naiveRows(q usage.Query) map[naiveKey]usage.Figures {
	out := map[naiveKey]usage.Figures{}
	for k, f := range n {
		end := k.hour.Add(time.Hour)
		if (!q.From.IsZero() && !end.After(q.From)) || (!q.To.IsZero() && !k.hour.Before(q.To)) || (!q.Everyone && k.Account != q.Account) {
			continue
		}
		group := naiveKey{}
		switch q.Bucket {
		case usage.Hour:
			group.hour = k.hour
		case usage.Day:
			group.hour = k.hour.Truncate(24 * time.Hour)
		case usage.Month:
			group.hour = time.Date(k.hour.Year(), k.hour.Month(), 1, 0, 0, 0, 0, time.UTC)
		case usage.NoBucket:
		}
		for part, set := range map[usage.Dimension]func(){
			usage.ByAccount: func() { group.Account = k.Account }, usage.ByWorkspace: func() { group.Workspace = k.Workspace },
			usage.BySession: func() { group.Session = k.Session }, usage.ByModel: func() { group.Model = k.Model }, usage.ByTool: func() { group.Tool = k.Tool },
		} {
			if q.By&part != 0 {
				set()
			}
		}
		sum := out[group]
		sum.Sum(f)
		out[group] = sum
	}
	return out
}

// TestFiguresAreWhatACountOverAllFactsSays: whatever is packed when, after restarts, and
// after writes that were lost and are folded again.
func TestFiguresAreWhatACountOverAllFactsSays(t *testing.T) {
	for seed := range uint64(4) {
		f, w, n := newFeeder(t), newWorld(seed), naive{}
		start := func() *usage.Projection {
			return &usage.Projection{MaxLive: 1 + w.rng.IntN(40), ChunkSize: 1 + w.rng.IntN(400)}
		}
		p, fresh := start(), false
		for range 120 {
			var facts []index.Fact
			for range w.rng.IntN(20) + 1 {
				facts = append(facts, w.next(n)...)
			}
			ops, err := p.Fold(t.Context(), &index.Batch{Facts: facts, Fresh: fresh}, f.store)
			if w.rng.IntN(10) == 0 { // a crash: what it returned is lost, and comes again
				if p = start(); w.rng.IntN(2) == 0 {
					ops, err = p.Fold(t.Context(), &index.Batch{Facts: facts, Fresh: true}, f.store)
				} else {
					ops, err = p.Fold(t.Context(), &index.Batch{Facts: facts}, f.store)
				}
			}
			f.apply(ops, err)
			fresh = false
			for range w.rng.IntN(3) {
				ops, err := p.Maintain(t.Context(), f.store, false)
				if w.rng.IntN(10) == 0 {
					fresh = true // it was not stored
					break
				}
				f.apply(ops, err)
			}
			if fresh {
				f.apply(p.Fold(t.Context(), &index.Batch{Fresh: true}, f.store))
				fresh = false
			}
		}
		for range 80 {
			compareAnswers(t, f.store, n, randomQuery(w), w.rng.IntN(50))
		}
	}
}

func randomQuery(w *world) usage.Query {
	q := usage.Query{By: usage.Dimension(w.rng.IntN(32)), Bucket: []usage.Bucket{usage.NoBucket, usage.Hour, usage.Day, usage.Month}[w.rng.IntN(4)]}
	if q.Everyone = w.rng.IntN(2) == 0; !q.Everyone {
		q.Account = accounts[w.rng.IntN(len(accounts))]
	}
	span := func() time.Time { return w.now.Add(-time.Duration(w.rng.IntN(200*24*3600)) * time.Second) }
	if w.rng.IntN(2) == 0 {
		q.From = span()
	}
	if w.rng.IntN(2) == 0 {
		q.To = span()
	}
	return q
}

// restless is a store in which something happens after so many reads.
type restless struct {
	testing.TB
	store store.Store
	left  int
	do    func()
}

func (r *restless) count() {
	if r.left--; r.left == 0 {
		r.do()
	}
}

func (r *restless) Get(ctx context.Context, kind, key string) ([]byte, error) {
	defer r.count()
	return r.store.Get(ctx, kind, key)
}

func (r *restless) Scan(ctx context.Context, s store.Scan) iter.Seq2[store.Entry, error] {
	defer r.count()
	var entries []store.Entry // as they are now
	for e, err := range r.store.Scan(ctx, s) {
		if err != nil {
			r.Fatal(err)
		}
		entries = append(entries, e)
	}
	return func(yield func(store.Entry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// TestFiguresAreRightWhileTheyArePacked: sums that go from some entries to others while a
// query reads are counted once.
func TestFiguresAreRightWhileTheyArePacked(t *testing.T) {
	f, w, n, p := newFeeder(t), newWorld(7), naive{}, &usage.Projection{MaxLive: 12, ChunkSize: 100}
	moves := 0
	for range 250 {
		var facts []index.Fact
		for range 4 {
			facts = append(facts, w.next(n)...)
		}
		f.apply(p.Fold(t.Context(), &index.Batch{Facts: facts}, f.store))
		s := &restless{store: f.store, TB: t, left: 1 + w.rng.IntN(5), do: func() {
			ops, err := p.Maintain(t.Context(), f.store, false)
			moves += min(f.apply(ops, err), 1)
		}}
		compareAnswers(t, s, n, randomQuery(w), w.rng.IntN(50))
	}
	if moves < 20 {
		t.Errorf("sums went elsewhere only %d times", moves)
	}
}

// compareAnswers compares all rows with a count over all facts, and the first few with all.
func compareAnswers(t *testing.T, s usage.Entries, n naive, q usage.Query, few int) {
	t.Helper()
	rows, err := q.Rows(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	got := map[naiveKey]usage.Figures{}
	for _, r := range rows {
		got[naiveKey{r.Start, r.Key}] = r.Figures
	}
	if want := n.naiveRows(q); !maps.Equal(got, want) {
		t.Fatalf("%+v:\ngot  %v\nwant %v", q, got, want)
	}
	all, total, err := q.First(t.Context(), s, len(rows)+1)
	if err != nil || total != len(rows) || len(all) != total {
		t.Fatalf("%+v: %d rows, but %d of %d in order (%v)", q, len(rows), len(all), total, err)
	}
	first, total, err := q.First(t.Context(), s, few)
	if err != nil || total != len(rows) || !slices.Equal(first, all[:min(few, len(all))]) {
		t.Fatalf("%+v: the first %d of %d rows are (%v)\n%v\nwant, of %d,\n%v", q, few, total, err, first, len(rows), all[:min(few, len(all))])
	}
}

// TestDamagedFiguresAreReported and not counted as nothing.
func TestDamagedFiguresAreReported(t *testing.T) {
	for prefix, q := range map[string]usage.Query{
		"p/t/*/m/": {Everyone: true},
		"p/x/*/m/": {Everyone: true, By: usage.BySession},
		"q/x/*/m/": {Everyone: true, By: usage.BySession | usage.ByTool},
		"p/p/*/h/": {Everyone: true, By: usage.ByAccount | usage.ByModel, Bucket: usage.Hour},
		"r":        {Everyone: true},
		"l/":       {Everyone: true},
	} {
		f, w, p := newFeeder(t), newWorld(1), &usage.Projection{MaxLive: 20, ChunkSize: 200}
		var damaged []store.Entry
		for len(damaged) == 0 {
			f.apply(p.Fold(t.Context(), &index.Batch{Facts: w.next(naive{})}, f.store))
			f.apply(p.Maintain(t.Context(), f.store, false))
			for e, err := range f.store.Scan(t.Context(), store.Scan{Kind: usage.Name, Prefix: prefix}) {
				if err != nil {
					t.Fatal(err)
				}
				damaged = append(damaged, e)
			}
		}
		if _, err := q.Rows(t.Context(), f.store); err != nil {
			t.Fatal(err)
		}
		for cut := range damaged[0].Value {
			f.apply([]store.IndexOp{{Entry: store.Entry{Kind: usage.Name, Key: damaged[0].Key, Value: damaged[0].Value[:cut]}}}, nil)
			if _, err := q.Rows(t.Context(), f.store); !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("%s: an entry of which %d bytes are left was passed over: %v", prefix, cut, err)
			}
		}
	}
}
