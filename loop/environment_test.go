package loop_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/loop"
	"agentd/model/provider/script"
	"agentd/session"
	"agentd/state"
)

// execution-environment.md, environment snapshot: each turn forms one. It is a fact, so
// the read model and what folds the facts without a runtime, as evidence does, agree.
func TestEachTurnHasItsEnvironment(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.WithShell, slices.Repeat([]script.Answer{runtimetest.Says("done")}, 25)...)
	first := k.Submit("sess_a", "one")
	k.Completes(first)
	started := runtimetest.Payloads[*event.TurnStarted](k, "sess_a")[0]
	if e := started.Environment; e == nil || e.OS != runtime.GOOS || e.Arch != runtime.GOARCH || e.Shell == "" || e.Cwd != e.WorkspaceRoot || e.SandboxMode == "" {
		t.Fatalf("%+v", started.Environment)
	}
	folded := state.New("sess_a")
	for _, e := range k.Facts("sess_a") {
		if _, err := folded.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	shown, known := k.Thread(first).ExecutionEnvironment, folded.ThreadRead(first.ThreadID).ExecutionEnvironment
	if !reflect.DeepEqual(shown, known) {
		t.Errorf("the read model says %+v, the facts %+v", shown, known)
	}
	if snap := runtimetest.Do[session.GetSessionResult](k, &command.GetSession{SessionID: "sess_a"}); snap.ExecutionEnvironment.OS != runtime.GOOS {
		t.Errorf("%+v", snap.ExecutionEnvironment)
	}
	// It is still known when the turn has left the working set, and after a restart.
	for i := range 22 {
		k.Completes(k.Submit("sess_a", fmt.Sprint("more ", i)))
	}
	k.Close()
	k.Open()
	env, refusal := runtimetest.CallByName(k, "get_execution_environment", `{"sessionId":"sess_a","turnId":"`+first.TurnID+`"}`)
	if env["turnId"] != first.TurnID || env["cwd"] != started.Environment.Cwd || env["permissionMode"] != "default" || env["os"] != runtime.GOOS {
		t.Errorf("%v %s", env, refusal)
	}
	for _, p := range []*command.GetExecutionEnvironment{
		{SessionID: "sess_a", TurnID: "turn_none"}, {SessionID: "sess_a", TurnID: first.TurnID, ThreadID: "thread_none"}, {SessionID: "sess_none", TurnID: first.TurnID},
	} {
		runtimetest.Refused(k, p, fault.NotFound)
	}
	for _, p := range []*command.GetExecutionEnvironment{{TurnID: first.TurnID}, {SessionID: "sess_a", TurnID: first.TurnID, PermissionMode: "plan"}} {
		runtimetest.Refused(k, p, fault.InvalidParams)
	}
}

// additionalRoots are folders beside the workspace, each once.
func TestAdditionalRootsAreToldOnce(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	more := t.TempDir()
	change := runtimetest.AllOf(runtimetest.WithShell, runtimetest.InMode("bypass"), func(o *agentd.Options) {
		o.Loop.Sandbox.WriteRoots = []string{more, more}
	})
	k := runtimetest.NewWith(t, change, runtimetest.CallsTool("shell", runtimetest.ShellArgs("true")), runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	k.Completes(r)
	for name, roots := range map[string][]string{
		"the fact": runtimetest.Payloads[*event.TurnStarted](k, "sess_a")[0].Environment.AdditionalRoots, "the read model": k.Thread(r).ExecutionEnvironment.AdditionalRoots,
	} {
		if len(roots) != 1 || roots[0] != more {
			t.Errorf("%s has %v", name, roots)
		}
	}
}

// permission-and-sandbox.md, permission state: current mode, rules and whether people may
// be asked are exposed, also before anything was decided.
func TestPermissionStateIsKnownBeforeTheFirstDecision(t *testing.T) {
	policy := func(o *agentd.Options) {
		o.Loop.Host = loop.HostPolicy{Mode: "auto", Rules: []event.PolicyRule{runtimetest.Rule("deny", "shell", "git push *")}}
	}
	k := runtimetest.NewWith(t, policy, runtimetest.Says("done"), runtimetest.Says("done"))
	made := runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
	check := func(p state.PermissionState, mode, source string, asks bool) {
		t.Helper()
		if p.Status != state.Available || p.Mode != mode || p.ModeSource != source || p.InteractionAllowed != asks {
			t.Errorf("%+v", p)
		}
		if i := slices.IndexFunc(p.Policies, func(x state.Policy) bool { return x.Source == "host" }); i < 0 || p.Policies[i].Mode != "auto" || len(p.Policies[i].Rules) != 1 {
			t.Errorf("the policies are %+v", p.Policies)
		}
		if b, err := json.Marshal(p); err != nil || bytes.Contains(b, []byte(`"0001-01-01`)) {
			t.Errorf("a time that no one knows is told: %s, %v", b, err)
		}
	}
	read := func() *state.ThreadReadModel {
		return runtimetest.Do[state.ThreadReadModel](k, &command.GetThreadRead{SessionID: "sess_a", ThreadID: made.ThreadID})
	}
	check(read().PermissionState, "auto", "host_policy", true)
	check(runtimetest.Do[session.GetSessionResult](k, &command.GetSession{SessionID: "sess_a"}).PermissionState, "auto", "host_policy", true)
	k.Completes(k.SubmitWith("sess_a", "go", &event.TurnOptions{PermissionMode: "never"}))
	started := runtimetest.Payloads[*event.TurnStarted](k, "sess_a")[0].Policy
	if started.Mode != "never" || started.ModeSource != "turn" || started.InteractionAllowed || started.HostMode != "auto" || started.RuleCount != 1 {
		t.Errorf("%+v", started)
	}
	folded := state.New("sess_a")
	for _, e := range k.Facts("sess_a") {
		if _, err := folded.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	check(folded.Snapshot().PermissionState, "auto", "host_policy", true)
	runtimetest.Do[command.PolicyResult](k, &command.SetPolicy{SessionID: "sess_a", Mode: "plan"})
	check(read().PermissionState, "plan", "session_policy", false)
}

// A policy with very many rules doesn't make facts long: they are counted.
func TestRulesInTheTurnsFactAreBounded(t *testing.T) {
	k := runtimetest.NewWith(t, func(o *agentd.Options) {
		for i := range 500 {
			o.Loop.Host.Rules = append(o.Loop.Host.Rules, runtimetest.Rule("deny", "shell", fmt.Sprintf("%s %d *", strings.Repeat("x", 50), i)))
		}
	}, runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "go"))
	p := runtimetest.Payloads[*event.TurnStarted](k, "sess_a")[0].Policy
	if p.RuleCount != 500 || len(p.HostRules) == 0 || len(p.HostRules) > 100 {
		t.Errorf("%d rules, %d of them told", p.RuleCount, len(p.HostRules))
	}
}
