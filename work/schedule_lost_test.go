package work

import (
	"fmt"
	"testing"

	"agentd/event"
	"agentd/state"
)

// TestRoomOfLostSessionsIsFree: what a node knows of tasks whose sessions other nodes have is
// forgotten, and their room is others'. A session that came back while the store was asked is
// kept, as is one of which nothing was to be forgotten.
func TestRoomOfLostSessionsIsFree(t *testing.T) {
	b, s := newBook(), newSlots(Limits{Runtime: 4})
	for _, sessionID := range []string{"sess_lost", "sess_back", "sess_told", "sess_ours"} {
		task := &state.Task{TaskID: "task_of_" + sessionID, ThreadID: "thread_of_" + sessionID, Status: state.TaskCancelling}
		b.addTask(sessionID, task)
		b.giveUp(task.TaskID, "process")
		s.set(place{task.TaskID, sessionID, "acme"}, true)
		s.wait(place{"task_behind_" + sessionID, sessionID, "acme"}, &state.Task{TaskID: "task_behind_" + sessionID})
	}
	if p, ok := s.next(); ok {
		t.Fatalf("there is no room, and %v was to start", p)
	}
	if !b.beginParting(s.sessions()) {
		t.Fatal("no session may be lost")
	}
	b.addTask("sess_back", &state.Task{TaskID: "task_of_sess_back"})
	b.recordFacts("sess_told", []event.Event{{Type: event.TypeTaskProgress}})
	b.partWith([]string{"sess_ours"}, s.drop)

	if len(b.open) != 3 || b.open["task_of_sess_lost"] != "" || len(b.threads) != 3 || len(b.stopping) != 3 || len(b.unreachable) != 3 {
		t.Errorf("it is known of tasks %v, threads %v, cancellations %v, processes %v", b.open, b.threads, b.stopping, b.unreachable)
	}
	if p, ok := s.next(); !ok || p.sessionID == "sess_lost" {
		t.Errorf("%v was to start, %v", p, ok)
	}
	if p, ok := s.next(); ok {
		t.Errorf("there was room for one, and %v was to start", p)
	}
	if got := fmt.Sprint(s.perSession["sess_lost"], s.perAccnt["acme"]); got != "0 4" {
		t.Errorf("the lost session and the account have %s places, want 0 4", got)
	}
	if b.beginParting(nil); len(b.silent) != 3 {
		t.Errorf("asked about %v", b.silent)
	}
}
