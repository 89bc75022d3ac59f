package session

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// A session goes back and forth between this node, whose facts come at once, and
// another one, of which the node hears late, in order and merged. Whatever the
// order in which it hears, each fact is told once and in order, or it is said that
// this can't be done.
func TestNewsAreToldOnceAndInOrder(t *testing.T) {
	whole, given := 0, 0
	for seed := range uint64(2000) {
		if tellStory(t, rand.New(rand.NewPCG(seed, 0))) {
			whole++
		} else {
			given++
		}
	}
	if whole == 0 || given == 0 {
		t.Errorf("%d stories were told to their end, %d were not: both must happen", whole, given)
	}
}

func tellStory(t *testing.T, rng *rand.Rand) bool {
	t.Helper()
	var n news
	n.init()
	var waiting span // what the other node appended and this one has not heard of
	last, told := uint64(rng.IntN(3)), uint64(0)
	began := last
	take := func() {
		for _, id := range n.order {
			got := n.ranges[id]
			if told != 0 && got.first != told+1 {
				t.Fatalf("%d to %d came after %d", got.first, got.last, told)
			}
			if told == 0 && got.first != began+1 {
				t.Fatalf("the first that came is %d, the story began after %d", got.first, began)
			}
			told = got.last
		}
		clear(n.ranges)
		n.order = nil
	}
	for range 30 {
		facts := span{last + 1, last + 1 + uint64(rng.IntN(3))}
		if rng.IntN(2) == 0 {
			if last = facts.last; !n.add("s", facts) {
				return false
			}
		} else {
			if last = facts.last; waiting.first == 0 {
				waiting.first = facts.first
			}
			waiting.last = facts.last
		}
		if waiting.first != 0 && rng.IntN(3) > 0 {
			if !n.add("s", waiting) {
				return false
			}
			waiting = span{}
		}
		if rng.IntN(2) == 0 {
			if told == 0 && len(n.order) > 0 && n.ranges["s"].first > began+1 && waiting.first != 0 {
				if n.add("s", waiting) {
					t.Fatalf("%d to %d came late and were taken", waiting.first, waiting.last)
				}
				return false
			}
			take()
		}
	}
	if waiting.first != 0 && !n.add("s", waiting) {
		return false
	}
	take()
	if told != last {
		t.Fatalf("told up to %d of %d", told, last)
	}
	return true
}

func TestRecentForgetsTheOldest(t *testing.T) {
	r := recent[int]{keep: 10}
	for i := range 35 {
		r.put(fmt.Sprint(i), i)
		if v, ok := r.get("0"); !ok || v != 0 {
			t.Fatalf("what is asked for all the time is gone after %d", i)
		}
	}
	if _, ok := r.get("5"); ok {
		t.Error("what nobody asked for is still there")
	}
	if v, ok := r.get("34"); !ok || v != 34 {
		t.Error("the newest isn't there")
	}
	if n := len(r.young) + len(r.old); n > 20 {
		t.Errorf("%d entries", n)
	}
}
