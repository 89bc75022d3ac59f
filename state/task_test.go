package state

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"agentd/event"
	"agentd/event/eventtest"
)

func (st *story) createTask(id string, p *event.TaskCreated) {
	st.t.Helper()
	if p.TaskKind == "" {
		p.TaskKind = "coding"
	}
	if p.Visibility == "" {
		p.Visibility = "foreground"
	}
	if p.Status == "" {
		p.Status = TaskAccepted
	}
	st.addFact(event.TypeTaskCreated, event.Scope{TaskID: id}, p)
}

func (st *story) task(typ event.Type, id, status string) {
	st.t.Helper()
	st.addFact(typ, event.Scope{TaskID: id, RunID: "run_1"}, &event.TaskStatusChanged{Status: status})
}

func (st *story) attempt(id, run string, ordinal int64) {
	st.t.Helper()
	st.addFact(event.TypeTaskAttemptStarted, event.Scope{TaskID: id, RunID: run}, &event.TaskAttemptStarted{Status: "running", AttemptCount: ordinal})
}

// statuses that a task can have and the type of the fact that leads there.
var taskStatuses = map[string]event.Type{
	TaskAccepted: event.TypeTaskAccepted, TaskQueued: event.TypeTaskQueued, TaskPreparing: event.TypeTaskStarted,
	TaskRunning: event.TypeTaskStarted, TaskWaitingInput: event.TypeTaskWaiting, TaskWaitingPermission: event.TypeTaskWaiting,
	TaskWaitingResource: event.TypeTaskWaiting, TaskBlocked: event.TypeTaskBlocked, TaskPaused: event.TypeTaskPaused,
	TaskRetrying: event.TypeTaskRetrying, TaskCancelling: event.TypeTaskCancelRequested, TaskCancelled: event.TypeTaskCancelled,
	TaskTimedOut: event.TypeTaskTimedOut, TaskFailed: event.TypeTaskFailed, TaskLost: event.TypeTaskLost, TaskArchived: event.TypeTaskArchived,
}

func TestTaskStatusDecidesTheList(t *testing.T) {
	for status, typ := range taskStatuses {
		t.Run(status, func(t *testing.T) {
			st := newStory(t)
			st.createTask("task_1", &event.TaskCreated{Title: "one"})
			st.task(typ, "task_1", status)
			x := st.s.Tasks.Find("task_1")
			if x.Status != status {
				t.Fatalf("status %q", x.Status)
			}
			terminal := slices.Contains([]string{TaskCancelled, TaskTimedOut, TaskFailed, TaskLost, TaskArchived}, status)
			if got := len(st.s.Tasks.Recent) == 1; got != terminal {
				t.Errorf("among the recent ones: %v", got)
			}
			if got := st.s.HasOpenWork(); got == terminal {
				t.Errorf("open work: %v", got)
			}
			if x.EndedAt.IsZero() == terminal {
				t.Errorf("ended at %v", x.EndedAt)
			}
			if got := st.s.Tasks.Counts; len(got) != 1 || got[status] != 1 {
				t.Errorf("counts %v", got)
			}
			sum := st.s.Snapshot().TaskSummary
			if sum.Total != 1 || (sum.Terminal == 1) != terminal || (sum.Active == 1) == terminal {
				t.Errorf("summary %+v", sum)
			}
		})
	}
}

func TestImplicitTaskIsNoWorkOfItsOwn(t *testing.T) {
	st := newStory(t)
	st.createTask("task_turn", &event.TaskCreated{TaskKind: TaskKindTurn, Visibility: "internal"})
	if st.s.HasOpenWork() {
		t.Error("the implicit task of a turn counts as open work")
	}
	if tasks := st.s.Snapshot().Tasks; len(tasks) != 1 || tasks[0].Visibility != "internal" {
		t.Errorf("tasks %+v", tasks)
	}
	st.createTask("task_own", &event.TaskCreated{})
	if !st.s.HasOpenWork() {
		t.Error("a task that was accepted isn't open work")
	}
}

