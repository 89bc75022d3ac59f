package state

import (
	"slices"
	"time"

	"agentd/event"
)

// PermissionState says what may run, who decides, and what was decided.
type PermissionState struct {
	Status string `json:"status"`
	// Mode is the mode that holds here, or unknown; ModeSource who set it.
	Mode       string `json:"mode"`
	ModeSource string `json:"modeSource"`
	// InteractionAllowed says whether this mode may ask a person.
	InteractionAllowed bool             `json:"interactionAllowed"`
	Policies           []Policy         `json:"policies"`
	Grants             []Grant          `json:"grants"`
	PendingApprovals   []Approval       `json:"pendingApprovals"`
	Decisions          []Decision       `json:"decisions"`
	DecisionCounts     map[string]int64 `json:"decisionCounts"`
	ResolvedCounts     map[string]int64 `json:"resolvedCounts"`
	Requested          int64            `json:"requested"`
	HookRuns           []HookRun        `json:"hookRuns"`
	HookCounts         map[string]int64 `json:"hookCounts"`
}

// Approval is a pending decision.
type Approval struct {
	ActionID    string    `json:"actionId"`
	ThreadID    string    `json:"threadId"`
	TurnID      string    `json:"turnId"`
	ToolCallID  string    `json:"toolCallId,omitempty"`
	ActionType  string    `json:"actionType"`
	ToolName    string    `json:"toolName,omitempty"`
	Reason      string    `json:"reason,omitempty"`
	Destructive bool      `json:"destructive"`
	ExpiresAt   time.Time `json:"expiresAt,omitzero"`
	Since       time.Time `json:"since"`
}

// permissionState is the state of one thread, or of the session. The counts are
// the session's in both.
func (s *Session) permissionState(thread string) PermissionState {
	p := &s.Permission
	mode, source := s.permissionMode(thread)
	v := PermissionState{
		Status: statusOf(mode != Unknown || len(p.Policies) > 0, Unknown), Mode: mode, ModeSource: source,
		InteractionAllowed: ModeAsks(mode) && !p.Host.silent(),
		Policies:           s.policies(), Grants: listCopy(p.Grants), PendingApprovals: []Approval{},
		Decisions:      chosen(p.Decisions, func(d *Decision) bool { return inView(thread, d.ThreadID) }),
		DecisionCounts: countsCopy(p.Counts), ResolvedCounts: countsCopy(p.Resolved), Requested: p.Requested,
		HookRuns:   copied(func(h *HookRun) bool { return inView(thread, h.ThreadID) }, p.Hooks, p.HookRuns),
		HookCounts: countsCopy(p.HookCounts),
	}
	for _, a := range s.Actions.Pending {
		if inView(thread, a.ThreadID) && waitingPhase(a.ActionType) == "waiting_permission" {
			v.PendingApprovals = append(v.PendingApprovals, Approval{
				ActionID: a.ActionID, ThreadID: a.ThreadID, TurnID: a.TurnID, ToolCallID: a.ToolCallID, ActionType: a.ActionType,
				ToolName: a.ToolName, Reason: a.Reason, Destructive: a.Destructive, ExpiresAt: a.ExpiresAt, Since: a.CreatedAt,
			})
		}
	}
	return v
}

// ModeAsks reports whether a permission mode asks people.
func ModeAsks(mode string) bool {
	return mode != "" && mode != Unknown && mode != "never" && mode != "plan"
}

// hostSource is the source of the host's policy.
const hostSource = "host"

// policies are those of the session, with the host's as the last turn found it.
func (s *Session) policies() []Policy {
	out := listCopy(s.Permission.Policies)
	h := s.Permission.Host
	if h == nil || slices.ContainsFunc(out, func(p Policy) bool { return p.Source == hostSource }) {
		return out
	}
	return append([]Policy{{Source: hostSource, Mode: h.Mode, Rules: h.Rules, ChangedAt: h.At, Sequence: h.Sequence}}, out...)
}

// permissionMode returns the mode that holds for a thread or the session, and
// who set it: the nearest that says something.
func (s *Session) permissionMode(thread string) (mode, source string) {
	t := s.Thread(thread)
	if t != nil && t.Active != nil {
		switch a := t.Active; {
		case a.PermissionMode != "":
			return a.PermissionMode, "turn" // its plan was approved
		case a.ModeSource == "turn" || a.ModeSource == "parent":
			return a.Mode, a.ModeSource
		}
	}
	if t != nil && t.PermissionMode != "" {
		return t.PermissionMode, "thread"
	}
	for _, p := range s.Permission.Policies {
		if p.Source == "session" && p.Mode != "" {
			return p.Mode, "session_policy"
		}
	}
	if s.PermissionMode != "" {
		return s.PermissionMode, "session"
	}
	for _, from := range [...]string{"workspace", hostSource} {
		for _, p := range s.Permission.Policies {
			if p.Source == from && p.Mode != "" {
				return p.Mode, from + "_policy"
			}
		}
	}
	if h := s.Permission.Host; h != nil {
		return h.Mode, hostSource + "_policy"
	}
	// None was set here: what the configuration says is known from what it decided.
	for _, d := range slices.Backward(s.Permission.Decisions) {
		if inView(thread, d.ThreadID) && d.PermissionMode != "" {
			return d.PermissionMode, "last_decision"
		}
	}
	return Unknown, Unknown
}

// SandboxState is the boundary that was really applied last.
type SandboxState struct {
	Status  string          `json:"status"`
	Profile *AppliedSandbox `json:"profile,omitempty"`
	// Violations are the last hits; ViolationRefs the events that tell of them.
	Violations     []Violation `json:"violations"`
	ViolationRefs  []string    `json:"violationRefs"`
	ViolationCount int64       `json:"violationCount"`
}

