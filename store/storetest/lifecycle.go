package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"

	"agentd/store"
)

func lifecycleChecks() []check {
	return []check{
		{"meta", metaDescribes},
		{"the first value of a meta name wins", metaFirstWins},
		{"reopen", reopenFindsAll},
		{"closed", closedRefuses},
		{"close during calls", closeDuringCalls},
		{"close ends follow", closeEndsFollow},
		{"ended context", endedContext},
		{"context that ends during a read", contextEndsInRead},
		{"context that ends during an append", contextEndsInAppend},
	}
}

func metaDescribes(k *kit) {
	m, err := k.s.Meta(k.ctx)
	if err != nil || m.Engine == "" || m.Version < 1 || m.Location == "" {
		k.Errorf("Meta = %+v, %v, want an engine, a version and a location", m, err)
	}
	if len(m.Recovery) != 0 {
		k.Errorf("opening new data reports %q", m.Recovery)
	}
	k.grow("s", 1, 100)
	k.reopen()
	again, err := k.s.Meta(k.ctx)
	if err != nil || again.Engine != m.Engine || again.Version != m.Version || len(again.Recovery) != 0 {
		k.Errorf("after a clean reopen Meta = %+v, %v, it was %+v", again, err, m)
	}
	if err := k.s.Err(); err != nil {
		k.Errorf("Err of a healthy store: %v", err)
	}
}

func metaFirstWins(k *kit) {
	k.metaIs("runtimeId", "first", "first")
	k.metaIs("runtimeId", "second", "first")
	k.metaIs("runtimeId2", "\x00\xff", "\x00\xff")
	k.metaIs("empty", "", "")
	k.reopen()
	k.metaIs("runtimeId", "third", "first")
	k.metaIs("runtimeId2", "third", "\x00\xff")
	k.metaIs("empty", "third", "")
}

func (k *kit) metaIs(name, set, want string) {
	k.Helper()
	got, err := k.s.SetMeta(k.ctx, name, []byte(set))
	if err != nil || string(got) != want {
		k.Errorf("SetMeta(%s, %q) = %q, %v, want %q", name, set, got, err, want)
	}
}

// reopenFindsAll reopens several times, so that what an engine moves while it
// opens is read as well.
func reopenFindsAll(k *kit) {
	want := map[string][]store.Record{}
	index := map[string][]byte{}
	for round := range 4 {
		for i := range 10 {
			id := fmt.Sprintf("s%d", i)
			c := k.claim(id)
			records := Continue(id, c.Head, 1+i*10, 200)
			want[id] = append(want[id], records...)
			key := fmt.Sprintf("key%d-%d", i, round)
			index[key] = fmt.Appendf(nil, "%d", round)
			k.mustAppend(&store.Batch{
				SessionID: id, Epoch: c.Epoch, Records: records, Index: []store.IndexOp{putOp("k", key, string(index[key]))},
				Snapshots: []store.Snapshot{{SessionID: id, Name: "n", Sequence: HeadOf(records).Sequence, Data: fmt.Appendf(nil, "%d", round)}},
				Blobs:     [][]byte{fmt.Appendf(nil, "blob %d %d", i, round)},
			})
		}
		k.reopen()
		for id, records := range want {
			k.requireRecords(id, records)
			k.snapshotIs(id, "n", &store.Snapshot{SessionID: id, Name: "n", Sequence: HeadOf(records).Sequence, Data: fmt.Appendf(nil, "%d", round)})
		}
		k.scanIs(store.Scan{Kind: "k"}, index)
		content := fmt.Appendf(nil, "blob %d %d", 3, round)
		k.blobIs(refOf(content), content)
	}
}

// call is one method of the port with arguments that would change something.
type call struct {
	name string
	do   func(ctx context.Context, s store.Store) error
}

// contextCalls returns every method that takes a context but Follow, for the session
// "s" with the epoch given and a blob that exists.
func contextCalls(epoch uint64, ref string) []call {
	return append(readCalls(ref), []call{
		{"Claim", func(ctx context.Context, s store.Store) error { _, err := s.Claim(ctx, "s"); return err }},
		{"Release", func(ctx context.Context, s store.Store) error { return s.Release(ctx, "s", epoch) }},
		{"Append", func(ctx context.Context, s store.Store) error {
			b := store.Batch{SessionID: "s", Epoch: epoch, Records: Records("s", 2, 1, 100), Index: []store.IndexOp{putOp("k", "new", "v")}}
			return s.Append(ctx, []*store.Batch{&b})[0]
		}},
		{"PutBlob", func(ctx context.Context, s store.Store) error {
			_, err := s.PutBlob(ctx, bytes.NewReader([]byte("new")))
			return err
		}},
		{"DeleteBlob", func(ctx context.Context, s store.Store) error { return s.DeleteBlob(ctx, ref) }},
		{"SetMeta", func(ctx context.Context, s store.Store) error {
			_, err := s.SetMeta(ctx, "new", []byte("v"))
			return err
		}},
	}...)
}

