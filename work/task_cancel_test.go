package work_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/index"
	"agentd/model/provider/script"
	"agentd/state"
	"agentd/store"
	"agentd/store/storetest"
	"agentd/tool"
)

// stubborn is a tool that doesn't stop when it is told to, only when it is let go.
type stubborn struct {
	entered chan struct{}
	letGo   chan struct{}
	once    sync.Once
}

// release lets all calls go.
func (s *stubborn) release() { s.once.Do(func() { close(s.letGo) }) }

func (*stubborn) Info() event.ToolInfo {
	return event.ToolInfo{
		ToolName: "stubborn", Description: "takes its time", InputSchema: event.Raw(`{"type":"object"}`), RuntimeOwner: "local",
		IsReadOnly: true, IsConcurrencySafe: true, InterruptBehavior: "cancel",
	}
}

func (s *stubborn) Run(context.Context, *tool.Call) (*tool.Result, error) {
	s.entered <- struct{}{}
	<-s.letGo
	return &tool.Result{Output: []byte("at last")}, nil
}

// stubbornCrew has the tool; answers that a script calls it with.
func stubbornCrew(t *testing.T, answers ...script.Answer) (*crew, *stubborn) {
	t.Helper()
	s := &stubborn{entered: make(chan struct{}, 10), letGo: make(chan struct{})}
	tools, err := tool.NewRegistry(append(tool.Builtins(nil), s)...)
	if err != nil {
		t.Fatal(err)
	}
	k := &crew{TB: t, store: newCrewStore(t), tools: tools, script: &script.Script{Answers: answers}}
	k.started()
	t.Cleanup(s.release) // so that a test that failed ends
	return k, s
}

func uses(contains, name string, args map[string]any) script.Answer {
	if args == nil {
		args = map[string]any{}
	}
	return when(contains, script.Answer{Tools: []script.Tool{{Name: name, Arguments: args}}})
}

// TestACancelledTaskWaitsForWhatWorksForIt cancels a task whose subagent, whose
// child and whose job are at work, the subagent with something that can't be
// stopped at once: the task is cancelling until all of it is over, and nothing new
// begins under it.
func TestACancelledTaskWaitsForWhatWorksForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, s := stubbornCrew(t,
			uses("lead", "spawn_agent", map[string]any{"role": "helper", "input": "take time"}), uses("take time", "stubborn", nil),
			when("part", script.Answer{Text: "slow", Stall: 2 * time.Hour}), when("item", script.Answer{Text: "slow", Stall: 2 * time.Hour}))
		k.session("sess_a")
		k.create(command.CreateTask{TaskID: "task_top", SessionID: "sess_a", Objective: "lead", Start: true})
		<-s.entered
		k.create(command.CreateTask{TaskID: "task_part", ParentTaskID: "task_top", Objective: "part", Start: true})
		k.create(command.CreateTask{TaskID: "task_later", ParentTaskID: "task_part", Objective: "part"})
		k.create(command.CreateTask{TaskID: "task_held", ParentTaskID: "task_top", Objective: "part", Start: true})
		ask[command.TaskResult](k, &command.PauseTask{TaskID: "task_held"})
		k.create(command.CreateTask{TaskID: "task_free", SessionID: "sess_a"})
		ask[command.JobResult](k, &command.CreateJob{JobID: "job_a", TaskID: "task_top", Instruction: "item", Items: items(20, numberWord), Concurrency: 4})
		no := false
		ask[command.JobResult](k, &command.CreateJob{JobID: "job_b", TaskID: "task_top", Instruction: "item", Items: items(2, numberWord), Start: &no})
		synctest.Wait()
		if j := ask[command.JobRecord](k, &command.GetJob{JobID: "job_a"}); j.TaskID != "task_top" || j.Progress.Running != 4 || j.SessionID != "sess_a" {
			t.Errorf("the job: %+v", j.JobSummary)
		}
		top := k.task("task_top")

		if res := ask[command.TaskResult](k, &command.CancelTask{TaskID: "task_top", Reason: "enough"}); res.Status != state.TaskCancelling {
			t.Errorf("cancelled: %+v", res)
		}
		synctest.Wait()
		for id, want := range map[string]string{"task_top": "cancelling", "task_part": "cancelled", "task_later": "cancelled", "task_held": "cancelled", "task_free": "accepted"} {
			if got := k.task(id).Status; got != want {
				t.Errorf("%s is %s, not %s", id, got, want)
			}
		}
		for _, id := range []string{"job_a", "job_b"} {
			if j := ask[command.JobRecord](k, &command.GetJob{JobID: id}); j.Status != "cancelled" || j.Progress.Running != 0 {
				t.Errorf("the job: %+v", j.JobSummary)
			}
		}
		before := k.sequences()
		for _, p := range []command.Params{
			&command.StartTask{TaskID: "task_top"}, &command.RetryTask{TaskID: "task_part"}, &command.RetryTask{TaskID: "task_later"}, &command.RetryTask{TaskID: "task_held"},
			&command.ResumeTask{TaskID: "task_top"}, &command.CancelTask{TaskID: "task_top"},
			&command.SubmitTurn{SessionID: "sess_a", TaskID: "task_top", Input: command.Text("more")},
			&command.CreateTask{Objective: "x", ParentTaskID: "task_top"}, &command.LinkTasks{TaskID: "task_free", Kind: "parent", TargetID: "task_top"},
			&command.CreateJob{TaskID: "task_top", Instruction: "x", Items: items(1, numberWord)},
			&command.RetryJobItem{JobID: "job_a", ItemID: "item_000001"},
			&command.SpawnSubagent{SessionID: "sess_a", ThreadID: top.ThreadID, Input: command.Text("x")},
		} {
			if c, ok := p.(*command.RetryJobItem); ok {
				k.refuse(fault.Conflict, c)
				continue
			}
			k.refuse(fault.Conflict, p, "task_top", "cancelling")
		}
		if after := k.sequences(); !equalMaps(before, after) {
			t.Errorf("what was refused left facts: %v %v", before, after)
		}

		s.release()
		done := k.await("task_top", state.TaskCancelled)
		k.settledBelow(done, "job_a", "job_b")
	})
}

