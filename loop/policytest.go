package loop

import (
	"context"
	"path/filepath"
	"slices"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/permission"
	"agentd/state"
	"agentd/store"
	"agentd/tool"
)

const (
	// maxReconsidered bounds the decisions that one test_policy decides again, and
	// maxCompared how many rules they are held against, all together: it is what a test
	// costs.
	maxReconsidered = 100_000
	maxCompared     = 300_000
	// maxShownArgs bounds the arguments that are shown of a call.
	maxShownArgs = 1024
)

// testPolicy decides past calls again under another policy. Nothing runs, and nothing
// is written.
func (l *Loop) testPolicy(ctx context.Context, caller command.Caller, p *command.TestPolicy) (*command.TestPolicyResult, error) {
	rules, err := permission.ParseRules("host", p.Rules)
	if err != nil {
		return nil, fault.Param("rules", "%s", err)
	}
	if p.Rules == nil {
		rules = l.Configuration().Rules
	}
	test := &policyTest{l: l, policy: permission.Policy{Mode: p.Mode, Rules: rules}, limit: p.Size(), res: &command.TestPolicyResult{Changed: []command.PolicyChange{}}}
	sessions := []string{p.SessionID}
	if p.SessionID == "" {
		sessions, err = l.m.VisibleSessions(ctx, caller)
	} else {
		err = l.m.See(ctx, caller, p.SessionID)
	}
	if err != nil {
		return nil, err
	}
	for _, id := range sessions {
		if test.res.Truncated {
			break
		}
		if err := test.session(ctx, id); err != nil {
			return nil, err
		}
		test.res.Sessions++
	}
	return test.res, nil
}

// policyTest is one comparison of a policy with past decisions.
type policyTest struct {
	l      *Loop
	policy permission.Policy
	limit  int
	// compared counts the rules that decisions were held against.
	compared int
	res      *command.TestPolicyResult
}

// session decides the calls of one session again.
func (t *policyTest) session(ctx context.Context, id string) error {
	st, err := t.l.m.Origin(ctx, id)
	if err != nil {
		return err
	}
	r := &pastDecisions{policyTest: t, fold: st, held: true, tools: map[string]event.ToolInfo{}, cwds: map[string]string{}}
	for _, b := range tool.Builtins(&tool.Options{}) {
		r.tools[b.Info().ToolName] = b.Info()
	}
	for rec, err := range t.l.opt.Store.Read(ctx, id, store.Range{After: st.Sequence}) {
		if err != nil {
			return fault.Wrap(fault.Unavailable, err, "the facts of session %s can't be read", id)
		}
		e, err := store.DecodeFact(ctx, t.l.opt.Store, rec.Data)
		if err == nil {
			err = r.compareFact(e)
		}
		if err != nil {
			return fault.Wrap(fault.Internal, err, "fact %d of session %s can't be read", rec.Sequence, id)
		}
		if t.res.Truncated {
			return nil
		}
	}
	return nil
}

// pastDecisions goes through the facts of a session.
type pastDecisions struct {
	*policyTest
	// fold knows the session's own rules and what was approved.
	fold  *state.Session
	tools map[string]event.ToolInfo
	// cwds are the folders of turns.
	cwds map[string]string
	// held says that the kernel kept the sandbox's boundaries.
	held bool
}

func (r *pastDecisions) compareFact(e *event.Event) error {
	switch p := e.Payload.(type) {
	case *event.ToolCatalogResolved:
		for _, t := range p.Tools {
			r.tools[t.ToolName] = t
		}
	case *event.TurnSubmitted:
		if p.Options != nil && p.Options.Cwd != "" {
			r.cwds[e.TurnID] = filepath.Join(r.root(), p.Options.Cwd)
		}
	case *event.SandboxApplied:
		if p.HookRunID == "" {
			r.held = p.Enforcement.Filesystem != "none"
		}
	case *event.PermissionEvaluated:
		r.reconsider(e, p)
	}
	_, err := r.fold.Apply(e)
	return err
}

