package loop_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/hook"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/session"
	"agentd/state"
	"agentd/work"
)

// What the standard's prose says of facts and read models, beyond the contract's
// tables: nothing disappears without a word, and nothing is claimed that isn't known.

// TestATurnsTaskWaitsWithIt: the task that every turn has says what it waits for.
func TestATurnsTaskWaitsWithIt(t *testing.T) {
	for _, c := range []struct {
		answer script.Answer
		status string
	}{
		{runtimetest.CallsTool("write_file", map[string]any{"path": "a.txt", "content": "a"}), state.TaskWaitingPermission},
		{runtimetest.CallsTool("request_input", map[string]any{"prompt": "Which?"}), state.TaskWaitingInput},
	} {
		t.Run(c.status, func(t *testing.T) {
			k := runtimetest.New(t, c.answer, runtimetest.Says("done"))
			r := k.Submit("sess_a", "go")
			id, asked := k.WaitForAction("sess_a", 1)
			task := runtimetest.Do[state.Task](k, &command.GetTask{TaskID: r.TaskID})
			if task.Status != c.status || !slices.Equal(task.Blockers, []string{id}) || task.StatusReason == "" {
				t.Errorf("while it waits: %+v", task)
			}
			k.Close()
			k.Open() // also after a restart
			s := runtimetest.Do[session.GetSessionResult](k, &command.GetSession{SessionID: "sess_a"})
			if len(s.BlockedTasks) != 1 || !slices.Equal(s.BlockedTasks[0].ActionIDs, []string{id}) || s.TaskSummary.Waiting != 1 {
				t.Errorf("the snapshot: %+v %+v", s.BlockedTasks, s.TaskSummary)
			}
			if list := runtimetest.Do[work.ListTasksResult](k, &command.ListTasks{SessionID: "sess_a", Status: c.status}); len(list.Tasks) != 1 {
				t.Errorf("listed by its status: %+v", list.Tasks)
			}
			k.Respond(id, asked.Decisions[0])
			k.Completes(r)
			if task := runtimetest.Do[state.Task](k, &command.GetTask{TaskID: r.TaskID}); task.Status != state.TaskCompleted || len(task.Blockers) != 0 || task.StatusReason != "" {
				t.Errorf("at the end: %+v", task)
			}
		})
	}
}

// TestATurnsTaskIsBlockedWithItsThread: and says why.
func TestATurnsTaskIsBlockedWithItsThread(t *testing.T) {
	h := &runtimetest.HaltingModel{}
	k := runtimetest.NewWith(t, h.Use, script.Answer{Text: "one two three", Chunks: 3})
	k.Manual = true
	r := k.Submit("sess_a", "go")
	k.WaitFor("sess_a", runtimetest.FactIs(event.TypeModelDelta, r.TurnID))
	k.Close()
	h.GoesOn.Store(true)
	k.Open()
	k.WaitFor("sess_a", func(e *event.Event) bool {
		p, ok := e.Payload.(*event.ThreadUpdated)
		return ok && p.Status == "blocked"
	})
	if task := runtimetest.Do[state.Task](k, &command.GetTask{TaskID: r.TaskID}); task.Status != state.TaskBlocked || !strings.Contains(task.StatusReason, "resume_thread") {
		t.Errorf("while the thread is blocked: %+v", task)
	}
	runtimetest.Do[command.ResumeThreadResult](k, &command.ResumeThread{SessionID: "sess_a", ThreadID: r.ThreadID})
	k.Completes(r)
}

