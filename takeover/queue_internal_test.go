package takeover

import (
	"errors"
	"testing"
	"time"

	"agentd/store"
)

// TestTakeUpsBackOff: a session that can't be taken up is due after a pause that doubles up to a
// bound, and at once after it could be. One that is being taken up isn't begun again.
func TestTakeUpsBackOff(t *testing.T) {
	takes, now := NewQueue(QueueOptions{}), time.Now()
	var whole time.Duration
	for try := range 30 {
		if !takes.beginTakeUp("s", now) {
			t.Fatalf("try %d isn't due after its pause", try)
		}
		if takes.beginTakeUp("s", now) {
			t.Fatalf("try %d is begun twice", try)
		}
		pause := takes.failTakeUp("s", now, store.ErrCorrupt)
		takes.endTakeUp("s")
		if takes.beginTakeUp("s", now.Add(pause-1)) {
			t.Fatalf("try %d is due before its pause of %v", try, pause)
		}
		now, whole = now.Add(pause), whole+pause
	}
	if whole < 20*retryLast/2 || takes.failed["s"].pause != retryLast {
		t.Errorf("30 tries take %v, the last pause is %v", whole, takes.failed["s"].pause)
	}
	if pause := takes.failTakeUp("s", now, errors.New("x")); pause != retryLast {
		t.Errorf("the pause is %v", pause)
	}
	takes.forgetFailure("s")
	if !takes.beginTakeUp("s", now) {
		t.Error("a session that was taken up isn't due")
	}
}
