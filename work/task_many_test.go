//go:build !race

// Ten thousand tasks show that nothing grows with their number: the race detector makes a
// minute of that, and has the tests with few tasks.

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

// counted is a store that counts what is read from it.
type counted struct {
	store.Store
	reads atomic.Int64
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
