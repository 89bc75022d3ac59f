package loop_test

import (
	"encoding/json"
	"path/filepath"
	"runtime"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/internal/runtimetest"
	"agentd/sandbox"
	"agentd/session"
	"agentd/state"
)

// TestReadModelsSayWhereCommandsRun: platform, workspace and the boundary that the
// next command is to receive are known before anything ran, and what a command did
// receive once one ran.
func TestReadModelsSayWhereCommandsRun(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	limits := func(o *agentd.Options) {
		o.Loop.Sandbox.Mode, o.Loop.Sandbox.Limits = sandbox.ReadOnly, sandbox.Limits{MemoryMB: 512, Processes: 64}
	}
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.WithShell, runtimetest.InMode("auto"), limits), runtimetest.CallsTool("shell", map[string]any{"command": "true"}), runtimetest.Says("done"))
	made := runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
	root, err := filepath.EvalSymlinks(k.Dir)
	if err != nil {
		t.Fatal(err)
	}
	look := func(basis string) {
		t.Helper()
		snap := runtimetest.Do[session.GetSessionResult](k, &command.GetSession{SessionID: "sess_a"})
		thread := runtimetest.Do[state.ThreadReadModel](k, &command.GetThreadRead{SessionID: "sess_a", ThreadID: made.ThreadID})
		for _, env := range []state.EnvironmentSnapshot{snap.ExecutionEnvironment, snap.Threads[0].ExecutionEnvironment, thread.ExecutionEnvironment} {
			b, err := json.Marshal(env)
			if err != nil {
				t.Fatal(err)
			}
			if env.Status != state.Available || env.OS != runtime.GOOS || env.Arch != runtime.GOARCH || env.Shell != "/bin/sh" ||
				env.WorkspaceRoot != root || env.Cwd != root || env.WorkspaceID != state.NotApplicable || env.EnvRef == state.Unknown {
				t.Errorf("%s: %s", basis, b)
			}
			if env.SandboxBasis != basis || env.SandboxMode != "read_only" || env.NetworkProfile != "deny" || env.ResourceLimits["memoryMB"] != 512 || env.ResourceLimits["processes"] != 64 {
				t.Errorf("%s: %s", basis, b)
			}
		}
	}
	look("configured")
	k.Completes(k.Submit("sess_a", "go"))
	look("applied")
}

// TestReadModelsOfARuntimeWithoutCommands say that there is no shell, and claim no
// sandbox.
func TestReadModelsOfARuntimeWithoutCommands(t *testing.T) {
	k := runtimetest.New(t)
	runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
	env := runtimetest.Do[session.GetSessionResult](k, &command.GetSession{SessionID: "sess_a"}).ExecutionEnvironment
	if env.Shell != state.NotApplicable || env.SandboxMode != state.NotApplicable || env.NetworkProfile != state.NotApplicable || env.OS != runtime.GOOS || env.Cwd == state.Unknown {
		t.Errorf("%+v", env)
	}
}
