package takeover_test

import (
	"testing"
	"time"

	"agentd/store"
	"agentd/takeover"
)

// TestWhenDisplacedSessionsAreTried: each node after those before it, also if these do
// nothing, and all of them before one says that no node reaches the files.
func TestWhenDisplacedSessionsAreTried(t *testing.T) {
	const step = 100 * time.Millisecond
	start := time.Now()
	var last, strand time.Duration
	for turn := range 10 {
		var d takeover.Displacements
		tried := time.Duration(-1)
		for at := time.Duration(0); ; at += step {
			due := d.Due([]store.Displaced{{SessionID: "s", Turn: turn}}, start.Add(at))
			if len(due) > 0 && tried < 0 {
				tried = at
			}
			if len(due) == 0 || !due[0].Strand {
				continue
			}
			if turn == 0 {
				strand = at
			} else if at < 2*strand {
				t.Errorf("turn %d says after %v that no node reaches the files, the first after %v", turn, at, strand)
			}
			break
		}
		if tried < last || (turn < 3 && turn > 0 && tried == last) || tried > strand/2 {
			t.Errorf("turn %d tries after %v, the one before after %v", turn, tried, last)
		}
		last = tried
	}
}

// TestAbsenceIsCountedAnew: a session that another node had meanwhile is a new one.
func TestAbsenceIsCountedAnew(t *testing.T) {
	var d takeover.Displacements
	found, now := []store.Displaced{{SessionID: "s", Turn: 1}}, time.Now()
	d.Due(found, now)
	d.Due(nil, now.Add(time.Minute))
	if due := d.Due(found, now.Add(2*time.Minute)); len(due) > 0 {
		t.Errorf("it is tried at once: %v", due)
	}
}
