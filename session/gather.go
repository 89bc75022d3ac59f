package session

import (
	"runtime"
	"time"
)

// gathering is what the journal's leader knows of the groups before: whether it is worth a
// wait to commit with others. A commit costs a store over a network much more than a batch in
// it does, and each node that writes little by itself would make many.
//
// What a wait brings isn't known before, so it is tried: patience grows while waits bring
// batches, and is halved when one doesn't. Writers in step, who all come back at once, and a
// single one are then hardly ever waited for in vain.
type gathering struct {
	// last and before are the sizes of the last two groups.
	last, before int
	// patience is how long the leader waits, in eighths of the last commit's time; without any
	// it tries a short wait every so many rounds.
	patience, rounds int
	timer            *time.Timer
	// full is sent to, at most once for each wait, when enough wait.
	full chan struct{}
}

const (
	// mostPatience is as long as the last commit took.
	mostPatience = 8
	// probeEach is in how many rounds an impatient leader tries a wait.
	probeEach = 16
	// longestGather bounds a wait, however long a commit takes.
	longestGather = 4 * time.Millisecond
)

func newGathering() gathering {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return gathering{timer: t, full: make(chan struct{}, 1)}
}

func (g *gathering) grouped(n int) { g.before, g.last = g.last, n }

// limit is how long the leader may wait in this round.
func (g *gathering) limit(took time.Duration) time.Duration {
	g.rounds++
	eighths := g.patience
	if eighths == 0 && g.rounds%probeEach == 0 {
		eighths = 1
	}
	return min(took*time.Duration(eighths)/mostPatience, longestGather)
}

// learn adapts patience to what a wait brought. Those who waited before came in the time of the
// last commit: if they keep coming, at half of that rate at least, the next wait is longer.
func (g *gathering) learn(had, came int, waited, took time.Duration) {
	if 2*time.Duration(came)*took >= time.Duration(had)*waited {
		g.patience = min(g.patience+1, mostPatience)
	} else {
		g.patience /= 2
	}
}

// gather lets others run for a moment while fewer than half as many wait as were in the group
// before: most of those who were just answered come back at once, and one commit for all of
// them is cheaper than two. Then it waits for those of the group before that one, as long as
// that brings some. With one session no other is expected, and it doesn't wait.
func (j *journal) gather() {
	const turns = 32
	g := &j.gathering
	for range turns {
		if 2*j.waiting() >= g.last {
			break
		}
		runtime.Gosched()
	}
	if g.last < 2 {
		return
	}
	limit := g.limit(j.lastTook)
	if limit == 0 {
		return
	}
	j.mu.Lock()
	had := len(j.queue)
	if had >= g.last+g.before {
		j.mu.Unlock()
		return
	}
	j.enough = g.last + g.before
	j.mu.Unlock()
	began := time.Now()
	g.timer.Reset(limit)
	select {
	case <-g.full:
	case <-g.timer.C:
	}
	g.timer.Stop()
	j.mu.Lock()
	if j.enough == 0 { // it was sent, perhaps at the same moment as the time was up
		select {
		case <-g.full:
		default:
		}
	}
	j.enough = 0
	came := len(j.queue) - had
	j.mu.Unlock()
	g.learn(had, came, time.Since(began), j.lastTook)
}
