package work_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/model"
	"agentd/model/provider/script"
	"agentd/state"
)

// output reads what is behind a reference.
func (k *crew) output(ref string) string {
	k.Helper()
	b, _, err := k.m.Output(context.Background(), command.Local(), ref)
	if err != nil {
		k.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	text, err := io.ReadAll(b)
	if err != nil {
		k.Fatal(err)
	}
	return string(text)
}

// factsOf are the payloads of a task's facts of one kind, in order.
func factsOf[P event.Payload](k *crew, sessionID, taskID string) []P {
	k.Helper()
	var out []P
	for _, e := range k.facts(sessionID) {
		if p, ok := e.Payload.(P); ok && (taskID == "" || e.TaskID == taskID) {
			out = append(out, p)
		}
	}
	return out
}

// TestAnAttemptSaysWhatItGave: task attempts: an attempt has output refs and a
// completion summary; progress and delivery: progress is facts, not prose; the turn's
// end has a preview of the answer.
func TestAnAttemptSaysWhatItGave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("a long answer. ", 1000)
		k := newCrew(t,
			when("count", script.Answer{Tools: []script.Tool{{Name: "list_files", Arguments: map[string]any{"path": "."}}}}),
			when("count", script.Answer{Text: "There are three."}),
			when("long", script.Answer{Text: long}))
		k.create(command.CreateTask{TaskID: "task_a", Start: true})
		done := k.await("task_a", state.TaskCompleted)
		a := done.Attempts[0]
		if a.CompletionSummary != "There are three." || len(a.OutputRefs) != 1 || k.output(a.OutputRefs[0].OutputRef) != "There are three." {
			t.Errorf("the attempt: %+v", a)
		}
		told := factsOf[*event.TaskProgressed](k, done.SessionID, "task_a")
		if len(told) != 2 || told[0].Progress.Phase != "working" || told[0].Progress.CurrentStep != "calls list_files" || told[1].Progress.Counters["toolCalls"] != 1 || told[1].Progress.Counters["modelCalls"] != 2 {
			t.Errorf("progress: %+v", told)
		}
		if p := done.Progress; p == nil || p.Phase != "delivering" || p.Summary != "There are three." {
			t.Errorf("the task's progress: %+v", p)
		}
		k.create(command.CreateTask{TaskID: "task_long", Objective: "a long one", Start: true})
		k.await("task_long", state.TaskCompleted)
		end := factsOf[*event.TurnCompleted](k, k.task("task_long").SessionID, "task_long")[0]
		if len(end.Preview) > 300 || !strings.HasPrefix(long, strings.TrimSuffix(end.Preview, "…")) || k.output(end.MessageRef) != long {
			t.Errorf("the turn's end: %q, %s", end.Preview, end.MessageRef)
		}
		turn := ask[command.SubmitTurnResult](k, &command.SubmitTurn{Input: command.Text("hello")})
		k.await(turn.TaskID, state.TaskCompleted)
		end = factsOf[*event.TurnCompleted](k, turn.SessionID, turn.TaskID)[0]
		if end.Preview != "You said: hello" || end.MessageRef != "" {
			t.Errorf("a short answer: %+v", end)
		}
		if own := k.task(turn.TaskID); own.Attempts[0].CompletionSummary != "You said: hello" || own.Progress != nil {
			t.Errorf("a turn's own task: %+v", own)
		}
	})
}

