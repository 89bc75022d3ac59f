package work_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/model/provider/script"
	"agentd/state"
	"agentd/work"
)

// starts are the tasks in the order in which the runtime began to work on them.
func (k *crew) starts(sessions ...string) []string {
	k.Helper()
	type start struct {
		at   time.Time
		task string
	}
	var all []start
	for _, s := range sessions {
		for _, e := range k.facts(s) {
			if p, ok := e.Payload.(*event.TurnSubmitted); ok && p.Source == "task" {
				all = append(all, start{e.Time, e.TaskID})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b start) int { return a.at.Compare(b.at) })
	var out []string
	for _, s := range all {
		out = append(out, s.task)
	}
	return out
}

func (k *crew) session(id string) string {
	k.Helper()
	ask[command.CreateSessionResult](k, &command.CreateSession{SessionID: id})
	return id
}

func TestSessionsTakeTurnsAndPriorityOrdersWithinOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &crew{TB: t, store: newCrewStore(t), limits: work.Limits{Runtime: 1}, script: &script.Script{Repeat: true, Answers: []script.Answer{{Text: "ok", Stall: time.Second}}}}
		k.started()
		k.session("sess_many")
		k.session("sess_few")
		for i := range 40 {
			k.create(command.CreateTask{TaskID: fmt.Sprintf("task_many_%02d", i), SessionID: "sess_many", Start: true})
		}
		for i, p := range []command.Priority{"low", "5", "", "urgent"} {
			k.create(command.CreateTask{TaskID: fmt.Sprintf("task_few_%d", i), SessionID: "sess_few", Start: true, TaskFields: command.TaskFields{Priority: p}})
		}
		if s := k.task("task_few_0").Status; s != state.TaskQueued {
			t.Errorf("the task is %s", s)
		}
		k.await("task_many_20", state.TaskCompleted)
		k.restart() // the order follows from the facts
		k.await("task_many_39", state.TaskCompleted)
		got := k.starts("sess_many", "sess_few")
		var few []string
		for i, id := range got {
			if id[:8] == "task_few" {
				few = append(few, id)
				if i > 9 {
					t.Errorf("%s was started as number %d", id, i)
				}
			}
		}
		if !slices.Equal(few, []string{"task_few_3", "task_few_1", "task_few_2", "task_few_0"}) {
			t.Errorf("the order of priority: %v", few)
		}
		many := slices.DeleteFunc(slices.Clone(got), func(id string) bool { return id[:8] == "task_few" })
		if len(many) != 40 || !slices.IsSorted(many) {
			t.Errorf("the order of waiting: %v", many)
		}
	})
}

func TestLimitsHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &crew{TB: t, store: newCrewStore(t), limits: work.Limits{Runtime: 5, Session: 2, Account: 3}, script: &script.Script{Repeat: true, Answers: []script.Answer{{Text: "ok", Stall: time.Second}}}}
		k.started()
		ctx := context.Background()
		var ids []string
		for s := range 4 {
			caller := command.Caller{Account: fmt.Sprintf("account_%d", s/2), Actor: event.Actor{Kind: "user"}}
			id := fmt.Sprintf("sess_%d", s)
			if _, err := k.runCommand(ctx, caller, &command.CreateSession{SessionID: id}); err != nil {
				t.Fatal(err)
			}
			for i := range 8 {
				task := fmt.Sprintf("task_%d_%d", s, i)
				ids = append(ids, task)
				if _, err := k.runCommand(ctx, caller, &command.CreateTask{TaskID: task, Objective: "x", SessionID: id, Start: true}); err != nil {
					t.Fatal(err)
				}
			}
		}
		for {
			synctest.Wait()
			perSession, perAccount, all, open := map[string]int{}, map[string]int{}, 0, 0
			for _, id := range ids {
				switch task := k.task(id); task.Status {
				case state.TaskRunning:
					all++
					perSession[task.SessionID]++
					perAccount[task.RequestedBy.Account]++
					open++
				case state.TaskQueued:
					open++
				}
			}
			if all > 5 || (open >= 20 && all < 5) {
				t.Errorf("%d of %d run", all, open)
			}
			for s, n := range perSession {
				if n > 2 {
					t.Errorf("%d run in %s", n, s)
				}
			}
			for a, n := range perAccount {
				if n > 3 {
					t.Errorf("%d run of %s", n, a)
				}
			}
			if open == 0 {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// TestATaskThatWaitsForAPersonHoldsNoRoom has one slot: while its task waits for
// an answer another runs.
func TestATaskThatWaitsForAPersonHoldsNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &crew{TB: t, store: newCrewStore(t), mode: "default", limits: work.Limits{Runtime: 1}, script: &script.Script{Answers: []script.Answer{
			{When: &script.When{Contains: "write"}, Tools: []script.Tool{{Name: "write_file", Arguments: map[string]any{"path": "a", "content": "a"}}}},
		}}}
		k.started()
		k.create(command.CreateTask{TaskID: "task_a", Objective: "write", Start: true})
		k.create(command.CreateTask{TaskID: "task_b", Start: true})
		waiting := k.await("task_a", state.TaskWaitingPermission)
		k.await("task_b", state.TaskCompleted)
		ask[command.RespondActionResult](k, &command.RespondAction{ActionID: waiting.Blockers[0], Decision: "deny"})
		k.await("task_a", state.TaskCompleted)
	})
}

// counts checks how many tasks have each status once everything waits: when a task ends,
// another is started a moment later.
func (k *crew) counts(sessionID string, want map[string]int64) {
	k.Helper()
	synctest.Wait()
	if err := k.m.View(context.Background(), sessionID, func(st *state.Session) error {
		for status, n := range want {
			if got := st.Tasks.Counts[status]; got != n {
				k.Errorf("%d tasks are %s, not %d", got, status, n)
			}
		}
		return nil
	}); err != nil {
		k.Fatal(err)
	}
}
