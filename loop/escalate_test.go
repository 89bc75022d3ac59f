package loop_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/sandbox"
)

// escalating is a command that asks to run outside of the sandbox.
func escalating(line string) map[string]any {
	return map[string]any{"command": line, "escalate": map[string]any{"reason": "the cache is in the home folder"}}
}

// outsideDir is a folder that only a command outside of the sandbox can write to.
func outsideDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(homeFor(t), "outside") //nolint:usetesting // commands have a /tmp of their own
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// TestModelAsksForMore: in mode on_request a call may ask to run outside, with its
// reason, and a person decides.
func TestModelAsksForMore(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	target := filepath.Join(outsideDir(t), "file.txt")
	for _, answer := range []string{"deny", "allow"} {
		var heard runtimetest.Listener
		k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("on_request"), runtimetest.WithShell, runtimetest.ListenedBy(&heard)), runtimetest.CallsTool("shell", escalating("touch "+target)), runtimetest.Says("done"))
		r := k.Submit("sess_a", "go")
		action, p := k.WaitForAction("sess_a", 1)
		if p.ActionType != "sandbox_escape" || !strings.Contains(p.Reason, "the model says: the cache is in the home folder") {
			t.Errorf("asked %+v", p)
		}
		k.Respond(action, answer)
		k.Completes(r)
		_, err := os.Stat(target)
		if (err == nil) != (answer == "allow") {
			t.Errorf("%s: %v", answer, err)
		}
		if !strings.Contains(runtimetest.ToolSchema(t, heard.Heard()[0].Tools, "shell"), "escalate") {
			t.Error("the model isn't told that it may ask")
		}
		if answer == "deny" && k.CountRuns("sess_a") != 0 {
			t.Error("it ran")
		}
	}
}

// TestAskingForMoreElsewhere is a mistake that the model can mend.
func TestAskingForMoreElsewhere(t *testing.T) {
	for _, m := range []string{"auto", "never", "on_failure", "bypass", "default"} {
		var heard runtimetest.Listener
		k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode(m), runtimetest.WithShell, runtimetest.ListenedBy(&heard)), runtimetest.CallsTool("shell", escalating("true")), runtimetest.Says("done"))
		k.Completes(k.Submit("sess_a", "go"))
		p := runtimetest.Payloads[*event.ToolFailed](k, "sess_a")
		if len(p) != 1 || p[0].ErrorCategory != "invalid_input" || !strings.Contains(p[0].Message, "on_request") || p[0].Advice == "" {
			t.Errorf("%s: %+v", m, p)
		}
		if strings.Contains(runtimetest.ToolSchema(t, heard.Heard()[0].Tools, "shell"), "escalate") {
			t.Errorf("%s: the model is offered what it can't use", m)
		}
		runtimetest.Refused(k, &command.EvaluatePermission{SessionID: "sess_a", ToolName: "shell", Input: event.Raw(`{"command":"true","escalate":{"reason":"x"}}`)}, fault.InvalidParams)
	}
	lifted := func(o *agentd.Options) { o.Loop.Sandbox.Mode = sandbox.DangerFullAccess }
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("on_request"), runtimetest.WithShell, lifted), runtimetest.CallsTool("shell", escalating("true")), runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "go"))
	if p := runtimetest.Payloads[*event.ToolFailed](k, "sess_a"); len(p) != 1 || !strings.Contains(p[0].Message, "not confined") {
		t.Errorf("%+v", p)
	}
}

// TestRulesHoldForWhatAsksForMore: a wish to leave the sandbox is no way around a
// rule, and an allow rule doesn't lift the sandbox.
func TestRulesHoldForWhatAsksForMore(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	rules := func(o *agentd.Options) {
		o.Loop.Host.Rules = []event.PolicyRule{
			{RuleID: "r1", Decision: "deny", Tool: "shell", Match: "rm *", Source: "host"},
			{RuleID: "r2", Decision: "allow", Tool: "shell", Match: "touch *", Source: "host"},
		}
	}
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("on_request"), runtimetest.WithShell, rules),
		runtimetest.CallsTool("shell", escalating("rm x")), runtimetest.CallsTool("shell", escalating("touch x")), runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	action, p := k.WaitForAction("sess_a", 1)
	if p.ActionType != "sandbox_escape" || !strings.Contains(p.Prompt, "touch") {
		t.Errorf("%+v", p)
	}
	k.Respond(action, "deny")
	k.Completes(r)
	if judged := runtimetest.Payloads[*event.PermissionEvaluated](k, "sess_a"); judged[0].Decision != "deny" || !strings.Contains(strings.Join(judged[0].RuleRefs, " "), "r1") || judged[1].Decision != "ask" {
		t.Errorf("%+v, %+v", judged[0], judged[1])
	}
	res := runtimetest.Do[command.EvaluatePermissionResult](k, &command.EvaluatePermission{SessionID: "sess_a", ToolName: "shell", Input: event.Raw(`{"command":"true","escalate":{"reason":"x"}}`)})
	if res.PermissionDecision.Decision != "ask" {
		t.Errorf("%+v", res)
	}
}

