package work_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/model/provider/script"
	"agentd/session"
	"agentd/state"
	"agentd/store"
	"agentd/store/storetest"
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

// TestTenThousandTasksStarveNobody queues 10,000 tasks in one session, then some in
// another: those are worked on in turn with the others, an urgent one of the many
// goes first, and every decision is a fact.
func TestTenThousandTasksStarveNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &crew{TB: t, store: storetest.NewMem(), limits: work.Limits{Runtime: 4}, script: &script.Script{Repeat: true, Answers: []script.Answer{{Text: "ok", Stall: time.Second}}}}
		k.started()
		k.session("sess_many")
		k.session("sess_few")
		const many = 10_000
		k.seedTasks("sess_many", 0, many, func(id string) []event.Event {
			return []event.Event{created(id, "runtime"), {Type: event.TypeTaskQueued, Scope: event.Scope{TaskID: id}, Payload: &event.TaskStatusChanged{Status: state.TaskQueued}}}
		})
		for i := range 5 {
			k.create(command.CreateTask{TaskID: fmt.Sprintf("few_%d", i), SessionID: "sess_few", Start: true})
		}
		k.create(command.CreateTask{TaskID: "urgent", SessionID: "sess_many", Start: true, TaskFields: command.TaskFields{Priority: "urgent"}})
		if got := k.task("urgent"); got.Status != state.TaskQueued || got.StatusReason == "" {
			t.Errorf("the urgent task is %s (%s)", got.Status, got.StatusReason)
		}
		time.Sleep(2 * time.Second)
		k.restart() // the order follows from the facts
		for i := range 5 {
			k.await(fmt.Sprintf("few_%d", i), state.TaskCompleted)
		}
		k.await("urgent", state.TaskCompleted)
		starts := k.starts("sess_many", "sess_few")
		for i, id := range starts {
			if (id[:4] == "few_" || id == "urgent") && i > 24 {
				t.Errorf("%s was started as number %d of %d", id, i, len(starts))
			}
		}
		for id, want := range map[string][]event.Type{
			"few_4": {event.TypeTaskCreated, event.TypeTaskAccepted, event.TypeTaskQueued, event.TypeTaskDelegated, event.TypeTaskAttemptStarted, event.TypeTaskStarted},
		} {
			if got := k.factTypesOf(k.task(id)); !slices.Equal(got[:len(want)], want) {
				t.Errorf("the facts of %s: %v", id, got)
			}
		}
		k.counts("sess_many", map[string]int64{state.TaskRunning: 4})
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

// seedTasks writes tasks of a session in few large writes, so that many are there
// quickly.
func (k *crew) seedTasks(sessionID string, from, to int, facts func(id string) []event.Event) {
	k.Helper()
	for n := from; n < to; n += 1000 {
		if err := k.m.Emit(context.Background(), sessionID, event.ByWork, func(tx *session.Tx) error {
			for i := n; i < min(n+1000, to); i++ {
				for _, e := range facts(fmt.Sprintf("task_%06d", i)) {
					tx.Emit(e)
				}
			}
			return nil
		}); err != nil {
			k.Fatal(err)
		}
	}
}

func created(id, worker string) event.Event {
	return event.Event{Type: event.TypeTaskCreated, Scope: event.Scope{TaskID: id}, Payload: &event.TaskCreated{
		TaskKind: "general", Visibility: "background", Status: state.TaskAccepted, Objective: "x", WorkerKind: worker, HeartbeatTimeoutMs: 60_000,
	}}
}

