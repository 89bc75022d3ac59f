package usage_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"agentd/event"
	"agentd/index"
	"agentd/index/usage"
	"agentd/store"
)

// crowd makes facts of many sessions within few hours, of which many used the same: some are
// in several months, some in several accounts and workspaces, and some were corrected.
type crowd struct {
	rng      *rand.Rand
	sessions int
	hours    []time.Time
}

func newCrowd(seed uint64, sessions int) *crowd {
	c := &crowd{rng: rand.New(rand.NewPCG(seed, 2)), sessions: sessions}
	for range 12 {
		day := time.Date(2025, time.Month(9+c.rng.IntN(4)), 1+c.rng.IntN(3), 0, 0, 0, 0, time.UTC)
		c.hours = append(c.hours, day.Add(time.Duration(c.rng.IntN(3))*time.Hour))
	}
	return c
}

// idsAlike returns 32 ids of which packs have the same hash, as a caller could choose them.
var idsAlike = sync.OnceValue(func() []string {
	ids := []string{"sess_"}
	for len(ids) < 32 {
		// Two ends that lead to the same hash from the ids so far, which have one already.
		ends := map[uint32]string{}
		for n := 0; ; n++ {
			end := fmt.Sprintf("%06d", n)
			hash := usage.SessionHash(ids[0] + end)
			other, found := ends[hash]
			if !found {
				ends[hash] = end
				continue
			}
			var longer []string
			for _, id := range ids {
				longer = append(longer, id+other, id+end)
			}
			ids = longer
			break
		}
	}
	return ids
})

// session returns the id of a session; some have the same hash in packs.
func (c *crowd) session(i int) string {
	if alike := idsAlike(); i < len(alike) {
		return alike[i]
	}
	return fmt.Sprint("sess_", i)
}

func (c *crowd) pick(of ...string) string { return of[c.rng.IntN(len(of))] }

// next makes a fact, and counts it.
func (c *crowd) next(n naive) index.Fact {
	i := c.rng.IntN(c.sessions)
	at := c.hours[i%len(c.hours)]
	if i%5 == 0 {
		at = c.hours[c.rng.IntN(len(c.hours))]
	}
	k := usage.Key{Account: accounts[i%len(accounts)], Workspace: fmt.Sprint("/w/", i%3), Session: c.session(i), Model: c.pick("large", "small")}
	if i%11 == 0 {
		k.Account, k.Workspace = c.pick(accounts...), c.pick("/w/0", "/w/1")
	}
	fact := func(t event.Type, p event.Payload) index.Fact {
		return index.Fact{SessionID: k.Session, Account: k.Account, Workspace: k.Workspace, Event: &index.Event{Type: t, Time: at, TurnID: event.NotApplicable, Payload: p}}
	}
	switch c.rng.IntN(4) {
	case 0:
		k.Model, k.Tool = "", c.pick("shell", "read_file", "edit_file")
		n.count(at, k, usage.ToolCalls, 1)
		return fact(event.TypeToolStarted, &event.ToolStarted{ToolName: k.Tool})
	case 1:
		k.Model = ""
		n.count(at, k, usage.Turns, 1)
		return fact(event.TypeTurnCompleted, &event.TurnCompleted{})
	case 2:
		n.count(at, k, usage.ModelCalls, 1)
		return fact(event.TypeModelCompleted, &event.ModelCompleted{Model: k.Model})
	}
	k.Model = ""
	cost := 0.001
	if c.rng.IntN(20) == 0 {
		cost = -0.002
	}
	n.count(at, k, usage.CostNanoUSD, int64(math.Round(cost*1e9)))
	return fact(event.TypeCostRecorded, &event.CostRecorded{CostUSD: &cost})
}

// inOrder answers a query as a sort of all rows would.
func (n naive) inOrder(q usage.Query) []usage.Row {
	var rows []usage.Row
	for k, f := range n.naiveRows(q) {
		rows = append(rows, usage.Row{Start: k.hour, Key: k.Key, Figures: f})
	}
	slices.SortFunc(rows, func(a, b usage.Row) int {
		return cmp.Or(
			a.Start.Compare(b.Start), cmp.Compare(b.Figures[usage.CostNanoUSD], a.Figures[usage.CostNanoUSD]),
			cmp.Compare(b.Figures[usage.Turns], a.Figures[usage.Turns]), cmp.Compare(b.Figures[usage.ToolCalls], a.Figures[usage.ToolCalls]),
			cmp.Compare(a.Key.Account, b.Key.Account), cmp.Compare(a.Key.Workspace, b.Key.Workspace), cmp.Compare(a.Key.Session, b.Key.Session),
			cmp.Compare(a.Key.Model, b.Key.Model), cmp.Compare(a.Key.Tool, b.Key.Tool))
	})
	return rows
}

