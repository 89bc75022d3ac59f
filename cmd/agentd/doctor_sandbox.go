package main

import (
	"strings"

	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/sandbox"
)

// sandboxReport is what the configured sandbox really enforces on this machine.
type sandboxReport struct {
	Kernel  string `json:"kernel"`
	UID     int    `json:"uid"`
	Mode    string `json:"mode"`
	Network string `json:"network"`
	// Boundaries names the mechanism of each, or "none".
	Boundaries []boundary `json:"boundaries"`
	// NotEnforced has a sentence for each thing that was asked for and isn't there.
	NotEnforced []string    `json:"notEnforced"`
	Mechanisms  []mechanism `json:"mechanisms"`
	Problem     string      `json:"problem,omitempty"`
}

// boundary is what confines a tool in one respect.
type boundary struct {
	Name       string `json:"name"`
	EnforcedBy string `json:"enforcedBy"`
}

// mechanism is one that the kernel was tried for.
type mechanism struct {
	Name      string `json:"name"`
	Available bool   `json:"available"`
	Detail    string `json:"detail,omitempty"`
}

// examineSandbox tries what the kernel offers and plans the configured profile
// with it, as a tool call would.
func (a *app) examineSandbox(c *config.Config) *sandboxReport {
	probed := sandbox.Probe()
	r := &sandboxReport{
		Kernel: probed.Kernel, UID: probed.UID, Mode: c.Sandbox.Mode, Network: c.Sandbox.Network,
		Boundaries: []boundary{}, NotEnforced: []string{}, Mechanisms: []mechanism{},
	}
	for _, row := range probed.Rows() {
		r.Mechanisms = append(r.Mechanisms, mechanism{row.Name, row.Available, row.Reason})
	}
	hidden, err := a.hiddenPaths(c)
	if err != nil {
		r.Problem = err.Error()
		return r
	}
	plan, err := sandbox.Prepare(profileOf(c, hidden), probed)
	if err != nil {
		r.Problem = err.Error()
		return r
	}
	e := plan.Enforcement
	r.Boundaries = []boundary{{"filesystem", e.Filesystem}, {"network", e.Network}, {"processes", e.Processes}, {"limits", e.Limits}, {"rules", e.Rules}}
	r.NotEnforced = append(r.NotEnforced, plan.NotEnforced...)
	return r
}

func profileOf(c *config.Config, hidden []string) sandbox.Profile {
	return sandbox.Profile{
		Mode: sandbox.Mode(c.Sandbox.Mode), Root: c.Workspace.Root, Network: sandbox.Network(c.Sandbox.Network), AllowedHosts: c.Sandbox.Allowed,
		ReadRoots: fromHome(c.Sandbox.ReadRoots), WriteRoots: c.Sandbox.WriteRoots, Hidden: hidden, Env: c.Sandbox.Env,
		Limits:     sandbox.Limits{MemoryMB: c.Sandbox.Limits.MemoryMB, Processes: c.Sandbox.Limits.Processes},
		Supervised: true, // as if there were a rule about commands
	}
}

// findings says in a line how the sandbox stands.
func (r *sandboxReport) findings() []finding {
	switch {
	case r.Problem != "":
		return []finding{fail("sandbox", "correct sandbox and workspace in the configuration", "%s", r.Problem)}
	case r.Mode == string(sandbox.DangerFullAccess):
		return []finding{warn("sandbox", "set sandbox.mode to workspace_write", "switched off: tools may do everything that you may")}
	case len(r.NotEnforced) > 0:
		return []finding{warn("sandbox", "see below for what tools could do; commands ask for approval where the boundary is missing",
			"%s is not fully enforced here: %s", r.Mode, terminal.Plural(int64(len(r.NotEnforced)), "gap"))}
	}
	return []finding{ok("sandbox", "%s with network %s is enforced by this kernel", r.Mode, r.Network)}
}

func (r *sandboxReport) print(p *printer) {
	p.linef("")
	p.linef("%s (%s, uid %d)", p.Paint(terminal.Bold, "What the sandbox enforces here"), r.Kernel, r.UID)
	for _, b := range r.Boundaries {
		colour := terminal.Green
		if b.EnforcedBy == sandbox.None {
			colour = terminal.Red
		}
		p.linef("  %-11s %s", b.Name, p.Paint(colour, b.EnforcedBy))
	}
	for _, n := range r.NotEnforced {
		p.linef("  %s %s", p.Paint(terminal.Yellow, "not enforced:"), terminal.Plain(n))
	}
	p.linef("")
	for _, m := range r.Mechanisms {
		mark := p.Paint(terminal.Green, "yes")
		if !m.Available {
			mark = p.Paint(terminal.Yellow, "no ")
		}
		p.linef("%s", strings.TrimRight("  "+mark+" "+m.Name+"  "+p.Paint(terminal.Dim, terminal.Plain(m.Detail)), " "))
	}
}