func TestRetryKeepsEarlierAttempts(t *testing.T) {
	st := newStory(t)
	st.createTask("task_1", &event.TaskCreated{Objective: "do it", RetryPolicy: &event.RetryPolicy{MaxAttempts: 3}})
	st.attempt("task_1", "run_1", 1)
	st.addFact(event.TypeTaskAttemptFailed, event.Scope{TaskID: "task_1", RunID: "run_1"}, &event.TaskAttemptFailed{
		Status: "failed", Retryable: true, FailureCategory: "timed_out", Error: &event.Failure{Message: "too slow", Category: "other"},
		OutputRefs: []event.OutputLink{{OutputRef: "log_1", Offset: 10}},
	})
	first := st.s.Tasks.Find("task_1").Attempts[0]
	st.task(event.TypeTaskFailed, "task_1", TaskFailed)
	st.task(event.TypeTaskRetrying, "task_1", TaskRetrying)
	st.attempt("task_1", "run_2", 2)
	x := st.s.Tasks.Find("task_1")
	if !slices.Contains(st.s.Tasks.Open, x) || !x.EndedAt.IsZero() {
		t.Fatal("a retried task isn't open again")
	}
	if len(x.Attempts) != 2 || x.CurrentRunID != "run_2" {
		t.Fatalf("attempts %+v, current %s", x.Attempts, x.CurrentRunID)
	}
	if a, b := marshal(t, first), marshal(t, x.Attempts[0]); a != b {
		t.Errorf("the first attempt changed:\n%s\n%s", a, b)
	}
	if first.Status != AttemptFailed || first.LastError.Category != "timed_out" || first.LastError.Message != "too slow" {
		t.Errorf("the timed-out attempt: %+v", first)
	}
}

func TestLostAttemptIsUnknown(t *testing.T) {
	st := newStory(t)
	st.createTask("task_1", &event.TaskCreated{WorkerKind: "external", HeartbeatTimeoutMs: 1000})
	st.attempt("task_1", "run_1", 1)
	st.addFact(event.TypeTaskStarted, event.Scope{TaskID: "task_1", RunID: "run_1"}, &event.TaskStatusChanged{Status: TaskRunning})
	seen := st.now()
	st.addFact(event.TypeTaskLost, event.Scope{TaskID: "task_1"}, &event.TaskStatusChanged{Status: TaskLost, StatusReason: "no heartbeat"})
	x := st.s.Tasks.Find("task_1")
	a := x.Attempts[0]
	if x.Status != TaskLost || a.Status != AttemptUnknown || a.LastError == nil || a.LastError.Category != "lost" || !a.Inferred {
		t.Fatalf("task %s, attempt %+v", x.Status, a)
	}
	if !x.LastSeenAt.Equal(seen) {
		t.Errorf("last seen at %v, the worker's last word was at %v", x.LastSeenAt, seen)
	}
	if d := st.s.Snapshot(); len(d.Incidents) != 1 || d.Incidents[0].Code != "task_lost" {
		t.Errorf("incidents %+v", d.Incidents)
	}
}

func TestCompletedTaskDoesNotInventSuccessOfItsAttempt(t *testing.T) {
	st := newStory(t)
	st.createTask("task_1", &event.TaskCreated{})
	st.attempt("task_1", "run_1", 1)
	st.addFact(event.TypeTaskCompleted, event.Scope{TaskID: "task_1"}, &event.TaskCompleted{Status: TaskCompleted})
	if a := st.s.Tasks.Find("task_1").Attempts[0]; a.Status != AttemptUnknown || !a.Inferred {
		t.Fatalf("attempt %+v", a)
	}
	st.addFact(event.TypeTaskAttemptCompleted, event.Scope{TaskID: "task_1", RunID: "run_1"}, &event.TaskAttemptCompleted{Status: "completed"})
	if a := st.s.Tasks.Find("task_1").Attempts[0]; a.Status != AttemptCompleted || a.Inferred {
		t.Fatalf("after its own fact: %+v", a)
	}
}

