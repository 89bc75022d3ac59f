package collector

import (
	"runtime"
	"testing"
)

func TestLimitFollowsWhatIsInUse(t *testing.T) {
	for live, want := range map[uint64]int64{0: 320, 1 << 20: 320, 176 << 20: 320, 200 << 20: 392, 4 << 30: 12080} {
		if got := limitFor(live); got>>20 != want {
			t.Errorf("%d MiB in use: %d, want %d", live>>20, got>>20, want)
		}
	}
}

// A heap that grows large may have more, and one that shrinks less again.
func TestCollectionsAreFollowed(t *testing.T) {
	if inForce.Load() == 0 {
		t.Skip("skipped: GOGC or GOMEMLIMIT is set, and goes before what is tested")
	}
	until := func(ok func(limit int64) bool) {
		for !ok(inForce.Load()) {
			runtime.GC()
		}
	}
	large := make([]byte, 300<<20)
	until(func(limit int64) bool { return limit > 500<<20 })
	runtime.KeepAlive(large) // and not longer
	until(func(limit int64) bool { return limit == smallProcess })
}
