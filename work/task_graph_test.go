package work_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/model/provider/script"
	"agentd/state"
)

func edges(t *state.Task, kind string) []string {
	var out []string
	for _, r := range t.Relationships {
		if r.Kind == kind {
			out = append(out, r.TargetID+" "+r.Status)
		}
	}
	return out
}

func TestDependenciesBlockAndRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t)
		first := k.hire("task_first", 0, nil)
		k.create(command.CreateTask{TaskID: "task_other"})
		k.create(command.CreateTask{TaskID: "task_b", DependsOn: []string{"task_first", "task_other"}}) // three sessions
		if run := k.start("task_b"); run.Status != state.TaskBlocked || run.RunID != "" {
			t.Fatalf("started: %+v", run)
		}
		if b := k.task("task_b"); !slices.Equal(b.Blockers, []string{"task_first", "task_other"}) {
			t.Errorf("blockers: %v", b.Blockers)
		}
		if e := edges(k.task("task_first"), "blocks"); !slices.Equal(e, []string{"task_b active"}) {
			t.Errorf("the other end: %v", e)
		}
		k.restart()
		ask[command.TaskResult](k, &command.CompleteTask{TaskID: "task_first", RunID: first})
		synctest.Wait()
		if b := k.task("task_b"); b.Status != state.TaskBlocked || !slices.Equal(edges(b, "blocked_by"), []string{"task_first satisfied", "task_other active"}) {
			t.Errorf("%s %v", b.Status, edges(b, "blocked_by"))
		}
		k.start("task_other")
		k.await("task_b", state.TaskCompleted)
		if e := edges(k.task("task_other"), "blocks"); !slices.Equal(e, []string{"task_b satisfied"}) {
			t.Errorf("the other end: %v", e)
		}
	})
}

func TestAFailedDependencyKeepsBlockingUntilItIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t)
		run := k.hire("task_a", 0, nil)
		k.create(command.CreateTask{TaskID: "task_b", DependsOn: []string{"task_a"}, Start: true})
		ask[command.TaskResult](k, &command.FailTask{TaskID: "task_a", RunID: run, Error: &event.Failure{Message: "no"}})
		synctest.Wait()
		if b := k.task("task_b"); b.Status != state.TaskBlocked || !slices.Equal(edges(b, "blocked_by"), []string{"task_a failed"}) {
			t.Errorf("%s %v", b.Status, edges(b, "blocked_by"))
		}
		again := ask[command.TaskRunResult](k, &command.RetryTask{TaskID: "task_a"})
		ask[command.TaskResult](k, &command.CompleteTask{TaskID: "task_a", RunID: again.RunID})
		k.await("task_b", state.TaskCompleted)
	})
}

func TestEdgesAreLinkedAndUnlinked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t)
		for _, id := range []string{"task_a", "task_b", "task_c"} {
			k.create(command.CreateTask{TaskID: id})
		}
		ask[command.RelationshipsResult](k, &command.LinkTasks{TaskID: "task_a", Kind: "blocks", TargetID: "task_b"})
		ask[command.RelationshipsResult](k, &command.LinkTasks{TaskID: "task_c", Kind: "blocked_by", TargetID: "task_b", Reason: "order"})
		before := k.sequences()
		for _, p := range []*command.LinkTasks{
			{TaskID: "task_a", Kind: "blocked_by", TargetID: "task_c"}, {TaskID: "task_c", Kind: "blocks", TargetID: "task_a"}, {TaskID: "task_a", Kind: "blocked_by", TargetID: "task_b"},
		} {
			k.refuse(fault.Conflict, p, "cycle")
		}
		k.refuse(fault.Conflict, &command.LinkTasks{TaskID: "task_a", Kind: "parent", TargetID: "task_b"}, "session")
		k.refuse(fault.NotFound, &command.LinkTasks{TaskID: "task_a", Kind: "blocks", TargetID: "task_none"}, "task_none")
		k.refuse(fault.NotFound, &command.LinkTasks{TaskID: "task_a", Kind: "assigned_thread", TargetID: "thread_none"}, "thread_none")
		k.refuse(fault.NotFound, &command.UnlinkTasks{TaskID: "task_a", Kind: "blocks", TargetID: "task_c"}, "task_c")
		ask[command.RelationshipsResult](k, &command.LinkTasks{TaskID: "task_a", Kind: "blocks", TargetID: "task_b"}) // again
		if after := k.sequences(); !equalMaps(before, after) {
			t.Errorf("refused edges left facts: %v %v", before, after)
		}
		if run := k.start("task_c"); run.Status != state.TaskBlocked {
			t.Fatalf("started: %+v", run)
		}
		ask[command.RelationshipsResult](k, &command.UnlinkTasks{TaskID: "task_b", Kind: "blocks", TargetID: "task_c"})
		k.await("task_c", state.TaskCompleted)
		if e := edges(k.task("task_c"), "blocked_by"); len(e) != 0 {
			t.Errorf("edges: %v", e)
		}
		res := ask[command.RelationshipsResult](k, &command.LinkTasks{TaskID: "task_c", Kind: "consumed_artifact", TargetID: "artifact_9"})
		if !slices.ContainsFunc(res.Relationships, func(r command.Relationship) bool { return r.Kind == "consumed_artifact" && r.TargetID == "artifact_9" }) {
			t.Errorf("edges: %+v", res)
		}
	})
}

