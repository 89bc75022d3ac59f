package session

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"agentd/admission"
	"agentd/store"
)

// TestGroupsAreSharedByAccount: while several accounts write, one of them has a bounded part
// of a group, the others all of theirs, and each session keeps its order.
func TestGroupsAreSharedByAccount(t *testing.T) {
	synctest.Test(t, groupsAreShared) // who counts as writing depends on the clock
}

func groupsAreShared(t *testing.T) {
	j := newJournal(nil, admission.Options{}, nil)
	add := func(account, session string, n int) {
		for range n {
			p := j.begin()
			p.account, p.batch = account, store.Batch{SessionID: session, Epoch: uint64(len(j.queue))}
			j.enqueue(p)
		}
	}
	count := func() map[string]int {
		j.takeGroup()
		out := map[string]int{}
		last := map[string]uint64{}
		for _, p := range j.group {
			out[p.account]++
			if at := p.batch.Epoch; at < last[p.batch.SessionID] {
				t.Errorf("a batch of %s overtook another", p.batch.SessionID)
			} else {
				last[p.batch.SessionID] = at
			}
		}
		return out
	}
	add("noisy", "sess_0", 2000)
	if got := count(); got["noisy"] != maxGroup {
		t.Errorf("one account alone: %v", got)
	}
	j.queue = j.queue[:0]
	j.quantum.See("quiet", time.Now())
	for i := range 500 {
		add("noisy", fmt.Sprintf("sess_%d", i%7), 1)
	}
	add("quiet", "sess_q", 3)
	first := count()
	if first["quiet"] != 3 || first["noisy"] == 0 || first["noisy"] > 100 {
		t.Errorf("the first group: %v", first)
	}
	total := first["noisy"]
	for len(j.queue) > 0 {
		add("quiet", "sess_q", 1)
		got := count()
		if got["quiet"] != 1 {
			t.Fatalf("a later group: %v", got)
		}
		total += got["noisy"]
	}
	if total != 500 {
		t.Errorf("%d of 500 batches came through", total)
	}
}
