package state

import (
	"slices"
	"testing"
	"time"

	"agentd/event"
)

func TestPermissionModeIsTheNearest(t *testing.T) {
	st := newStory(t)
	check := func(want, source string) {
		t.Helper()
		if p := st.s.ThreadRead("thread_1").PermissionState; p.Mode != want || p.ModeSource != source {
			t.Errorf("mode %s by %s, want %s by %s", p.Mode, p.ModeSource, want, source)
		}
	}
	check("default", "session")
	st.addFact(event.TypePolicyChanged, event.Scope{}, &event.PolicyChanged{Source: "host", Mode: "never"})
	check("default", "session")
	st.addFact(event.TypePolicyChanged, event.Scope{}, &event.PolicyChanged{Source: "session", Mode: "plan", Rules: []event.PolicyRule{{Decision: "deny", Tool: "shell"}}})
	check("plan", "session_policy")
	if p := st.s.Snapshot().PermissionState; p.InteractionAllowed || len(p.Policies) != 2 {
		t.Errorf("in plan mode nobody may be asked: %+v", p)
	}
	st.addFact(event.TypeThreadStarted, event.Scope{ThreadID: "thread_2"}, &event.ThreadStarted{Role: "subagent", PermissionMode: "auto"})
	if p := st.s.ThreadRead("thread_2").PermissionState; p.Mode != "auto" || p.ModeSource != "thread" {
		t.Errorf("the thread's own mode: %+v", p)
	}
	st.addFact(event.TypePolicyChanged, event.Scope{}, &event.PolicyChanged{Source: "session"})
	if n := len(st.s.Permission.Policies); n != 2 {
		t.Errorf("%d policies of two sources", n)
	}
}

func TestApprovalBlocksAndGrants(t *testing.T) {
	st := newStory(t)
	st.startTurn()
	action := inTool("tool_1")
	action.ActionID = "action_1"
	st.addFact(event.TypePermissionEvaluated, inTool("tool_1"), &event.PermissionEvaluated{
		Decision: "ask", DecisionSource: "mode", DecisionReason: "the mode asks", Scope: event.Raw(`{}`), ToolName: "shell",
		Destructive: true, ApprovalActionID: "action_1", RuleRefs: []string{},
	})
	st.addFact(event.TypeActionRequired, action, &event.ActionRequired{
		ActionType: "tool_permission", Prompt: "run it?", Decisions: []string{"allow", "deny"}, Scope: event.Raw(`{"command":"rm x"}`),
		ToolName: "shell", Destructive: true,
	})
	st.addFact(event.TypePermissionRequested, inTool("tool_1"), &event.PermissionRequested{ToolName: "shell", ActionID: "action_1", Reason: "mode"})
	// The turn's other work doesn't hide that it waits.
	st.addFact(event.TypeModelDelta, inTurn(), &event.ModelDelta{Text: "meanwhile"})

	m := st.s.ThreadRead("thread_1")
	if m.Status != ThreadBlocked || m.Phase != "waiting_permission" {
		t.Errorf("thread is %s, %s", m.Status, m.Phase)
	}
	if turn := m.Turns[0]; turn.Status != ThreadBlocked || turn.Phase != "waiting_permission" || !slices.Equal(turn.Waiting, []string{"action_1"}) {
		t.Errorf("turn %+v", turn)
	}
	if p := m.PermissionState; len(p.PendingApprovals) != 1 || !p.PendingApprovals[0].Destructive || p.DecisionCounts["ask"] != 1 || p.Requested != 1 {
		t.Errorf("permission %+v", p)
	}
	if len(m.PendingRequests) != 1 || m.Diagnostics.PendingRequests != 1 {
		t.Errorf("pending %+v", m.PendingRequests)
	}

	st.addFact(event.TypeActionResolved, action, &event.ActionResolved{Decision: "allow", Status: "resolved", DecisionSource: "human", Scope: "session"})
	st.addFact(event.TypePermissionResolved, inTool("tool_1"), &event.PermissionResolved{
		Decision: "allow", DecisionSource: "human", ActionID: "action_1", Scope: "session", GrantID: "grant_1",
	})
	m = st.s.ThreadRead("thread_1")
	if m.Status != ThreadRunning || len(m.PermissionState.PendingApprovals) != 0 || len(m.Actions) != 1 {
		t.Errorf("after the answer: %s %+v", m.Status, m.PermissionState)
	}
	if g := m.PermissionState.Grants; len(g) != 1 || string(g[0].Scope) != `{"command":"rm x"}` || g[0].ToolName != "shell" {
		t.Errorf("grants %+v", g)
	}
}

