package main

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"agentd/command"
	"agentd/state"
)

// TestTasksOfSeveralNodes: a task that depends on tasks of other nodes is made once, is known at
// both ends, and begins when those have ended; also after its own node is lost.
func TestTasksOfSeveralNodes(t *testing.T) {
	f := newFleet(t, "3s", slow).quick()
	a, c := f.node(f.dir()), f.node(f.dir())
	first := call[command.TaskResult](c, &command.CreateTask{Objective: "comes first", Worker: "external", Start: true})
	second := call[command.TaskResult](c, &command.CreateTask{Objective: "comes second", Worker: "external", Start: true})
	// Neither a key nor an id: a repetition would be another task.
	waits := call[command.TaskResult](a, &command.CreateTask{Objective: "waits", DependsOn: []string{first.TaskID}, Worker: "external", Start: true})
	call[command.RelationshipsResult](a, &command.LinkTasks{TaskID: waits.TaskID, Kind: "blocked_by", TargetID: second.TaskID})

	if list := call[command.ListTasksResult](a, &command.ListTasks{}); len(list.Tasks) != 3 {
		t.Fatalf("%d tasks were made, want 3", len(list.Tasks))
	}
	for _, p := range []*process{a, c} {
		for _, id := range []string{first.TaskID, second.TaskID} {
			if edges := taskOn(p, id).Relationships; !slices.ContainsFunc(edges, func(r command.Relationship) bool {
				return r.Kind == "blocks" && r.TargetID == waits.TaskID
			}) {
				t.Errorf("task %s doesn't say what waits for it: %+v", id, edges)
			}
		}
	}
	call[command.RelationshipsResult](a, &command.UnlinkTasks{TaskID: waits.TaskID, Kind: "blocked_by", TargetID: second.TaskID})
	if edges := taskOn(c, second.TaskID).Relationships; len(edges) > 0 {
		t.Errorf("an edge that was taken away is still there: %+v", edges)
	}
	call[command.RelationshipsResult](a, &command.LinkTasks{TaskID: waits.TaskID, Kind: "blocked_by", TargetID: second.TaskID})

	// Through the node of the far end the whole is passed on, and the far end comes back.
	for _, far := range []string{first.TaskID, second.TaskID} {
		call[command.RelationshipsResult](c, &command.UnlinkTasks{TaskID: waits.TaskID, Kind: "blocked_by", TargetID: far})
		if edges := taskOn(a, far).Relationships; len(edges) > 0 {
			t.Errorf("an edge that was taken away from afar is still there: %+v", edges)
		}
		call[command.RelationshipsResult](c, &command.LinkTasks{TaskID: waits.TaskID, Kind: "blocked_by", TargetID: far})
		if edges := taskOn(a, far).Relationships; len(edges) != 1 {
			t.Errorf("an edge that was made from afar isn't there: %+v", edges)
		}
	}

	also := call[command.TaskResult](a, &command.CreateTask{Objective: "waits for one", DependsOn: []string{first.TaskID}, Worker: "external", Start: true})
	call[command.TaskResult](c, &command.CompleteTask{TaskID: first.TaskID})
	for taskOn(c, also.TaskID).Status != state.TaskRunning { // nothing tells its node but a look
		time.Sleep(50 * time.Millisecond)
	}
	if status := taskOn(c, waits.TaskID).Status; status != state.TaskBlocked {
		t.Errorf("the task is %s while one that it depends on goes on", status)
	}
	a.stop(syscall.SIGKILL) // its session is taken over, and the others stay where they are
	f.node(f.dir())
	call[command.TaskResult](c, &command.CompleteTask{TaskID: second.TaskID})
	for taskOn(c, waits.TaskID).Status != state.TaskRunning {
		time.Sleep(50 * time.Millisecond)
	}
}

// taskOn is a task as a node shows it.
func taskOn(p *process, id string) *command.TaskRecord {
	p.t.Helper()
	return call[command.TaskRecord](p, &command.GetTask{TaskID: id})
}
