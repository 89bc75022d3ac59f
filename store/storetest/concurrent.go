package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"agentd/store"
)

func concurrentChecks() []check {
	return []check{
		{"readers see whole batches and no gaps", readersDuringAppends},
		{"many writers, each with a session", writersBesideEachOther},
		{"writers of one session: one wins each sequence", writersOfOneSession},
		{"one of many gets a key", racersForAKey},
		{"calls inside an iteration", callsInsideIteration},
		{"follow ends with its context", followEnds},
	}
}

// perBatch is the number of records in each batch that readers look at: a
// reader that sees another number has seen a part of a batch.
const perBatch = 3

func readersDuringAppends(k *kit) {
	const batches, readers = 60, 3
	var acknowledged atomic.Uint64
	done := make(chan struct{})
	errs := make([]error, readers+1)
	c := k.claim("s")
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		errs[readers] = appendBatches(k, c, batches, &acknowledged)
	})
	for i := range readers {
		wg.Go(func() {
			for finished := false; !finished && errs[i] == nil; {
				select {
				case <-done:
					finished = true
				default:
				}
				errs[i] = lookAtPrefix(k.ctx, k.s, acknowledged.Load())
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		k.Errorf("%v", err)
	}
	k.requireRecords("s", Records("s", 1, batches*perBatch, 120))
}

func appendBatches(k *kit, c store.Claim, batches int, acknowledged *atomic.Uint64) error {
	head := c.Head
	for range batches {
		r := Continue("s", head, perBatch, 120)
		head = HeadOf(r)
		seq := fmt.Appendf(nil, "%d", head.Sequence)
		b := &store.Batch{
			SessionID: "s", Epoch: c.Epoch, Records: r,
			Snapshots: []store.Snapshot{{SessionID: "s", Name: "n", Sequence: head.Sequence, Hash: head.Hash, Data: seq}},
			Index:     []store.IndexOp{putOp("k", "head", string(seq))},
		}
		if err := k.s.Append(k.ctx, []*store.Batch{b})[0]; err != nil {
			return fmt.Errorf("append: %w", err)
		}
		acknowledged.Store(head.Sequence)
	}
	return nil
}

// lookAtPrefix reads the session both ways and checks that it is a whole prefix
// that has at least what was acknowledged before.
func lookAtPrefix(ctx context.Context, s store.Store, acknowledged uint64) error {
	up, err := drainSeq(s.Read(ctx, "s", store.Range{}))
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if err := VerifyChain("s", up); err != nil {
		return err
	}
	if n := uint64(len(up)); n < acknowledged || n%perBatch != 0 {
		return fmt.Errorf("a read sees %d records, %d were acknowledged before, in batches of %d", n, acknowledged, perBatch)
	}
	down, err := drainSeq(s.Read(ctx, "s", store.Range{Reverse: true}))
	if err != nil {
		return fmt.Errorf("read reverse: %w", err)
	}
	for i, r := range down {
		if r.Sequence != uint64(len(down)-i) {
			return fmt.Errorf("a reverse read of %d records has sequence %d at place %d", len(down), r.Sequence, i)
		}
	}
	if len(down) < len(up) || len(down)%perBatch != 0 {
		return fmt.Errorf("a reverse read sees %d records after a read saw %d", len(down), len(up))
	}
	return lookAtRest(ctx, s, uint64(len(down)))
}

// lookAtRest checks that snapshot, index and head move together with records.
func lookAtRest(ctx context.Context, s store.Store, seen uint64) error {
	if seen == 0 {
		return nil
	}
	snap, err := s.Snapshot(ctx, "s", "n")
	if err != nil || snap.Sequence < seen || string(snap.Data) != fmt.Sprint(snap.Sequence) {
		return fmt.Errorf("after record %d the snapshot is at %d with data %q, %w", seen, snap.Sequence, snap.Data, err)
	}
	head, err := s.Head(ctx, "s")
	if err != nil || head.Sequence < snap.Sequence {
		return fmt.Errorf("the head is %d behind a snapshot at %d, %w", head.Sequence, snap.Sequence, err)
	}
	value, err := s.Get(ctx, "k", "head")
	var at uint64
	if err == nil {
		_, err = fmt.Sscan(string(value), &at)
	}
	if err != nil || at < head.Sequence {
		return fmt.Errorf("the index says %q when the head is %d, %w", value, head.Sequence, err)
	}
	return nil
}

func writersBesideEachOther(k *kit) {
	const writers, appends = 16, 15
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for i := range writers {
		id := fmt.Sprintf("w%02d", i)
		c := k.claim(id)
		wg.Go(func() {
			head := c.Head
			for range appends {
				r := Continue(id, head, 1, 100)
				if errs[i] = k.s.Append(k.ctx, []*store.Batch{{SessionID: id, Epoch: c.Epoch, Records: r}})[0]; errs[i] != nil {
					return
				}
				head = HeadOf(r)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		k.Errorf("%v", err)
	}
	for i := range writers {
		id := fmt.Sprintf("w%02d", i)
		k.requireRecords(id, Records(id, 1, appends, 100))
	}
}

// writersOfOneSession share an epoch, so that only the expected head stands
// between them.
func writersOfOneSession(k *kit) {
	const writers, want = 6, 40
	c := k.claim("s")
	var mu sync.Mutex
	won := map[uint64]string{}
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for seq := uint64(1); seq <= want; seq++ {
				data := fmt.Appendf(nil, `{"writer":%d,"sequence":%d}`, i, seq)
				err := k.s.Append(k.ctx, []*store.Batch{{SessionID: "s", Epoch: c.Epoch, Records: []store.Record{{Sequence: seq, Data: data}}}})[0]
				switch {
				case err == nil:
					mu.Lock()
					if other, twice := won[seq]; twice {
						errs[i] = fmt.Errorf("sequence %d was acknowledged twice: %s and %s", seq, other, data)
					}
					won[seq] = string(data)
					mu.Unlock()
				case !errors.Is(err, store.ErrConflict):
					errs[i] = err
					return
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		k.Errorf("%v", err)
	}
	for _, r := range k.read("s", store.Range{}) {
		if won[r.Sequence] != string(r.Data) {
			k.Errorf("sequence %d holds %s, acknowledged was %s", r.Sequence, r.Data, won[r.Sequence])
		}
	}
	if h := k.head("s"); h.Sequence != want || len(won) != want {
		k.Errorf("the head is %d after %d acknowledged appends, want %d", h.Sequence, len(won), want)
	}
}

func racersForAKey(k *kit) {
	stores := []store.Store{k.s}
	raceForKey(k, stores, "racer")
}

// raceForKey lets sessions, spread over stores, race for keys that must be
// absent. Each key has one winner, whose value it has.
func raceForKey(k *kit, stores []store.Store, prefix string) {
	const racers, keys = 6, 10
	var winners [keys][]string
	var mu sync.Mutex
	errs := make([]error, racers)
	var wg sync.WaitGroup
	for i := range racers {
		s, id := stores[i%len(stores)], fmt.Sprintf("%s%d", prefix, i)
		wg.Go(func() {
			c, err := s.Claim(k.ctx, id)
			if err != nil {
				errs[i] = err
				return
			}
			for key := range keys {
				err := s.Append(k.ctx, []*store.Batch{{SessionID: id, Epoch: c.Epoch, Index: []store.IndexOp{putNew("race", fmt.Sprint(key), id)}}})[0]
				if err == nil {
					mu.Lock()
					winners[key] = append(winners[key], id)
					mu.Unlock()
				} else if !errors.Is(err, store.ErrExists) {
					errs[i] = err
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		k.Errorf("%v", err)
	}
	for key, w := range winners {
		if len(w) != 1 {
			k.Errorf("key %d has winners %q, want one", key, w)
			continue
		}
		k.value("race", fmt.Sprint(key), []byte(w[0]))
	}
}

// callsInsideIteration has many iterations under way, in each of which other
// calls are made: an engine that keeps a lock or a connection for an iteration
// comes to a stand.
func callsInsideIteration(k *kit) {
	const loops = 12
	errs := make([]error, loops)
	var wg sync.WaitGroup
	for i := range loops {
		id := fmt.Sprintf("s%02d", i)
		k.grow(id, 4, 100)
		k.ops(putOp("k"+id, "a", "1"), putOp("k"+id, "b", "2"))
		wg.Go(func() {
			n := 0
			for e, err := range k.s.Scan(k.ctx, store.Scan{Kind: "k" + id}) {
				if err == nil {
					_, err = k.s.Get(k.ctx, e.Kind, e.Key)
				}
				if err == nil {
					err = appendWhileReading(k.ctx, k.s, id)
				}
				errs[i] = errors.Join(errs[i], err)
				n++
			}
			if n != 2 {
				errs[i] = errors.Join(errs[i], fmt.Errorf("a scan yields %d entries, want 2", n))
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		k.Errorf("%v", err)
	}
}

// appendWhileReading appends a record for each that it reads.
func appendWhileReading(ctx context.Context, s store.Store, id string) error {
	c, err := s.Claim(ctx, id)
	if err != nil {
		return err
	}
	head := c.Head
	for _, err := range s.Read(ctx, id, store.Range{Before: head.Sequence + 1}) {
		if err != nil {
			return err
		}
		r := Continue(id, head, 1, 100)
		if err := s.Append(ctx, []*store.Batch{{SessionID: id, Epoch: c.Epoch, Records: r}})[0]; err != nil {
			return err
		}
		head = HeadOf(r)
	}
	if head.Sequence != 2*c.Head.Sequence {
		return fmt.Errorf("the head is %d after a loop over %d records that appends one for each", head.Sequence, c.Head.Sequence)
	}
	return nil
}

func followEnds(k *kit) {
	ctx, cancel := context.WithCancel(k.ctx)
	ended := make(chan error)
	go func() {
		_, err := drainSeq(k.s.Follow(ctx))
		ended <- err
	}()
	k.grow("s", 3, 100)
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		k.Errorf("Follow ended with %v", err)
	}
}