func TestWaitingPhases(t *testing.T) {
	for actionType, want := range map[string]string{
		"structured_input": "waiting_input", "plan_approval": "waiting_permission", "credential": "waiting_resource",
		"sandbox_escape": "waiting_permission", "host_policy": "waiting_permission",
	} {
		st := newStory(t)
		st.startTurn()
		scope := inTurn()
		scope.ActionID = "action_1"
		st.addFact(event.TypeActionRequired, scope, &event.ActionRequired{ActionType: actionType, Decisions: []string{"submit"}, Prompt: "?"})
		if m := st.s.ThreadRead("thread_1"); m.Status != ThreadBlocked || m.Phase != want {
			t.Errorf("%s: %s, %s", actionType, m.Status, m.Phase)
		}
	}
}

func TestOnceIsNoGrantAndGrantsExpire(t *testing.T) {
	st := newStory(t)
	resolve := func(p *event.PermissionResolved) {
		p.DecisionSource = "human"
		st.addFact(event.TypePermissionResolved, inTurn(), p)
	}
	resolve(&event.PermissionResolved{Decision: "allow", Scope: "once"})
	resolve(&event.PermissionResolved{Decision: "deny", Scope: "session"})
	if n := len(st.s.Permission.Grants); n != 0 {
		t.Fatalf("%d grants", n)
	}
	resolve(&event.PermissionResolved{Decision: "allow", Scope: "session", GrantID: "short", ExpiresAt: st.now().Add(2500 * time.Millisecond)})
	resolve(&event.PermissionResolved{Decision: "allow", Scope: "session", GrantID: "long"})
	if g := st.s.Permission.Grants; len(g) != 2 {
		t.Fatalf("grants %+v", g)
	}
	resolve(&event.PermissionResolved{Decision: "allow", Scope: "session", GrantID: "third"})
	if g := st.s.Permission.Grants; len(g) != 2 || g[0].GrantID != "long" {
		t.Errorf("the expired grant is still there: %+v", g)
	}
}

func TestSandboxIsWhatWasApplied(t *testing.T) {
	st := newStory(t)
	st.addFact(event.TypeThreadStarted, event.Scope{ThreadID: "thread_2"}, &event.ThreadStarted{Role: "subagent"})
	if s := st.s.Snapshot(); s.SandboxState.Status != Unknown || s.ExecutionEnvironment.Status != Unknown || s.ExecutionEnvironment.OS != Unknown {
		t.Errorf("before any fact: %+v, %+v", s.SandboxState, s.ExecutionEnvironment)
	}
	st.startTurn()
	st.addFact(event.TypeSandboxApplied, inTool("tool_1"), &event.SandboxApplied{
		Mode: "workspace_write", Cwd: "/w", ReadRoots: []string{"/usr"}, WriteRoots: []string{"/w"}, Network: "deny",
		Enforcement:   event.Enforcement{Filesystem: "landlock", Network: "none", Processes: "pid_namespace", Limits: "rlimits"},
		ProcessLimits: map[string]int64{"processes": 64}, NotEnforced: []string{"network: no namespaces"},
	})
	st.addFact(event.TypeSandboxViolation, inTool("tool_1"), &event.SandboxViolation{Boundary: "filesystem", Path: "/etc/x", Detail: "write refused"})
	m := st.s.ThreadRead("thread_1")
	if p := m.SandboxState; p.Status != Available || p.Profile.Enforcement.Network != "none" || len(p.Violations) != 1 || p.ViolationRefs[0] != st.facts[len(st.facts)-1].ID {
		t.Errorf("sandbox %+v", p)
	}
	if v := m.ExecutionEnvironment; v.Cwd != "/w" || v.NetworkProfile != "deny" || v.ResourceLimits["processes"] != 64 {
		t.Errorf("environment %+v", v)
	}
	if m.Turns[0].SandboxProfile == nil {
		t.Error("the turn doesn't show its sandbox")
	}
	if p := st.s.ThreadRead("thread_2").SandboxState; p.Status != Unknown || p.Profile != nil || len(p.Violations) != 0 {
		t.Errorf("another thread shows a sandbox that it never had: %+v", p)
	}
}

