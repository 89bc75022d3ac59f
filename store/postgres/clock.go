package postgres

import (
	"slices"
	"sync/atomic"
	"time"
)

// A machine's clock may jump: somebody sets it, or it is corrected after it was wrong. What
// is due by it then seems to be long ago, and a worker that is well seems to have been silent
// for long. So the time of a node goes on from where it was by what has passed, which doesn't
// jump, and at each renewal of the lease the two clocks are asked. Of three that disagree the
// one in the middle is right: a clock that jumped alone is outvoted, be it the machine's or
// the database's, and a machine that slept finds that both clocks went on.

const (
	// slewed is by how much the machine's clock may differ and is followed all the same: that
	// is how clocks are kept right.
	slewed = time.Second
	// skewed is from when on a difference to the database's clock is reported.
	skewed = 30 * time.Second
)

// reading is one look at the machine's clocks: the one that people set, and the one that only
// counts.
type reading struct {
	wall    time.Time
	elapsed time.Duration
}

// machineClock returns what reads the clocks of this machine.
func machineClock() func() reading {
	start := time.Now()
	return func() reading {
		now := time.Now()
		return reading{wall: now.Round(0), elapsed: now.Sub(start)}
	}
}

// nodeClock is the time of a node. The zero value is not ready for use.
type nodeClock struct {
	read func() reading
	at   atomic.Pointer[reading] // the node's time, at a moment
}

func newNodeClock(read func() reading) *nodeClock {
	c := &nodeClock{read: read}
	now := read()
	c.at.Store(&now)
	return c
}

// now returns the node's time.
func (c *nodeClock) now() time.Time {
	at, now := c.at.Load(), c.read()
	return at.wall.Add(now.elapsed - at.elapsed)
}

// compare takes in what the database's clock shows now, and returns how far it is ahead.
func (c *nodeClock) compare(database time.Time) time.Duration {
	at, now := c.at.Load(), c.read()
	own := at.wall.Add(now.elapsed - at.elapsed)
	if now.wall.Sub(own).Abs() > slewed {
		all := []time.Time{own, now.wall, database}
		slices.SortFunc(all, time.Time.Compare)
		now.wall = all[1].Round(0)
	}
	c.at.Store(&now)
	return database.Sub(now.wall)
}

// Now implements [store.Shared].
func (s *Store) Now() time.Time { return s.clock.now() }

// compareClocks takes in the database's time of a moment ago. A node whose clock is wrong
// does what is due at the wrong time, so that is reported.
func (s *Store) compareClocks(database time.Time) {
	off := s.clock.compare(database).Abs() > skewed
	if off && s.skewed.CompareAndSwap(false, true) {
		s.opts.Logger.Warn("postgres: the clock of this machine and the database's differ; what is due by the clock is done at the wrong time",
			"node", s.opts.NodeID, "here", s.clock.now().UTC(), "database", database.UTC())
	}
	if !off {
		s.skewed.Store(false)
	}
}
