package loop

import (
	"context"
	"errors"
	"slices"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/permission"
	"agentd/session"
	"agentd/state"
	"agentd/tool"
)

// evaluatePermission says what would be decided about a call, and records that it
// was asked, unless that is not wanted.
func (l *Loop) evaluatePermission(ctx context.Context, caller command.Caller, p *command.EvaluatePermission) (*command.EvaluatePermissionResult, error) {
	entry, err := l.namedTool(ctx, caller, p.SessionID, p.ToolName)
	if err != nil {
		return nil, err
	}
	if p.DryRun {
		return l.tryPermission(ctx, caller, p, entry)
	}
	id := p.SessionID
	if id == "" {
		id = event.RuntimeSession
	}
	if err := l.adoptRulesAs(ctx, caller, p.SessionID); err != nil {
		return nil, err
	}
	if err := l.adoptProjectAs(ctx, caller, p.SessionID); err != nil {
		return nil, err
	}
	return session.Write(ctx, l.m, caller, p, id, event.BySession|event.ByLoop, func(tx *session.Tx) (*command.EvaluatePermissionResult, error) {
		out, err := l.decideQuery(tx.State, p, entry, l.rulesOf(tx.State), tx.Now())
		if err != nil {
			return nil, err
		}
		scope := event.Scope{ThreadID: event.NotApplicable, TurnID: event.NotApplicable, ToolCallID: event.NotApplicable}
		if t := tx.State.MainThread(); t != nil {
			scope.ThreadID = t.ThreadID
		}
		tx.Emit(event.Event{Type: event.TypePermissionEvaluated, Scope: scope, Payload: out})
		return &command.EvaluatePermissionResult{PermissionDecision: *out}, nil
	})
}

// tryPermission is evaluatePermission without a trace: neither the question is recorded
// nor what the workspace's rules are by now, which are taken into account all the same.
func (l *Loop) tryPermission(ctx context.Context, caller command.Caller, p *command.EvaluatePermission, entry *tool.Entry) (*command.EvaluatePermissionResult, error) {
	res := &command.EvaluatePermissionResult{}
	decide := func(s *state.Session) error {
		rules, err := l.withProject(ctx, s, l.rulesByNow(s))
		if err != nil {
			return err
		}
		out, err := l.decideQuery(s, p, entry, rules, l.m.Now())
		if err == nil {
			res.PermissionDecision = *out
		}
		return err
	}
	var err error
	if p.SessionID == "" || p.SessionID == event.RuntimeSession {
		err = decide(state.New(event.RuntimeSession))
	} else {
		err = l.m.OwnAs(ctx, caller, p.SessionID, decide)
	}
	if err != nil {
		return nil, err
	}
	return res, nil
}

// rulesByNow are the rules that hold in a session once it has adopted those that its
// workspace has now.
func (l *Loop) rulesByNow(s *state.Session) []event.PolicyRule {
	if l.opt.ParseRules == nil || s.SessionID == event.RuntimeSession {
		return l.rulesOf(s)
	}
	root := l.Configuration().rootOf(s)
	known, pinned := l.pins.get(root)
	now, _ := l.tightenedRules(known, pinned, workspacePolicy(s), l.workspaceRules(root))
	with := *s
	with.Permission.Policies = slices.DeleteFunc(slices.Clone(s.Permission.Policies), func(p state.Policy) bool { return p.Source == "workspace" && p.Workspace == "" })
	return append(slices.Clip(l.rulesOf(&with)), now.Rules...)
}

// decideQuery decides about a call that isn't made. One that would be refused without
// being decided about is denied.
func (l *Loop) decideQuery(s *state.Session, p *command.EvaluatePermission, entry *tool.Entry, rules []event.PolicyRule, now time.Time) (*event.PermissionEvaluated, error) {
	t := s.MainThread()
	if t == nil {
		t = &state.Thread{}
	}
	w := l.workplace(s, t, nil)
	if p.Cwd != "" {
		w.cwd = pathBelow(w.root, p.Cwd)
	}
	mode := p.PermissionMode
	if mode == "" {
		mode = l.modeOf(s, t, nil)
	}
	disk := newLookups(l.callFiles(w.root, rules))
	var refusal *tool.Error
	if err := l.refusesCall(entry, p.Input, mode, w, disk.Resolve); err != nil && !errors.As(err, &refusal) {
		return nil, err
	}
	if refusal != nil && refusal.Category != tool.SandboxViolation {
		return nil, fault.Param("input", "%s", refusal.Message)
	}
	why := ""
	if refusal != nil {
		why = refusal.Message
	}
	_, outside := tool.Escalation(p.Input)
	confined := l.confinement(w)
	d := permission.Decide(permission.Question{
		Outside: outside, Mode: mode, Interactive: !l.opt.NobodyToAsk, Tool: entry.Info, Input: p.Input, Root: w.root, Cwd: w.cwd, Resolve: disk.Resolve,
		Rules: rules, Grants: grantsOf(s), Now: now, Sandbox: confined.Sandbox,
		Bounds: confined.Bounds, Contents: disk.Content, Text: disk.Script, Undo: l.Configuration().Undo, Refused: why,
	})
	out := l.redactDecision(d.PermissionEvaluated)
	out.SafeArgs, _ = l.redactJSON(p.Input)
	return &out, nil
}