func TestHookRuns(t *testing.T) {
	st := newStory(t)
	st.startTurn()
	start := func(id string) {
		st.addFact(event.TypeHookStarted, inTool("tool_1"), &event.HookStarted{HookRunID: id, Point: "pre_tool_use", HandlerRef: "check.sh", TimeoutMs: 5})
	}
	start("hook_1")
	if h := st.s.ThreadRead("thread_1").PermissionState.HookRuns; len(h) != 1 || h[0].Status != HookRunning {
		t.Errorf("runs %+v", h)
	}
	st.addFact(event.TypeHookCompleted, inTool("tool_1"), &event.HookCompleted{HookRunID: "hook_1", Point: "pre_tool_use", HandlerRef: "check.sh", Decision: "deny", Reason: "no"})
	start("hook_2")
	st.addFact(event.TypeHookFailed, inTool("tool_1"), &event.HookFailed{
		HookRunID: "hook_2", Point: "pre_tool_use", HandlerRef: "check.sh", ErrorCategory: "timeout", Message: "5 ms", FailureBehavior: "closed",
	})
	p := st.s.ThreadRead("thread_1").PermissionState
	if len(p.HookRuns) != 2 || p.HookRuns[0].Decision != "deny" || p.HookRuns[0].TimeoutMs != 5 || p.HookRuns[1].FailureBehavior != "closed" {
		t.Errorf("runs %+v", p.HookRuns)
	}
	if p.HookCounts[HookCompleted] != 1 || p.HookCounts[HookFailed] != 1 || len(st.s.Permission.Hooks) != 0 {
		t.Errorf("counts %v", p.HookCounts)
	}
}

func TestProcessLedger(t *testing.T) {
	st := newStory(t)
	st.startTurn()
	start := func(id string) {
		scope := inTool("tool_1")
		scope.ProcessID = id
		st.addFact(event.TypeProcessStarted, scope, &event.ProcessStarted{ProcessID: id, Command: []string{"make"}, Cwd: "/w", Pid: 7, BootID: "b"})
	}
	at := func(id string) event.Scope { return event.Scope{ProcessID: id} }
	start("proc_1")
	start("proc_2")
	start("proc_3")
	st.addFact(event.TypeProcessOutput, at("proc_1"), &event.ProcessOutput{ProcessID: "proc_1", Stream: "stdout", Text: "12345", Offset: 10})
	st.addFact(event.TypeProcessInput, at("proc_1"), &event.ProcessInput{ProcessID: "proc_1", SizeBytes: 3, EOF: true})
	if p := st.s.Environment.Find("proc_1"); p.StdoutBytes != 15 || p.InputBytes != 3 || !p.InputClosed {
		t.Errorf("process %+v", p)
	}
	st.addFact(event.TypeProcessCompleted, at("proc_1"), &event.ProcessCompleted{ProcessID: "proc_1", ExitCode: 2})
	st.addFact(event.TypeProcessFailed, at("proc_2"), &event.ProcessFailed{ProcessID: "proc_2", ErrorCategory: "lost", Message: "gone", MayStillExist: true})
	if !st.s.Environment.open() {
		t.Error("a process runs, but nothing is open")
	}
	st.addFact(event.TypeProcessTerminated, at("proc_3"), &event.ProcessTerminated{ProcessID: "proc_3", Reason: "user", Signal: "KILL"})
	if st.s.Environment.open() {
		t.Error("no process runs, but something is open")
	}
	m := st.s.ThreadRead("thread_1")
	if v := m.ExecutionEnvironment; !slices.Equal(v.MayStillExist, []string{"proc_2"}) || v.Started != 3 || v.EndedCounts[ProcessTerminated] != 1 {
		t.Errorf("environment %+v", v)
	}
	if d := m.Diagnostics.FailedCommands; !slices.Equal(d, []string{"proc_1", "proc_2"}) {
		t.Errorf("failed commands %v", d)
	}
	if len(m.Turns[0].Processes) != 3 {
		t.Errorf("the turn's processes %+v", m.Turns[0].Processes)
	}
}
