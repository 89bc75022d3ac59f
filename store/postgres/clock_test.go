package postgres

import (
	"testing"
	"time"
)

// TestClockOfANode has clocks jump, one of three at a time: the node's time goes on.
func TestClockOfANode(t *testing.T) {
	const hour, beat = time.Hour, 3 * time.Second
	start := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for _, x := range []struct {
		name string
		// wall and database are how far the clocks are from what they were, slept is for how
		// long nothing was counted, and want how far the node's time is then.
		wall, database, slept, want time.Duration
	}{
		{name: "nothing"},
		{name: "the machine's clock jumps ahead", wall: hour},
		{name: "the machine's clock jumps back", wall: -hour},
		{name: "the machine's clock is corrected", wall: 200 * time.Millisecond, want: 200 * time.Millisecond},
		{name: "the database's clock jumps ahead", database: hour},
		{name: "the database's clock jumps back", database: -hour},
		{name: "the machine sleeps", wall: hour, database: hour, slept: hour, want: hour},
		{name: "both jump, one of them more", wall: 2 * hour, database: hour, want: hour},
	} {
		now := reading{wall: start, elapsed: beat}
		c := newNodeClock(func() reading { return now })
		c.compare(start)
		jump := func() {
			now.wall, now.elapsed = now.wall.Add(beat+x.wall), now.elapsed+beat
		}
		jump()
		if got := c.now().Sub(start); x.slept == 0 && got != beat {
			t.Errorf("%s: at once the time is %v later, %v have passed", x.name, got, beat)
		}
		off := c.compare(start.Add(beat + x.database))
		if got := c.now().Sub(start); got != beat+x.want || off != x.database-x.want {
			t.Errorf("%s: the time is %v later, %v off; want %v", x.name, got, off, beat+x.want)
		}
		now.wall, now.elapsed = now.wall.Add(beat), now.elapsed+beat
		c.compare(start.Add(2*beat + x.database))
		if got := c.now().Sub(start); got != 2*beat+x.want {
			t.Errorf("%s: a renewal later it is %v; want %v", x.name, got, 2*beat+x.want)
		}
	}
}

// TestClockThatWasWrongIsCorrected: a machine that started with a wrong clock has the right
// time once its clock has.
func TestClockThatWasWrongIsCorrected(t *testing.T) {
	right := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	now := reading{wall: right.Add(time.Hour)}
	c := newNodeClock(func() reading { return now })
	if off := c.compare(right); off != -time.Hour {
		t.Errorf("the database's clock is %v ahead", off)
	}
	now.wall = right
	if off := c.compare(right); off != 0 || !c.now().Equal(right) {
		t.Errorf("the time is %v, %v off", c.now(), off)
	}
}