func TestLateReportsChangeNothingElse(t *testing.T) {
	st := newStory(t)
	st.createTask("task_1", &event.TaskCreated{})
	st.attempt("task_1", "run_1", 1)
	st.addFact(event.TypeTaskAttemptFailed, event.Scope{TaskID: "task_1", RunID: "run_1"}, &event.TaskAttemptFailed{
		Status: "unknown", Retryable: true, FailureCategory: "lost",
	})
	st.task(event.TypeTaskRetrying, "task_1", TaskRetrying)
	st.attempt("task_1", "run_2", 2)
	before := *st.s.Tasks.Find("task_1")
	late := event.Scope{TaskID: "task_1", RunID: "run_1"}
	st.addFact(event.TypeTaskProgress, late, &event.TaskProgressed{Progress: event.Progress{Summary: "still here"}, Late: true})
	st.addFact(event.TypeTaskAttemptCompleted, late, &event.TaskAttemptCompleted{Status: "completed", CompletionSummary: "done!", Late: true})
	// Not marked as late, but the attempt has ended by a fact of its own.
	st.addFact(event.TypeTaskAttemptFailed, late, &event.TaskAttemptFailed{Status: "failed", FailureCategory: "execution"})
	x := st.s.Tasks.Find("task_1")
	if x.Status != before.Status || x.CurrentRunID != "run_2" || x.Progress != nil || !x.LastSeenAt.Equal(before.LastSeenAt) {
		t.Errorf("the task changed: %+v", x)
	}
	if a, b := marshal(t, before.Attempts[1]), marshal(t, x.Attempts[1]); a != b {
		t.Errorf("the newer attempt changed:\n%s\n%s", a, b)
	}
	if a := x.Attempts[0]; a.Status != AttemptUnknown || len(a.Late) != 3 || a.Late[1].Summary != "done!" || x.LateReports != 3 {
		t.Errorf("the late reports: %+v", a)
	}
}

// The worker of a lost task speaks up. Its word is noted and the task stays lost.
func TestLateWordOfALostWorker(t *testing.T) {
	st := newStory(t)
	st.createTask("task_1", &event.TaskCreated{})
	st.attempt("task_1", "run_1", -1)
	st.task(event.TypeTaskLost, "task_1", TaskLost)
	st.addFact(event.TypeTaskAttemptCompleted, event.Scope{TaskID: "task_1", RunID: "run_1"}, &event.TaskAttemptCompleted{Status: "completed", Late: true})
	x := st.s.Tasks.Find("task_1")
	if a := x.Attempts[0]; x.Status != TaskLost || a.Status != AttemptUnknown || !a.Inferred || len(a.Late) != 1 {
		t.Errorf("task %s, attempt %+v", x.Status, a)
	}
	// An ordinal that makes no sense must not make a snapshot that nobody takes.
	eventtest.StrictSnapshot(t).Accept(t, []byte(marshal(t, st.s.Snapshot())))
}

func TestOpenTasksStayInTheOrderOfCreation(t *testing.T) {
	st := newStory(t)
	for _, id := range []string{"task_1", "task_2", "task_3"} {
		st.createTask(id, &event.TaskCreated{})
	}
	st.task(event.TypeTaskFailed, "task_2", TaskFailed)
	st.task(event.TypeTaskFailed, "task_1", TaskFailed)
	st.task(event.TypeTaskRetrying, "task_1", TaskRetrying)
	st.task(event.TypeTaskRetrying, "task_2", TaskRetrying)
	var got []string
	for _, x := range st.s.Tasks.Open {
		got = append(got, x.TaskID)
	}
	if !slices.Equal(got, []string{"task_1", "task_2", "task_3"}) {
		t.Errorf("open tasks %v", got)
	}
}

