package storetest

import (
	"math"
	"sync"

	"agentd/store"
)

func epochChecks() []check {
	return []check{
		{"claim of a session that doesn't exist", claimNew},
		{"claim returns the head", claimHead},
		{"append without a claim is fenced", appendUnclaimed},
		{"append with another epoch is fenced", appendOtherEpoch},
		{"a second claim fences the first", claimFences},
		{"a claim of one session leaves others alone", claimLeavesOthers},
		{"release", testRelease},
		{"release of an old claim is ignored", releaseOld},
		{"epochs grow over a reopen", epochsOverReopen},
		{"concurrent claims get different epochs", claimConcurrently},
	}
}

func claimNew(k *kit) {
	c := k.claim("new")
	if c.Epoch == 0 {
		k.Errorf("Claim returned epoch 0, which must stay free for who has no claim")
	}
	if c.Head != (store.Head{}) {
		k.Errorf("Claim of a new session returned head %+v", c.Head)
	}
	k.requireRecords("new", nil)
}

func claimHead(k *kit) {
	for range 2 {
		records := k.grow("s", 3, 100)
		if c := k.claim("s"); c.Head != HeadOf(records) {
			k.Errorf("Claim returned head %d %.4x, want %d %.4x", c.Head.Sequence, c.Head.Hash, HeadOf(records).Sequence, HeadOf(records).Hash)
		}
		k.reopen()
	}
}

func appendUnclaimed(k *kit) {
	for _, epoch := range []uint64{0, 1, 2, math.MaxUint64} {
		k.refuse(&store.Batch{SessionID: "s", Epoch: epoch, Records: Records("s", 1, 1, 100)}, store.ErrFenced)
	}
	k.requireRecords("s", nil)
}

func appendOtherEpoch(k *kit) {
	c := k.claim("s")
	for _, epoch := range []uint64{0, c.Epoch - 1, c.Epoch + 1, math.MaxUint64} {
		k.refuse(&store.Batch{SessionID: "s", Epoch: epoch, Records: Records("s", 1, 1, 100)}, store.ErrFenced)
	}
	k.requireRecords("s", nil)
}

func claimFences(k *kit) {
	first := k.claim("s")
	all := Records("s", 1, 3, 100)
	k.mustAppend(&store.Batch{SessionID: "s", Epoch: first.Epoch, Records: all[:1]})
	second := k.claim("s")
	if second.Epoch <= first.Epoch {
		k.Fatalf("the second claim has epoch %d, the first %d", second.Epoch, first.Epoch)
	}
	k.refuse(&store.Batch{SessionID: "s", Epoch: first.Epoch, Records: all[1:2]}, store.ErrFenced)
	k.mustAppend(&store.Batch{SessionID: "s", Epoch: second.Epoch, Records: all[1:2]})
	k.refuse(&store.Batch{SessionID: "s", Epoch: first.Epoch, Records: all[2:]}, store.ErrFenced)
	k.mustAppend(&store.Batch{SessionID: "s", Epoch: second.Epoch, Records: all[2:]})
	k.requireRecords("s", all)
}

func claimLeavesOthers(k *kit) {
	a := k.claim("a")
	for range 3 {
		k.claim("b")
	}
	k.mustAppend(&store.Batch{SessionID: "a", Epoch: a.Epoch, Records: Records("a", 1, 1, 100)})
	b := k.claim("b")
	if a.Epoch != b.Epoch {
		k.refuse(&store.Batch{SessionID: "b", Epoch: a.Epoch, Records: Records("b", 1, 1, 100)}, store.ErrFenced)
	}
}

func testRelease(k *kit) {
	c := k.claim("s")
	all := Records("s", 1, 2, 100)
	k.mustAppend(&store.Batch{SessionID: "s", Epoch: c.Epoch, Records: all[:1]})
	k.release("s", c.Epoch)
	k.refuse(&store.Batch{SessionID: "s", Epoch: c.Epoch, Records: all[1:]}, store.ErrFenced)
	k.release("s", c.Epoch)
	k.release("never claimed", 1)
	next := k.claim("s")
	if next.Epoch <= c.Epoch || next.Head != HeadOf(all[:1]) {
		k.Errorf("the claim after a release is %+v, the one before had epoch %d", next, c.Epoch)
	}
	k.mustAppend(&store.Batch{SessionID: "s", Epoch: next.Epoch, Records: all[1:]})
	k.requireRecords("s", all)
}

func releaseOld(k *kit) {
	old := k.claim("s")
	now := k.claim("s")
	k.release("s", old.Epoch)
	k.mustAppend(&store.Batch{SessionID: "s", Epoch: now.Epoch, Records: Records("s", 1, 1, 100)})
}

func (k *kit) release(id string, epoch uint64) {
	k.Helper()
	if err := k.s.Release(k.ctx, id, epoch); err != nil {
		k.Errorf("Release(%s, %d): %v", id, epoch, err)
	}
}

// epochsOverReopen also claims sessions that never got a record: their epochs
// must be remembered too, or a former owner comes back to life.
func epochsOverReopen(k *kit) {
	k.grow("written", 1, 100)
	last := map[string]uint64{}
	for range 4 {
		for _, id := range []string{"written", "empty", "released"} {
			c := k.claim(id)
			if c.Epoch <= last[id] {
				k.Errorf("session %s: epoch %d after a reopen, it was %d before", id, c.Epoch, last[id])
			}
			if old := last[id]; old != 0 {
				k.refuse(&store.Batch{SessionID: id, Epoch: old, Records: Continue(id, c.Head, 1, 100)}, store.ErrFenced)
			}
			last[id] = c.Epoch
		}
		k.release("released", last["released"])
		k.reopen()
	}
}

func claimConcurrently(k *kit) {
	const claimers = 8
	claims := make([]store.Claim, claimers)
	errs := make([]error, claimers)
	var wg sync.WaitGroup
	for i := range claimers {
		wg.Go(func() { claims[i], errs[i] = k.s.Claim(k.ctx, "s") })
	}
	wg.Wait()
	winner, seen := uint64(0), map[uint64]bool{}
	for i, c := range claims {
		if errs[i] != nil || seen[c.Epoch] {
			k.Fatalf("concurrent claim %d: %+v, %v; epochs so far %v", i, c, errs[i], seen)
		}
		seen[c.Epoch] = true
		winner = max(winner, c.Epoch)
	}
	for _, c := range claims {
		if c.Epoch != winner {
			k.refuse(&store.Batch{SessionID: "s", Epoch: c.Epoch, Records: Records("s", 1, 1, 100)}, store.ErrFenced)
		}
	}
	k.mustAppend(&store.Batch{SessionID: "s", Epoch: winner, Records: Records("s", 1, 1, 100)})
}
