package index_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"agentd/event"
	"agentd/index"
	"agentd/store"
	"agentd/store/storetest"
)

// tally is a projection that counts the facts of each session. What it counts twice, or
// not at all, shows.
type tally struct{ name string }

func (p tally) Name() string { return p.name }

func (p tally) Types() []event.Type { return []event.Type{event.TypeTurnSteered} }

func (p tally) Fold(ctx context.Context, b *index.Batch, read index.Reader) ([]store.IndexOp, error) {
	counts := map[string]uint64{}
	for _, f := range b.Facts {
		if _, ok := counts[f.SessionID]; !ok {
			v, err := read.Get(ctx, p.name, f.SessionID)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return nil, err
			}
			if err == nil {
				counts[f.SessionID] = binary.BigEndian.Uint64(v)
			}
		}
		counts[f.SessionID]++
	}
	var ops []store.IndexOp
	for id, n := range counts {
		ops = append(ops, store.IndexOp{Entry: store.Entry{Kind: p.name, Key: id, Value: binary.BigEndian.AppendUint64(nil, n)}})
	}
	return ops, nil
}

// total adds up what a projection counted.
func total(t *testing.T, s store.Store, name string) (n uint64) {
	t.Helper()
	for e, err := range s.Scan(t.Context(), store.Scan{Kind: name}) {
		if err != nil {
			t.Fatal(err)
		}
		n += binary.BigEndian.Uint64(e.Value)
	}
	return n
}

// write appends facts to a session, one batch for each.
func write(t *testing.T, s store.Store, id string, facts int) {
	t.Helper()
	claim, err := s.Claim(t.Context(), id)
	if err != nil {
		t.Error(err)
		return
	}
	for i := range facts {
		e := &event.Event{
			Type: event.TypeTurnSteered, ID: fmt.Sprintf("evt_%s_%d", id, i), Time: time.Unix(0, 0), SessionID: id,
			Sequence: claim.Head.Sequence + uint64(i) + 1, Payload: &event.TurnSteered{},
		}
		b := &store.Batch{SessionID: id, Epoch: claim.Epoch, Records: []store.Record{{Sequence: e.Sequence, Data: event.AppendJSON(nil, e)}}}
		if err := s.Append(t.Context(), []*store.Batch{b})[0]; err != nil {
			t.Error(err)
			return
		}
	}
}

func newIndexer(t *testing.T, s store.Store, change func(*index.Options), names ...string) *index.Indexer {
	t.Helper()
	opt := index.Options{Store: s, Delay: time.Hour, MaxFacts: 7, Owner: func(context.Context, string) (index.Owner, error) { return index.Owner{}, nil }}
	for _, name := range names {
		opt.Projections = append(opt.Projections, tally{name})
	}
	if change != nil {
		change(&opt)
	}
	x := index.New(opt)
	x.Start(t.Context())
	t.Cleanup(x.Close)
	return x
}