func TestAttemptsLeaveBeyondTheBound(t *testing.T) {
	st := newStory(t)
	st.createTask("task_1", &event.TaskCreated{})
	const n = keepAttempts + 25
	for i := range n {
		run := fmt.Sprintf("run_%d", i)
		st.attempt("task_1", run, int64(i+1))
		st.addFact(event.TypeTaskAttemptFailed, event.Scope{TaskID: "task_1", RunID: run}, &event.TaskAttemptFailed{Status: "failed", FailureCategory: "execution"})
	}
	x := st.s.Tasks.Find("task_1")
	if len(x.Attempts) != keepAttempts || x.OlderAttempts != 25 {
		t.Fatalf("%d attempts, %d older", len(x.Attempts), x.OlderAttempts)
	}
	old, ok := st.left["attempt/task_1/run_0"].(*Attempt)
	if !ok || old.AttemptCount != 1 || old.Status != AttemptFailed {
		t.Fatalf("the first attempt left as %+v", st.left["attempt/task_1/run_0"])
	}
}

func TestEndedTasksLeaveAndComeBack(t *testing.T) {
	st := newStory(t)
	for i := range keepTasks + 1 {
		id := fmt.Sprintf("task_%d", i)
		st.createTask(id, &event.TaskCreated{Title: id})
		st.task(event.TypeTaskFailed, id, TaskFailed)
	}
	if st.s.Tasks.Find("task_0") != nil || len(st.s.Tasks.Recent) != keepTasks {
		t.Fatal("the oldest ended task is still there")
	}
	record, err := json.Marshal(st.left["task/task_0"])
	if err != nil {
		t.Fatal(err)
	}
	st.addFact(event.TypeTaskUpdated, event.Scope{TaskID: "task_0"}, &event.TaskUpdated{Record: record, Priority: "high"})
	x := st.s.Tasks.Find("task_0")
	if x == nil || x.Title != "task_0" || x.Priority != "high" || x.Status != TaskFailed {
		t.Fatalf("taken back: %+v", x)
	}
	st.task(event.TypeTaskRetrying, "task_0", TaskRetrying)
	if len(st.s.Tasks.Open) != 1 || st.s.Tasks.Open[0] != x {
		t.Error("a task that was taken back can't be retried")
	}
	if n := st.s.Tasks.Counts; n[TaskFailed] != keepTasks || n[TaskRetrying] != 1 {
		t.Errorf("counts %v", n)
	}
}

func TestForeignRecordIsRefused(t *testing.T) {
	st := newStory(t)
	for _, record := range []string{`{"taskId":"task_other","status":"failed"}`, `[]`} {
		st.addFact(event.TypeTaskUpdated, event.Scope{TaskID: "task_1"}, &event.TaskUpdated{Record: event.Raw(record)})
	}
	if st.s.Tasks.Find("task_1") != nil || st.s.Tasks.Find("task_other") != nil {
		t.Error("a record of another task was taken")
	}
	if n := len(st.s.Incidents); n != 2 || st.s.Incidents[0].Code != "task_record_unreadable" {
		t.Errorf("incidents %+v", st.s.Incidents)
	}
}

