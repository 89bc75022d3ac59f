package agentd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"agentd/event"
	"agentd/internal/place"
	"agentd/loop"
	"agentd/permission"
	"agentd/process"
	"agentd/redact"
	"agentd/sandbox"
	"agentd/tool"
)

// Governance says what the agents of [OpenGoverned] are bound to. Workspace is required.
type Governance struct {
	// Workspace is the folder that agents work in, and the only one that their commands
	// write to.
	Workspace string
	// Data are the folders and files that agents neither read nor write: the store's, and
	// whatever else the program keeps for itself.
	Data []string
	// Secrets are values that are replaced wherever they occur before anything is stored
	// or sent to a model, beside those that can be told by their shape.
	Secrets []string
	// Mode is the permission mode of sessions that name none; default "default", which
	// asks before anything is changed.
	Mode string
	// Rules hold before the mode does, for all sessions.
	Rules []event.PolicyRule
	// Tools are offered beside the built-in ones.
	Tools []tool.Tool
	// BudgetUSD is what one session may cost; 0 is no limit.
	BudgetUSD float64
}

// Limits of one command of a governed runtime, the defaults of "agentd serve".
const (
	commandMemoryMB  = 2048
	commandProcesses = 256
	commandTime      = 10 * time.Minute
)

// OpenGoverned is [Open] with the defaults of "agentd serve" for what agents may do:
// commands run in a sandbox without a network and within limits, places where secrets
// are usually kept are hidden, the permission policy asks, and secrets are redacted.
// What the kernel can't enforce is said in the facts of each command.
//
// Hooks, undo and the rules that a workspace brings along are not part of it: they need
// programs, keys and a file format of the caller's choice, and are set in opt.Loop, whose
// other fields about governance are replaced.
func OpenGoverned(ctx context.Context, opt Options, g Governance) (*Runtime, error) {
	if g.Workspace == "" {
		return nil, errors.New("agentd: Governance.Workspace is empty; name the folder that agents work in")
	}
	rules, err := permission.ParseRules("host", g.Rules)
	if err != nil {
		return nil, fmt.Errorf("agentd: Governance.Rules: %w", err)
	}
	var hidden []string
	for _, path := range g.Data {
		abs, err := filepath.Abs(path)
		if err != nil {
			return nil, fmt.Errorf("agentd: Governance.Data: %w", err)
		}
		hidden = append(hidden, abs)
	}
	hidden = slices.Concat(hidden, sandbox.SecretPaths())

	o := &opt.Loop
	o.Workspace, o.Data, o.Places = g.Workspace, g.Data, &place.Places{}
	o.Host = loop.HostPolicy{Mode: cmp.Or(g.Mode, "default"), DefaultMode: g.Mode == "", Rules: rules}
	o.Budget.SessionCostUSD = g.BudgetUSD
	o.Redact = redact.New(redact.Options{Values: g.Secrets})
	o.Sandbox = sandbox.Profile{
		Hidden: hidden, Limits: sandbox.Limits{MemoryMB: commandMemoryMB, Processes: commandProcesses, WallClock: commandTime},
	}
	o.Processes = sync.OnceValue(func() *process.Manager { return process.New(process.Options{Report: sandbox.Probe()}) })
	if self, err := os.Executable(); err == nil {
		o.Bounds.Paths = append(o.Bounds.Paths, self)
	}
	builtins := tool.Builtins(&tool.Options{Places: o.Places, Hidden: hidden})
	if o.Tools, err = tool.NewRegistry(append(builtins, g.Tools...)...); err != nil {
		return nil, fmt.Errorf("agentd: Governance.Tools: %w", err)
	}
	return Open(ctx, opt)
}
