package loop_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/hook"
	"agentd/internal/runtimetest"
	"agentd/loop"
	"agentd/model/provider/script"
	"agentd/permission"
)

// TestSandboxDenialIsNoGenericFailure: permission-and-sandbox.md, anti-patterns. What
// the sandbox kept from a command is a sandbox.violation, also where the command prints
// nothing or ends well; what failed for another reason isn't.
func TestSandboxDenialIsNoGenericFailure(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	if !runtimetest.Probe().MountNamespace.Available {
		t.Skipf("skipped: hidden paths and a private /tmp: %s", runtimetest.Probe().MountNamespace.Reason)
	}
	data := outsideDir(t)
	if err := os.WriteFile(filepath.Join(data, "token"), []byte("planted"), 0o600); err != nil {
		t.Fatal(err)
	}
	host, err := os.CreateTemp("/tmp", "withheld") // the private directory is what it is about
	if err != nil {
		t.Skipf("skipped: a path of the host below /tmp: %v", err)
	}
	t.Cleanup(func() { _ = os.Remove(host.Name()) })
	if err := host.Close(); err != nil {
		t.Fatal(err)
	}
	folder, err := os.MkdirTemp("/tmp", "withheld") //nolint:usetesting // below /tmp, whatever TMPDIR is
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	reached := false
	here := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer here.Close()
	for _, c := range []struct {
		name, line string
		// boundary is empty where nothing was withheld; fails says that the call has no
		// result.
		boundary string
		fails    bool
	}{
		{"a silent request to the host", "curl -s " + here.URL, "network", true},
		{"a request to the host", "curl " + here.URL, "network", true},
		{"a request whose failure the line passes over", "curl -s " + here.URL + "; test -e nothing", "network", false},
		{"the data directory", "ls " + data + " || true", "filesystem", false},
		{"a file of the data directory", "cat " + data + "/token", "filesystem", true},
		{"a file of the host below /tmp", "cat " + host.Name(), "filesystem", true},
		{"a new file in a folder of the host below /tmp", "touch " + folder + "/new", "filesystem", true},
		{"a redirection into a folder of the host below /tmp", "echo a > " + folder + "/new", "filesystem", true},
		{"a silent redirection into a folder of the host below /tmp", "true 2>/dev/null > " + folder + "/new", "filesystem", true},
		{"a redirection alone", "> " + folder + "/new", "filesystem", true},
		{"a silent redirection to a file that can't be written", "exec 2>/dev/null; echo a > /etc/withheld", "filesystem", false},
		{"a refusal that the line passes over", "cat " + host.Name() + " || true", "filesystem", false},
		{"a refused redirection that the line passes over", "echo a > " + folder + "/new; true", "filesystem", false},
		{"a refused request that the line passes over", "curl " + here.URL + " | cat", "network", false},
		{"a text about a refusal", "echo cat: " + host.Name() + ".other: No such file or directory", "", false},
		{"a file of its own below /tmp", "echo a > /tmp/own && cat /tmp/own", "", false},
		{"a file that isn't there", "cat nothing", "", false},
		{"a command that fails", "false", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := exec.LookPath("curl"); err != nil && strings.HasPrefix(c.line, "curl") {
				t.Skipf("skipped: requests of commands: %v", err)
			}
			hides := func(o *agentd.Options) { o.Loop.Sandbox.Hidden = []string{data} }
			k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("bypass"), runtimetest.WithShell, hides), runtimetest.CallsTool("shell", runtimetest.ShellArgs(c.line)), runtimetest.Says("done"))
			k.Completes(k.Submit("sess_a", "go"))
			violations := runtimetest.Payloads[*event.SandboxViolation](k, "sess_a")
			failed, results := runtimetest.Payloads[*event.ToolFailed](k, "sess_a"), runtimetest.Payloads[*event.ToolResult](k, "sess_a")
			if c.boundary == "" {
				if len(violations) != 0 || len(results) != 1 {
					t.Errorf("%+v, %+v", violations, failed)
				}
				return
			}
			if len(violations) != 1 || violations[0].Boundary != c.boundary || !strings.HasPrefix(violations[0].Detail, "inferred from the ") {
				t.Fatalf("%+v, %+v, %+v", violations, failed, results)
			}
			if e := k.WaitFor("sess_a", runtimetest.FactIs(event.TypeSandboxViolation, "")); e.ToolCallID == "" || e.ToolCallID == event.NotApplicable {
				t.Errorf("the violation belongs to no call: %+v", e)
			}
			if c.fails != (len(failed) == 1 && failed[0].ErrorCategory == "sandbox_violation") || c.fails == (len(results) == 1) {
				t.Errorf("%+v, %+v", failed, results)
			}
		})
	}
	for name, line := range map[string]string{
		"a file of the data directory":                             "cat " + data + "/token",
		"a redirection into a folder of the host":                  "echo a > " + folder + "/new",
		"a folder that can't be written":                           "touch /etc/withheld",
		"a refusal that a line in the background passes over, too": "cat " + host.Name() + "; true",
	} {
		t.Run("in the background: "+name, func(t *testing.T) {
			hides := func(o *agentd.Options) { o.Loop.Sandbox.Hidden = []string{data} }
			k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("bypass"), runtimetest.WithShell, hides),
				runtimetest.CallsTool("shell", map[string]any{"command": line, "background": true}), runtimetest.Says("done"))
			k.Completes(k.Submit("sess_a", "go"))
			e := k.WaitFor("sess_a", runtimetest.FactIs(event.TypeSandboxViolation, ""))
			if e.ToolCallID == "" || e.ToolCallID == event.NotApplicable || e.ProcessID == "" {
				t.Errorf("the violation belongs to no call or process: %+v", e)
			}
		})
	}
	if reached {
		t.Error("the host was reached")
	}
}

