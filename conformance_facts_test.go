package agentd_test

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
		{wants("write_file", map[string]any{"path": "a.txt", "content": "a"}), state.TaskWaitingPermission},
		{wants("request_input", map[string]any{"prompt": "Which?"}), state.TaskWaitingInput},
	} {
		t.Run(c.status, func(t *testing.T) {
			k := newKit(t, c.answer, says("done"))
			r := k.submit("sess_a", "go")
			id, asked := k.required("sess_a", 1)
			task := do[state.Task](k, &command.GetTask{TaskID: r.TaskID})
			if task.Status != c.status || !slices.Equal(task.Blockers, []string{id}) || task.StatusReason == "" {
				t.Errorf("while it waits: %+v", task)
			}
			k.close()
			k.open() // also after a restart
			s := do[session.GetSessionResult](k, &command.GetSession{SessionID: "sess_a"})
			if len(s.BlockedTasks) != 1 || !slices.Equal(s.BlockedTasks[0].ActionIDs, []string{id}) || s.TaskSummary.Waiting != 1 {
				t.Errorf("the snapshot: %+v %+v", s.BlockedTasks, s.TaskSummary)
			}
			if list := do[work.ListTasksResult](k, &command.ListTasks{SessionID: "sess_a", Status: c.status}); len(list.Tasks) != 1 {
				t.Errorf("listed by its status: %+v", list.Tasks)
			}
			k.respond(id, asked.Decisions[0])
			k.completes(r)
			if task := do[state.Task](k, &command.GetTask{TaskID: r.TaskID}); task.Status != state.TaskCompleted || len(task.Blockers) != 0 || task.StatusReason != "" {
				t.Errorf("at the end: %+v", task)
			}
		})
	}
}

// TestATurnsTaskIsBlockedWithItsThread: and says why.
func TestATurnsTaskIsBlockedWithItsThread(t *testing.T) {
	h := &halting{}
	k := newKitWith(t, h.use, script.Answer{Text: "one two three", Chunks: 3})
	k.manual = true
	r := k.submit("sess_a", "go")
	k.until("sess_a", is(event.TypeModelDelta, r.TurnID))
	k.close()
	h.goesOn.Store(true)
	k.open()
	k.until("sess_a", func(e *event.Event) bool {
		p, ok := e.Payload.(*event.ThreadUpdated)
		return ok && p.Status == "blocked"
	})
	if task := do[state.Task](k, &command.GetTask{TaskID: r.TaskID}); task.Status != state.TaskBlocked || !strings.Contains(task.StatusReason, "resume_thread") {
		t.Errorf("while the thread is blocked: %+v", task)
	}
	do[command.ResumeThreadResult](k, &command.ResumeThread{SessionID: "sess_a", ThreadID: r.ThreadID})
	k.completes(r)
}

// TestARuleThatDeniesHoldsOverAnApproval: also one that came after the question.
func TestARuleThatDeniesHoldsOverAnApproval(t *testing.T) {
	for _, decision := range []string{"deny", "ask"} {
		k := newKit(t, wants("write_file", map[string]any{"path": "a.txt", "content": "a"}), says("done"))
		r := k.submit("sess_a", "go")
		id, _ := k.required("sess_a", 1)
		do[command.PolicyResult](k, &command.SetPolicy{SessionID: "sess_a", Rules: []event.PolicyRule{{Decision: decision, Tool: "write_file", Reason: "not now"}}})
		k.respond(id, "allow")
		k.completes(r)
		judged := payloads[*event.PermissionEvaluated](k, "sess_a")
		last := judged[len(judged)-1]
		switch decision {
		case "deny":
			if k.file("a.txt") != "-" || last.Decision != "deny" || last.DecisionSource != "rule" || k.count("sess_a", event.TypeToolFailed) != 1 {
				t.Errorf("denied by a rule: %+v, the file holds %q", last, k.file("a.txt"))
			}
		case "ask":
			if k.file("a.txt") != "a" || len(judged) != 1 { // who was asked has answered
				t.Errorf("asked by a rule: %+v, the file holds %q", last, k.file("a.txt"))
			}
		}
	}
}

