package loop

import (
	"cmp"
	"runtime"

	"agentd/sandbox"
	"agentd/state"
)

// Place says where the commands of a thread run, and which boundary they are to
// receive by the configuration. It looks at nothing that costs: what the kernel
// enforces is found out when a command runs, or by get_execution_environment.
func (l *Loop) Place(s *state.Session, t *state.Thread) *state.Place {
	w := l.workplace(s, t, t.Active)
	p := &state.Place{
		WorkspaceRoot: w.root, Cwd: w.cwd, OS: runtime.GOOS, Arch: runtime.GOARCH,
		Shell: state.NotApplicable, SandboxMode: state.NotApplicable, Network: state.NotApplicable,
	}
	if l.opt.Processes == nil {
		return p // it runs no commands
	}
	profile := &l.opt.Sandbox
	p.Shell = shell
	p.SandboxMode = string(cmp.Or(profile.Mode, sandbox.WorkspaceWrite))
	p.Network = string(cmp.Or(profile.Network, sandbox.NetworkDeny))
	p.AdditionalRoots = profile.WriteRoots
	p.Limits = statedLimits(&profile.Limits)
	return p
}
