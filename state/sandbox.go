package state

import (
	"time"

	"agentd/event"
)

// AppliedSandbox is the boundary that a tool or a process really received.
type AppliedSandbox struct {
	ThreadID       string            `json:"threadId,omitempty"`
	TurnID         string            `json:"turnId,omitempty"`
	ToolCallID     string            `json:"toolCallId,omitempty"`
	ProcessID      string            `json:"processId,omitempty"`
	Mode           string            `json:"mode"`
	Cwd            string            `json:"cwd"`
	ReadRoots      []string          `json:"readRoots,omitempty"`
	WriteRoots     []string          `json:"writeRoots,omitempty"`
	Network        string            `json:"network"`
	AllowedHosts   []string          `json:"allowedHosts,omitempty"`
	Enforcement    event.Enforcement `json:"enforcement"`
	EnvironmentRef string            `json:"environmentRef,omitempty"`
	ProcessLimits  map[string]int64  `json:"processLimits,omitempty"`
	Hidden         []string          `json:"hidden,omitempty"`
	Protected      []string          `json:"protected,omitempty"`
	NotEnforced    []string          `json:"notEnforced,omitempty"`
	At             time.Time         `json:"at"`
	Sequence       uint64            `json:"sequence"`
}

// Violation says that a boundary was hit.
type Violation struct {
	EventID    string    `json:"eventId"`
	ThreadID   string    `json:"threadId,omitempty"`
	TurnID     string    `json:"turnId,omitempty"`
	ToolCallID string    `json:"toolCallId,omitempty"`
	ProcessID  string    `json:"processId,omitempty"`
	ToolName   string    `json:"toolName,omitempty"`
	Boundary   string    `json:"boundary"`
	Path       string    `json:"path,omitempty"`
	Host       string    `json:"host,omitempty"`
	Detail     string    `json:"detail"`
	At         time.Time `json:"at"`
	Sequence   uint64    `json:"sequence"`
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
	f.callConfined()
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
