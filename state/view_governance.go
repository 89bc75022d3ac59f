package state

import (
	"slices"
	"time"

	"agentd/event"
)

// PermissionState says what may run, who decides, and what was decided.
type PermissionState struct {
	// Status is available, or unknown if no fact says anything yet.
	Status string `json:"status"`
	// Mode is the mode that holds here, or unknown.
	Mode string `json:"mode"`
	// ModeSource says who set the mode.
	ModeSource string `json:"modeSource"`
	// InteractionAllowed says whether this mode may ask a person.
	InteractionAllowed bool `json:"interactionAllowed"`
	// Policies are the newest policy of each source.
	Policies []Policy `json:"policies"`
	// Grants were given for the whole session.
	Grants []Grant `json:"grants"`
	// PendingApprovals are the decisions that wait for an answer.
	PendingApprovals []Approval `json:"pendingApprovals"`
	// Decisions are the last ones, oldest first.
	Decisions []Decision `json:"decisions"`
	// DecisionCounts counts all decisions of the session by word.
	DecisionCounts map[string]int64 `json:"decisionCounts"`
	// ResolvedCounts counts the answered requests by word.
	ResolvedCounts map[string]int64 `json:"resolvedCounts"`
	// Requested counts the requests for permission in the session.
	Requested int64 `json:"requested"`
	// HookRuns under way, and the last ended ones.
	HookRuns []HookRun `json:"hookRuns"`
	// HookCounts counts all runs of hooks in the session by status.
	HookCounts map[string]int64 `json:"hookCounts"`
}

// Approval is a pending decision.
type Approval struct {
	// ActionID is the action to answer.
	ActionID string `json:"actionId"`
	// ThreadID is the thread that waits.
	ThreadID string `json:"threadId"`
	// TurnID is the turn that waits.
	TurnID string `json:"turnId"`
	// ToolCallID is the tool call that it belongs to, if it belongs to one.
	ToolCallID string `json:"toolCallId,omitempty"`
	// ActionType says what kind of answer is asked for.
	ActionType string `json:"actionType"`
	// ToolName is the tool's name.
	ToolName string `json:"toolName,omitempty"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
	// Destructive says that something may be lost that nothing brings back.
	Destructive bool `json:"destructive"`
	// ExpiresAt is when the action answers itself; absent if it waits.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// Since is when it was asked for.
	Since time.Time `json:"since"`
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
	// Status is available, or unknown if no fact says anything yet.
	Status string `json:"status"`
	// Profile is the boundary that was applied last.
	Profile *AppliedSandbox `json:"profile,omitempty"`
	// Violations are the last hits.
	Violations []Violation `json:"violations"`
	// ViolationRefs are the events that tell of them.
	ViolationRefs []string `json:"violationRefs"`
	// ViolationCount counts all hits of the session.
	ViolationCount int64 `json:"violationCount"`
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
	// Status is available, or unknown if no fact says anything yet.
	Status string `json:"status"`
	// WorkspaceID is the workspace's id.
	WorkspaceID string `json:"workspaceId,omitempty"`
	// WorkspaceRoot is the workspace's folder.
	WorkspaceRoot string `json:"workspaceRoot,omitempty"`
	// Cwd is the folder that commands begin in, or unknown.
	Cwd string `json:"cwd"`
	// AdditionalRoots are the folders outside of the workspace that can be changed.
	AdditionalRoots []string `json:"additionalRoots"`
	// EnvRef is where the environment of processes is described, or unknown.
	EnvRef string `json:"envRef"`
	// NetworkProfile says whether connections are allowed, or unknown.
	NetworkProfile string `json:"networkProfile"`
	// SandboxMode is the mode of the sandbox, or unknown.
	SandboxMode string `json:"sandboxMode"`
	// SandboxBasis says where mode, network, roots and limits are from: "applied" is a
	// fact of what a command received, "configured" what the next one is to receive.
	SandboxBasis string `json:"sandboxBasis"`
	// Shell runs commands, or unknown. Shell, system and architecture are those of the
	// thread's last turn; before the first one, the runtime that answers fills in its own.
	Shell string `json:"shell"`
	// OS is the operating system, or unknown.
	OS string `json:"os"`
	// Arch is the processor architecture.
	Arch string `json:"arch"`
	// ResourceLimits are the limits that hold for processes, by name.
	ResourceLimits map[string]int64 `json:"resourceLimits"`
	// ActiveProcesses have not ended, oldest first.
	ActiveProcesses []Process `json:"activeProcesses"`
	// RecentProcesses are the last ended ones, oldest first.
	RecentProcesses []Process `json:"recentProcesses"`
	// MayStillExist are the processes whose end could not be proved.
	MayStillExist []string `json:"mayStillExist"`
	// Started counts all processes of the session.
	Started int64 `json:"started"`
	// EndedCounts counts the ended processes by status.
	EndedCounts map[string]int64 `json:"endedCounts"`
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
	// Status is available, or unknown if no fact says anything yet.
	Status string `json:"status"`
	*ToolInventory
}

func inventorySnapshot(t *Thread) InventorySnapshot {
	return InventorySnapshot{Status: statusOf(t.Inventory != nil, Unknown), ToolInventory: t.Inventory}
}