// TestStoreIsHiddenOutsideOfTheSandbox: what an approval, or danger_full_access,
// lifts is everything but the cover of the data directory.
func TestStoreIsHiddenOutsideOfTheSandbox(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	if !runtimetest.Probe().MountNamespace.Available {
		t.Skipf("skipped: hiding the data directory: %s", runtimetest.Probe().MountNamespace.Reason)
	}
	data, target := outsideDir(t), filepath.Join(outsideDir(t), "file.txt")
	secret := filepath.Join(data, "token")
	if err := os.WriteFile(secret, []byte("planted"), 0o600); err != nil {
		t.Fatal(err)
	}
	hides := func(o *agentd.Options) { o.Loop.Sandbox.Hidden = []string{data} }
	line := "touch " + target + "; cat " + secret
	check := func(k *runtimetest.Kit, r *command.SubmitTurnResult) {
		t.Helper()
		k.Completes(r)
		if _, err := os.Stat(target); err != nil {
			t.Errorf("the sandbox isn't lifted: %v", err)
		}
		_ = os.Remove(target)
		failed := runtimetest.Payloads[*event.ToolFailed](k, "sess_a")
		if len(failed) != 1 || failed[0].ErrorCategory != "sandbox_violation" || strings.Contains(failed[0].Message, "planted") {
			t.Errorf("%+v", failed)
		}
		if v := runtimetest.Payloads[*event.SandboxViolation](k, "sess_a"); len(v) != 1 || v[0].Path != secret {
			t.Errorf("%+v", v)
		}
		for _, p := range runtimetest.Payloads[*event.SandboxApplied](k, "sess_a") {
			if p.Mode == "danger_full_access" && (p.Enforcement.Filesystem != "mount_namespace" || len(p.NotEnforced) != 0) {
				t.Errorf("%+v", p)
			}
		}
	}
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("on_request"), runtimetest.WithShell, hides), runtimetest.CallsTool("shell", escalating(line)), runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	action, _ := k.WaitForAction("sess_a", 1)
	k.Respond(action, "allow")
	check(k, r)
	lifted := func(o *agentd.Options) { o.Loop.Sandbox.Mode = sandbox.DangerFullAccess }
	k = runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("bypass"), runtimetest.WithShell, hides, lifted), runtimetest.CallsTool("shell", runtimetest.ShellArgs(line)), runtimetest.Says("done"))
	check(k, k.Submit("sess_a", "go"))
}

// TestExposedStoreIsAskedAbout: where the data directory can't be hidden, commands
// don't run by themselves, and whoever is asked is told.
func TestExposedStoreIsAskedAbout(t *testing.T) {
	lifted := func(o *agentd.Options) {
		o.Loop.Sandbox.Mode, o.Loop.Sandbox.Hidden = sandbox.DangerFullAccess, []string{"/var/lib/agentd"}
	}
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("auto"), runtimetest.WithoutNamespaces, lifted), runtimetest.CallsTool("shell", runtimetest.ShellArgs("touch a")), runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	action, p := k.WaitForAction("sess_a", 1)
	if !strings.Contains(p.Reason, "/var/lib/agentd can be read") {
		t.Errorf("%+v", p)
	}
	k.Respond(action, "deny")
	k.Completes(r)
}

// TestLinkedBoundIsAskedAbout: a mount can't cover a link, so where something that
// bounds agents is one, commands don't run by themselves. What it leads to may not be in
// the workspace at all.
func TestLinkedBoundIsAskedAbout(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	for name, link := range map[string]string{"the file": "guard.sh", "a folder above it": "hooks"} {
		t.Run(name, func(t *testing.T) {
			elsewhere := t.TempDir()
			bounded := func(o *agentd.Options) { o.Loop.Bounds.Paths = []string{"guard.sh", "hooks/guard.sh"} }
			k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("auto"), runtimetest.WithShell, bounded), runtimetest.CallsTool("shell", runtimetest.ShellArgs("touch a")), runtimetest.Says("done"), runtimetest.CallsTool("shell", runtimetest.ShellArgs("touch a")), runtimetest.Says("done"))
			k.Completes(k.Submit("sess_a", "go")) // neither is there
			if err := os.Symlink(elsewhere, filepath.Join(k.Dir, link)); err != nil {
				t.Fatal(err)
			}
			r := k.Submit("sess_a", "again")
			action, p := k.WaitForAction("sess_a", 1)
			if !strings.Contains(p.Reason, link+" is a link") {
				t.Errorf("%+v", p)
			}
			k.Respond(action, "deny")
			k.Completes(r)
		})
	}
}