// TestARuleThatDeniesHoldsOverAnApproval: also one that came after the question.
func TestARuleThatDeniesHoldsOverAnApproval(t *testing.T) {
	for _, decision := range []string{"deny", "ask"} {
		k := runtimetest.New(t, runtimetest.CallsTool("write_file", map[string]any{"path": "a.txt", "content": "a"}), runtimetest.Says("done"))
		r := k.Submit("sess_a", "go")
		id, _ := k.WaitForAction("sess_a", 1)
		runtimetest.Do[command.PolicyResult](k, &command.SetPolicy{SessionID: "sess_a", Rules: []event.PolicyRule{{Decision: decision, Tool: "write_file", Reason: "not now"}}})
		k.Respond(id, "allow")
		k.Completes(r)
		judged := runtimetest.Payloads[*event.PermissionEvaluated](k, "sess_a")
		last := judged[len(judged)-1]
		switch decision {
		case "deny":
			if k.ReadFile("a.txt") != "-" || last.Decision != "deny" || last.DecisionSource != "rule" || k.CountFacts("sess_a", event.TypeToolFailed) != 1 {
				t.Errorf("denied by a rule: %+v, the file holds %q", last, k.ReadFile("a.txt"))
			}
		case "ask":
			if k.ReadFile("a.txt") != "a" || len(judged) != 1 { // who was asked has answered
				t.Errorf("asked by a rule: %+v, the file holds %q", last, k.ReadFile("a.txt"))
			}
		}
	}
}