func catchUp(t *testing.T, x *index.Indexer) {
	t.Helper()
	if err := x.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestFactsThatCameBeforeTheIndexAreFoldedOnce(t *testing.T) {
	s := storetest.NewMem()
	for i := range 10 {
		write(t, s, fmt.Sprintf("sess_%d", i), 5)
	}
	x := newIndexer(t, s, nil, "tally_1")
	var writing sync.WaitGroup
	for i := range 10 { // while the index is built
		writing.Go(func() { write(t, s, fmt.Sprintf("sess_%d", i), 20) })
	}
	catchUp(t, x)
	writing.Wait()
	catchUp(t, x)
	if n := total(t, s, "tally_1"); n != 250 {
		t.Errorf("%d facts were folded, there are 250", n)
	}
	for e, err := range s.Scan(t.Context(), store.Scan{Kind: "index_built"}) {
		t.Errorf("left over from the build: %s, %v", e.Key, err)
	}
}

func TestNewProjectionIsBuiltBesideTheOld(t *testing.T) {
	s := storetest.NewMem()
	write(t, s, "sess_1", 20)
	x := newIndexer(t, s, nil, "tally_1")
	catchUp(t, x)
	x.Close()
	write(t, s, "sess_2", 20)
	x = newIndexer(t, s, nil, "tally_1", "tally_2")
	catchUp(t, x)
	write(t, s, "sess_3", 20)
	catchUp(t, x)
	if a, b := total(t, s, "tally_1"), total(t, s, "tally_2"); a != 60 || b != 60 {
		t.Errorf("the old one folded %d facts, the new one %d, there are 60", a, b)
	}
	x.Close()
	x = newIndexer(t, s, func(o *index.Options) { o.Former = []string{"tally_1"} }, "tally_2")
	write(t, s, "sess_4", 1)
	catchUp(t, x)
	if a, b := total(t, s, "tally_1"), total(t, s, "tally_2"); a != 0 || b != 61 {
		t.Errorf("the former one has %d facts, the other %d", a, b)
	}
	standings, err := index.Standings(t.Context(), s)
	if err != nil || len(standings) != 1 || standings[0] != (index.Standing{Name: "tally_2", Status: index.StatusComplete}) {
		t.Errorf("standings: %+v, %v", standings, err)
	}
}

// Several nodes fold each fact once, and each answers with what all wrote.
func TestNodesShareTheWork(t *testing.T) {
	first := storetest.NewMem()
	nodes := []*storetest.Mem{first, first.Node(), first.Node()}
	var working sync.WaitGroup
	for n, s := range nodes {
		x := newIndexer(t, s, nil, "tally_1")
		working.Go(func() {
			for round := range 10 {
				id := fmt.Sprintf("sess_%d_%d", n, round)
				write(t, s, id, 10)
				if err := x.CatchUp(t.Context()); err != nil {
					t.Error(err)
					return
				}
				v, err := s.Get(t.Context(), "tally_1", id)
				if err != nil || binary.BigEndian.Uint64(v) != 10 {
					t.Errorf("node %d doesn't find what it wrote: %v, %v", n, v, err)
				}
			}
		})
	}
	working.Wait()
	if n := total(t, first, "tally_1"); n != 300 {
		t.Errorf("%d facts were folded, there are 300", n)
	}
}

// spanned reads parts of many sessions in one question, as stores do that several nodes share.
type spanned struct {
	*storetest.Mem
	read int
}

func (s *spanned) ReadSpans(ctx context.Context, spans []store.Span) ([][]store.Record, error) {
	out := make([][]store.Record, len(spans))
	for i, span := range spans {
		for rec, err := range s.Read(ctx, span.SessionID, store.Range{After: span.First - 1, Before: span.Last + 1}) {
			if err != nil {
				return nil, err
			}
			out[i] = append(out[i], rec)
		}
		s.read++
	}
	return out, nil
}

// The first fact that is read of a session of another node names its owner, so the store isn't asked.
func TestTheFirstFactSaysWhoseASessionIs(t *testing.T) {
	s := &spanned{Mem: storetest.NewMem()}
	write(t, s, "sess_before", 1)
	asked := map[string]int{}
	var facts []index.Fact
	x := newIndexer(t, s, func(o *index.Options) {
		o.Projections = []index.Projection{collector{"facts_1", &facts}}
		o.Owner = func(_ context.Context, id string) (index.Owner, error) {
			asked[id]++
			return index.Owner{Account: "asked"}, nil
		}
	})
	catchUp(t, x)
	created := &event.Event{
		Type: event.TypeSessionCreated, ID: "evt_1", Time: time.Unix(0, 0), SessionID: "sess_made", Sequence: 1,
		Payload: &event.SessionCreated{Account: "alice", Workspace: &event.Workspace{Root: "/work"}},
	}
	claim, err := s.Claim(t.Context(), "sess_made")
	if err != nil {
		t.Fatal(err)
	}
	b := &store.Batch{SessionID: "sess_made", Epoch: claim.Epoch, Records: []store.Record{{Sequence: 1, Data: event.AppendJSON(nil, created)}}}
	if err := s.Append(t.Context(), []*store.Batch{b})[0]; err != nil {
		t.Fatal(err)
	}
	write(t, s, "sess_made", 2)
	catchUp(t, x)
	if s.read == 0 || asked["sess_made"] > 0 || asked["sess_before"] == 0 {
		t.Errorf("%d parts of sessions were read together, and the owners of these asked for: %v", s.read, asked)
	}
	facts = slices.DeleteFunc(facts, func(f index.Fact) bool { return f.SessionID != "sess_made" })
	if len(facts) != 2 {
		t.Errorf("%d facts of the session are indexed, not 2", len(facts))
	}
	for _, f := range facts {
		if f.Account != "alice" || f.Workspace != "/work" {
			t.Errorf("a fact is indexed as %q's in %q", f.Account, f.Workspace)
		}
	}
}

// collector is a projection that keeps the facts it is given.
type collector struct {
	name  string
	facts *[]index.Fact
}

func (p collector) Name() string { return p.name }

func (p collector) Types() []event.Type { return []event.Type{event.TypeTurnSteered} }

func (p collector) Fold(_ context.Context, b *index.Batch, _ index.Reader) ([]store.IndexOp, error) {
	*p.facts = append(*p.facts, b.Facts...)
	return nil, nil
}

// A node that dies while it folds is followed by another one.
func TestAnotherNodeGoesOn(t *testing.T) {
	one := storetest.NewMem()
	two := one.Node()
	write(t, one, "sess_1", 10)
	if _, err := one.Claim(t.Context(), index.ClaimedSession); err != nil {
		t.Fatal(err)
	}
	x := newIndexer(t, two, nil, "tally_1")
	ended := make(chan error, 1)
	go func() { ended <- x.CatchUp(t.Context()) }()
	one.Expire()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if n := total(t, two, "tally_1"); n != 10 {
		t.Errorf("%d facts were folded, there are 10", n)
	}
}

func TestCatchUpEndsWithTheIndexer(t *testing.T) {
	x := newIndexer(t, storetest.NewMem(), nil, "tally_1")
	x.Close()
	if err := x.CatchUp(t.Context()); err == nil {
		t.Error("nothing folds any more, and no one says so")
	}
}