// TestATaskWaitsForItsParts: agent task, statuses: completed means that the facts are
// reconciled. A task with subtasks or jobs under way is not.
func TestATaskWaitsForItsParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t, when("word", script.Answer{Stall: time.Hour, Text: "late"}))
		k.create(command.CreateTask{TaskID: "task_top"})
		k.create(command.CreateTask{TaskID: "task_part", ParentTaskID: "task_top", Worker: "external", Start: true})
		k.create(command.CreateTask{TaskID: "task_draft", ParentTaskID: "task_top", Draft: true})
		k.create(command.CreateTask{TaskID: "task_after", ParentTaskID: "task_top", DependsOn: []string{"task_top"}, Start: true})
		k.create(command.CreateTask{TaskID: "task_last", ParentTaskID: "task_top", DependsOn: []string{"task_after"}, Start: true})
		ask[command.JobResult](k, &command.CreateJob{JobID: "job_part", TaskID: "task_top", Instruction: "Repeat.", Items: items(1, numberWord)})
		k.start("task_top")
		top := k.await("task_top", state.TaskBlocked)
		if top.NativeStatus != "children" || !slices.Equal(top.Blockers, []string{"task_part", "job_part"}) || top.Attempts[0].Status != state.AttemptCompleted {
			t.Fatalf("the task: %s %v %+v", top.NativeStatus, top.Blockers, top.Attempts)
		}
		k.restart()
		ask[command.TaskResult](k, &command.CompleteTask{TaskID: "task_part"})
		k.awaitTask("task_top", "waiting for the job alone", func(t *state.Task) bool { return slices.Equal(t.Blockers, []string{"job_part"}) })
		ask[command.JobRecord](k, &command.CancelJob{JobID: "job_part"})
		k.await("task_top", state.TaskCompleted)
		k.await("task_last", state.TaskCompleted)
	})
}

// TestAPartThatComesToWaitForItsWhole: an edge has a part of a task wait for the task itself, at
// once or through another one. Then the task isn't held up by it any more: each would wait for
// the other. The part's own work is done or goes on later, and a restart changes nothing.
func TestAPartThatComesToWaitForItsWhole(t *testing.T) {
	for _, c := range []struct {
		name    string
		link    command.LinkTasks
		restart bool
	}{
		{"at once", command.LinkTasks{TaskID: "task_part", Kind: "blocked_by", TargetID: "task_top"}, false},
		{"through another one", command.LinkTasks{TaskID: "task_part", Kind: "blocked_by", TargetID: "task_after"}, false},
		{"seen from there", command.LinkTasks{TaskID: "task_after", Kind: "blocks", TargetID: "task_part"}, false},
		{"after a restart", command.LinkTasks{TaskID: "task_part", Kind: "blocked_by", TargetID: "task_after"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newCrew(t)
				k.create(command.CreateTask{TaskID: "task_top"})
				k.create(command.CreateTask{TaskID: "task_part", ParentTaskID: "task_top", Start: true, TaskFields: command.TaskFields{Acceptance: []command.Criterion{{ID: "c", Description: "good"}}}})
				k.create(command.CreateTask{TaskID: "task_after", DependsOn: []string{"task_top"}, SessionID: k.task("task_top").SessionID, Start: true})
				k.start("task_top")
				k.awaitTask("task_top", "waiting for its part", func(t *state.Task) bool { return slices.Equal(t.Blockers, []string{"task_part"}) })
				// A task that is being worked on can't come to depend on anything.
				k.awaitTask("task_part", "waiting for its criterion", func(t *state.Task) bool { return slices.Equal(t.Blockers, []string{"c"}) })
				if c.restart {
					k.restart()
				}
				ask[command.RelationshipsResult](k, &c.link)
				k.await("task_top", state.TaskCompleted)
				k.await("task_after", state.TaskCompleted)
			})
		})
	}
}

// TestAWorkerCantCompleteBeforeTheParts: the same for a task that somebody else works on.
func TestAWorkerCantCompleteBeforeTheParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t)
		k.hire("task_top", 0, nil)
		k.create(command.CreateTask{TaskID: "task_part", ParentTaskID: "task_top", Worker: "external", Start: true})
		k.create(command.CreateTask{TaskID: "task_idle", ParentTaskID: "task_top"}) // nobody started it
		k.refuse(fault.Conflict, &command.CompleteTask{TaskID: "task_top"}, "task_part", "cancel")
		ask[command.TaskResult](k, &command.CancelTask{TaskID: "task_part"})
		ask[command.TaskResult](k, &command.CompleteTask{TaskID: "task_top"})
	})
}

