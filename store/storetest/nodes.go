package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"agentd/store"
)

func nodesChecks() []check {
	return []check{
		{"a session with a live owner is refused", nodeOwned},
		{"release lets another node in", nodeRelease},
		{"another node takes over from a closed one", nodeTakeOver},
		{"what one node wrote the other reads", nodeReads},
		{"one of many gets a key, on two nodes", nodeKeyRace},
		{"one of two gets a meta name", nodeMetaRace},
		{"follow covers every append of the other node", nodeFollow},
	}
}

// on returns the kit working with another node's store.
func (k *kit) on(s store.Store) *kit {
	c := *k
	c.s = s
	return &c
}

func nodeOwned(k *kit) {
	b := k.other()
	c := k.claim("s")
	_, err := b.Claim(k.ctx, "s")
	var owned *store.OwnedError
	if !errors.As(err, &owned) {
		k.Fatalf("Claim of a session that a live node owns: %v, want an *OwnedError", err)
	}
	if owned.SessionID != "s" || owned.Owner == "" {
		k.Errorf("the error is %+v, want session and owner", owned)
	}
	k.mustAppend(&store.Batch{SessionID: "s", Epoch: c.Epoch, Records: Records("s", 1, 1, 100)})
	again := k.claim("s") // the owner itself may
	k.mustAppend(&store.Batch{SessionID: "s", Epoch: again.Epoch, Records: Records("s", 2, 1, 100)})
	k.on(b).grow("t", 1, 100)
}

func nodeRelease(k *kit) {
	b := k.on(k.other())
	c := k.claim("s")
	all := Records("s", 1, 3, 100)
	k.mustAppend(&store.Batch{SessionID: "s", Epoch: c.Epoch, Records: all[:1]})
	k.release("s", c.Epoch)
	d := b.claim("s")
	if d.Epoch <= c.Epoch || d.Head != HeadOf(all[:1]) {
		k.Errorf("the other node's claim is %+v after epoch %d", d, c.Epoch)
	}
	k.refuse(&store.Batch{SessionID: "s", Epoch: c.Epoch, Records: all[1:2]}, store.ErrFenced)
	b.mustAppend(&store.Batch{SessionID: "s", Epoch: d.Epoch, Records: all[1:2]})
	k.release("s", c.Epoch) // a former owner's release is ignored
	b.mustAppend(&store.Batch{SessionID: "s", Epoch: d.Epoch, Records: all[2:]})
	k.requireRecords("s", all)
}

// nodeTakeOver waits as long as the engine's leases last, unless Close gave
// them up.
func nodeTakeOver(k *kit) {
	b := k.on(k.other())
	c := k.claim("s")
	all := Records("s", 1, 2, 100)
	k.mustAppend(&store.Batch{SessionID: "s", Epoch: c.Epoch, Records: all[:1]})
	if err := k.s.Close(); err != nil {
		k.Fatalf("Close: %v", err)
	}
	var d store.Claim
	for owned := (*store.OwnedError)(nil); ; {
		var err error
		if d, err = b.s.Claim(k.ctx, "s"); err == nil {
			break
		} else if !errors.As(err, &owned) {
			k.Fatalf("Claim of a dead node's session: %v", err)
		}
		time.Sleep(20 * time.Millisecond) // nothing tells when a lease ends
	}
	if d.Epoch <= c.Epoch || d.Head != HeadOf(all[:1]) {
		k.Errorf("the claim after take-over is %+v, want an epoch above %d and the head", d, c.Epoch)
	}
	b.refuse(&store.Batch{SessionID: "s", Epoch: c.Epoch, Records: all[1:]}, store.ErrFenced)
	b.mustAppend(&store.Batch{SessionID: "s", Epoch: d.Epoch, Records: all[1:]})
	b.requireRecords("s", all)
}

func nodeReads(k *kit) {
	b := k.on(k.other())
	batch := fullBatch(prepareAtomic(k).Epoch)
	b.requireRecords("s", Records("s", 1, 1, 300)) // whatever the node remembers from now on is old
	b.value("kind", "new", nil)
	k.mustAppend(batch)
	b.requireRecords("s", Records("s", 1, 3, 300))
	b.snapshotIs("s", "new", &batch.Snapshots[1])
	b.value("kind", "new", []byte("new"))
	b.value("kind", "removed", nil)
	b.blobIs(refOf(batch.Blobs[0]), batch.Blobs[0])
	large := random(41, 3*store.ChunkSize)
	b.putBlob(large)
	k.blobIs(refOf(large), large)
	if got := b.sessionsAfter(""); len(got) != 1 || got[0] != "s" {
		k.Errorf("the other node's Sessions are %q", got)
	}
}

