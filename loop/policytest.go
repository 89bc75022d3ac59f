package loop

import (
	"context"
	"slices"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/permission"
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
	sessions, err := l.pastSessions(ctx, caller, p.SessionID)
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
	r, err := t.l.pastDecisions(ctx, id)
	if err != nil {
		return err
	}
	r.decided = func(e *event.Event, p *event.PermissionEvaluated) { t.reconsider(r, e, p) }
	r.enough = func() bool { return t.res.Truncated }
	return r.walk(ctx, id)
}

// reconsider compares one recorded decision with what the policy makes of it. What
// follows from an approval of this very call, and what was only asked and not done, is
// left out.
func (t *policyTest) reconsider(r *pastDecisions, e *event.Event, p *event.PermissionEvaluated) {
	own := r.ownRules()
	if t.compared += 1 + len(t.policy.Rules) + len(own); t.res.Total >= maxReconsidered || t.compared > maxCompared {
		t.res.Truncated = true
		return
	}
	policy := t.policy
	policy.Rules = append(slices.Clone(policy.Rules), own...)
	if policy.Rules == nil {
		policy.Rules = []event.PolicyRule{}
	}
	c := permission.Reconsider([]permission.Recorded{{Ref: e.ID, Question: r.question(e, p), Decision: p.Decision, Reason: p.DecisionReason}}, policy)
	t.res.Total++
	t.res.Unknown += int64(len(c.Skipped))
	t.res.ChangedCount += int64(len(c.Changes))
	for _, x := range c.Changes {
		if len(t.res.Changed) == t.limit {
			return
		}
		t.res.Changed = append(t.res.Changed, command.PolicyChange{
			SessionID: e.SessionID, Sequence: e.Sequence, EventID: e.ID, ToolCallID: e.ToolCallID, ToolName: p.ToolName, Args: shownArgs(p.SafeArgs),
			Before: x.Before, BeforeReason: x.BeforeReason, After: x.After.Decision, Reason: t.l.redactText(x.After.DecisionReason),
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