func equalMaps(a, b map[string]uint64) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}

func TestCancelReachesChildrenAndSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t, script.Answer{Text: "slow", Stall: 2 * time.Hour})
		k.create(command.CreateTask{TaskID: "task_top", Start: true})
		k.create(command.CreateTask{TaskID: "task_mid", ParentTaskID: "task_top", Worker: "external", Start: true})
		k.create(command.CreateTask{TaskID: "task_low", ParentTaskID: "task_mid", Start: true})
		k.create(command.CreateTask{TaskID: "task_new", ParentTaskID: "task_mid"})
		k.refuse(fault.Conflict, &command.LinkTasks{TaskID: "task_top", Kind: "parent", TargetID: "task_low"}, "cycle")
		synctest.Wait()
		if res := ask[command.TaskResult](k, &command.CancelTask{TaskID: "task_top", Reason: "enough"}); res.Status != state.TaskCancelling {
			t.Errorf("cancelled: %+v", res)
		}
		for _, id := range []string{"task_top", "task_mid", "task_low", "task_new"} {
			c := k.await(id, state.TaskCancelled)
			types := k.factTypesOf(c)
			wish, end := slices.Index(types, event.TypeTaskCancelRequested), slices.Index(types, event.TypeTaskCancelled)
			if wish < 0 || wish > end || c.Cancel == nil {
				t.Errorf("%s: %v", id, types)
			}
			for _, a := range c.Attempts {
				if a.Status != state.AttemptCancelled {
					t.Errorf("%s: attempt %+v", id, a)
				}
			}
		}
		top, mid := k.task("task_top"), k.task("task_mid")
		if top.EndedAt.Before(mid.EndedAt) {
			t.Error("the parent settled before its child")
		}
		k.refuse(fault.Conflict, &command.CreateTask{Objective: "x", ParentTaskID: "task_top"}, "task_top", "cancelled")
		k.refuse(fault.Conflict, &command.CancelTask{TaskID: "task_top"}, "cancelled")
		k.refuse(fault.Conflict, &command.CompleteTask{TaskID: "task_mid"}, "stopped")
	})
}

func TestChildrenAreLeftAloneIfTheCancellationDoesNotPropagate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t)
		k.hire("task_top", 0, nil)
		k.create(command.CreateTask{TaskID: "task_child", ParentTaskID: "task_top"})
		no := false
		ask[command.TaskResult](k, &command.CancelTask{TaskID: "task_top", Propagate: &no})
		k.await("task_top", state.TaskCancelled)
		if c := k.task("task_child"); c.Status != state.TaskAccepted || c.Cancel != nil {
			t.Errorf("a child that was left alone is %s", c.Status)
		}
		k.start("task_child")
		k.await("task_child", state.TaskCompleted)
	})
}