func TestTaskGraph(t *testing.T) {
	st := newStory(t)
	st.createTask("task_root", &event.TaskCreated{})
	st.addFact(event.TypeTaskCreated, event.Scope{TaskID: "task_child", ParentTaskID: "task_root", RootTaskID: "task_root"},
		&event.TaskCreated{TaskKind: "coding", Visibility: "background", Status: TaskAccepted, DependsOn: []string{"task_other"}})
	st.addFact(event.TypeTaskDelegated, event.Scope{TaskID: "task_child"}, &event.TaskDelegated{To: "subagent", TargetID: "sub_1"})
	st.addFact(event.TypeTaskBlocked, event.Scope{TaskID: "task_child"}, &event.TaskStatusChanged{Status: TaskBlocked, StatusReason: "waits", Blockers: []string{"task_other"}})
	created := st.s.Tasks.Find("task_child").Relationships[0].CreatedAt
	snap := st.s.Snapshot()
	want := []string{
		"task_root child task_child active", "task_child blocked_by task_other active",
		"task_child parent task_root active", "task_child spawned_subagent sub_1 active",
	}
	var got []string
	for _, e := range snap.TaskGraph.Edges {
		got = append(got, e.TaskID+" "+e.Kind+" "+e.TargetID+" "+e.Status)
	}
	if !slices.Equal(got, want) {
		t.Errorf("edges %q", got)
	}
	if b := snap.BlockedTasks; len(b) != 1 || b[0].TaskID != "task_child" || !slices.Equal(b[0].Blockers, []string{"task_other"}) {
		t.Errorf("blocked %+v", b)
	}
	st.addFact(event.TypeTaskDependencyUpdated, event.Scope{TaskID: "task_child"},
		&event.TaskDependencyUpdated{Change: "updated", Kind: "blocked_by", TargetID: "task_other", Status: "satisfied", Reason: "done"})
	edge := st.s.Tasks.Find("task_child").Relationships[0]
	if edge.Status != "satisfied" || !edge.CreatedAt.Equal(created) || !edge.UpdatedAt.Equal(st.now()) {
		t.Errorf("the satisfied edge %+v", edge)
	}
	st.addFact(event.TypeTaskDependencyUpdated, event.Scope{TaskID: "task_child"},
		&event.TaskDependencyUpdated{Change: "removed", Kind: "blocked_by", TargetID: "task_other", Status: "removed"})
	if findEdge(st.s.Tasks.Find("task_child").Relationships, "blocked_by", "task_other") >= 0 {
		t.Error("a removed edge is still in the graph")
	}
}

func TestEdgesAreBoundedButDependenciesStay(t *testing.T) {
	st := newStory(t)
	st.createTask("task_1", &event.TaskCreated{DependsOn: []string{"task_dependency"}})
	for i := range keepEdges + 50 {
		st.addFact(event.TypeTaskDependencyUpdated, event.Scope{TaskID: "task_1"},
			&event.TaskDependencyUpdated{Change: "added", Kind: "child", TargetID: fmt.Sprintf("task_c%d", i), Status: "active"})
	}
	x := st.s.Tasks.Find("task_1")
	if len(x.Relationships) != keepEdges || x.OlderRelationships != 51 {
		t.Errorf("%d edges, %d older", len(x.Relationships), x.OlderRelationships)
	}
	if findEdge(x.Relationships, "blocked_by", "task_dependency") < 0 {
		t.Error("an active dependency was dropped")
	}
}

