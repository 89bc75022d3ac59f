package state

import (
	"testing"

	"agentd/event"
)

// TestOnlyAWholeBoundaryHoldsToRead: a call is made again without a question only if its
// boundary leaves no doubt.
func TestOnlyAWholeBoundaryHoldsToRead(t *testing.T) {
	whole := func(change func(*event.SandboxApplied)) *event.SandboxApplied {
		p := &event.SandboxApplied{Mode: "read_only", Network: "deny", Enforcement: event.Enforcement{Filesystem: "landlock", Network: "seccomp", Processes: "landlock", Limits: "rlimits", Rules: "none"}}
		if change != nil {
			change(p)
		}
		return p
	}
	for name, p := range map[string]*event.SandboxApplied{
		"all of it": whole(nil),
		"without limits": whole(func(p *event.SandboxApplied) {
			p.Enforcement.Limits, p.NotEnforced = "none", []string{"limits: none is enforced but the time"}
		}),
	} {
		if !holdsToRead(p) {
			t.Errorf("%s doesn't hold", name)
		}
	}
	for name, change := range map[string]func(*event.SandboxApplied){
		"that may write":        func(p *event.SandboxApplied) { p.Mode = "workspace_write" },
		"that has a write root": func(p *event.SandboxApplied) { p.WriteRoots = []string{"/tmp/x"} },
		"with the network":      func(p *event.SandboxApplied) { p.Network = "allow" },
		"with a proxy":          func(p *event.SandboxApplied) { p.Network = "proxy" },
		"of no files":           func(p *event.SandboxApplied) { p.Enforcement.Filesystem = "none" },
		"of no network":         func(p *event.SandboxApplied) { p.Enforcement.Network = "none" },
		"of no processes":       func(p *event.SandboxApplied) { p.Enforcement.Processes = "none" },
		"with a gap": func(p *event.SandboxApplied) {
			p.NotEnforced = []string{"network: Unix sockets of other programs can be reached"}
		},
	} {
		if holdsToRead(whole(change)) {
			t.Errorf("a boundary %s holds", name)
		}
	}
}