// TestFirstRowsAreThoseOfASort: every query there is has the first rows and the total that
// a sort of all rows has, however much is in packs and however many rows are alike.
func TestFirstRowsAreThoseOfASort(t *testing.T) {
	for seed, world := range []struct{ sessions, facts int }{{20, 300}, {90, 1000}, {400, 3000}, {800, 800}} {
		f, c, n := newFeeder(t), newCrowd(uint64(seed), world.sessions), naive{}
		p := &usage.Projection{MaxLive: 1 + c.rng.IntN(200), ChunkSize: 1 + c.rng.IntN(2000)}
		for left := world.facts; left > 0; {
			var facts []index.Fact
			for range min(1+c.rng.IntN(world.facts/10), left) {
				facts = append(facts, c.next(n))
			}
			left -= len(facts)
			f.apply(p.Fold(t.Context(), &index.Batch{Facts: facts}, f.store))
			f.apply(p.Maintain(t.Context(), f.store, false))
		}
		for by := range usage.ByTool << 1 {
			for _, bucket := range []usage.Bucket{usage.NoBucket, usage.Hour, usage.Day, usage.Month} {
				for _, q := range []usage.Query{{Everyone: true}, {Account: accounts[c.rng.IntN(len(accounts))]}} {
					q.By, q.Bucket = by, bucket
					if c.rng.IntN(3) == 0 {
						q.From, q.To = c.hours[0], c.hours[1]
					}
					want := n.inOrder(q)
					for _, limit := range []int{0, 1, 50, 1000, math.MaxInt} {
						rows, total, err := q.First(t.Context(), f.store, limit)
						if err != nil || total != len(want) || !slices.Equal(rows, want[:min(limit, len(want))]) {
							t.Fatalf("%+v, %+v: the first %d of %d rows are (%v)\n%v\nwant, of %d,\n%v", world, q, limit, total, err, rows, len(want), want[:min(limit, len(want))])
						}
					}
				}
			}
		}
	}
}

// TestDamagedIndexesOfPacks: a pack of many sessions that is cut off is never answered from,
// and one with other bytes is answered from or reported.
func TestDamagedIndexesOfPacks(t *testing.T) {
	f, c, p := newFeeder(t), newCrowd(1, 60), &usage.Projection{MaxLive: 1, ChunkSize: 300}
	c.hours = []time.Time{c.hours[0], c.hours[0].AddDate(0, 1, 0)}
	var facts []index.Fact
	for range 300 {
		facts = append(facts, c.next(naive{}))
	}
	f.apply(p.Fold(t.Context(), &index.Batch{Facts: facts}, f.store))
	f.apply(p.Maintain(t.Context(), f.store, false))
	entries := map[string][]byte{}
	for _, prefix := range []string{"p/x/*/m/", "q/x/*/m/"} {
		for e, err := range f.store.Scan(t.Context(), store.Scan{Kind: usage.Name, Prefix: prefix}) {
			if err != nil {
				t.Fatal(err)
			}
			entries[e.Key] = slices.Clone(e.Value)
		}
	}
	put := func(key string, value []byte) {
		f.apply([]store.IndexOp{{Entry: store.Entry{Kind: usage.Name, Key: key, Value: value}}}, nil)
	}
	keys := slices.Sorted(maps.Keys(entries))
	key := keys[0]
	for cut := range entries[key] {
		put(key, entries[key][:cut])
		for _, limit := range []int{0, 1, 1000} {
			if _, _, err := (usage.Query{Everyone: true, By: usage.BySession}).First(t.Context(), f.store, limit); !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("a pack of which %d bytes are left was answered from: %v", cut, err)
			}
		}
	}
	put(key, entries[key])
	for range 4000 {
		key := keys[c.rng.IntN(len(keys))]
		value := slices.Clone(entries[key])
		for range 1 + c.rng.IntN(3) {
			value[c.rng.IntN(len(value))] = byte(c.rng.Uint32() >> c.rng.IntN(9))
		}
		put(key, value)
		q := usage.Query{Everyone: true, By: usage.BySession | usage.Dimension(c.rng.IntN(32))}
		if _, _, err := q.First(t.Context(), f.store, []int{0, 1, 1000}[c.rng.IntN(3)]); err != nil && !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%+v: %v", q, err)
		}
		put(key, entries[key])
	}
}
