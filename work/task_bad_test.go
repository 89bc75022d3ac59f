package work_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/state"
	"agentd/work"
)

// TestBadInputChangesNothing gives every command what it must refuse: unknown ids,
// another account's task, tasks that are over, and parameters that can't be meant.
func TestBadInputChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t)
		run := k.hire("task_over", 0, nil)
		ask[command.TaskResult](k, &command.CompleteTask{TaskID: "task_over", RunID: run})
		k.create(command.CreateTask{TaskID: "task_new"})
		k.hire("task_busy", 0, nil)
		k.create(command.CreateTask{TaskID: "task_old"})
		ask[command.TaskResult](k, &command.CancelTask{TaskID: "task_old"})
		ask[command.TaskResult](k, &command.ArchiveTask{TaskID: "task_old"})
		synctest.Wait()
		before := k.sequences()
		bad := &event.Failure{Message: "no"}
		onOne := func(id string) []command.Params {
			return []command.Params{
				&command.UpdateTask{TaskID: id, TaskFields: command.TaskFields{Title: "x"}}, &command.StartTask{TaskID: id}, &command.RetryTask{TaskID: id},
				&command.AppendTaskProgress{TaskID: id, Progress: &event.Progress{}}, &command.PauseTask{TaskID: id}, &command.ResumeTask{TaskID: id},
				&command.CancelTask{TaskID: id}, &command.CompleteTask{TaskID: id}, &command.FailTask{TaskID: id, Error: bad}, &command.ArchiveTask{TaskID: id},
				&command.LinkTasks{TaskID: id, Kind: "blocked_by", TargetID: "task_new"}, &command.UnlinkTasks{TaskID: id, Kind: "blocks", TargetID: "task_new"},
			}
		}
		stranger := command.Caller{Account: "stranger", Actor: event.Actor{Kind: "user", ID: "mallory"}}
		for _, p := range append(onOne("task_none"), &command.GetTask{TaskID: "task_none"}) {
			k.refuse(fault.NotFound, p, "task_none")
		}
		for _, p := range append(onOne("task_busy"), &command.GetTask{TaskID: "task_busy"}, &command.CreateTask{Objective: "x", ParentTaskID: "task_busy"}, &command.CreateTask{Objective: "x", DependsOn: []string{"task_busy"}}) {
			k.refuseTo(stranger, fault.NotFound, p, "there is no task task_busy")
		}
		for _, p := range onOne("task_old")[:10] {
			k.refuse(fault.Conflict, p, "archived")
		}
		for _, p := range []command.Params{
			&command.StartTask{TaskID: "task_over"}, &command.AppendTaskProgress{TaskID: "task_over", RunID: run, Progress: &event.Progress{}},
			&command.PauseTask{TaskID: "task_over"}, &command.ResumeTask{TaskID: "task_over"}, &command.CancelTask{TaskID: "task_over"},
			&command.CompleteTask{TaskID: "task_over"}, &command.FailTask{TaskID: "task_over", RunID: run, Error: bad},
			&command.UpdateTask{TaskID: "task_over", Objective: "another"}, &command.LinkTasks{TaskID: "task_over", Kind: "blocked_by", TargetID: "task_new"},
			&command.CreateTask{Objective: "x", ParentTaskID: "task_over"},
		} {
			k.refuse(fault.Conflict, p, "completed")
		}
		for _, p := range []command.Params{
			&command.RetryTask{TaskID: "task_new"}, &command.PauseTask{TaskID: "task_new"}, &command.CompleteTask{TaskID: "task_new"},
			&command.FailTask{TaskID: "task_new", Error: bad}, &command.ArchiveTask{TaskID: "task_new"}, &command.AppendTaskProgress{TaskID: "task_new", Progress: &event.Progress{}},
		} {
			k.refuse(fault.Conflict, p, "accepted")
		}
		for _, p := range []command.Params{
			&command.StartTask{TaskID: "task_busy"}, &command.RetryTask{TaskID: "task_busy"}, &command.ArchiveTask{TaskID: "task_busy"},
			&command.LinkTasks{TaskID: "task_busy", Kind: "blocked_by", TargetID: "task_new"},
		} {
			k.refuse(fault.Conflict, p, "running")
		}
		k.refuse(fault.NotFound, &command.CompleteTask{TaskID: "task_busy", RunID: "run_none"}, "run_none")
		k.refuse(fault.NotFound, &command.CreateTask{Objective: "x", SessionID: "sess_none"}, "sess_none")
		k.refuse(fault.NotFound, &command.CreateTask{Objective: "x", DependsOn: []string{"task_none"}}, "task_none")
		k.refuse(fault.NotFound, &command.ListTasks{ParentTaskID: "task_none"}, "task_none")
		k.refuse(fault.NotFound, &command.ListTasks{SessionID: "sess_none"}, "sess_none")
		k.refuse(fault.Conflict, &command.CreateTask{TaskID: "task_new", Objective: "another"}, "different parameters")
		k.refuse(fault.Conflict, &command.CompleteTask{TaskID: "task_busy", DeliveryState: &command.Delivery{DeliveryState: event.DeliveryState{Status: "pending"}}}, "delivery", "pending")
		k.refuse(fault.InvalidParams, &command.CompleteTask{TaskID: "task_busy", Acceptance: []command.CriterionResult{{ID: "none", Status: "satisfied"}}}, "none")
		k.refuse(fault.InvalidParams, &command.CreateTask{Objective: strings.Repeat("x", 1<<20+1)}, "objective")
		k.refuse(fault.Conflict, &command.CreateTask{TaskID: "task_x", Objective: "x", DependsOn: []string{"task_x"}}, "cycle")
		k.refuse(fault.InvalidParams, &command.UpdateTask{TaskID: "task_busy", TaskFields: command.TaskFields{Acceptance: []command.Criterion{{Description: "x", Status: "waived"}}}}, "reason")
		if after := k.sequences(); !equalMaps(before, after) {
			t.Errorf("what was refused left facts: %v %v", before, after)
		}
	})
}

func TestImplicitTasksAreLeftToTheirTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t)
		turn := ask[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: "sess_a", Create: true, Input: event.Raw(`"hi"`)})
		k.await(turn.TaskID, state.TaskCompleted)
		k.refuse(fault.Conflict, &command.RetryTask{TaskID: turn.TaskID}, turn.TurnID)
		k.refuse(fault.Conflict, &command.ArchiveTask{TaskID: turn.TaskID}, turn.TurnID)
		if got := k.factTypesOf(k.task(turn.TaskID)); len(got) != 5 {
			t.Errorf("facts: %v", got)
		}
	})
}

func TestRepeatedCommandsGiveTheFirstResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t)
		first := k.create(command.CreateTask{TaskID: "task_a", Worker: "external", Objective: "x"})
		run := ask[command.TaskRunResult](k, &command.StartTask{TaskID: "task_a", Mutation: command.Mutation{IdempotencyKey: "k1"}})
		before := k.sequences()
		if again := k.create(command.CreateTask{TaskID: "task_a", Worker: "external", Objective: "x"}); *again != *first {
			t.Errorf("created %+v, then %+v", first, again)
		}
		if again := ask[command.TaskRunResult](k, &command.StartTask{TaskID: "task_a", Mutation: command.Mutation{IdempotencyKey: "k1"}}); *again != *run {
			t.Errorf("started %+v, then %+v", run, again)
		}
		k.refuse(fault.Conflict, &command.StartTask{TaskID: "task_a", Reason: "other", Mutation: command.Mutation{IdempotencyKey: "k1"}}, "different parameters")
		if after := k.sequences(); !equalMaps(before, after) {
			t.Errorf("repeats left facts: %v %v", before, after)
		}
		stranger := command.Caller{Account: "stranger", Actor: event.Actor{Kind: "user"}}
		k.refuseTo(stranger, fault.Conflict, &command.CreateTask{TaskID: "task_a", Worker: "external", Objective: "x"}, "can't be used here")
	})
}

func TestEndedTasksThatLeftTheWorkingSetAreStillThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t)
		ask[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
		var ids []string
		for range 30 {
			id := k.create(command.CreateTask{SessionID: "sess_a", Worker: "external", Start: true}).TaskID
			ask[command.TaskResult](k, &command.CompleteTask{TaskID: id})
			ids = append(ids, id)
		}
		k.restart()
		if old := k.task(ids[0]); old.Status != state.TaskCompleted || len(old.Attempts) != 1 {
			t.Errorf("an old task: %+v", old)
		}
		k.refuse(fault.Conflict, &command.PauseTask{TaskID: ids[0]}, "completed")
		again := ask[command.TaskRunResult](k, &command.RetryTask{TaskID: ids[0]})
		if again.AttemptCount != 2 {
			t.Errorf("retried: %+v", again)
		}
		ask[command.TaskResult](k, &command.ArchiveTask{TaskID: ids[1]})
		page := ask[work.ListTasksResult](k, &command.ListTasks{SessionID: "sess_a", Page: command.Page{Limit: 20}})
		rest := ask[work.ListTasksResult](k, &command.ListTasks{SessionID: "sess_a", Page: command.Page{Limit: 20, Cursor: page.NextCursor}})
		if len(page.Tasks) != 20 || len(rest.Tasks) != 9 || rest.NextCursor != "" {
			t.Errorf("pages of %d and %d tasks, then %q", len(page.Tasks), len(rest.Tasks), rest.NextCursor)
		}
		running := ask[work.ListTasksResult](k, &command.ListTasks{Status: "running"})
		if len(running.Tasks) != 1 || running.Tasks[0].TaskID != ids[0] {
			t.Errorf("running: %+v", running.Tasks)
		}
	})
}