// settledBelow checks, in the facts of a cancelled task's session, that the wish
// came first and that nothing was at work any more when the task settled.
func (k *crew) settledBelow(t *state.Task, jobs ...string) {
	k.Helper()
	wish, end := 0, 0
	last := map[string]int{}
	for i, e := range k.facts(t.SessionID) {
		switch {
		case e.Type == event.TypeTaskCancelRequested && e.TaskID == t.TaskID:
			wish = i
		case e.Type == event.TypeTaskCancelled && e.TaskID == t.TaskID:
			end = i
		}
		switch e.Type {
		case event.TypeTurnFailed, event.TypeTurnCompleted, event.TypeSubagentClosed, event.TypeJobCancelled, event.TypeProcessTerminated:
			last[fmt.Sprint(e.Type, e.ThreadID, e.JobID, e.ProcessID)] = i
		case event.TypeTaskCancelled:
			last["child "+e.TaskID] = i
		case event.TypeTurnStarted, event.TypeSubagentSpawned, event.TypeJobItemStarted:
			if wish > 0 {
				k.Errorf("after the wish to stop came %s", e.Type)
			}
		}
	}
	if wish == 0 || end < wish {
		k.Fatalf("the wish is fact %d, the end %d", wish, end)
	}
	for what, at := range last {
		if at > end || (at < wish && !strings.HasPrefix(what, "turn.")) {
			k.Errorf("%s is fact %d; the wish was %d, the end %d", what, at, wish, end)
		}
	}
	for _, id := range jobs {
		if !slices.ContainsFunc(t.Delegations, func(d state.Delegation) bool { return d.To == "job" && d.TargetID == id }) {
			k.Errorf("%s is not among the delegations %+v", id, t.Delegations)
		}
	}
	if err := k.m.View(context.Background(), t.SessionID, func(st *state.Session) error {
		for _, th := range st.Threads {
			if th.Busy() {
				k.Errorf("thread %s (%s) is busy", th.ThreadID, th.Role)
			}
		}
		if len(st.Subagents.Open)+len(st.Jobs.Open) > 0 {
			k.Errorf("%d subagents and %d jobs are open", len(st.Subagents.Open), len(st.Jobs.Open))
		}
		return nil
	}); err != nil {
		k.Fatal(err)
	}
}

// TestCancelReachesTurnsThatWereSubmittedForTheTask stops what people asked for in
// its name, also what waits, and leaves the rest of the thread alone.
func TestCancelReachesTurnsThatWereSubmittedForTheTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t, when("stall", script.Answer{Text: "slow", Stall: time.Hour}))
		k.session("sess_a")
		k.hire2("task_a", "sess_a")
		submit := func(id, taskID, text string) {
			ask[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: "sess_a", TurnID: id, TaskID: taskID, Input: command.Text(text)})
		}
		submit("turn_1", "task_a", "stall")
		submit("turn_2", "task_a", "stall")
		submit("turn_3", "", "another matter")
		submit("turn_4", "task_a", "stall")
		synctest.Wait()
		ask[command.TaskResult](k, &command.CancelTask{TaskID: "task_a"})
		k.await("task_a", state.TaskCancelled)
		synctest.Wait()
		ends := map[string]string{}
		for _, e := range k.facts("sess_a") {
			switch p := e.Payload.(type) {
			case *event.TurnCompleted:
				ends[e.TurnID] = p.Status
			case *event.TurnFailed:
				ends[e.TurnID] = p.FailureCategory
			}
		}
		for id, want := range map[string]string{"turn_1": "interrupted", "turn_2": "interrupted", "turn_3": "completed", "turn_4": "interrupted"} {
			if ends[id] != want {
				t.Errorf("%s ended %q, not %q", id, ends[id], want)
			}
		}
	})
}

