package loop

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"agentd/event"
	"agentd/internal/place"
	"agentd/permission"
	"agentd/sandbox"
	"agentd/state"
	"agentd/tool"
)

// confining says how a command is confined beside the configured profile.
type confining int

const (
	asConfigured confining = iota
	// lifted is without a sandbox, which only an approval may say.
	lifted
	// onlyReading can write nothing and reach nothing: the command runs unasked because
	// its words say that it only reads, and a mode that asks about everything else relies
	// on that.
	onlyReading
)

// confiningOf says how a call is confined that a decision lets run.
func confiningOf(d *permission.Decision) confining {
	switch {
	case d.NeedsOutside && d.GrantID != "":
		return lifted
	case d.ReadOnly:
		return onlyReading
	}
	return asConfigured
}

// confinedBy says how a call is confined that a person was asked about.
func confinedBy(a *state.Action) confining {
	if a.ActionType == "sandbox_escape" {
		return lifted
	}
	return asConfigured
}

// planCommand says how a command in that place will be confined; supervised asks rules
// before each program.
func (l *Loop) planCommand(w workplace, how confining, supervised bool) (*sandbox.Plan, error) {
	return l.planBounded(w, how, supervised, l.workspaceBounds(w.root))
}

// planBounded is planCommand for a caller who knows the bounds of the workspace.
func (l *Loop) planBounded(w workplace, how confining, supervised bool, bounds []string) (*sandbox.Plan, error) {
	if l.opt.Processes == nil {
		return nil, tool.Errorf(tool.Unavailable, "this runtime can't run commands")
	}
	// The folder itself is looked at each time: a plan is about what it was.
	if _, err := l.Places().Fix(w.root); err != nil {
		return nil, replaced(err)
	}
	k := planKey{w, how, supervised}
	l.plans.Lock()
	defer l.plans.Unlock()
	if p := l.plans.byPlace[k]; p.plan != nil && l.plans.renewed == l.Places().Renewed() && slices.Equal(p.bounds, bounds) && !p.unresolved.hasAppeared(time.Now()) {
		return p.plan, nil
	}
	if l.plans.renewed != l.Places().Renewed() || len(l.plans.byPlace) >= maxPlans {
		clear(l.plans.byPlace)
		l.plans.renewed = l.Places().Renewed()
	}
	profile := l.opt.Sandbox
	profile.Root, profile.Cwd, profile.Supervised = w.root, w.cwd, supervised
	profile.Protected = bounds
	switch how {
	case asConfigured:
	case lifted:
		profile.Mode = sandbox.DangerFullAccess
	case onlyReading:
		profile.Mode, profile.Network = sandbox.ReadOnly, sandbox.NetworkDeny
	}
	profile, err := profile.Fixed(l.Places())
	if err != nil {
		return nil, replaced(err)
	}
	p, err := l.processManager().Prepare(profile)
	if err != nil {
		return nil, err
	}
	l.plans.byPlace[k] = madePlan{p, bounds, newAbsent(p.Unresolved(), time.Now())}
	return p, nil
}

// maxPlans bounds the plans that are kept.
const maxPlans = 256

type planKey struct {
	place      workplace
	how        confining
	supervised bool
}

// madePlan is a plan, the bounds that it was made with, and the hidden paths that weren't
// there.
type madePlan struct {
	plan       *sandbox.Plan
	bounds     []string
	unresolved *absent
}

type plans struct {
	sync.Mutex
	byPlace map[planKey]madePlan
	// renewed is the state of the registry of places that the plans were made by.
	renewed uint64
}

// replaced is the refusal of a workspace, or of what is hidden from it, that isn't
// what it was.
func replaced(err error) error {
	if !errors.Is(err, place.ErrReplaced) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	refused := tool.Errorf(tool.SandboxViolation, "%v", err)
	refused.Boundary = "workspace"
	refused.Advice = "Nothing can run here until the operator has put it back, or has reloaded agentd to accept it."
	return refused
}

// guarded is what rules demand of the commands of a call, beyond the sandbox that all
// commands get.
type guarded struct {
	rules []event.PolicyRule
	// supervised says that a rule is about programs that commands start.
	supervised bool
	// answered are the rules that a person was asked about for this very call.
	answered []string
	// hidden and readOnly are the files that deny rules cover.
	hidden, readOnly []string
	// missed says why files outside of the workspace that a rule denies may be uncovered.
	missed string
	// uncoverable says why not all files of the workspace that a rule denies can be
	// covered. Nothing runs then: a command could make it so for the next one.
	uncoverable string
}

