package storetest

import (
	"context"
	"errors"
	"testing"

	"agentd/store"
)

var errInjected = errors.New("injected")

// faultyKit returns a kit on a store in memory with faults in front.
func faultyKit(t *testing.T) (*kit, *FaultyStore) {
	t.Helper()
	f := Faulty(NewMem())
	return &kit{reporter: t, tb: t, ctx: t.Context(), s: f}, f
}

func TestFaultyFailsTheNthAppend(t *testing.T) {
	k, f := faultyKit(t)
	all := Records("s", 1, 3, 50)
	epoch := k.claim("s").Epoch
	f.FailAppend(2, errInjected)
	k.mustAppend(&store.Batch{SessionID: "s", Epoch: epoch, Records: all[:1]})
	k.refuse(&store.Batch{SessionID: "s", Epoch: epoch, Records: all[1:]}, errInjected)
	k.requireRecords("s", all[:1])
	k.mustAppend(&store.Batch{SessionID: "s", Epoch: epoch, Records: all[1:]})
	k.requireRecords("s", all)
	if n := f.Calls(OpAppend); n != 3 {
		t.Errorf("counted %d appends, want 3", n)
	}
}

func TestFaultyLosesTheAnswer(t *testing.T) {
	k, f := faultyKit(t)
	all := Records("s", 1, 2, 50)
	epoch := k.claim("s").Epoch
	f.LoseAnswer(1, false)
	k.refuse(&store.Batch{SessionID: "s", Epoch: epoch, Records: all[:1]}, store.ErrUnknownOutcome)
	k.requireRecords("s", nil)
	f.LoseAnswer(1, true)
	k.refuse(&store.Batch{SessionID: "s", Epoch: epoch, Records: all[:1]}, store.ErrUnknownOutcome)
	k.requireRecords("s", all[:1])
}

func TestFaultyHolds(t *testing.T) {
	k, f := faultyKit(t)
	b := &store.Batch{SessionID: "s", Epoch: k.claim("s").Epoch, Records: Records("s", 1, 1, 50)}
	reached, release := f.HoldAppend(1)
	result := make(chan error)
	go func() { result <- f.Append(t.Context(), []*store.Batch{b})[0] }()
	<-reached
	k.requireRecords("s", nil)
	release()
	if err := <-result; err != nil {
		t.Errorf("the held append: %v", err)
	}
	k.requireRecords("s", b.Records)

	reached, _ = f.HoldAppend(1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { result <- f.Append(ctx, []*store.Batch{b})[0] }()
	<-reached
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("a held append whose context ended: %v", err)
	}
}

func TestFaultyBreaks(t *testing.T) {
	k, f := faultyKit(t)
	all := k.grow("s", 2, 50)
	f.Break(store.ErrFailed)
	if _, err := f.Claim(t.Context(), "s"); !errors.Is(err, store.ErrFailed) {
		t.Errorf("Claim on a broken store: %v", err)
	}
	k.refuse(&store.Batch{SessionID: "s", Epoch: 1, Records: Records("s", 3, 1, 50)}, store.ErrFailed)
	if err := f.Err(); !errors.Is(err, store.ErrFailed) {
		t.Errorf("Err on a broken store: %v", err)
	}
	k.requireRecords("s", all)
	f.Break(nil)
	k.grow("s", 1, 50)
	if err := f.Err(); err != nil {
		t.Errorf("Err after mending: %v", err)
	}
}

func TestFaultyReads(t *testing.T) {
	k, f := faultyKit(t)
	k.grow("s", 3, 50)
	f.Inject(OpRead, 1, Fault{Err: store.ErrCorrupt, Applied: true})
	if got, err := drainSeq(f.Read(t.Context(), "s", store.Range{})); len(got) != 3 || !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("Read yields %d records and %v, want 3 and ErrCorrupt", len(got), err)
	}
	f.Inject(OpRead, 1, Fault{Err: errInjected})
	if got, err := drainSeq(f.Read(t.Context(), "s", store.Range{})); len(got) != 0 || !errors.Is(err, errInjected) {
		t.Errorf("Read yields %d records and %v, want the error alone", len(got), err)
	}
	f.Inject(OpHead, 1, Fault{Err: errInjected})
	if _, err := f.Head(t.Context(), "s"); !errors.Is(err, errInjected) {
		t.Errorf("Head: %v", err)
	}
	f.Inject(OpGet, 1, Fault{Err: errInjected})
	if _, err := f.Get(t.Context(), "k", "key"); !errors.Is(err, errInjected) {
		t.Errorf("Get: %v", err)
	}
	f.Inject(OpPutBlob, 1, Fault{Err: errInjected})
	if _, err := f.PutBlob(t.Context(), nil); !errors.Is(err, errInjected) {
		t.Errorf("PutBlob: %v", err)
	}
	k.putBlob([]byte("the next goes through"))
}

// TestFaultyPassesTheSuite: without faults nobody notices the wrapper.
func TestFaultyPassesTheSuite(t *testing.T) {
	Run(t, func(*testing.T) Engine {
		return &wrapEngine{newMemEngine(), func(s store.Store) store.Store { return Faulty(s) }}
	})
}

type wrapEngine struct {
	*memEngine
	wrap func(store.Store) store.Store
}

func (e *wrapEngine) Open() store.Store { return e.wrap(e.memEngine.Open()) }

// unsure loses the answer of every sixth append, half of which were done.
func unsure(s store.Store) store.Store {
	f := Faulty(s)
	for n := 1; n < 40; n++ {
		f.LoseAnswer(n*6, n%2 == 0)
	}
	return f
}

// TestUnknownOutcomes: appends whose outcome nobody knows fit into an order
// either way, but hide no defect beside them.
func TestUnknownOutcomes(t *testing.T) {
	c := checksOf(t)["linearizable/clients of one node"]
	for range 5 {
		if r := record(t.Context(), t, c, &wrapEngine{newMemEngine(), unsure}); r.Failed() {
			t.Fatalf("%s", r.failures)
		}
	}
	found := false
	for range 20 {
		found = found || record(t.Context(), t, c, &wrapEngine{newMemEngine(), func(s store.Store) store.Store {
			h := newHooked(s)
			losesWrites(5)(h, nil)
			return unsure(h)
		}}).Failed()
	}
	if !found {
		t.Error("lost writes beside unknown outcomes are not found")
	}
}