func readCalls(ref string) []call {
	return []call{
		{"Head", func(ctx context.Context, s store.Store) error { _, err := s.Head(ctx, "s"); return err }},
		{"Read", func(ctx context.Context, s store.Store) error {
			_, err := drainSeq(s.Read(ctx, "s", store.Range{}))
			return err
		}},
		{"Snapshot", func(ctx context.Context, s store.Store) error { _, err := s.Snapshot(ctx, "s", "n"); return err }},
		{"Snapshots", func(ctx context.Context, s store.Store) error { _, err := drainSeq(s.Snapshots(ctx, "s")); return err }},
		{"Get", func(ctx context.Context, s store.Store) error { _, err := s.Get(ctx, "k", "key"); return err }},
		{"Scan", func(ctx context.Context, s store.Store) error {
			_, err := drainSeq(s.Scan(ctx, store.Scan{Kind: "k"}))
			return err
		}},
		{"Sessions", func(ctx context.Context, s store.Store) error { _, err := drainSeq(s.Sessions(ctx, "")); return err }},
		{"Meta", func(ctx context.Context, s store.Store) error { _, err := s.Meta(ctx); return err }},
		{"OpenBlob", func(ctx context.Context, s store.Store) error {
			b, err := s.OpenBlob(ctx, ref)
			if err == nil {
				err = b.Close()
			}
			return err
		}},
	}
}

// something prepares what calls refer to and returns the session's epoch.
func something(k *kit) (epoch uint64, ref string) {
	c := k.claim("s")
	k.mustAppend(&store.Batch{
		SessionID: "s", Epoch: c.Epoch, Records: Records("s", 1, 1, 100), Index: []store.IndexOp{putOp("k", "key", "v")},
		Snapshots: []store.Snapshot{{SessionID: "s", Name: "n", Data: []byte("d")}},
	})
	return c.Epoch, k.putBlob([]byte("a blob")).Ref
}

func closedRefuses(k *kit) {
	epoch, ref := something(k)
	for range 2 {
		if err := k.s.Close(); err != nil {
			k.Errorf("Close: %v", err)
		}
	}
	for _, c := range contextCalls(epoch, ref) {
		if err := c.do(k.ctx, k.s); !errors.Is(err, store.ErrClosed) {
			k.Errorf("%s on a closed store: %v, want ErrClosed", c.name, err)
		}
	}
	if _, err := drainSeq(k.s.Follow(k.ctx)); !errors.Is(err, store.ErrClosed) {
		k.Errorf("Follow on a closed store: %v, want ErrClosed", err)
	}
}

func endedContext(k *kit) {
	epoch, ref := something(k)
	ended, cancel := context.WithCancel(k.ctx)
	cancel()
	for _, c := range contextCalls(epoch, ref) {
		if err := c.do(ended, k.s); !errors.Is(err, context.Canceled) {
			k.Errorf("%s with an ended context: %v, want context.Canceled", c.name, err)
		}
	}
	for _, err := range k.s.Follow(ended) {
		if !errors.Is(err, context.Canceled) {
			k.Errorf("Follow with an ended context yields %v", err)
		}
	}
	k.requireRecords("s", Records("s", 1, 1, 100))
	k.value("k", "new", nil)
	k.blobIs(refOf([]byte("new")), nil)
	k.blobIs(ref, []byte("a blob"))
	k.metaIs("new", "later", "later")
	k.mustAppend(&store.Batch{SessionID: "s", Epoch: epoch, Records: Records("s", 2, 1, 100)}) // the claim still holds
}

// contextEndsInRead: a caller that sees an iterator end without an error takes what
// was yielded for everything there is.
func contextEndsInRead(k *kit) {
	const n = 2_000
	k.grow("s", n, 100)
	var ops []store.IndexOp
	for i := range n {
		ops = append(ops, putOp("k", fmt.Sprintf("%05d", i), "v"))
	}
	k.ops(ops...)
	endsWhole(k, "Read", n, func(ctx context.Context) iter.Seq2[store.Record, error] { return k.s.Read(ctx, "s", store.Range{}) })
	endsWhole(k, "Scan", n, func(ctx context.Context) iter.Seq2[store.Entry, error] { return k.s.Scan(ctx, store.Scan{Kind: "k"}) })
}

// endsWhole cancels the context of an iteration after its first step.
func endsWhole[V any](k *kit, what string, n int, start func(context.Context) iter.Seq2[V, error]) {
	k.Helper()
	ctx, cancel := context.WithCancel(k.ctx)
	defer cancel()
	got := 0
	var last error
	for _, err := range start(ctx) {
		cancel()
		if last = err; err == nil {
			got++
		}
	}
	if got < n && !errors.Is(last, context.Canceled) {
		k.Errorf("%s stopped after %d of %d with %v, want context.Canceled", what, got, n, last)
	}
}

// contextEndsInAppend cancels appends at any moment. An append is there if it
// was acknowledged and not there if it was refused; the next claim settles what
// is unknown.
func contextEndsInAppend(k *kit) {
	c := k.claim("s")
	for round := range 100 {
		ctx, cancel := context.WithCancel(k.ctx)
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			for range round * 20 {
				runtime.Gosched() // later in every round, to end in other places
			}
			cancel()
		}()
		r := Continue("s", c.Head, 1, 100)
		err := k.s.Append(ctx, []*store.Batch{{SessionID: "s", Epoch: c.Epoch, Records: r}})[0]
		<-stopped
		before := c
		c = k.claim("s")
		there := c.Head == HeadOf(r)
		switch {
		case err == nil && !there:
			k.Fatalf("round %d: an acknowledged append is not there", round)
		case err != nil && !errors.Is(err, store.ErrUnknownOutcome) && c.Head != before.Head:
			k.Fatalf("round %d: an append that was refused (%v) is there", round, err)
		case !there && c.Head != before.Head:
			k.Fatalf("round %d: the head is %d", round, c.Head.Sequence)
		}
	}
	if err := VerifyChain("s", k.read("s", store.Range{})); err != nil {
		k.Errorf("%v", err)
	}
}