// hire2 is hire in a given session.
func (k *crew) hire2(taskID, sessionID string) {
	k.Helper()
	k.create(command.CreateTask{TaskID: taskID, SessionID: sessionID, Worker: "external", Start: true})
}

// TestCancelReachesMoreChildrenThanATaskKeepsEdges has 300 children.
func TestCancelReachesMoreChildrenThanATaskKeepsEdges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := (&crew{TB: t, store: storetest.NewMem()}).started()
		k.session("sess_a")
		k.hire2("task_top", "sess_a")
		for i := range 300 {
			k.create(command.CreateTask{TaskID: fmt.Sprintf("task_%03d", i), ParentTaskID: "task_top", Worker: "external", Start: i%2 == 0})
		}
		ask[command.TaskResult](k, &command.CancelTask{TaskID: "task_top"})
		synctest.Wait()
		k.counts("sess_a", map[string]int64{state.TaskCancelled: 301, state.TaskRunning: 0, state.TaskAccepted: 0})
	})
}

// mortal is a store whose process dies at a session's write: from then on it takes nothing.
type mortal struct {
	store.Store
	// after says that the write in which it dies is durable.
	after bool

	mu   sync.Mutex
	left int // writes that are taken
	dead bool
	died chan struct{}
}

var errDied = fmt.Errorf("%w: the process died", store.ErrFailed)

// Append counts batches, not calls: which sessions share a call depends on the
// scheduler, and each of them might as well have come alone.
func (d *mortal) Append(ctx context.Context, batches []*store.Batch) []error {
	d.mu.Lock()
	taken, heard := len(batches), !d.dead
	if d.dead {
		taken = 0
	}
	for i, b := range batches {
		// What is derived from facts is written whenever there is time: it doesn't count.
		if d.dead || b.SessionID == index.ClaimedSession {
			continue
		}
		if d.left--; d.left < 0 {
			d.dead, taken, heard = true, i, false
			if d.after {
				taken++
			}
			close(d.died)
		}
	}
	d.mu.Unlock()
	errs := make([]error, len(batches))
	if taken > 0 {
		copy(errs, d.Store.Append(ctx, batches[:taken]))
	}
	if !heard {
		for i := range errs {
			errs[i] = errDied
		}
	}
	return errs
}

func (d *mortal) alive() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return errDied
	}
	return nil
}

func (d *mortal) Claim(ctx context.Context, id string) (store.Claim, error) {
	if err := d.alive(); err != nil {
		return store.Claim{}, err
	}
	return d.Store.Claim(ctx, id)
}

func (d *mortal) PutBlob(ctx context.Context, r io.Reader) (store.BlobInfo, error) {
	if err := d.alive(); err != nil {
		return store.BlobInfo{}, err
	}
	return d.Store.PutBlob(ctx, r)
}