// TestWriteOutsideOfTheWorkspaceIsNotAskedAbout: permission-and-sandbox.md, permission
// facts explain why. No approval opens a path outside of the workspace to the file
// tools, so none is asked for: the call is refused by the boundary at once, and
// evaluate_permission says the same before.
func TestWriteOutsideOfTheWorkspaceIsNotAskedAbout(t *testing.T) {
	for _, mode := range []string{"default", "untrusted", "auto", "on_request", "on_failure", "never", "plan", "bypass"} {
		k := runtimetest.NewWith(t, runtimetest.InMode(mode), runtimetest.CallsTool("write_file", map[string]any{"path": "../outside/x", "content": "x"}), runtimetest.Says("done"))
		runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
		for _, dry := range []bool{true, false} {
			for name, input := range map[string]string{
				"write_file": `{"path":"../outside/x","content":"x"}`, "edit_file": `{"path":"/etc/hostname","old":"x","new":"y"}`,
				"read_file": `{"path":"/etc/hostname"}`, "list_files": `{"path":".."}`, "search_files": `{"path":"..","pattern":"x"}`,
			} {
				said := runtimetest.Do[command.EvaluatePermissionResult](k, &command.EvaluatePermission{SessionID: "sess_a", ToolName: name, Input: event.Raw(input), DryRun: dry}).PermissionDecision
				if said.Decision != "deny" || !strings.Contains(said.DecisionReason, "outside the workspace") {
					t.Errorf("%s, %s: %+v", mode, name, said)
				}
			}
		}
		k.Completes(k.Submit("sess_a", "go"))
		failed := runtimetest.Payloads[*event.ToolFailed](k, "sess_a")
		if len(failed) != 1 || k.CountFacts("sess_a", event.TypeActionRequired) != 0 || k.CountRuns("sess_a") != 0 {
			t.Errorf("%s: %+v", mode, failed)
			continue
		}
		if failed[0].ErrorCategory == "sandbox_violation" && k.CountFacts("sess_a", event.TypeSandboxViolation) != 1 {
			t.Errorf("%s: no sandbox.violation", mode)
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(k.Dir), "outside", "x")); err == nil {
			t.Errorf("%s: it was written", mode)
		}
	}
}

