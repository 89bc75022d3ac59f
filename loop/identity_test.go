package loop_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
)

// violated returns the one violation of a session and how its call failed.
func violated(k *runtimetest.Kit, sessionID string) (*event.SandboxViolation, *event.ToolFailed) {
	k.Helper()
	var v *event.SandboxViolation
	var f *event.ToolFailed
	for _, e := range k.Facts(sessionID) {
		switch p := e.Payload.(type) {
		case *event.SandboxViolation:
			v = p
		case *event.ToolFailed:
			f = p
		}
	}
	if v == nil || f == nil {
		k.Fatalf("violation %+v, failure %+v", v, f)
	}
	return v, f
}

// TestReplacedWorkspaceIsNotFollowed: a session whose root another session replaced
// by a link doesn't write where the link leads.
func TestReplacedWorkspaceIsNotFollowed(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.InMode("auto"), runtimetest.CallsTool("write_file", map[string]any{"path": ".ssh/authorized_keys", "content": "owned"}), runtimetest.Says("done"))
	dir, err := filepath.EvalSymlinks(k.Dir)
	if err != nil {
		t.Fatal(err)
	}
	root, home := filepath.Join(dir, "pkg", "x"), t.TempDir()
	if err := errors.Join(os.MkdirAll(root, 0o755), os.Symlink("pkg", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a", Workspace: &event.Workspace{Root: filepath.Join(dir, "link", "x")}})
	for _, e := range k.Facts("sess_a") {
		if p, ok := e.Payload.(*event.SessionCreated); ok && p.Workspace.Root != root {
			t.Errorf("the root is stored as %s, want %s", p.Workspace.Root, root)
		}
	}
	if err := errors.Join(os.Rename(root, root+"2"), os.Symlink(home, root)); err != nil {
		t.Fatal(err)
	}
	k.Completes(k.Submit("sess_a", "go"))
	v, f := violated(k, "sess_a")
	if v.Boundary != "workspace" || f.ErrorCategory != "sandbox_violation" || !strings.Contains(f.Message, "no longer the folder") || f.Advice == "" {
		t.Errorf("%+v, %+v", v, f)
	}
	if entries, err := os.ReadDir(home); err != nil || len(entries) != 0 {
		t.Errorf("written there: %v, %v", entries, err)
	}
}

// TestOutsideIsNotAsked: no approval could let a file tool act outside, so none is
// asked for, in any mode.
func TestOutsideIsNotAsked(t *testing.T) {
	target := filepath.Join(t.TempDir(), "f")
	for _, m := range []string{"default", "auto", "untrusted", "on_request", "on_failure", "bypass"} {
		for _, path := range []string{target, "../f", "link/f"} {
			k := runtimetest.NewWith(t, runtimetest.InMode(m), runtimetest.CallsTool("write_file", map[string]any{"path": path, "content": "owned"}), runtimetest.Says("done"))
			if err := os.Symlink(filepath.Dir(target), filepath.Join(k.Dir, "link")); err != nil {
				t.Fatal(err)
			}
			k.Completes(k.Submit("sess_a", "go"))
			v, f := violated(k, "sess_a")
			if v.Boundary != "filesystem" || f.ErrorCategory != "sandbox_violation" || !strings.Contains(f.Advice, "shell") {
				t.Errorf("%s %s: %+v, %+v", m, path, v, f)
			}
			if n := k.CountFacts("sess_a", event.TypeActionRequired); n != 0 {
				t.Errorf("%s %s: %d questions", m, path, n)
			}
			if _, err := os.Stat(target); err == nil {
				t.Errorf("%s %s: written", m, path)
			}
		}
	}
}

// TestWorkspaceAboveDataIsRefused, by name and as the server's own.
func TestWorkspaceAboveDataIsRefused(t *testing.T) {
	data := func(o *agentd.Options) {
		o.Loop.Data = []string{filepath.Join(o.Loop.Workspace, "proj", ".agentd")}
	}
	k := runtimetest.NewWith(t, data)
	for _, p := range []command.Params{
		&command.CreateSession{Workspace: &event.Workspace{Root: k.Dir}},
		&command.CreateSession{},
		&command.SubmitTurn{Input: runtimetest.Quoted("go")},
	} {
		_, err := k.Runtime.Do(context.Background(), command.Local(), p)
		if fault.KindOf(err) != fault.InvalidParams || !strings.Contains(err.Error(), "data directory") || !strings.Contains(err.Error(), "--data") {
			t.Errorf("%s: %v", p.Command(), err)
		}
	}
	runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{Workspace: &event.Workspace{Root: filepath.Join(k.Dir, "proj")}})
}
