package proof_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/hook"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
)

// TestWhyAnAction: from the model's wish over the rule to the answer and what came
// of it; and the later call that the approval still held for.
func TestWhyAnAction(t *testing.T) {
	write := runtimetest.CallsTool("write_file", map[string]any{"path": "a.txt", "content": "a"})
	k := runtimetest.NewWith(t, runtimetest.InMode("auto"), write, runtimetest.Says("done"), write, runtimetest.Says("done"))
	runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
	runtimetest.Do[command.PolicyResult](k, &command.SetPolicy{SessionID: "sess_a", Reason: "careful", Rules: []event.PolicyRule{{RuleID: "look", Decision: "ask", Tool: "write_file", Reason: "I want to see it"}}})
	r := k.Submit("sess_a", "go")
	id, _ := k.WaitForAction("sess_a", 1)
	runtimetest.Do[command.RespondActionResult](k, &command.RespondAction{ActionID: id, Decision: "allow", Scope: "session", Reason: "fine"})
	k.Completes(r)
	res := k.Why(&command.Explain{SessionID: "sess_a", ActionID: id})
	k.ExpectStatements(res, "policy.changed", "because careful", "model.completed", "asked for write_file", "permission.evaluated", "I want to see it",
		"permission.requested", "was asked", "action.required", "tool_permission", "action.resolved", "allow", "permission.resolved", "for the whole session, because fine",
		"tool.progress", "ran", "tool.result", "changed 1 file")
	if !strings.Contains(res.Answer, "asked for write_file") || !strings.Contains(res.Answer, "because fine") {
		t.Errorf("the answer is %s", res.Answer)
	}
	second := k.Submit("sess_a", "again")
	k.Completes(second)
	var call string
	for _, e := range k.Facts("sess_a") {
		if e.TurnID == second.TurnID && e.Type == event.TypeToolStarted {
			call = e.ToolCallID
		}
	}
	k.ExpectStatements(k.Why(&command.Explain{SessionID: "sess_a", ToolCallID: call}), "policy.changed", "1 rule", "permission.resolved", "because fine",
		"model.completed", "asked for write_file", "permission.evaluated", "approved before", "tool.result", "write_file")
}

// TestWhyAPlan: the approval names itself in what followed from it.
func TestWhyAPlan(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.InMode("plan"), runtimetest.PlanningAnswers()...)
	r := k.Submit("sess_a", "go")
	id, _ := k.WaitForAction("sess_a", 1)
	k.Approve(id, "auto")
	k.Completes(r)
	k.ExpectStatements(k.Why(&command.Explain{SessionID: "sess_a", ActionID: id}), "model.completed", "present_plan", "permission.evaluated", "only reads run until", "action.required", "plan_approval",
		"permission.resolved", "continues in mode auto", "policy.changed", "mode auto", "tool.result", "present_plan")
	for _, e := range k.Facts("sess_a") {
		if e.Type == event.TypeToolStarted && e.Payload.(*event.ToolStarted).ToolName == "write_file" {
			k.ExpectStatements(k.Why(&command.Explain{SessionID: "sess_a", ToolCallID: e.ToolCallID}), "policy.changed", "because the plan was approved ("+id+")", "permission.evaluated", "in mode auto")
		}
		if e.Type == event.TypePolicyChanged {
			k.ExpectStatements(k.Why(&command.Explain{SessionID: "sess_a", EventID: e.ID}), "action.resolved", "allow", "policy.changed", "the plan was approved")
		}
	}
}

// TestWhyAPolicy: a change that belongs to no call is answered for by itself.
func TestWhyAPolicy(t *testing.T) {
	k := runtimetest.New(t)
	runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
	runtimetest.Do[command.PolicyResult](k, &command.SetPolicy{SessionID: "sess_a", Mode: "auto", Reason: "it is Friday"})
	for _, e := range k.Facts("sess_a") {
		if e.Type != event.TypePolicyChanged {
			continue
		}
		res := k.Why(&command.Explain{SessionID: "sess_a", EventID: e.ID})
		if len(res.Facts) != 1 || res.Answer != "The session's policy changed: mode auto, 0 rules; by the host, because it is Friday." {
			t.Errorf("%+v", res)
		}
	}
}