// TestRestartWithManyOpenTasks restarts with 10,000 open tasks in one session: all
// of them are scheduled again, and none is worked on twice.
func TestRestartWithManyOpenTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &crew{TB: t, store: storetest.NewMem(), limits: work.Limits{Runtime: 200, Session: 200}}
		k.started()
		k.session("sess_a")
		const open = 10_000
		policy := &event.RetryPolicy{MaxAttempts: 1}
		k.seedTasks("sess_a", 0, open, func(id string) []event.Event {
			scope := event.Scope{TaskID: id, RunID: "run_" + id}
			return []event.Event{
				created(id, "external"),
				{Type: event.TypeTaskAttemptStarted, Scope: scope, Payload: &event.TaskAttemptStarted{Status: "running", AttemptCount: 1, Worker: &event.Worker{Kind: "external"}, RetryPolicy: policy}},
				{Type: event.TypeTaskStarted, Scope: scope, Payload: &event.TaskStatusChanged{Status: state.TaskRunning}},
			}
		})
		k.restart()
		for i := range 10 {
			k.beat(fmt.Sprintf("task_%06d", i), "")
		}
		time.Sleep(59 * time.Second)
		synctest.Wait()
		k.counts("sess_a", map[string]int64{state.TaskRunning: open})
		for i := range 10 {
			k.beat(fmt.Sprintf("task_%06d", i), "")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		k.counts("sess_a", map[string]int64{state.TaskRunning: 10, state.TaskLost: open - 10})
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

// counted is a store that counts what is read from it.
type counted struct {
	store.Store
	reads atomic.Int64
}

func (c *counted) Read(ctx context.Context, id string, r store.Range) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		for rec, err := range c.Store.Read(ctx, id, r) {
			if c.reads.Add(1); !yield(rec, err) {
				return
			}
		}
	}
}

func (c *counted) Scan(ctx context.Context, s store.Scan) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		for e, err := range c.Store.Scan(ctx, s) {
			if c.reads.Add(1); !yield(e, err) {
				return
			}
		}
	}
}

func (c *counted) Get(ctx context.Context, kind, key string) ([]byte, error) {
	c.reads.Add(1)
	return c.Store.Get(ctx, kind, key)
}

// TestRestartReadsNothingOfFinishedTasks compares what a restart with 1,000 open
// tasks reads, with no finished ones beside them and with 10,000.
func TestRestartReadsNothingOfFinishedTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := func(finished int) int64 {
			c := &counted{Store: storetest.NewMem()}
			k := &crew{TB: t, store: c}
			k.started()
			k.session("sess_a")
			k.seedTasks("sess_a", 0, finished, func(id string) []event.Event {
				return []event.Event{
					created(id, "external"),
					{Type: event.TypeTaskCancelRequested, Scope: event.Scope{TaskID: id}, Payload: &event.TaskStatusChanged{Status: state.TaskCancelling}},
					{Type: event.TypeTaskCancelled, Scope: event.Scope{TaskID: id}, Payload: &event.TaskStatusChanged{Status: state.TaskCancelled}},
				}
			})
			k.seedTasks("sess_a", finished, finished+1000, func(id string) []event.Event { return []event.Event{created(id, "external")} })
			synctest.Wait()
			k.close()
			c.reads.Store(0)
			k.open()
			synctest.Wait()
			k.counts("sess_a", map[string]int64{state.TaskAccepted: 1000, state.TaskCancelled: int64(finished)})
			return c.reads.Load()
		}
		none, many := reads(0), reads(10_000)
		if many > none+50 || none == 0 {
			t.Errorf("a restart reads %d entries without finished tasks, %d with 10,000", none, many)
		}
	})
}

func BenchmarkRestart(b *testing.B) {
	for _, finished := range []int{0, 10_000, 100_000} {
		b.Run(fmt.Sprintf("open=10000/finished=%d", finished), func(b *testing.B) {
			k := &crew{TB: b, store: storetest.NewMem()}
			k.started()
			k.session("sess_a")
			k.seedTasks("sess_a", 0, finished, func(id string) []event.Event {
				return []event.Event{
					created(id, "external"),
					{Type: event.TypeTaskCancelRequested, Scope: event.Scope{TaskID: id}, Payload: &event.TaskStatusChanged{Status: state.TaskCancelling}},
					{Type: event.TypeTaskCancelled, Scope: event.Scope{TaskID: id}, Payload: &event.TaskStatusChanged{Status: state.TaskCancelled}},
				}
			})
			k.seedTasks("sess_a", finished, finished+10_000, func(id string) []event.Event { return []event.Event{created(id, "external")} })
			for b.Loop() {
				k.restart()
			}
		})
	}
}