// TestAnInterruptedTurnTellsOfEachCall: also of those that nobody began.
func TestAnInterruptedTurnTellsOfEachCall(t *testing.T) {
	file := func(name string) script.Tool {
		return script.Tool{Name: "write_file", Arguments: map[string]any{"path": name, "content": "a"}}
	}
	k := runtimetest.New(t, script.Answer{Tools: []script.Tool{file("a.txt"), file("b.txt")}}, runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	id, _ := k.WaitForAction("sess_a", 1)
	runtimetest.Do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_a", Reason: "enough"})
	k.Fails(r, "interrupted")
	var asked, told []string
	for _, e := range k.Facts("sess_a") {
		switch p := e.Payload.(type) {
		case *event.ModelCompleted:
			for _, c := range p.Message.ToolCalls {
				asked = append(asked, c.ToolCallID)
			}
		case *event.ToolFailed:
			told = append(told, e.ToolCallID)
			if p.ErrorCategory != "interrupted" || !strings.Contains(p.Message, "enough") {
				t.Errorf("the call's end: %+v", p)
			}
		}
	}
	if len(asked) != 2 || !slices.Equal(asked, told) {
		t.Errorf("asked for %v, told of %v", asked, told)
	}
	runtimetest.Refused(k, &command.RespondAction{ActionID: id, Decision: "allow"}, fault.Conflict)
	if k.ReadFile("a.txt") != "-" {
		t.Error("it was written all the same")
	}
}

// TestAnAttemptHasItsIDs: on its facts and in its record, whoever worked, and what
// follows a failure.
func TestAnAttemptHasItsIDs(t *testing.T) {
	k := runtimetest.New(t, script.Answer{Error: &script.Error{Category: "invalid_request", Message: "no"}})
	r := k.Submit("sess_a", "go")
	k.Fails(r, "model_failed")
	runtimetest.Do[command.TaskResult](k, &command.CreateTask{TaskID: "task_out", SessionID: "sess_a", Objective: "do it", Worker: "external", Start: true})
	runtimetest.Do[command.TaskResult](k, &command.FailTask{TaskID: "task_out", Error: &event.Failure{Message: "no"}})
	facts := 0
	for _, e := range k.Facts("sess_a") {
		if !strings.HasPrefix(string(e.Type), "task.attempt.") {
			continue
		}
		facts++
		if e.AttemptID == "" || e.AttemptID != e.RunID {
			t.Errorf("%s of %s has run %q and attempt %q", e.Type, e.TaskID, e.RunID, e.AttemptID)
		}
		if p, ok := e.Payload.(*event.TaskAttemptFailed); ok && p.NextAttemptPolicy == "" {
			t.Errorf("nothing says what follows: %+v", p)
		}
	}
	if facts != 4 {
		t.Errorf("%d facts of attempts", facts)
	}
	for _, id := range []string{r.TaskID, "task_out"} {
		task := runtimetest.Do[state.Task](k, &command.GetTask{TaskID: id})
		if a := task.Attempts[0]; a.AttemptID != a.RunID || a.NextAttemptPolicy == "" {
			t.Errorf("the record of %s: %+v", id, a)
		}
	}
}

// TestReportedArtifactsAreFacts: they are in the session's summary and in evidence,
// once each, however often they are reported.
func TestReportedArtifactsAreFacts(t *testing.T) {
	k := runtimetest.New(t)
	k.Completes(k.Submit("sess_a", "hi"))
	runtimetest.Do[command.TaskResult](k, &command.CreateTask{TaskID: "task_a", SessionID: "sess_a", Objective: "make it", Worker: "external", Start: true})
	one, two := event.ArtifactLink{ArtifactID: "artifact_1", URI: "file:///one"}, event.ArtifactLink{ArtifactID: "artifact_2", MediaType: "text/plain"}
	runtimetest.Do[command.TaskResult](k, &command.UpdateTask{TaskID: "task_a", TaskFields: command.TaskFields{}, Artifacts: []event.ArtifactLink{one}})
	runtimetest.Do[command.TaskResult](k, &command.CompleteTask{TaskID: "task_a", Artifacts: []event.ArtifactLink{one, two}})
	var told []string
	for _, e := range k.Facts("sess_a") {
		if p, ok := e.Payload.(*event.ArtifactChanged); ok {
			told = append(told, e.ArtifactID)
			if e.TaskID != "task_a" || p.Change != "observed" {
				t.Errorf("the fact: %+v %+v", e.Scope, p)
			}
		}
	}
	if !slices.Equal(told, []string{"artifact_1", "artifact_2"}) {
		t.Errorf("told of %v", told)
	}
	s := runtimetest.Do[session.GetSessionResult](k, &command.GetSession{SessionID: "sess_a"})
	if got := s.ArtifactCheckpoint.Artifacts; len(got) != 2 || got[0].TaskID != "task_a" {
		t.Errorf("the summary: %+v", got)
	}
	task := runtimetest.Do[state.Task](k, &command.GetTask{TaskID: "task_a"})
	edges := 0
	for _, r := range task.Relationships {
		if r.Kind == "produced_artifact" {
			edges++
		}
	}
	if edges != 2 || len(task.Artifacts) != 2 {
		t.Errorf("the task: %+v", task)
	}
}

// TestNothingStaysOfATurnThatWasTakenBack: it can't be gone back to.
func TestNothingStaysOfATurnThatWasTakenBack(t *testing.T) {
	k := runtimetest.New(t)
	var turns []*command.SubmitTurnResult
	for _, text := range []string{"one", "two", "three"} {
		r := k.Submit("sess_a", text)
		k.Completes(r)
		turns = append(turns, r)
	}
	back := func(i int) *command.RollbackThread {
		return &command.RollbackThread{SessionID: "sess_a", ThreadID: turns[0].ThreadID, ToTurnID: turns[i].TurnID}
	}
	runtimetest.Do[command.RollbackThreadResult](k, back(0))
	before := len(k.Facts("sess_a"))
	runtimetest.Refused(k, back(1), fault.NotFound)
	if n := len(k.Facts("sess_a")); n != before {
		t.Errorf("%d facts of what was refused", n-before)
	}
	if again := runtimetest.Do[command.RollbackThreadResult](k, back(0)); len(again.RemovedTurns) != 0 {
		t.Errorf("back to what stayed: %+v", again)
	}
}

// TestACompactionNamesTheTurnThatItsPredecessorFellInto: its rest is summarised too.
func TestACompactionNamesTheTurnThatItsPredecessorFellInto(t *testing.T) {
	k := runtimetest.New(t, runtimetest.Says("one"), runtimetest.CallsTool("write_file", map[string]any{"path": "a.txt", "content": "a"}), runtimetest.Says("a summary"), runtimetest.Says("two"), runtimetest.Says("another"))
	first := k.Submit("sess_a", "first")
	k.Completes(first)
	r := k.Submit("sess_a", "second")
	id, _ := k.WaitForAction("sess_a", 1)
	compact := &command.CompactThread{SessionID: "sess_a", ThreadID: r.ThreadID}
	if b := runtimetest.Do[command.CompactThreadResult](k, compact).Boundary; !slices.Equal(b.AffectedTurns, []string{first.TurnID, r.TurnID}) || !slices.Equal(b.Preserved.Actions, []string{id}) {
		t.Errorf("the first: %+v", b)
	}
	k.Respond(id, "allow")
	k.Completes(r)
	if b := runtimetest.Do[command.CompactThreadResult](k, compact).Boundary; !slices.Equal(b.AffectedTurns, []string{r.TurnID}) {
		t.Errorf("the second: %+v", b)
	}
}

// TestWhatIsNotKnownIsNotZero: a turn without a price has no cost, and the mode of
// the configuration is known from what it decided.
func TestWhatIsNotKnownIsNotZero(t *testing.T) {
	k := runtimetest.New(t, runtimetest.CallsTool("write_file", map[string]any{"path": "a.txt", "content": "a"}), runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	id, _ := k.WaitForAction("sess_a", 1)
	if p := k.Thread(r).PermissionState; p.Mode != "default" || !p.InteractionAllowed || len(p.PendingApprovals) != 1 {
		t.Errorf("while it waits: %+v", p)
	}
	k.Respond(id, "allow")
	k.Completes(r)
	if c := k.Thread(r).Turns[0].CostState; c.CostUSD != nil || c.Unpriced != 2 {
		t.Errorf("the cost: %+v", c)
	}
}

// TestAHookThatFailsOpenIsWarnedOf: the work goes on, and somebody is told.
func TestAHookThatFailsOpenIsWarnedOf(t *testing.T) {
	broken := func(context.Context, *hook.Input, string) (string, error) { return "", errors.New("no such program") }
	for point, warnings := range map[hook.Point]int{hook.PostToolUse: 1, hook.PreToolUse: 0} { // open and closed
		h := &runtimetest.Hooks{Points: []hook.Point{point}, Answer: broken}
		k := runtimetest.NewWith(t, h.Use(t), runtimetest.CallsTool("update_plan", map[string]any{"items": []any{}}), runtimetest.Says("done"))
		k.Completes(k.Submit("sess_a", "go"))
		got := runtimetest.Payloads[*event.RuntimeNotice](k, "sess_a")
		if len(got) != warnings || warnings == 1 && (got[0].Code != "hook_failed_open" || !strings.Contains(got[0].Message, "test_post_tool_use")) {
			t.Errorf("%s: %+v", point, got)
		}
	}
}

// TestASubagentsRecordNamesItsParents: and what it is bound to.
func TestASubagentsRecordNamesItsParents(t *testing.T) {
	k := runtimetest.New(t)
	r := k.Submit("sess_a", "hi")
	k.Completes(r)
	spawn := &command.SpawnSubagent{
		SessionID: "sess_a", ThreadID: r.ThreadID, TurnID: r.TurnID, Input: runtimetest.Quoted("look"), Isolation: &event.Isolation{Tools: []string{"read_file"}, PermissionMode: "plan"},
	}
	child := runtimetest.Do[command.SpawnSubagentResult](k, spawn)
	grandchild := runtimetest.Do[command.SpawnSubagentResult](k, &command.SpawnSubagent{SessionID: "sess_a", ThreadID: child.ThreadID, Input: runtimetest.Quoted("look closer")})
	list := runtimetest.Do[command.ListSubagentsResult](k, &command.ListSubagents{SessionID: "sess_a", Descendants: true}).Subagents
	for _, a := range list {
		switch a.SubagentID {
		case child.SubagentID:
			if a.ParentTurnID != r.TurnID || a.Isolation == nil || a.Isolation.PermissionMode != "plan" || !slices.Equal(a.Isolation.Tools, []string{"read_file"}) {
				t.Errorf("the child: %+v %+v", a, a.Isolation)
			}
		case grandchild.SubagentID:
			if a.ParentSubagentID != child.SubagentID {
				t.Errorf("the grandchild: %+v", a)
			}
		}
	}
	if len(list) != 2 {
		t.Errorf("%d children", len(list))
	}
	runtimetest.Do[command.WaitSubagentsResult](k, &command.WaitSubagents{SubagentIDs: []string{child.SubagentID, grandchild.SubagentID}})
}

// TestAUsedUpAccountIsAQuota: it is told as one, and another provider's model is
// asked all the same.
func TestAUsedUpAccountIsAQuota(t *testing.T) {
	spent := script.Answer{Error: &script.Error{Category: "rate_limited", Message: "the account is used up"}}
	k := runtimetest.New(t, spent, runtimetest.Says("there you are"))
	r := k.Submit("sess_a", "go")
	k.Fails(r, "model_failed")
	told := runtimetest.Payloads[*event.QuotaState](k, "sess_a")
	if len(told) != 1 || told[0].Provider != "script" || told[0].Limit != nil || told[0].Remaining != nil || !strings.Contains(told[0].Reason, "used up") || told[0].ModelRequestID == "" {
		t.Errorf("told %+v", told)
	}
	if l := k.Thread(r).LimitState; l.Quota != "blocked" {
		t.Errorf("meanwhile: %+v", l)
	}
	next := k.Submit("sess_a", "again")
	k.Completes(next)
	if l := k.Thread(next).LimitState; l.Quota == "blocked" {
		t.Errorf("after an answer: %+v", l)
	}
}

// TestWhoEndedAProcessIsInTheFact: with the reason, whoever records the end.
func TestWhoEndedAProcessIsInTheFact(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.WithShell, runtimetest.InMode("bypass")), runtimetest.CallsTool("shell", map[string]any{"command": "sleep 1000", "background": true}), runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "go"))
	started := runtimetest.Payloads[*event.ProcessStarted](k, "sess_a")[0]
	runtimetest.Do[command.ProcessResult](k, &command.TerminateProcess{ProcessID: started.ProcessID, Reason: "enough"})
	ended := runtimetest.Payloads[*event.ProcessTerminated](k, "sess_a")
	if len(ended) != 1 || ended[0].Reason != "user" || ended[0].Detail != "enough" || ended[0].TerminatedBy == nil {
		t.Errorf("the end: %+v", ended)
	}
}

