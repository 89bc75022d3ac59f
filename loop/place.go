package loop

import (
	"cmp"
	"encoding/json"
	"runtime"

	"agentd/event"
	"agentd/permission"
	"agentd/sandbox"
	"agentd/state"
)

// Place says where the commands of a thread run, which boundary they are to receive by
// the configuration, and the host's permission policy. It looks at nothing that costs:
// what the kernel enforces is found out when a command runs, or by
// get_execution_environment.
func (l *Loop) Place(s *state.Session, t *state.Thread) *state.Place {
	p := l.placeOf(s, t, t.Active)
	host := l.Configuration()
	p.HostMode, p.HostRules, p.NobodyToAsk = cmp.Or(host.Mode, permission.ModeDefault), host.Rules, host.NobodyToAsk
	return p
}

// placeOf is where the commands of a turn run.
func (l *Loop) placeOf(s *state.Session, t *state.Thread, turn *state.Turn) *state.Place {
	w := l.workplace(s, t, turn)
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

// turnEnvironment is where a turn works, as its fact says.
func (l *Loop) turnEnvironment(s *state.Session, t *state.Thread, turn *state.Turn) *event.ExecutionEnvironment {
	p := l.placeOf(s, t, turn)
	e := &event.ExecutionEnvironment{
		WorkspaceID: event.NotApplicable, WorkspaceRoot: p.WorkspaceRoot, Cwd: p.Cwd,
		AdditionalRoots: state.AdditionalRoots(p.WorkspaceRoot, p.AdditionalRoots), Shell: p.Shell, OS: p.OS, Arch: p.Arch,
		EnvRef: event.NotApplicable, SandboxMode: p.SandboxMode, NetworkProfile: p.Network, ResourceLimits: p.Limits,
	}
	if s.Workspace != nil && s.Workspace.WorkspaceID != "" {
		e.WorkspaceID = s.Workspace.WorkspaceID
	}
	return e
}

// maxToldRules bounds the host's rules in the fact of each turn, in bytes.
const maxToldRules = 4 << 10

// turnPolicy is the policy that holds for a turn, as its fact says.
func (l *Loop) turnPolicy(s *state.Session, t *state.Thread, turn *state.Turn) *event.TurnPolicy {
	c := l.Configuration()
	p := &event.TurnPolicy{
		Mode: c.ModeOf(s, t, turn), ModeSource: c.modeSource(s, t, turn),
		HostMode: cmp.Or(c.Mode, permission.ModeDefault), RuleCount: int64(len(c.rulesOf(s))),
	}
	p.InteractionAllowed = !c.NobodyToAsk && state.ModeAsks(p.Mode)
	size := 0
	for _, r := range c.Rules {
		b, err := json.Marshal(r)
		if size += len(b); err != nil || size > maxToldRules {
			break
		}
		p.HostRules = append(p.HostRules, r)
	}
	return p
}

// modeSource says whose mode holds for a turn.
func (c *Configuration) modeSource(s *state.Session, t *state.Thread, turn *state.Turn) string {
	own := c.ownMode(s, t, turn)
	switch {
	case c.ModeOf(s, t, turn) != own:
		return "parent"
	case turn.PermissionMode != "" || optionsOf(turn).PermissionMode != "":
		return "turn"
	case t.PermissionMode != "":
		return "thread"
	}
	for i := range s.Permission.Policies {
		if p := &s.Permission.Policies[i]; p.Source == "session" && p.Mode != "" {
			return "session_policy"
		}
	}
	if s.PermissionMode != "" {
		return "session"
	}
	return "host"
}