// TestAJobIsInTheTaskGraph: task graph: children or jobs without edges are wrong; the
// turns of its items name the job and the task that it works for.
func TestAJobIsInTheTaskGraph(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t)
		k.create(command.CreateTask{TaskID: "task_top", Worker: "external", Start: true})
		ask[command.JobResult](k, &command.CreateJob{JobID: "job_a", TaskID: "task_top", Instruction: "Repeat.", Items: items(2, numberWord)})
		edge := func(status string) *state.Task {
			return k.awaitTask("task_top", "linked to a job that is "+status, func(t *state.Task) bool {
				return slices.ContainsFunc(t.Relationships, func(r state.Relationship) bool {
					return r.Kind == "child" && r.TargetID == "job_a" && r.Status == status
				})
			})
		}
		top := edge("satisfied")
		if len(top.Relationships) != 1 {
			t.Errorf("edges: %+v", top.Relationships)
		}
		turns := map[string]bool{}
		for _, e := range k.facts(top.SessionID) {
			if !strings.HasPrefix(string(e.Type), "turn.") && !strings.HasPrefix(string(e.Type), "model.") {
				continue
			}
			turns[e.TurnID] = true
			if e.JobID != "job_a" || e.ParentTaskID != "task_top" || e.TaskID == "task_top" {
				t.Errorf("%s has job %q, parent task %q, task %q", e.Type, e.JobID, e.ParentTaskID, e.TaskID)
			}
		}
		if len(turns) != 2 {
			t.Errorf("%d turns", len(turns))
		}
		ask[command.TaskResult](k, &command.CompleteTask{TaskID: "task_top"})
	})
}

// TestABudgetOfATaskIsChecked: routing and limits: cost and quota are facts. A task's
// limit is checked before each model call, with what was delegated for it.
func TestABudgetOfATaskIsChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		used := &script.Usage{InputTokens: 50_000, OutputTokens: 50_000}
		k := &crew{TB: t, store: newCrewStore(t), price: &model.Price{Rates: model.Rates{InputPerMTok: 1, OutputPerMTok: 1}}, script: &script.Script{Answers: []script.Answer{
			when("word", script.Answer{Text: "item", Usage: used}),
			when("once", script.Answer{Text: "answer", Usage: used}),
			{Tools: []script.Tool{{Name: "list_files", Arguments: map[string]any{"path": "."}}}, Usage: used},
			{Text: "never"},
		}}}
		k.started()
		limit := func(usd float64) command.TaskFields {
			return command.TaskFields{Constraints: &event.TaskConstraints{MaxCostUSD: usd}, RetryPolicy: &event.RetryPolicy{MaxAttempts: 3}}
		}

		k.create(command.CreateTask{TaskID: "task_tiny", Start: true, TaskFields: limit(1e-7)})
		tiny := k.await("task_tiny", state.TaskFailed)
		quotas := factsOf[*event.QuotaState](k, tiny.SessionID, "task_tiny")
		if tiny.LastError.Category != "quota_blocked" || tiny.CostUSD != 0 || len(tiny.Attempts) != 1 || !strings.Contains(tiny.LastError.Advice, "maxCostUSD") {
			t.Errorf("a limit below the price of the input: %+v, cost %v", tiny.LastError, tiny.CostUSD)
		}
		if len(quotas) != 1 || quotas[0].QuotaName != "task_cost" || *quotas[0].Limit != 1e-7 || *quotas[0].Used != 0 {
			t.Errorf("quotas: %+v", quotas)
		}

		k.create(command.CreateTask{TaskID: "task_dear", Start: true, TaskFields: limit(0.1)})
		dear := k.await("task_dear", state.TaskFailed)
		var types []event.Type
		for _, e := range k.facts(dear.SessionID) {
			if p, ok := e.Payload.(*event.QuotaState); ok && p.QuotaName == "task_cost" {
				types = append(types, e.Type)
			}
		}
		if !slices.Equal(types, []event.Type{event.TypeQuotaLow, event.TypeQuotaBlocked}) || dear.LastError.Category != "quota_blocked" || dear.CostUSD != 0.1 {
			t.Errorf("a spent limit: %v, %+v, cost %v", types, dear.LastError, dear.CostUSD)
		}

		k.create(command.CreateTask{TaskID: "task_over", Objective: "answer once", Start: true, TaskFields: limit(0.09)})
		if over := k.await("task_over", state.TaskCompleted); !strings.Contains(over.StatusReason, "more than its limit of 0.090000") {
			t.Errorf("a task that went beyond its limit with its last call: %q", over.StatusReason)
		}

		k.create(command.CreateTask{TaskID: "task_job", Worker: "external", Start: true, TaskFields: limit(0.15)})
		ask[command.JobResult](k, &command.CreateJob{JobID: "job_a", TaskID: "task_job", Instruction: "Repeat.", Items: items(3, numberWord), Concurrency: 1})
		top := k.awaitTask("task_job", "done with the job", func(t *state.Task) bool {
			return slices.ContainsFunc(t.Relationships, func(r state.Relationship) bool { return r.TargetID == "job_a" && r.Status == "failed" })
		})
		if rec := ask[command.JobRecord](k, &command.GetJob{JobID: "job_a"}); rec.Progress.Completed != 2 || rec.Items[2].LastError.Category != "quota_blocked" || top.DelegatedCostUSD != 0.2 {
			t.Errorf("a job beyond its task's limit: %+v, cost %v", rec.Progress, top.DelegatedCostUSD)
		}
	})
}