// TestWhyATask: its attempts, what it waited for, its children.
func TestWhyATask(t *testing.T) {
	k := runtimetest.NewWith(t, nil, script.Answer{Tools: []script.Tool{{Name: "write_file", Arguments: map[string]any{"path": "a.txt", "content": "a"}}}}, runtimetest.Says("done"))
	runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
	task := runtimetest.Do[command.TaskResult](k, &command.CreateTask{SessionID: "sess_a", TaskID: "task_a", Objective: "write it", Start: true})
	runtimetest.Do[command.TaskResult](k, &command.CreateTask{SessionID: "sess_a", TaskID: "task_b", ParentTaskID: "task_a", Objective: "a part of it"})
	id, _ := k.WaitForAction("sess_a", 1)
	k.WaitFor("sess_a", func(e *event.Event) bool { return e.Type == event.TypeTaskWaiting && e.TaskID == task.TaskID })
	k.ExpectStatements(k.Why(&command.Explain{SessionID: "sess_a", ActionID: id}), "permission.evaluated", "write_file", "action.required", "tool_permission", "task.waiting", "it waits for "+id)
	runtimetest.Do[command.RespondActionResult](k, &command.RespondAction{ActionID: id, Decision: "deny", Reason: "not that file"})
	k.WaitFor("sess_a", func(e *event.Event) bool { return e.Type == event.TypeTaskCompleted && e.TaskID == task.TaskID })
	res := k.Why(&command.Explain{SessionID: "sess_a", TaskID: "task_a"})
	k.ExpectStatements(res, "task.created", "write it", "task.attempt.started", "Attempt 1", "permission.evaluated", "write_file", "tool.failed", "not that file", "task.completed", "completed")
	k.ExpectStatements(res, "task.created", "a part of it")
}

// TestWhyATaskThatWaits: how the task stands that it waits for, and what was told too
// late.
func TestWhyATaskThatWaits(t *testing.T) {
	k := runtimetest.New(t)
	runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
	runtimetest.Do[command.TaskResult](k, &command.CreateTask{TaskID: "first", SessionID: "sess_a", Objective: "one", Worker: "external"})
	runtimetest.Do[command.TaskResult](k, &command.CreateTask{TaskID: "second", SessionID: "sess_a", Objective: "two", DependsOn: []string{"first"}, Start: true})
	runtimetest.Do[command.TaskRunResult](k, &command.StartTask{TaskID: "first"})
	runtimetest.Do[command.TaskResult](k, &command.CancelTask{TaskID: "first"})
	of := func(status string) func(*event.Event) bool {
		return func(e *event.Event) bool {
			p, ok := e.Payload.(*event.TaskDependencyUpdated)
			return ok && e.TaskID == "second" && p.Status == status
		}
	}
	k.WaitFor("sess_a", of("failed"))
	res := k.Why(&command.Explain{SessionID: "sess_a", TaskID: "second"})
	k.ExpectStatements(res, "task.blocked", "waits for first", "task.dependency.updated", "first, which it depends on, ended without being completed")
	if !strings.Contains(res.Answer, "ended without being completed") {
		t.Errorf("the answer is %s", res.Answer)
	}
	runtimetest.Refused(k, &command.CompleteTask{TaskID: "first"}, fault.Conflict)
	k.ExpectStatements(k.Why(&command.Explain{SessionID: "sess_a", TaskID: "first"}), "task.cancelled", "cancelled", "task.attempt.completed", "changed nothing")
	runtimetest.Do[command.RelationshipsResult](k, &command.UnlinkTasks{TaskID: "second", Kind: "blocked_by", TargetID: "first"})
	k.ExpectStatements(k.Why(&command.Explain{SessionID: "sess_a", TaskID: "second"}), "task.blocked", "waits for first", "task.dependency.updated", "no longer depends on first")
}

// TestWhyARunOfASchedule: which run was started, and why another one wasn't.
func TestWhyARunOfASchedule(t *testing.T) {
	k := runtimetest.NewWith(t, nil, script.Answer{Text: "done", Stall: time.Hour})
	runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
	runtimetest.Do[command.ScheduleResult](k, &command.CreateSchedule{ScheduleID: "often", SessionID: "sess_a", EveryMs: 1000, Overlap: "skip", Task: event.Raw(`{"objective":"again"}`)})
	fired, missed := k.WaitFor("sess_a", runtimetest.FactIs(event.TypeScheduleFired, "")), k.WaitFor("sess_a", runtimetest.FactIs(event.TypeScheduleMissed, ""))
	run := fired.Payload.(*event.ScheduleFired).TaskID
	k.ExpectStatements(k.Why(&command.Explain{SessionID: "sess_a", EventID: fired.ID}), "schedule.fired", "often started "+run)
	k.ExpectStatements(k.Why(&command.Explain{SessionID: "sess_a", EventID: missed.ID}), "schedule.missed", "missed 1 run, because the run before went on")
	runtimetest.Do[command.ScheduleResult](k, &command.DeleteSchedule{ScheduleID: "often"})
	runtimetest.Do[command.TaskResult](k, &command.CancelTask{TaskID: run})
	k.WaitFor("sess_a", runtimetest.FactIs(event.TypeTaskCancelled, ""))
}