// TestTheEnvironmentHasTheStandardsNames: each of them, known or not.
func TestTheEnvironmentHasTheStandardsNames(t *testing.T) {
	k := runtimetest.New(t)
	k.Completes(k.Submit("sess_a", "hi"))
	env, refusal := runtimetest.CallByName(k, "get_execution_environment", `{"sessionId":"sess_a"}`)
	for _, name := range []string{
		"workspaceId", "cwd", "additionalRoots", "shell", "os", "arch", "envRef", "sandboxProfile", "networkProfile", "resourceLimits",
	} {
		if _, ok := env[name]; !ok {
			t.Errorf("%s is missing in %v %s", name, env, refusal)
		}
	}
	if env["sandboxProfile"] == nil {
		t.Error("the sandbox is not told")
	}
}

// TestAListedSessionSaysWhatItDoes: also before its first turn has ended.
func TestAListedSessionSaysWhatItDoes(t *testing.T) {
	k := runtimetest.New(t, runtimetest.CallsTool("write_file", map[string]any{"path": "a", "content": "a"}), runtimetest.Says("done"))
	listed := func() command.SessionSummary {
		t.Helper()
		res := runtimetest.Do[command.ListSessionsResult](k, &command.ListSessions{Query: "sess_a"})
		if len(res.Sessions) != 1 {
			t.Fatalf("%+v", res)
		}
		return res.Sessions[0]
	}
	r := k.Submit("sess_a", "go")
	action, _ := k.WaitForAction("sess_a", 1)
	if s := listed(); s.Status != "blocked" || s.TurnCount != 1 {
		t.Errorf("while it waits: %+v", s)
	}
	k.Respond(action, "allow")
	k.Completes(r)
	if s := listed(); s.Status != "completed" || s.TurnCount != 1 {
		t.Errorf("at the end: %+v", s)
	}
}
