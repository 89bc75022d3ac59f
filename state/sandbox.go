package state

import (
	"time"

	"agentd/event"
)

// AppliedSandbox is the boundary that a tool or a process really received.
type AppliedSandbox struct {
	// ThreadID is the thread that it belongs to.
	ThreadID string `json:"threadId,omitempty"`
	// TurnID is the turn that it belongs to.
	TurnID string `json:"turnId,omitempty"`
	// ToolCallID is the tool call that it belongs to, if it belongs to one.
	ToolCallID string `json:"toolCallId,omitempty"`
	// ProcessID is the process that it belongs to, if it belongs to one.
	ProcessID string `json:"processId,omitempty"`
	// Mode of the sandbox.
	Mode string `json:"mode"`
	// Cwd is the folder that the command began in.
	Cwd string `json:"cwd"`
	// ReadRoots are the folders that can be read.
	ReadRoots []string `json:"readRoots,omitempty"`
	// WriteRoots are the folders that can be changed.
	WriteRoots []string `json:"writeRoots,omitempty"`
	// Network says whether connections are allowed.
	Network string `json:"network"`
	// AllowedHosts are the hosts that can be reached.
	AllowedHosts []string `json:"allowedHosts,omitempty"`
	// Enforcement names what the kernel really enforces.
	Enforcement event.Enforcement `json:"enforcement"`
	// EnvironmentRef is where the environment of the process is described.
	EnvironmentRef string `json:"environmentRef,omitempty"`
	// ProcessLimits are the limits that hold, by name.
	ProcessLimits map[string]int64 `json:"processLimits,omitempty"`
	// Hidden paths can't be read, whatever the roots say.
	Hidden []string `json:"hidden,omitempty"`
	// Protected paths can't be changed, whatever the roots say.
	Protected []string `json:"protected,omitempty"`
	// NotEnforced names each boundary that was asked for and isn't there, and why.
	NotEnforced []string `json:"notEnforced,omitempty"`
	// At is when it was applied.
	At time.Time `json:"at"`
	// Sequence of the fact that says so.
	Sequence uint64 `json:"sequence"`
}

// Violation says that a boundary was hit.
type Violation struct {
	// EventID is the event that tells of it.
	EventID string `json:"eventId"`
	// ThreadID is the thread that it belongs to.
	ThreadID string `json:"threadId,omitempty"`
	// TurnID is the turn that it belongs to.
	TurnID string `json:"turnId,omitempty"`
	// ToolCallID is the tool call that it belongs to, if it belongs to one.
	ToolCallID string `json:"toolCallId,omitempty"`
	// ProcessID is the process that it belongs to, if it belongs to one.
	ProcessID string `json:"processId,omitempty"`
	// ToolName is the tool of the call.
	ToolName string `json:"toolName,omitempty"`
	// Boundary that was hit.
	Boundary string `json:"boundary"`
	// Path that could not be touched.
	Path string `json:"path,omitempty"`
	// Host that could not be reached.
	Host string `json:"host,omitempty"`
	// Detail for people.
	Detail string `json:"detail"`
	// At is when it happened.
	At time.Time `json:"at"`
	// Sequence of the fact that says so.
	Sequence uint64 `json:"sequence"`
}

func (f *fold) sandboxApplied(p *event.SandboxApplied) {
	if p.HookRunID != "" {
		f.hookConfined(p)
		return // the session's boundary is that of its tools
	}
	a := &AppliedSandbox{
		ThreadID: f.e.ThreadID, TurnID: f.e.TurnID, ToolCallID: f.e.ToolCallID, ProcessID: f.e.ProcessID,
		Mode: p.Mode, Cwd: p.Cwd, ReadRoots: firstN(p.ReadRoots, keepRefs), WriteRoots: firstN(p.WriteRoots, keepRefs),
		Network: p.Network, AllowedHosts: firstN(p.AllowedHosts, keepRefs), Enforcement: p.Enforcement,
		EnvironmentRef: p.EnvironmentID, ProcessLimits: p.ProcessLimits, NotEnforced: firstN(p.NotEnforced, keepRefs),
		Hidden: firstN(p.Hidden, keepRefs), Protected: firstN(p.Protected, keepRefs),
		At: f.e.Time, Sequence: f.e.Sequence,
	}
	f.callConfined(p)
	f.s.Permission.Sandbox = a
	if t := f.s.Thread(f.e.ThreadID); t != nil {
		t.Sandbox = a
	}
	f.s.Environment.setPlace(p.Cwd, f.e.Sequence)
}

func (f *fold) sandboxViolation(p *event.SandboxViolation) {
	perm := &f.s.Permission
	perm.ViolationCount++
	perm.Violations = recent(perm.Violations, Violation{
		EventID: f.e.ID, ThreadID: f.e.ThreadID, TurnID: f.e.TurnID, ToolCallID: f.e.ToolCallID, ProcessID: f.e.ProcessID,
		ToolName: p.ToolName, Boundary: p.Boundary, Path: p.Path, Host: p.Host, Detail: preview(p.Detail),
		At: f.e.Time, Sequence: f.e.Sequence,
	}, keepRecent)
}
