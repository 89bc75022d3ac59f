package state

import "maps"

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
}

// Fill adds what the runtime knows of where the session's commands run.
func (s *SessionSnapshot) Fill(p *Place) { s.ExecutionEnvironment.fill(p) }

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
	v.AdditionalRoots, v.ResourceLimits = listCopy(p.AdditionalRoots), maps.Clone(p.Limits)
	if v.ResourceLimits == nil {
		v.ResourceLimits = map[string]int64{}
	}
}
