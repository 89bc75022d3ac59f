package main

import (
	"testing"
	"time"

	"agentd/command"
	"agentd/event"
)

// TestScheduleThatCameBack: a schedule is paused on one node and resumed on another while the
// first is drained. Then it runs on the first again, which slept over it meanwhile.
func TestScheduleThatCameBack(t *testing.T) {
	f := newFleet(t, "1h", slow)
	here := t.TempDir()
	const script = "repeat: true\nanswers: [{text: done}]"
	a := f.placed("node-a", here, script, "").node(f.dir())
	b := f.placed("node-b", here, script, "").node(f.dir())
	id := call[command.CreateSessionResult](a, &command.CreateSession{}).SessionID
	s := call[command.ScheduleResult](a, &command.CreateSchedule{SessionID: id, EveryMs: 1000, Task: event.Raw(`{"objective":"hello"}`)})
	a.until(id, event.TypeTurnCompleted, 1)
	call[command.ScheduleResult](a, &command.PauseSchedule{ScheduleID: s.ScheduleID})
	moves := func(from, to string) {
		t.Helper()
		b.drains(from, false)
		for f.ownerOf(id) != to {
			time.Sleep(50 * time.Millisecond)
		}
	}
	moves("node-a", "node-b")
	call[command.ScheduleResult](b, &command.ResumeSchedule{ScheduleID: s.ScheduleID})
	b.drains("node-a", true)
	moves("node-b", "node-a")
	ran := call[command.ListTurnsResult](b, &command.ListTurns{SessionID: id}).Total
	a.until(id, event.TypeTurnCompleted, int(ran)+2)
}