// TestADraftIsAccepted: agent task, statuses: draft is defined and not yet accepted;
// accepted: the runtime took it on.
func TestADraftIsAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t)
		k.refuse(fault.InvalidParams, &command.CreateTask{Objective: "x", Draft: true, Start: true}, "draft")
		if made := k.create(command.CreateTask{TaskID: "task_a", Draft: true}); made.Status != state.TaskDraft {
			t.Errorf("created: %+v", made)
		}
		ask[command.TaskResult](k, &command.UpdateTask{TaskID: "task_a", TaskFields: command.TaskFields{Title: "more precisely"}})
		k.restart()
		if s := k.task("task_a").Status; s != state.TaskDraft {
			t.Errorf("after a restart a draft is %s", s)
		}
		k.refuse(fault.Conflict, &command.AppendTaskProgress{TaskID: "task_a", Progress: &event.Progress{Phase: "x"}}, "draft")
		k.start("task_a")
		done := k.await("task_a", state.TaskCompleted)
		got := k.factTypesOf(done)
		if i := slices.Index(got, event.TypeTaskAccepted); i < 0 || slices.Index(got, event.TypeTaskStarted) < i {
			t.Errorf("facts: %v", got)
		}
		k.create(command.CreateTask{TaskID: "task_b", Draft: true})
		ask[command.TaskResult](k, &command.CancelTask{TaskID: "task_b"})
		k.await("task_b", state.TaskCancelled)
		made := k.task(k.create(command.CreateTask{TaskID: "task_c"}).TaskID)
		if got := k.factTypesOf(made); !slices.Equal(got, []event.Type{event.TypeTaskCreated, event.TypeTaskAccepted}) {
			t.Errorf("a task that isn't a draft: %v", got)
		}
	})
}

// TestEveryHandOverIsAFact: recommended events: task.delegated records delegation, to a
// subagent, a subtask and an external worker as to a job and a thread.
func TestEveryHandOverIsAFact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t, when("delegate", spawns(map[string]any{"role": "helper", "input": "a part"})), when("delegate", script.Answer{Text: "done"}))
		k.hire("task_top", 0, nil)
		k.create(command.CreateTask{TaskID: "task_part", ParentTaskID: "task_top"})
		top := k.task("task_top")
		to := func(taskID string) (out []string) {
			for _, d := range k.task(taskID).Delegations {
				out = append(out, d.To+" "+d.TargetID)
			}
			return out
		}
		if got := to("task_top"); !slices.Equal(got, []string{"worker " + top.Attempts[0].Worker.ID, "task task_part"}) {
			t.Errorf("delegated: %v", got)
		}
		k.create(command.CreateTask{TaskID: "task_b", Objective: "delegate", Start: true})
		done := k.await("task_b", state.TaskCompleted)
		list := ask[command.ListSubagentsResult](k, &command.ListSubagents{SessionID: done.SessionID})
		child := list.Subagents[0].SubagentID
		if got := to("task_b"); len(got) != 2 || got[1] != "subagent "+child {
			t.Errorf("delegated: %v", got)
		}
		var ref string
		k.view(done.SessionID, func(s *state.Session) { ref = s.Subagents.Find(child).LastMessageRef })
		if ref == "" || k.output(ref) != "You said: a part" {
			t.Errorf("the last message is behind %q", ref)
		}
	})
}

func (k *crew) view(sessionID string, f func(*state.Session)) {
	k.Helper()
	if err := k.m.View(context.Background(), sessionID, func(s *state.Session) error {
		f(s)
		return nil
	}); err != nil {
		k.Fatal(err)
	}
}
