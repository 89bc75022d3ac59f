package session

import (
	"fmt"
	"testing"
)

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