// TestHookDoesNotLeadOutsideOfTheWorkspace: an input that a hook put in the place of the
// model's is held to the same boundary, without a question.
func TestHookDoesNotLeadOutsideOfTheWorkspace(t *testing.T) {
	h := &runtimetest.Hooks{Points: []hook.Point{hook.PreToolUse}, Answer: runtimetest.AlwaysAnswer(`{"updatedInput":{"path":"../outside/x","content":"x"}}`)}
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("default"), h.Use(t)), runtimetest.CallsTool("write_file", map[string]any{"path": "a", "content": "x"}), runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "go"))
	failed := runtimetest.Payloads[*event.ToolFailed](k, "sess_a")
	if len(failed) != 1 || failed[0].ErrorCategory != "sandbox_violation" || k.CountFacts("sess_a", event.TypeSandboxViolation) != 1 || k.CountFacts("sess_a", event.TypeActionRequired) != 0 {
		t.Errorf("%+v", failed)
	}
}

// TestRefusalsOutsideOfTheWorkspaceAreDecisions: permission-and-sandbox.md, permission
// facts explain why. A call that no approval lets run has a decision that says so, as
// evaluate_permission does, whatever the mode, the rules and the tool; and test_policy
// promises no other.
func TestRefusalsOutsideOfTheWorkspaceAreDecisions(t *testing.T) {
	for _, mode := range permission.Modes() {
		var answers []script.Answer
		for name, input := range map[string]map[string]any{
			"write_file": {"path": "../outside/x", "content": "x"}, "edit_file": {"path": "/etc/hostname", "old": "x", "new": "y"},
			"read_file": {"path": "/etc/hostname"}, "list_files": {"path": ".."}, "search_files": {"path": "link", "pattern": "x"},
		} {
			answers = append(answers, runtimetest.CallsTool(name, input))
		}
		k := runtimetest.NewWith(t, func(o *agentd.Options) {
			o.Loop.Host = loop.HostPolicy{Mode: mode, Rules: []event.PolicyRule{{Decision: "allow", Tool: "*"}}}
		}, append(answers, runtimetest.Says("done"))...)
		if err := os.Symlink("/etc", filepath.Join(k.Dir, "link")); err != nil {
			t.Fatal(err)
		}
		k.Completes(k.Submit("sess_a", "go"))
		decided := runtimetest.Payloads[*event.PermissionEvaluated](k, "sess_a")
		if len(decided) != len(answers) || k.CountFacts("sess_a", event.TypeSandboxViolation) != len(answers) {
			t.Errorf("%s: %d decisions, %d violations", mode, len(decided), k.CountFacts("sess_a", event.TypeSandboxViolation))
		}
		for _, p := range decided {
			if p.Decision != "deny" || p.DecisionSource != "default" || !strings.Contains(p.DecisionReason, "outside the workspace") || p.PermissionMode != mode {
				t.Errorf("%s: %+v", mode, p)
			}
		}
		tried := runtimetest.Do[command.TestPolicyResult](k, &command.TestPolicy{Mode: "bypass", Rules: []event.PolicyRule{}})
		if tried.ChangedCount != 0 {
			t.Errorf("%s: test_policy would let them run: %+v", mode, tried.Changed)
		}
	}
}

// TestCommandRunsOutsideOnceApproved: a command in a folder outside of the workspace asks
// before it runs, and the approval lets it run there.
func TestCommandRunsOutsideOnceApproved(t *testing.T) {
	dir := t.TempDir()
	for name, input := range map[string]map[string]any{
		"a folder":          {"command": "printf ran", "cwd": dir},
		"a relative folder": {"command": "test ! -e seen && printf ran", "cwd": ".."},
	} {
		k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("auto"), runtimetest.WithShell), runtimetest.CallsTool("shell", input), runtimetest.Says("done"))
		k.WriteFile("seen", "x")
		r := k.Submit("sess_a", "go")
		action, asked := k.WaitForAction("sess_a", 1)
		if asked.ActionType != "sandbox_escape" || k.CountRuns("sess_a") != 0 {
			t.Errorf("%s: %+v", name, asked)
		}
		k.Respond(action, "allow")
		k.Completes(r)
		for _, p := range runtimetest.Payloads[*event.ToolFailed](k, "sess_a") {
			t.Errorf("%s: %s", name, p.Message)
		}
		for _, p := range runtimetest.Payloads[*event.ToolResult](k, "sess_a") {
			if !strings.HasSuffix(p.Preview, "ran") {
				t.Errorf("%s: %+v", name, p)
			}
		}
	}
}
