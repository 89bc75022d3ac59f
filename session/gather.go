package session

import (
	"runtime"
	"time"
)

// gathering is what the journal's leader goes by when it waits for others, so that they commit
// together: a commit costs much more than a batch in it does.
type gathering struct {
	// last is the size of the group before, others how many came while it was committed: not
	// those who were in it. As many will come again in the same time.
	last, others int
	timer        *time.Timer
	// full is sent to, at most once for each wait, when enough wait.
	full chan struct{}
}

const (
	// longestGather bounds a wait, which otherwise takes as long as the last commit.
	longestGather = 4 * time.Millisecond
	// worthIt is from how many batches on a wait brings nothing more: what they cost themselves
	// is most of a commit then.
	worthIt = 32
)

func newGathering() gathering {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return gathering{timer: t, full: make(chan struct{}, 1)}
}

// gather lets others run for a moment while no more than half as many wait as were in the group
// before: most of those who were just answered come back at once, and one commit for all of
// them is cheaper than two. If others came meanwhile, writers are not in step: then it waits
// until those of both have come, or as long as the last commit took. One session, or some that
// come back at once, are not waited for.
func (j *journal) gather() {
	const turns = 32
	g := &j.gathering
	for range turns {
		if 2*j.waiting() > g.last {
			break
		}
		runtime.Gosched()
	}
	if g.others == 0 {
		return
	}
	j.mu.Lock()
	enough := min(g.last+g.others, worthIt)
	if len(j.queue) >= enough {
		j.mu.Unlock()
		return
	}
	j.enough = enough
	j.mu.Unlock()
	g.timer.Reset(min(j.lastTook, longestGather))
	select {
	case <-g.full:
	case <-g.timer.C:
	}
	g.timer.Stop()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.enough == 0 { // it was sent, perhaps at the moment when the time was up
		select {
		case <-g.full:
		default:
		}
	}
	j.enough = 0
}

// committed notes how many were in a group, and how many came meanwhile that wait.
func (j *journal) committed() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.gathering.last, j.gathering.others = len(j.group), 0
	for _, p := range j.queue {
		if !p.unattended {
			j.gathering.others++
		}
	}
}