// prepare finds out what the rules demand in a workspace.
func (g *guarded) prepare(root string) {
	g.supervised = permission.NewGuard(g.rules, nil, nil) != nil
	g.coverFiles(root)
}

// denied says which files of a workspace rules deny reading; nil if there are none.
func (g *guarded) denied(root string) func(path string) bool {
	cover := permission.NewCover(g.rules, root)
	if cover == nil {
		return nil
	}
	return func(path string) bool {
		hidden, _, _ := cover.Match(path)
		return hidden
	}
}

// planCall says how a command of the call will be confined in a folder.
func (r *toolRun) planCall(cwd string) (*sandbox.Plan, error) {
	if err := r.coverable(); err != nil {
		return nil, err
	}
	p, err := r.l.planCommand(workplace{r.place.root, cwd}, r.confining, r.guard.supervised)
	if err != nil {
		return nil, err
	}
	return r.coverCall(p), nil
}

// coverable refuses a command where files that a rule denies can't be covered.
func (r *toolRun) coverable() error {
	if why := r.guard.uncoverable; why != "" {
		refused := tool.Errorf(tool.Denied, "%s", why)
		refused.Boundary = "rule"
		refused.Advice = "A person can narrow the deny rule, or use one that names the folder that holds the files."
		return refused
	}
	return nil
}

// coverCall adds to a plan what is the call's own.
func (r *toolRun) coverCall(p *sandbox.Plan) *sandbox.Plan {
	pinned := r.l.otherWorkspaces(p)
	if len(r.guard.hidden)+len(r.guard.readOnly)+len(pinned) > 0 {
		p = p.Covering(r.guard.hidden, r.guard.readOnly, pinned)
	}
	if r.guard.missed != "" {
		p = p.Lacking(r.guard.missed)
	}
	return p
}

// otherWorkspaces are the workspaces of other sessions that a command could move,
// and with them what those sessions are bound to.
func (l *Loop) otherWorkspaces(p *sandbox.Plan) []string {
	var out []string
	for _, root := range p.WriteRoots {
		for _, other := range l.Places().Below(root) {
			if other.IsDir() && !slices.Contains(p.Profile.Hidden, other.Path) {
				out = append(out, other.Path)
			}
		}
	}
	return out
}

// supervision checks the rules against each program that a command of the call
// starts; nil if none has anything to say. line is what the person who was asked saw.
func (r *toolRun) supervision(p *sandbox.Plan, line string) func(sandbox.Start) string {
	if !r.guard.supervised || p.Enforcement.Rules == sandbox.None {
		return nil
	}
	answered := &permission.Answered{RuleRefs: r.guard.answered, Line: line}
	guard := permission.NewGuard(r.guard.rules, answered, func(name string) (permission.FileID, bool) {
		id, ok := p.LookPath(name)
		return permission.FileID(id), ok
	})
	return func(s sandbox.Start) string {
		refusal, refused := guard.Judge(permission.Start{
			Path: s.Path, ID: permission.FileID{Dev: s.Dev, Ino: s.Ino}, Argv: s.Argv,
			Resolve: func(path string) (string, permission.FileID, bool) {
				file, id, ok := s.Resolve(path)
				return file, permission.FileID(id), ok
			},
		})
		if !refused {
			return ""
		}
		return r.l.redactText(refusalText(&refusal))
	}
}

// refusalText says which rule kept a program from starting, and what to do.
func refusalText(f *permission.Refusal) string {
	why := ""
	if f.Reason != "" {
		why = ": " + f.Reason
	}
	command := tool.Preview(f.Command, 300)
	if f.RuleRef == "" {
		return fmt.Sprintf("the command tried to start %q, which a rule could be about%s; start the program by its own path", command, why)
	}
	if f.Decision == permission.Ask {
		return fmt.Sprintf("the command tried to start %q, and the rule %s asks about that%s; run it as a call of its own, so that a person can be asked", command, f.RuleRef, why)
	}
	return fmt.Sprintf("the command tried to start %q, which the rule %s denies%s", command, f.RuleRef, why)
}