func nodeKeyRace(k *kit) {
	raceForKey(k, []store.Store{k.s, k.other()}, "racer")
}

func nodeMetaRace(k *kit) {
	nodes := []store.Store{k.s, k.other()}
	for round := range 10 {
		var values [4][]byte
		var errs [4]error
		var wg sync.WaitGroup
		for i := range values {
			wg.Go(func() {
				values[i], errs[i] = nodes[i%2].SetMeta(k.ctx, fmt.Sprintf("name%d", round), fmt.Appendf(nil, "%d", i))
			})
		}
		wg.Wait()
		for i, v := range values {
			if errs[i] != nil || !bytes.Equal(v, values[0]) {
				k.Errorf("round %d: SetMeta returned %q, %v to one and %q to another", round, v, errs[i], values[0])
			}
		}
	}
}

// followRounds is how often nodeFollow appends to each of its sessions.
const followRounds = 10

func nodeFollow(k *kit) {
	f := startFollow(k.ctx, k.other())
	defer f.stop()
	for !f.sawAny() { // from the first hint on nothing may be missed
		k.grow("warm", 1, 50)
		f.wait(20 * time.Millisecond)
	}
	want := map[string]uint64{}
	for round := range followRounds {
		for i := range 5 {
			id := fmt.Sprintf("s%d", i)
			want[id] = HeadOf(k.grow(id, 2, 50)).Sequence
		}
		if round > 0 {
			continue
		}
		// The hints after this one have to go on from it.
		if err := f.until(k.ctx, map[string]uint64{"s0": want["s0"]}); err != nil {
			k.Fatalf("%v", err)
		}
	}
	if err := f.until(k.ctx, want); err != nil {
		k.Errorf("%v", err)
	}
}

// follow gathers hints.
type follow struct {
	cancel context.CancelFunc
	signal chan struct{}
	ended  chan struct{}

	mu   sync.Mutex
	seen map[string]uint64
	err  error
}

func startFollow(ctx context.Context, s store.Store) *follow {
	ctx, cancel := context.WithCancel(ctx)
	f := &follow{cancel: cancel, signal: make(chan struct{}, 1), ended: make(chan struct{}), seen: map[string]uint64{}}
	go func() {
		defer close(f.ended)
		for a, err := range s.Follow(ctx) {
			f.noteAppended(a, err)
		}
	}()
	return f
}

func (f *follow) noteAppended(a store.Appended, err error) {
	f.mu.Lock()
	if err != nil {
		f.err = err
	} else {
		if seen := f.seen[a.SessionID]; seen > 0 && a.First > seen+1 {
			f.err = fmt.Errorf("a hint of session %s stands for %d to %d, and nothing stood for what is between %d and that", a.SessionID, a.First, a.Sequence, seen)
		} else {
			f.seen[a.SessionID] = max(seen, a.Sequence)
		}
	}
	f.mu.Unlock()
	select {
	case f.signal <- struct{}{}:
	default:
	}
}

func (f *follow) sawAny() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.seen) > 0 || f.err != nil
}

// wait returns when there may be news, or after d.
func (f *follow) wait(d time.Duration) {
	select {
	case <-f.signal:
	case <-f.ended:
	case <-time.After(d):
	}
}

// missing returns a session that is not yet covered.
func (f *follow) missing(want map[string]uint64) (id string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range sortedKeys(want) {
		if f.seen[id] < want[id] {
			return id, f.err
		}
	}
	return "", nil
}

// until returns when every session is covered, or says why that won't happen.
func (f *follow) until(ctx context.Context, want map[string]uint64) error {
	for {
		id, err := f.missing(want)
		if id == "" {
			return nil
		}
		if err != nil {
			return fmt.Errorf("following session %s: %w", id, err)
		}
		select {
		case <-f.signal:
		case <-f.ended:
			return fmt.Errorf("Follow ended before session %s was covered: %w", id, err)
		case <-ctx.Done():
			return fmt.Errorf("no hint for session %s up to sequence %d", id, want[id])
		}
	}
}

func (f *follow) stop() {
	f.cancel()
	<-f.ended
}
