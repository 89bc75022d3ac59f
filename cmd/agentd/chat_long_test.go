package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"agentd/client"
	"agentd/command"
	"agentd/event"
)

// TestChatOpensLongSessions: what a client reads when it takes up a session doesn't depend
// on how long the session is.
func TestChatOpensLongSessions(t *testing.T) {
	for _, queued := range []bool{false, true} {
		short, long := opened(t, 40, 24, queued), opened(t, 160, 24, queued)
		t.Logf("%d bytes for 40 turns, %d for 160", short, long)
		if long > 3*short { // all of it is more than four times as much
			t.Errorf("%d bytes are read for 40 turns, %d for 160; they were queued: %t", short, long, queued)
		}
	}
}

// TestLongChatOpensTenThousandTurns is the same with a session as long as they get.
func TestLongChatOpensTenThousandTurns(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("skipped: a session of 10,000 turns; set AGENTD_TEST_LONG")
	}
	short, long := opened(t, 40, 40, false), opened(t, 10_000, 40, false)
	t.Logf("%d bytes for 40 turns, %d for 10,000", short, long)
	if long > short+short/4 {
		t.Errorf("%d bytes are read for 40 turns, %d for 10,000", short, long)
	}
}

// opened makes a session of so many turns, one after the other or all queued at once, opens
// it at a terminal, and returns how many bytes the client read until its newest turn
// was on the screen.
func opened(t *testing.T, turns, rows int, queued bool) int64 {
	t.Helper()
	dir := play(t, featureScript)
	p := start(t, filepath.Join(dir, "data"), "--config", filepath.Join(dir, "c.yaml"))
	p.submitMany(turns, queued)
	c := atTerminal(t, rows*3, rows, p.chat(t, dir, "--session", "long"))
	c.does(step{sees: "› again"}, step{sees: "1 step"}, step{sees: idle})
	n := c.bytesRead()
	c.leave()
	p.stop(syscall.SIGTERM)
	return n
}

// bytesRead is how much the program has read so far, from its server above all.
func (c *console) bytesRead() int64 {
	c.t.Helper()
	counters, err := os.ReadFile("/proc/" + strconv.Itoa(c.cmd.Process.Pid) + "/io")
	if err != nil {
		c.t.Skip("skipped: this system doesn't count what a program reads")
	}
	var n int64
	if _, err := fmt.Sscanf(string(counters), "rchar: %d", &n); err != nil {
		c.t.Fatal(err)
	}
	return n
}

// submitMany submits turns to the session "long" and waits for their end.
func (p *process) submitMany(turns int, queued bool) {
	p.t.Helper()
	submitted := 0
	submit := func() {
		params := submitParams(p.t, "again")
		params.SessionID, params.Create = "long", submitted == 0
		if _, err := client.Call[command.SubmitTurnResult](p.t.Context(), p.client(), params); err != nil {
			p.t.Fatal(err)
		}
		submitted++
	}
	for submit(); queued && submitted < turns; {
		submit()
	}
	ended := 0
	for e, err := range p.client().Follow(p.t.Context(), "long", 0, nil) {
		if err != nil {
			p.t.Fatal(err)
		}
		if e.Type != event.TypeTurnCompleted {
			continue
		}
		if ended++; ended == turns {
			return
		}
		if !queued {
			submit()
		}
	}
}