func TestTaskProgressAcceptanceAndDelivery(t *testing.T) {
	st := newStory(t)
	st.createTask("task_1", &event.TaskCreated{Acceptance: []event.AcceptanceCriterion{{ID: "a", Description: "tests pass"}, {ID: "b", Description: "docs"}}})
	st.attempt("task_1", "run_1", 1)
	run := event.Scope{TaskID: "task_1", RunID: "run_1"}
	half := 50.0
	st.addFact(event.TypeTaskProgress, run, &event.TaskProgressed{
		Progress:   event.Progress{Phase: "working", Percent: &half, Counters: map[string]int64{"files": 3}},
		OutputRefs: []event.OutputLink{{OutputRef: "log", Offset: 0}},
	})
	st.addFact(event.TypeTaskProgress, run, &event.TaskProgressed{
		Progress: event.Progress{Phase: "verifying"}, OutputRefs: []event.OutputLink{{OutputRef: "log", Offset: 512}},
		DeliveryState: &event.DeliveryState{Status: "pending"},
	})
	x := st.s.Tasks.Find("task_1")
	if p := x.Progress; p.Phase != "verifying" || *p.Percent != 50 || p.Counters["files"] != 3 {
		t.Errorf("progress %+v", p)
	}
	if refs := x.Attempts[0].OutputRefs; len(refs) != 1 || refs[0].Offset != 512 {
		t.Errorf("outputs %+v", refs)
	}
	if d := st.s.Snapshot().DeliveryState; d.Status != Available || len(d.Open) != 1 || d.ByStatus["pending"] != 1 {
		t.Errorf("delivery %+v", d)
	}
	st.addFact(event.TypeTaskCompleted, run, &event.TaskCompleted{
		Status: TaskCompleted, Acceptance: []event.AcceptanceCriterion{{ID: "a", Description: "tests pass", Status: "satisfied"}},
		Artifacts: []event.ArtifactLink{{ArtifactID: "artifact_1"}}, EvidenceRefs: []string{"evidence_1"},
		DeliveryState: &event.DeliveryState{Status: "delivered"},
	})
	x = st.s.Tasks.Find("task_1")
	if len(x.Acceptance) != 2 || x.Acceptance[0].Status != "satisfied" || x.Acceptance[1].ID != "b" {
		t.Errorf("acceptance %+v", x.Acceptance)
	}
	if findEdge(x.Relationships, "produced_artifact", "artifact_1") < 0 || findEdge(x.Relationships, "evidence", "evidence_1") < 0 {
		t.Errorf("edges %+v", x.Relationships)
	}
	if d := st.s.Snapshot().DeliveryState; len(d.Open) != 0 || d.ByStatus["delivered"] != 1 {
		t.Errorf("delivery %+v", d)
	}
}

func TestCancelIntentStaysUntilRetry(t *testing.T) {
	st := newStory(t)
	st.createTask("task_1", &event.TaskCreated{})
	st.addFact(event.TypeTaskCancelRequested, event.Scope{TaskID: "task_1"}, &event.TaskStatusChanged{Status: TaskCancelling, StatusReason: "enough", Propagate: true})
	st.addFact(event.TypeTaskProgress, event.Scope{TaskID: "task_1"}, &event.TaskProgressed{Progress: event.Progress{Phase: "cleaning"}})
	if c := st.s.Tasks.Find("task_1").Cancel; c == nil || !c.Propagate || c.Reason != "enough" {
		t.Fatalf("intent %+v", c)
	}
	st.task(event.TypeTaskCancelled, "task_1", TaskCancelled)
	if st.s.Tasks.Find("task_1").Cancel == nil {
		t.Error("the intent is gone with the cancellation")
	}
	st.task(event.TypeTaskRetrying, "task_1", TaskRetrying)
	if st.s.Tasks.Find("task_1").Cancel != nil {
		t.Error("a retried task is still meant to be cancelled")
	}
}

// TestAPreparedAttemptRunsWithItsTurn: that an attempt begins is said once; that it
// is worked on follows from its turn.
func TestAPreparedAttemptRunsWithItsTurn(t *testing.T) {
	st := newStory(t)
	st.createTask(inTurn().TaskID, &event.TaskCreated{Title: "one"})
	st.addFact(event.TypeTaskAttemptStarted, inTurn(), &event.TaskAttemptStarted{Status: AttemptPreparing, AttemptCount: 1})
	attempt := func() Attempt { return st.s.Tasks.Find(inTurn().TaskID).Attempts[0] }
	if got := attempt().Status; got != AttemptPreparing {
		t.Fatalf("before the turn: %s", got)
	}
	st.startTurn()
	if got := attempt().Status; got != AttemptRunning {
		t.Errorf("after the turn has started: %s", got)
	}
	st.addFact(event.TypeTaskAttemptCompleted, inTurn(), &event.TaskAttemptCompleted{Status: "completed"})
	st.addFact(event.TypeTurnStarted, inTurn(), &event.TurnStarted{Status: "running"})
	if got := attempt().Status; got != AttemptCompleted {
		t.Errorf("an ended attempt became %s", got)
	}
}
