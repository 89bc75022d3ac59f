package runtimetest

import (
	"context"
	"strings"
	"sync"
	"testing"

	"agentd"
	"agentd/event"
	"agentd/process"
	"agentd/sandbox"
	"agentd/tool"
	"agentd/workspace"
)

// FakeTool runs a function.
type FakeTool struct {
	// ToolInfo is what models are told of it.
	ToolInfo event.ToolInfo
	run      func(ctx context.Context, c *tool.Call) (*tool.Result, error)
}

// Info implements [tool.Tool].
func (f *FakeTool) Info() event.ToolInfo { return f.ToolInfo }

// Run implements [tool.Tool].
func (f *FakeTool) Run(ctx context.Context, c *tool.Call) (*tool.Result, error) { return f.run(ctx, c) }

// ReadOnlyTool is a tool that needs no permission.
func ReadOnlyTool(name string, run func(context.Context, *tool.Call) (*tool.Result, error)) tool.Tool {
	return &FakeTool{ToolInfo: event.ToolInfo{
		ToolName: name, Description: "reads", InputSchema: event.Raw(`{"type":"object"}`), RuntimeOwner: "local",
		IsReadOnly: true, IsConcurrencySafe: true, InterruptBehavior: "cancel",
	}, run: run}
}

// WritingTool is a tool that changes something.
func WritingTool(name string, run func(context.Context, *tool.Call) (*tool.Result, error)) tool.Tool {
	return &FakeTool{ToolInfo: event.ToolInfo{
		ToolName: name, Description: "writes", InputSchema: event.Raw(`{"type":"object"}`), RuntimeOwner: "local", InterruptBehavior: "cancel",
	}, run: run}
}

// GivesText is what a tool does that always has the same result.
func GivesText(text string) func(context.Context, *tool.Call) (*tool.Result, error) {
	return func(context.Context, *tool.Call) (*tool.Result, error) {
		return &tool.Result{Output: []byte(text)}, nil
	}
}

// WithTools adds tools to the built-in ones.
func WithTools(tb testing.TB, tools ...tool.Tool) func(*agentd.Options) {
	return func(o *agentd.Options) {
		r, err := tool.NewRegistry(append(tool.Builtins(nil), tools...)...)
		if err != nil {
			tb.Fatal(err)
		}
		o.Loop.Tools = r
	}
}

// Probe says once what the kernel offers.
var Probe = sync.OnceValue(sandbox.Probe)

// WithShell lets the runtime run commands.
func WithShell(o *agentd.Options) {
	o.Loop.Processes = sync.OnceValue(func() *process.Manager { return process.New(process.Options{Report: Probe()}) })
}

// NeedsSandbox skips a test where the kernel can't confine commands.
func NeedsSandbox(t *testing.T) {
	t.Helper()
	p, err := sandbox.Prepare(sandbox.Profile{Root: t.TempDir()}, Probe())
	if err != nil || p.Enforcement.Filesystem == sandbox.None || p.Enforcement.Network == sandbox.None {
		t.Skipf("skipped: sandboxed commands; the kernel doesn't confine them here: %v", err)
	}
}

// WithoutNamespaces lets the runtime run commands on a kernel that hides nothing.
func WithoutNamespaces(o *agentd.Options) {
	o.Loop.Processes = sync.OnceValue(func() *process.Manager {
		report := Probe()
		report.MountNamespace = sandbox.Feature{Reason: "switched off for a test"}
		return process.New(process.Options{Report: report})
	})
}

// ShellArgs are the arguments of the tool shell for a command line.
func ShellArgs(line string) map[string]any { return map[string]any{"command": line} }

// InMode sets the host's permission mode.
func InMode(m string) func(*agentd.Options) {
	return func(o *agentd.Options) { o.Loop.Host.Mode = m }
}

// AllOf makes one change of many.
func AllOf(changes ...func(*agentd.Options)) func(*agentd.Options) {
	return func(o *agentd.Options) {
		for _, c := range changes {
			c(o)
		}
	}
}

// Rule is a rule of a policy.
func Rule(decision, toolName, match string) event.PolicyRule {
	return event.PolicyRule{Decision: decision, Tool: toolName, Match: match, Source: "host"}
}

// WithVault keeps what tools change.
func WithVault(t *testing.T) func(*agentd.Options) {
	return func(o *agentd.Options) {
		v, err := workspace.New(workspace.Options{Blobs: o.Store, Key: []byte(strings.Repeat("k", workspace.KeySize)), Inline: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := v.Close(); err != nil {
				t.Error(err)
			}
		})
		o.Loop.Vault = v
	}
}
