package state

import (
	"maps"
	"slices"

	"agentd/event"
)

// Place is what the runtime knows of where a thread's commands run and what facts
// don't say: its own platform, the workspace that a session without one of its own
// works in, and the boundary that the next command is to receive. Whether the kernel
// enforces it is said by the facts of the commands that ran, and by nothing here.
type Place struct {
	WorkspaceRoot, Cwd   string
	AdditionalRoots      []string
	Shell, OS, Arch      string
	SandboxMode, Network string
	Limits               map[string]int64
	// HostMode and HostRules are the host's permission policy; NobodyToAsk says that no
	// person can answer.
	HostMode    string
	HostRules   []event.PolicyRule
	NobodyToAsk bool
}

// Fill adds what the runtime knows of where the session's commands run.
func (s *SessionSnapshot) Fill(p *Place) {
	s.ExecutionEnvironment.fill(p)
	s.PermissionState.fill(p)
}

// fill sets the host's policy as it is now, also before the first decision.
func (v *PermissionState) fill(p *Place) {
	if v.ModeSource == Unknown || v.ModeSource == "last_decision" || v.ModeSource == hostSource+"_policy" {
		v.Mode, v.ModeSource = p.HostMode, hostSource+"_policy"
	}
	v.Status = Available
	v.InteractionAllowed = !p.NobodyToAsk && ModeAsks(v.Mode)
	host := Policy{Source: hostSource, Mode: p.HostMode, Rules: p.HostRules}
	if i := slices.IndexFunc(v.Policies, func(x Policy) bool { return x.Source == hostSource }); i >= 0 {
		v.Policies[i].Mode, v.Policies[i].Rules = host.Mode, host.Rules
		return
	}
	v.Policies = append([]Policy{host}, v.Policies...)
}

// AdditionalRoots lists the folders beside the workspace, each once.
func AdditionalRoots(workspace string, roots []string) []string {
	out := []string{}
	for _, r := range roots {
		if r != workspace && !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}

// fill sets what no fact said.
func (v *EnvironmentSnapshot) fill(p *Place) {
	for _, x := range []struct {
		field *string
		value string
	}{
		{&v.WorkspaceRoot, p.WorkspaceRoot},
		{&v.Cwd, p.Cwd},
		{&v.Shell, p.Shell},
		{&v.OS, p.OS},
		{&v.Arch, p.Arch},
		{&v.WorkspaceID, NotApplicable},
		{&v.EnvRef, NotApplicable}, // commands get a clean environment, which nothing stores
	} {
		if *x.field == "" || *x.field == Unknown {
			*x.field = x.value
		}
	}
	v.Status = Available
	if v.SandboxBasis != Unknown {
		return
	}
	v.SandboxMode, v.NetworkProfile, v.SandboxBasis = p.SandboxMode, p.Network, "configured"
	v.AdditionalRoots, v.ResourceLimits = AdditionalRoots(p.WorkspaceRoot, p.AdditionalRoots), maps.Clone(p.Limits)
	if v.ResourceLimits == nil {
		v.ResourceLimits = map[string]int64{}
	}
}

// WorkspaceRoot is the folder that the session works in: its own, or where the last turn
// of its main thread found itself; empty before that.
func (s *Session) WorkspaceRoot() string {
	if s.Workspace != nil && s.Workspace.Root != "" {
		return s.Workspace.Root
	}
	if t := s.MainThread(); t != nil && t.Environment != nil {
		return t.Environment.WorkspaceRoot
	}
	return ""
}