// afterCrash plays a scene whose process dies at each of its writes in turn, once
// before it is durable and once after, and goes on with another over the same data.
func afterCrash(t *testing.T, answers []script.Answer, scene func(k *crew) error, check func(k *crew)) {
	t.Helper()
	tools, err := tool.NewRegistry(tool.Builtins(nil)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, after := range []bool{false, true} {
		crashes := 0
		for n := 0; ; n++ {
			d := &mortal{Store: storetest.NewMem(), left: n, after: after, died: make(chan struct{})}
			k := &crew{TB: t, store: d, tools: tools, dir: t.TempDir(), mode: "bypass", dying: true, script: &script.Script{Answers: answers}}
			k.open()
			err := scene(k)
			synctest.Wait()
			crashed := d.alive() != nil
			if !crashed && err != nil {
				t.Fatal(err)
			}
			k.close()
			k.store, k.dying = d.Store, false
			k.open()
			if err := scene(k); err != nil {
				t.Fatalf("after a crash at write %d: %v", n, err)
			}
			check(k)
			k.close()
			k.verified()
			if t.Failed() {
				t.Fatalf("the crash was at write %d, durable: %v", n, after)
			}
			if !crashed {
				break
			}
			crashes++
		}
		t.Logf("%d crashes", crashes)
		if crashes < 20 {
			t.Errorf("only %d writes were cut off", crashes)
		}
	}
}

// TestACancellationGoesOnAfterACrash crashes at every write of a scene in which a
// task with a subagent, a job and a child is cancelled.
func TestACancellationGoesOnAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []script.Answer{
			uses("lead", "spawn_agent", map[string]any{"role": "helper", "input": "take time"}), when("take time", script.Answer{Text: "slow", Stall: 2 * time.Hour}),
			when("part", script.Answer{Text: "slow", Stall: 2 * time.Hour}), when("item", script.Answer{Text: "slow", Stall: 2 * time.Hour}),
		}
		ctx := context.Background()
		afterCrash(t, answers, func(k *crew) error {
			for _, p := range []command.Params{
				&command.CreateSession{SessionID: "sess_a"},
				&command.CreateTask{TaskID: "task_top", SessionID: "sess_a", Objective: "lead", Start: true},
				&command.CreateTask{TaskID: "task_part", ParentTaskID: "task_top", Objective: "part", Start: true},
				&command.CreateJob{JobID: "job_a", TaskID: "task_top", Instruction: "item", Items: items(4, numberWord), Concurrency: 2},
				&command.CancelTask{TaskID: "task_top", Mutation: command.Mutation{IdempotencyKey: "stop"}},
			} {
				if _, err := k.runCommand(ctx, command.Local(), p); err != nil {
					return err
				}
				synctest.Wait()
			}
			return nil
		}, func(k *crew) {
			k.settledBelow(k.await("task_top", state.TaskCancelled), "job_a")
			if s := k.task("task_part").Status; s != state.TaskCancelled {
				k.Errorf("the child is %s", s)
			}
			if j := ask[command.JobRecord](k, &command.GetJob{JobID: "job_a"}); j.Status != "cancelled" {
				k.Errorf("the job is %s", j.Status)
			}
		})
	})
}

// TestTasksGoOnAfterACrash crashes at every write of a scene with dependencies, an
// external worker whose first attempt fails, criteria and a retry by the runtime.
func TestTasksGoOnAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []script.Answer{when("last attempt", script.Answer{Text: "Done."}), when("flaky", script.Answer{Error: &script.Error{Category: "invalid_request", Message: "no"}})}
		ctx := context.Background()
		key := func(s string) command.Mutation { return command.Mutation{IdempotencyKey: s} }
		retry := command.TaskFields{RetryPolicy: &event.RetryPolicy{MaxAttempts: 3, BackoffMs: 1000}}
		outside := retry
		outside.Acceptance = []command.Criterion{{ID: "c1", Description: "good"}}
		afterCrash(t, answers, func(k *crew) error {
			for _, p := range []command.Params{
				&command.CreateSession{SessionID: "sess_a"},
				&command.CreateTask{TaskID: "task_out", SessionID: "sess_a", Objective: "x", Worker: "external", Start: true, TaskFields: outside},
				&command.CreateTask{TaskID: "task_next", Objective: "flaky", Start: true, DependsOn: []string{"task_out"}, TaskFields: retry},
				&command.CreateTask{TaskID: "task_last", SessionID: "sess_a", Objective: "y", Start: true},
				&command.LinkTasks{TaskID: "task_last", Kind: "source_task", TargetID: "task_out"},
				&command.AppendTaskProgress{TaskID: "task_out", Progress: &event.Progress{Phase: "working"}, Mutation: key("1")},
				&command.FailTask{TaskID: "task_out", Error: &event.Failure{Message: "flaky", Retryable: true}, Mutation: key("2")},
				nil,
				&command.CompleteTask{TaskID: "task_out", Acceptance: []command.CriterionResult{{ID: "c1", Status: "satisfied"}}, Mutation: key("3")},
			} {
				if p == nil {
					time.Sleep(2 * time.Second) // the wait before the next attempt
					synctest.Wait()
					continue
				}
				if _, err := k.runCommand(ctx, command.Local(), p); err != nil {
					return err
				}
				synctest.Wait()
			}
			return nil
		}, func(k *crew) {
			for id, want := range map[string]int{"task_out": 2, "task_next": 2, "task_last": 1} {
				done := k.await(id, state.TaskCompleted, state.TaskFailed)
				tries, ended := 0, 0
				for _, a := range done.Attempts {
					if !a.EndedAt.IsZero() {
						ended++
					}
					if a.Reason != state.AttemptAfterCrash { // that is the same try in another run
						tries++
					}
				}
				if done.Status != state.TaskCompleted || tries != want || ended != len(done.Attempts) {
					k.Errorf("%s is %s with %+v", id, done.Status, done.Attempts)
				}
			}
			if e := edges(k.task("task_next"), "blocked_by"); !slices.Equal(e, []string{"task_out satisfied"}) {
				k.Errorf("edges: %v", e)
			}
		})
	})
}