// TestAnInterruptedTurnTellsOfEachCall: also of those that nobody began.
func TestAnInterruptedTurnTellsOfEachCall(t *testing.T) {
	file := func(name string) script.Tool {
		return script.Tool{Name: "write_file", Arguments: map[string]any{"path": name, "content": "a"}}
	}
	k := newKit(t, script.Answer{Tools: []script.Tool{file("a.txt"), file("b.txt")}}, says("done"))
	r := k.submit("sess_a", "go")
	id, _ := k.required("sess_a", 1)
	do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_a", Reason: "enough"})
	k.fails(r, "interrupted")
	var asked, told []string
	for _, e := range k.facts("sess_a") {
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
	refused(k, &command.RespondAction{ActionID: id, Decision: "allow"}, fault.Conflict)
	if k.file("a.txt") != "-" {
		t.Error("it was written all the same")
	}
}

// TestAnAttemptHasItsIDs: on its facts and in its record, whoever worked, and what
// follows a failure.
func TestAnAttemptHasItsIDs(t *testing.T) {
	k := newKit(t, script.Answer{Error: &script.Error{Category: "invalid_request", Message: "no"}})
	r := k.submit("sess_a", "go")
	k.fails(r, "model_failed")
	do[command.TaskResult](k, &command.CreateTask{TaskID: "task_out", SessionID: "sess_a", Objective: "do it", Worker: "external", Start: true})
	do[command.TaskResult](k, &command.FailTask{TaskID: "task_out", Error: &event.Failure{Message: "no"}})
	facts := 0
	for _, e := range k.facts("sess_a") {
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
		task := do[state.Task](k, &command.GetTask{TaskID: id})
		if a := task.Attempts[0]; a.AttemptID != a.RunID || a.NextAttemptPolicy == "" {
			t.Errorf("the record of %s: %+v", id, a)
		}
	}
}

// TestReportedArtifactsAreFacts: they are in the session's summary and in evidence,
// once each, however often they are reported.
func TestReportedArtifactsAreFacts(t *testing.T) {
	k := newKit(t)
	k.completes(k.submit("sess_a", "hi"))
	do[command.TaskResult](k, &command.CreateTask{TaskID: "task_a", SessionID: "sess_a", Objective: "make it", Worker: "external", Start: true})
	one, two := event.ArtifactLink{ArtifactID: "artifact_1", URI: "file:///one"}, event.ArtifactLink{ArtifactID: "artifact_2", MediaType: "text/plain"}
	do[command.TaskResult](k, &command.UpdateTask{TaskID: "task_a", TaskFields: command.TaskFields{}, Artifacts: []event.ArtifactLink{one}})
	do[command.TaskResult](k, &command.CompleteTask{TaskID: "task_a", Artifacts: []event.ArtifactLink{one, two}})
	var told []string
	for _, e := range k.facts("sess_a") {
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
	s := do[session.GetSessionResult](k, &command.GetSession{SessionID: "sess_a"})
	if got := s.ArtifactCheckpoint.Artifacts; len(got) != 2 || got[0].TaskID != "task_a" {
		t.Errorf("the summary: %+v", got)
	}
	task := do[state.Task](k, &command.GetTask{TaskID: "task_a"})
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
	k := newKit(t)
	var turns []*command.SubmitTurnResult
	for _, text := range []string{"one", "two", "three"} {
		r := k.submit("sess_a", text)
		k.completes(r)
		turns = append(turns, r)
	}
	back := func(i int) *command.RollbackThread {
		return &command.RollbackThread{SessionID: "sess_a", ThreadID: turns[0].ThreadID, ToTurnID: turns[i].TurnID}
	}
	do[command.RollbackThreadResult](k, back(0))
	before := len(k.facts("sess_a"))
	refused(k, back(1), fault.NotFound)
	if n := len(k.facts("sess_a")); n != before {
		t.Errorf("%d facts of what was refused", n-before)
	}
	if again := do[command.RollbackThreadResult](k, back(0)); len(again.RemovedTurns) != 0 {
		t.Errorf("back to what stayed: %+v", again)
	}
}

// TestACompactionNamesTheTurnThatItsPredecessorFellInto: its rest is summarised too.
func TestACompactionNamesTheTurnThatItsPredecessorFellInto(t *testing.T) {
	k := newKit(t, says("one"), wants("write_file", map[string]any{"path": "a.txt", "content": "a"}), says("a summary"), says("two"), says("another"))
	first := k.submit("sess_a", "first")
	k.completes(first)
	r := k.submit("sess_a", "second")
	id, _ := k.required("sess_a", 1)
	compact := &command.CompactThread{SessionID: "sess_a", ThreadID: r.ThreadID}
	if b := do[command.CompactThreadResult](k, compact).Boundary; !slices.Equal(b.AffectedTurns, []string{first.TurnID, r.TurnID}) || !slices.Equal(b.Preserved.Actions, []string{id}) {
		t.Errorf("the first: %+v", b)
	}
	k.respond(id, "allow")
	k.completes(r)
	if b := do[command.CompactThreadResult](k, compact).Boundary; !slices.Equal(b.AffectedTurns, []string{r.TurnID}) {
		t.Errorf("the second: %+v", b)
	}
}

// TestWhatIsNotKnownIsNotZero: a turn without a price has no cost, and the mode of
// the configuration is known from what it decided.
func TestWhatIsNotKnownIsNotZero(t *testing.T) {
	k := newKit(t, wants("write_file", map[string]any{"path": "a.txt", "content": "a"}), says("done"))
	r := k.submit("sess_a", "go")
	id, _ := k.required("sess_a", 1)
	if p := k.thread(r).PermissionState; p.Mode != "default" || !p.InteractionAllowed || len(p.PendingApprovals) != 1 {
		t.Errorf("while it waits: %+v", p)
	}
	k.respond(id, "allow")
	k.completes(r)
	if c := k.thread(r).Turns[0].CostState; c.CostUSD != nil || c.Unpriced != 2 {
		t.Errorf("the cost: %+v", c)
	}
}

// TestAHookThatFailsOpenIsWarnedOf: the work goes on, and somebody is told.
func TestAHookThatFailsOpenIsWarnedOf(t *testing.T) {
	broken := func(context.Context, *hook.Input, string) (string, error) { return "", errors.New("no such program") }
	for point, warnings := range map[hook.Point]int{hook.PostToolUse: 1, hook.PreToolUse: 0} { // open and closed
		h := &hooks{points: []hook.Point{point}, answer: broken}
		k := newKitWith(t, h.use(t), wants("update_plan", map[string]any{"items": []any{}}), says("done"))
		k.completes(k.submit("sess_a", "go"))
		got := payloads[*event.RuntimeNotice](k, "sess_a")
		if len(got) != warnings || warnings == 1 && (got[0].Code != "hook_failed_open" || !strings.Contains(got[0].Message, "test_post_tool_use")) {
			t.Errorf("%s: %+v", point, got)
		}
	}
}

// TestASubagentsRecordNamesItsParents: and what it is bound to.
func TestASubagentsRecordNamesItsParents(t *testing.T) {
	k := newKit(t)
	r := k.submit("sess_a", "hi")
	k.completes(r)
	spawn := &command.SpawnSubagent{
		SessionID: "sess_a", ThreadID: r.ThreadID, TurnID: r.TurnID, Input: quoted("look"), Isolation: &event.Isolation{Tools: []string{"read_file"}, PermissionMode: "plan"},
	}
	child := do[command.SpawnSubagentResult](k, spawn)
	grandchild := do[command.SpawnSubagentResult](k, &command.SpawnSubagent{SessionID: "sess_a", ThreadID: child.ThreadID, Input: quoted("look closer")})
	list := do[command.ListSubagentsResult](k, &command.ListSubagents{SessionID: "sess_a", Descendants: true}).Subagents
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
	do[command.WaitSubagentsResult](k, &command.WaitSubagents{SubagentIDs: []string{child.SubagentID, grandchild.SubagentID}})
}

// TestAUsedUpAccountIsAQuota: it is told as one, and another provider's model is
// asked all the same.
func TestAUsedUpAccountIsAQuota(t *testing.T) {
	spent := script.Answer{Error: &script.Error{Category: "rate_limited", Message: "the account is used up"}}
	k := newKit(t, spent, says("there you are"))
	r := k.submit("sess_a", "go")
	k.fails(r, "model_failed")
	told := payloads[*event.QuotaState](k, "sess_a")
	if len(told) != 1 || told[0].Provider != "script" || told[0].Limit != nil || told[0].Remaining != nil || !strings.Contains(told[0].Reason, "used up") || told[0].ModelRequestID == "" {
		t.Errorf("told %+v", told)
	}
	if l := k.thread(r).LimitState; l.Quota != "blocked" {
		t.Errorf("meanwhile: %+v", l)
	}
	next := k.submit("sess_a", "again")
	k.completes(next)
	if l := k.thread(next).LimitState; l.Quota == "blocked" {
		t.Errorf("after an answer: %+v", l)
	}
}

// TestWhoEndedAProcessIsInTheFact: with the reason, whoever records the end.
func TestWhoEndedAProcessIsInTheFact(t *testing.T) {
	needsSandbox(t)
	k := newKitWith(t, all(withShell, mode("bypass")), wants("shell", map[string]any{"command": "sleep 1000", "background": true}), says("done"))
	k.completes(k.submit("sess_a", "go"))
	started := payloads[*event.ProcessStarted](k, "sess_a")[0]
	do[command.ProcessResult](k, &command.TerminateProcess{ProcessID: started.ProcessID, Reason: "enough"})
	ended := payloads[*event.ProcessTerminated](k, "sess_a")
	if len(ended) != 1 || ended[0].Reason != "user" || ended[0].Detail != "enough" || ended[0].TerminatedBy == nil {
		t.Errorf("the end: %+v", ended)
	}
}

// TestTheEnvironmentHasTheStandardsNames: each of them, known or not.
func TestTheEnvironmentHasTheStandardsNames(t *testing.T) {
	k := newKit(t)
	k.completes(k.submit("sess_a", "hi"))
	env, refusal := wired(k, "get_execution_environment", `{"sessionId":"sess_a"}`)
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
	k := newKit(t, wants("write_file", map[string]any{"path": "a", "content": "a"}), says("done"))
	listed := func() command.SessionSummary {
		t.Helper()
		res := do[command.ListSessionsResult](k, &command.ListSessions{Query: "sess_a"})
		if len(res.Sessions) != 1 {
			t.Fatalf("%+v", res)
		}
		return res.Sessions[0]
	}
	r := k.submit("sess_a", "go")
	action, _ := k.required("sess_a", 1)
	if s := listed(); s.Status != "blocked" || s.TurnCount != 1 {
		t.Errorf("while it waits: %+v", s)
	}
	k.respond(action, "allow")
	k.completes(r)
	if s := listed(); s.Status != "completed" || s.TurnCount != 1 {
		t.Errorf("at the end: %+v", s)
	}
}