// sandboxState is the state of one thread, or of the session when t is nil. The
// count of violations is the session's in both.
func (s *Session) sandboxState(t *Thread) SandboxState {
	profile, thread := s.Permission.Sandbox, ""
	if t != nil {
		profile, thread = t.Sandbox, t.ThreadID
	}
	v := SandboxState{
		Profile:       profile,
		Violations:    chosen(s.Permission.Violations, func(x *Violation) bool { return inView(thread, x.ThreadID) }),
		ViolationRefs: []string{}, ViolationCount: s.Permission.ViolationCount,
	}
	v.Status = statusOf(profile != nil, Unknown)
	for _, x := range v.Violations {
		v.ViolationRefs = append(v.ViolationRefs, x.EventID)
	}
	return v
}

// EnvironmentSnapshot is where commands run and what runs there.
type EnvironmentSnapshot struct {
	Status          string   `json:"status"`
	WorkspaceID     string   `json:"workspaceId,omitempty"`
	WorkspaceRoot   string   `json:"workspaceRoot,omitempty"`
	Cwd             string   `json:"cwd"`
	AdditionalRoots []string `json:"additionalRoots"`
	EnvRef          string   `json:"envRef"`
	NetworkProfile  string   `json:"networkProfile"`
	SandboxMode     string   `json:"sandboxMode"`
	// SandboxBasis says where mode, network, roots and limits are from: "applied" is a
	// fact of what a command received, "configured" what the next one is to receive.
	SandboxBasis string `json:"sandboxBasis"`
	// Shell, OS and Arch are those of the thread's last turn; before the first one, the
	// runtime that answers fills in its own (see [Place]).
	Shell           string           `json:"shell"`
	OS              string           `json:"os"`
	Arch            string           `json:"arch"`
	ResourceLimits  map[string]int64 `json:"resourceLimits"`
	ActiveProcesses []Process        `json:"activeProcesses"`
	RecentProcesses []Process        `json:"recentProcesses"`
	// MayStillExist are the processes whose end could not be proved.
	MayStillExist []string         `json:"mayStillExist"`
	Started       int64            `json:"started"`
	EndedCounts   map[string]int64 `json:"endedCounts"`
}

// environmentSnapshot is the environment of a thread; t may be nil.
func (s *Session) environmentSnapshot(t *Thread) EnvironmentSnapshot {
	env := &s.Environment
	v := EnvironmentSnapshot{
		Cwd: env.Cwd, AdditionalRoots: []string{}, EnvRef: Unknown, NetworkProfile: Unknown, SandboxMode: Unknown, SandboxBasis: Unknown,
		Shell: Unknown, OS: Unknown, Arch: Unknown, ResourceLimits: map[string]int64{}, MayStillExist: []string{},
		ActiveProcesses: copied(func(*Process) bool { return true }, env.Active),
		RecentProcesses: copied(func(*Process) bool { return true }, env.Recent),
		Started:         env.Started, EndedCounts: countsCopy(env.Counts),
	}
	if s.Workspace != nil {
		v.WorkspaceID, v.WorkspaceRoot = s.Workspace.WorkspaceID, s.Workspace.Root
	}
	sandbox := s.Permission.Sandbox
	if t != nil {
		sandbox = t.Sandbox
		if t.Cwd != "" {
			v.Cwd = t.Cwd
		}
	}
	if t != nil {
		v.recorded(t.Environment)
	}
	v.bound(sandbox)
	for _, p := range v.RecentProcesses {
		if p.MayStillExist {
			v.MayStillExist = append(v.MayStillExist, p.ProcessID)
		}
	}
	v.Status = statusOf(sandbox != nil || v.SandboxBasis != Unknown || v.Cwd != "" || env.Started > 0, Unknown)
	v.Cwd = orUnknown(v.Cwd)
	return v
}

// recorded fills in what the thread's last turn says of where it works.
func (v *EnvironmentSnapshot) recorded(e *event.ExecutionEnvironment) {
	if e == nil {
		return
	}
	v.WorkspaceID, v.WorkspaceRoot, v.Cwd = e.WorkspaceID, e.WorkspaceRoot, e.Cwd
	v.Shell, v.OS, v.Arch, v.EnvRef = e.Shell, e.OS, e.Arch, e.EnvRef
	v.SandboxMode, v.NetworkProfile, v.SandboxBasis = e.SandboxMode, e.NetworkProfile, "configured"
	v.AdditionalRoots, v.ResourceLimits = listCopy(e.AdditionalRoots), countsCopy(e.ResourceLimits)
}

// bound fills in what the applied sandbox says.
func (v *EnvironmentSnapshot) bound(sandbox *AppliedSandbox) {
	if sandbox == nil {
		return
	}
	if sandbox.Cwd != "" {
		v.Cwd = sandbox.Cwd
	}
	v.NetworkProfile, v.SandboxMode, v.SandboxBasis = sandbox.Network, sandbox.Mode, "applied"
	v.AdditionalRoots = AdditionalRoots(v.WorkspaceRoot, sandbox.WriteRoots)
	v.ResourceLimits = countsCopy(sandbox.ProcessLimits)
	if sandbox.EnvironmentRef != "" {
		v.EnvRef = sandbox.EnvironmentRef
	}
}

// InventorySnapshot says which tools a thread's newest turn may use.
type InventorySnapshot struct {
	Status string `json:"status"`
	*ToolInventory
}

func inventorySnapshot(t *Thread) InventorySnapshot {
	return InventorySnapshot{Status: statusOf(t.Inventory != nil, Unknown), ToolInventory: t.Inventory}
}
