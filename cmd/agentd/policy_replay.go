package main

import (
	"context"
	"fmt"
	"path/filepath"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/turntext"
	"agentd/event"
	"agentd/permission"
	"agentd/state"
	"agentd/tool"
)

// replayer goes through a session's facts and decides its tool calls anew.
type replayer struct {
	policy permission.Policy
	root   string
	report *policyReport
	id     string

	// fold knows the session's own rules and what was approved.
	fold  *state.Session
	tools map[string]event.ToolInfo
	// cwds are the folders of turns.
	cwds map[string]string
	// held says that the kernel kept the sandbox's boundaries.
	held    bool
	failure error
}

// replaySession adds the decisions of one session to a report.
func replaySession(ctx context.Context, f facts.Source, id string, policy permission.Policy, root string, report *policyReport) error {
	r := &replayer{
		policy: policy, root: root, report: report, id: id, held: true,
		fold: state.New(id), tools: map[string]event.ToolInfo{}, cwds: map[string]string{},
	}
	for _, t := range tool.Builtins(&tool.Options{}) {
		r.tools[t.Info().ToolName] = t.Info()
	}
	if err := facts.Each(ctx, f, id, r.fact); err != nil {
		return err
	}
	return r.failure
}

func (r *replayer) fact(e *event.Event) {
	if r.failure != nil {
		return
	}
	switch p := e.Payload.(type) {
	case *event.SessionCreated:
		if p.Workspace != nil && p.Workspace.Root != "" {
			r.root = p.Workspace.Root
		}
	case *event.ToolCatalogResolved:
		for _, t := range p.Tools {
			r.tools[t.ToolName] = t
		}
	case *event.TurnSubmitted:
		if p.Options != nil && p.Options.Cwd != "" {
			r.cwds[e.TurnID] = filepath.Join(r.root, p.Options.Cwd)
		}
	case *event.SandboxApplied:
		if p.HookRunID == "" {
			r.held = p.Enforcement.Filesystem != "none"
		}
	case *event.PermissionEvaluated:
		r.decide(e, p)
	}
	if _, err := r.fold.Apply(e); err != nil {
		r.failure = fmt.Errorf("session %s: %w", r.id, err)
	}
}

// decide holds one recorded decision against the new policy. What follows from an
// approval of this very call, and what was only asked and not done, is left out.
func (r *replayer) decide(e *event.Event, p *event.PermissionEvaluated) {
	if p.DecisionSource == "human" || e.ToolCallID == "" || e.ToolCallID == event.NotApplicable {
		return
	}
	info, known := r.tools[p.ToolName]
	if !known {
		info = event.ToolInfo{ToolName: p.ToolName}
	}
	q := permission.Question{
		Mode: p.PermissionMode, Interactive: true, Tool: info, Input: p.SafeArgs, ToolCallID: e.ToolCallID, Root: r.root, Cwd: r.cwds[e.TurnID],
		Grants: r.grants(), Now: e.Time, Sandbox: permission.Sandbox{Mode: "workspace_write", Filesystem: r.held, Network: r.held},
	}
	if p.DecisionSource == "hook" {
		q.Hook = &permission.Opinion{Decision: p.Decision, Reason: p.DecisionReason}
	}
	policy := r.policy
	policy.Rules = append(append([]event.PolicyRule{}, policy.Rules...), r.ownRules()...)
	c := permission.Reconsider([]permission.Recorded{{Ref: e.ID, Question: q, Decision: p.Decision, Reason: p.DecisionReason}}, policy)
	r.report.Same += c.Same
	r.report.Skipped = append(r.report.Skipped, c.Skipped...)
	for _, x := range c.Changes {
		r.report.Changes = append(r.report.Changes, policyChange{
			SessionID: r.id, EventID: e.ID, Sequence: e.Sequence, ToolCallID: e.ToolCallID, ToolName: p.ToolName, What: turntext.ShortArgs(p.ToolName, p.SafeArgs),
			Before: x.Before, BeforeReason: x.BeforeReason, After: x.After.Decision, AfterReason: x.After.DecisionReason,
		})
	}
}

// ownRules are those of the session itself, which a host's policy adds to.
func (r *replayer) ownRules() []event.PolicyRule {
	var out []event.PolicyRule
	for _, p := range r.fold.Permission.Policies {
		if p.Source != "host" {
			out = append(out, p.Rules...)
		}
	}
	return out
}

func (r *replayer) grants() []permission.Grant {
	var out []permission.Grant
	for _, g := range r.fold.Permission.Grants {
		if x, ok := permission.GrantFrom(g.GrantID, g.ToolName, g.Scope, g.ExpiresAt); ok {
			out = append(out, x)
		}
	}
	return out
}