func (r *pastDecisions) root() string { return r.l.Configuration().rootOf(r.fold) }

// reconsider compares one recorded decision with what the policy makes of it. What
// follows from an approval of this very call, and what was only asked and not done, is
// left out.
func (r *pastDecisions) reconsider(e *event.Event, p *event.PermissionEvaluated) {
	if p.DecisionSource == "human" || e.ToolCallID == "" || e.ToolCallID == event.NotApplicable {
		return
	}
	own := r.ownRules()
	if r.compared += 1 + len(r.policy.Rules) + len(own); r.res.Total >= maxReconsidered || r.compared > maxCompared {
		r.res.Truncated = true
		return
	}
	info, known := r.tools[p.ToolName]
	if !known {
		info = event.ToolInfo{ToolName: p.ToolName}
	}
	disk := &RecordedDisk{Lookups: p.Lookups}
	q := permission.Question{
		Mode: p.PermissionMode, Interactive: true, Tool: info, Input: p.SafeArgs, ToolCallID: e.ToolCallID, Root: r.root(), Cwd: r.cwds[e.TurnID],
		Resolve: disk.Resolve, Contents: disk.Content, Text: disk.Script,
		Grants: grantsOf(r.fold), Now: e.Time, Sandbox: permission.Sandbox{Mode: "workspace_write", Filesystem: r.held, Network: r.held},
	}
	if p.DecisionSource == "hook" {
		q.Hook = &permission.Opinion{Decision: p.Decision, Reason: p.DecisionReason}
	}
	policy := r.policy
	policy.Rules = append(slices.Clone(policy.Rules), own...)
	if policy.Rules == nil {
		policy.Rules = []event.PolicyRule{}
	}
	c := permission.Reconsider([]permission.Recorded{{Ref: e.ID, Question: q, Decision: p.Decision, Reason: p.DecisionReason}}, policy)
	r.res.Total++
	r.res.Unknown += int64(len(c.Skipped))
	r.res.ChangedCount += int64(len(c.Changes))
	for _, x := range c.Changes {
		if len(r.res.Changed) == r.limit {
			return
		}
		r.res.Changed = append(r.res.Changed, command.PolicyChange{
			SessionID: e.SessionID, Sequence: e.Sequence, EventID: e.ID, ToolCallID: e.ToolCallID, ToolName: p.ToolName, Args: shownArgs(p.SafeArgs),
			Before: x.Before, BeforeReason: x.BeforeReason, After: x.After.Decision, Reason: r.l.redactText(x.After.DecisionReason),
		})
	}
}

// shownArgs are the arguments of a call if they are short.
func shownArgs(args event.Raw) event.Raw {
	if len(args) > maxShownArgs {
		return nil
	}
	return args
}

// ownRules are those of the session itself, which a host's policy adds to.
func (r *pastDecisions) ownRules() []event.PolicyRule {
	var out []event.PolicyRule
	for _, p := range r.fold.Permission.Policies {
		if p.Source != "host" && p.Workspace == "" {
			out = append(out, p.Rules...)
		}
	}
	return out
}

// RecordedDisk is the file system as a recorded decision found it. It implements [Disk].
type RecordedDisk struct{ Lookups []event.PathLookup }

func (d *RecordedDisk) lookupOf(path string) *event.PathLookup {
	if i := slices.IndexFunc(d.Lookups, func(l event.PathLookup) bool { return l.Path == path }); i >= 0 {
		return &d.Lookups[i]
	}
	return &event.PathLookup{}
}

// Resolve implements [Disk].
func (d *RecordedDisk) Resolve(path string) string {
	if to := d.lookupOf(path).LeadsTo; to != "" {
		return to
	}
	return path
}

// Content implements [Disk].
func (d *RecordedDisk) Content(path string) (string, bool) {
	hash := d.lookupOf(path).ContentHash
	return hash, hash != ""
}

// Script implements [Disk].
func (d *RecordedDisk) Script(path string) (string, bool) {
	text := d.lookupOf(path).Script
	return text, text != ""
}