// TestWhyNothing: what no fact is about isn't made up.
func TestWhyNothing(t *testing.T) {
	k := runtimetest.New(t, runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "go"))
	for _, p := range []command.Explain{{ToolCallID: "tool_x"}, {ActionID: "action_x"}, {TurnID: "turn_x"}, {TaskID: "task_x"}, {SubagentID: "sub_x"}, {JobID: "job_x"}, {JobID: "job_x", ItemID: "item_x"}, {EventID: "evt_x"}} {
		p.SessionID = "sess_a"
		runtimetest.Refused(k, &p, fault.NotFound)
	}
	runtimetest.Refused(k, &command.Explain{SessionID: "sess_a"}, fault.InvalidParams)
	runtimetest.Refused(k, &command.Explain{SessionID: "sess_a", TurnID: "a", TaskID: "b"}, fault.InvalidParams)
}

// TestWhyAHook: what a hook said is part of the chain, and its fact leads there.
func TestWhyAHook(t *testing.T) {
	h := &runtimetest.Hooks{Points: []hook.Point{hook.PreToolUse}, Answer: func(context.Context, *hook.Input, string) (string, error) {
		return `{"decision":"deny","reason":"not on a Friday"}`, nil
	}}
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("bypass"), h.Use(t)), runtimetest.CallsTool("write_file", map[string]any{"path": "a.txt", "content": "a"}), runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "go"))
	asked := 0
	for _, e := range k.Facts("sess_a") {
		var p *command.Explain
		switch e.Type {
		case event.TypeHookCompleted:
			p = &command.Explain{SessionID: "sess_a", EventID: e.ID}
		case event.TypeToolFailed:
			p = &command.Explain{SessionID: "sess_a", ToolCallID: e.ToolCallID}
		default:
			continue
		}
		asked++
		res := k.Why(p)
		k.ExpectStatements(res, "model.completed", "asked for write_file", "hook.completed", "said deny, because not on a Friday", "permission.evaluated", "denied by a hook", "tool.failed", "denied")
		if !strings.Contains(res.Answer, "not on a Friday") {
			t.Errorf("the answer is %s", res.Answer)
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
}

// TestWhyASubagent: who started it, by which call, in which mode, and how it ended.
func TestWhyASubagent(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.InMode("auto"), runtimetest.CallsTool("spawn_agent", map[string]any{"role": "reviewer", "input": "look"}), runtimetest.Says("seen"), runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	k.Completes(r)
	spawned := k.WaitFor("sess_a", runtimetest.FactIs(event.TypeSubagentSpawned, ""))
	k.WaitFor("sess_a", runtimetest.FactIs(event.TypeSubagentCompleted, ""))
	res := k.Why(&command.Explain{SessionID: "sess_a", SubagentID: spawned.SubagentID})
	k.ExpectStatements(res, "model.completed", "asked for spawn_agent", "permission.evaluated", "agents start", "subagent.spawned", "as reviewer, in mode auto",
		"turn.submitted", "look", "turn.completed", "completed", "subagent.completed", "ended as completed")
}

// TestWhyAnItem: its attempts and the work in them, and nothing of other items.
func TestWhyAnItem(t *testing.T) {
	fail := script.Answer{Error: &script.Error{Category: "invalid_request", Message: "no such thing"}}
	k := runtimetest.NewWith(t, nil, fail)
	runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
	runtimetest.Do[command.JobResult](k, &command.CreateJob{
		JobID: "job_a", SessionID: "sess_a", Instruction: "look at it", Concurrency: 1,
		Items: []command.JobItemInput{{ItemID: "one", Input: event.Raw(`"a"`)}, {ItemID: "two", Input: event.Raw(`"b"`)}},
	})
	k.WaitFor("sess_a", func(e *event.Event) bool {
		return e.JobID == "job_a" && (e.Type == event.TypeJobCompleted || e.Type == event.TypeJobFailed)
	})
	res := k.Why(&command.Explain{SessionID: "sess_a", JobID: "job_a", ItemID: "one"})
	k.ExpectStatements(res, "job.item.started", "attempt 1", "model.failed", "no such thing", "turn.failed", "no such thing", "job.item.failed", "it isn't tried again")
	for _, f := range res.Facts {
		if strings.Contains(f.Says, "item two") {
			t.Errorf("%+v", f)
		}
	}
	whole := k.Why(&command.Explain{SessionID: "sess_a", JobID: "job_a"})
	k.ExpectStatements(whole, "job.created", "2 items: look at it", "job.item.failed", "item one failed", "job.item.started", "item two", "job.failed", "all 2 items failed")
}
