package main

import (
	"testing"

	"agentd/command"
	"agentd/event"
)

// dueScript asks, fails to end, and answers at once what nothing else is said about.
const dueScript = `repeat: true
answers:
  - {when: {contains: colour}, ask: {prompt: Which colour?, schema: {type: string}}}
  - {when: {contains: stay}, text: never, stall: 1h}
  - {text: done}
`

// TestWhatIsDueHappensElsewhere kills a node that has work which waits for a time, or for other
// work. Another node does all of it when it is due, without being asked.
func TestWhatIsDueHappensElsewhere(t *testing.T) {
	// The node is dead before the deadline and the retry are due, also on a busy machine; if it
	// isn't, that row is what the node did itself.
	const soon = 10_000
	f := newFleet(t, "1h", dueScript, "actions: {timeout: 10s}")
	a, b := f.node(f.dir()), f.quick().node(f.dir())
	session := func() string { return call[command.CreateSessionResult](a, &command.CreateSession{}).SessionID }
	rows := []struct {
		name string
		// begin makes what waits at the node that is killed.
		begin func(sessionID string)
		// waits is the fact that says so, and then what another node says when it did it.
		waits, done event.Type
	}{
		{"a schedule is due", func(id string) {
			call[command.ScheduleResult](a, &command.CreateSchedule{SessionID: id, EveryMs: 1000, Task: event.Raw(`{"objective":"hello"}`)})
		}, event.TypeScheduleCreated, event.TypeScheduleFired},
		{"an item of a job waits for another", func(id string) {
			call[command.JobResult](a, &command.CreateJob{SessionID: id, Instruction: "stay here", Concurrency: 1, Items: []command.JobItemInput{
				{Input: event.Raw(`"one"`)}, {Input: event.Raw(`"two"`)},
			}})
		}, event.TypeJobItemStarted, event.TypeJobCompleted},
		{"a question has a deadline", func(id string) { a.in(id, "", "a colour") }, event.TypeActionRequired, event.TypeActionResolved},
		{"an attempt waits to be made again", func(id string) {
			retry := command.TaskFields{RetryPolicy: &event.RetryPolicy{MaxAttempts: 2, BackoffMs: soon}}
			task := call[command.TaskResult](a, &command.CreateTask{SessionID: id, Objective: "again", Worker: "external", Start: true, TaskFields: retry})
			call[command.TaskResult](a, &command.FailTask{TaskID: task.TaskID, Error: &event.Failure{Message: "not yet", Retryable: true}})
		}, event.TypeTaskRetrying, event.TypeTaskAttemptStarted},
	}
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = session()
		row.begin(ids[i])
		b.until(ids[i], row.waits, 1)
	}
	f.kill(a)
	for i, row := range rows {
		page, err := b.client().Events(t.Context(), ids[i], 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		if row.waits != event.TypeScheduleCreated && b.hasFactSince(ids[i], row.done, row.waits) {
			t.Logf("%s: too late to kill the node before", row.name)
			continue
		}
		e := b.after(ids[i], page.LastSequence, row.done)
		t.Logf("%s: %s is fact %d", row.name, e.Type, e.Sequence)
	}
}

// hasFactSince reports whether a session has a fact after another one.
func (p *process) hasFactSince(sessionID string, typ, since event.Type) bool {
	p.t.Helper()
	seen := false
	for _, e := range p.eventsOf(sessionID) {
		if seen = seen || e.Type == since; seen && e.Type == typ {
			return true
		}
	}
	return false
}

// after waits for the first fact after a sequence, or for the first of a type there.
func (p *process) after(sessionID string, sequence uint64, typ event.Type) *event.Event {
	p.t.Helper()
	for e, err := range p.client().Follow(p.t.Context(), sessionID, sequence, nil) {
		if err != nil {
			p.t.Fatal(err)
		}
		if typ != "" && e.Type != typ {
			continue
		}
		d, err := e.Decode()
		if err != nil {
			p.t.Fatal(err)
		}
		return d
	}
	p.t.Fatalf("the events of %s ended", sessionID)
	return nil
}
