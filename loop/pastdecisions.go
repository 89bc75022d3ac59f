package loop

import (
	"context"
	"path/filepath"
	"strings"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/permission"
	"agentd/state"
	"agentd/store"
	"agentd/tool"
)

// pastDecisions goes through the facts of a session, in order, and meets the decisions
// about calls with all that they depended on.
type pastDecisions struct {
	l *Loop
	// fold knows the session's own rules and what was approved.
	fold  *state.Session
	tools map[string]event.ToolInfo
	// cwds are the folders of turns.
	cwds map[string]string
	// held says that the kernel kept the sandbox's boundaries.
	held bool
	// said are the user's words, by thread, the newest last.
	said map[string][]string

	// decided meets each decision, but for those that follow from the answer to the very
	// call, before the fact is folded. answered, if there is one, meets the answers.
	decided  func(e *event.Event, p *event.PermissionEvaluated)
	answered func(e *event.Event, p *event.PermissionResolved)
	// enough, if there is one, says that the rest isn't wanted.
	enough func() bool
}

func (l *Loop) pastDecisions(ctx context.Context, id string) (*pastDecisions, error) {
	st, err := l.m.Origin(ctx, id)
	if err != nil {
		return nil, err
	}
	r := &pastDecisions{l: l, fold: st, held: true, tools: map[string]event.ToolInfo{}, cwds: map[string]string{}, said: map[string][]string{}}
	for _, b := range tool.Builtins(&tool.Options{}) {
		r.tools[b.Info().ToolName] = b.Info()
	}
	return r, nil
}

// pastSessions are the sessions that a question about past decisions is about, the
// newest first.
func (l *Loop) pastSessions(ctx context.Context, caller command.Caller, sessionID string) ([]string, error) {
	if sessionID == "" {
		return l.m.VisibleSessions(ctx, caller)
	}
	return []string{sessionID}, l.m.See(ctx, caller, sessionID)
}

// walk goes through the facts.
func (r *pastDecisions) walk(ctx context.Context, id string) error {
	for rec, err := range r.l.opt.Store.Read(ctx, id, store.Range{After: r.fold.Sequence}) {
		if err != nil {
			return fault.Wrap(fault.Unavailable, err, "the facts of session %s can't be read", id)
		}
		e, err := store.DecodeFact(ctx, r.l.opt.Store, rec.Data)
		if err == nil {
			err = r.meetFact(ctx, e)
		}
		if err != nil {
			return fault.Wrap(fault.Internal, err, "fact %d of session %s can't be read", rec.Sequence, id)
		}
		if r.enough != nil && r.enough() {
			return nil
		}
	}
	return nil
}

func (r *pastDecisions) meetFact(ctx context.Context, e *event.Event) error {
	switch p := e.Payload.(type) {
	case *event.ToolCatalogResolved:
		for _, t := range p.Tools {
			r.tools[t.ToolName] = t
		}
	case *event.TurnSubmitted:
		if p.Options != nil && p.Options.Cwd != "" {
			r.cwds[e.TurnID] = filepath.Join(r.root(), p.Options.Cwd)
		}
		r.hear(ctx, e)
	case *event.TurnSteered:
		r.hear(ctx, e)
	case *event.SandboxApplied:
		if p.HookRunID == "" {
			r.held = p.Enforcement.Filesystem != "none"
		}
	case *event.PermissionEvaluated:
		if p.DecisionSource != "human" && e.ToolCallID != "" && e.ToolCallID != event.NotApplicable {
			r.decided(e, p)
		}
	case *event.PermissionResolved:
		if r.answered != nil {
			r.answered(e, p)
		}
	}
	_, err := r.fold.Apply(e)
	return err
}

// hear notes the user's words, the last few of a thread. Words that can't be read any
// more are none.
func (r *pastDecisions) hear(ctx context.Context, e *event.Event) {
	text, err := wordsIn(ctx, r.l.opt.Store, e.Payload)
	if err != nil || strings.TrimSpace(text) == "" {
		return
	}
	r.said[e.ThreadID] = append(r.said[e.ThreadID], text)
	words := r.said[e.ThreadID]
	r.said[e.ThreadID] = words[max(0, len(words)-maxEarlierTurns-1):]
}

// wordsOf are the user's words behind a call of a thread, a child's those of its parent.
func (r *pastDecisions) wordsOf(threadID string) []string {
	t := r.fold.Thread(threadID)
	for t != nil && t.SubagentID != "" && t.ParentThreadID != "" && t.ParentThreadID != t.ThreadID {
		t = r.fold.Thread(t.ParentThreadID)
	}
	if t == nil {
		return nil
	}
	return append([]string{}, r.said[t.ThreadID]...)
}

func (r *pastDecisions) root() string { return r.l.Configuration().rootOf(r.fold) }

// question is what was decided, as far as the facts tell, without rules.
func (r *pastDecisions) question(e *event.Event, p *event.PermissionEvaluated) permission.Question {
	info, known := r.tools[p.ToolName]
	if !known {
		info = event.ToolInfo{ToolName: p.ToolName}
	}
	disk := &RecordedDisk{Lookups: p.Lookups}
	q := permission.Question{
		Mode: p.PermissionMode, Interactive: true, Tool: info, Input: p.SafeArgs, ToolCallID: e.ToolCallID, Root: r.root(), Cwd: r.cwds[e.TurnID],
		Resolve: disk.Resolve, Contents: disk.Content, Text: disk.Script, Undo: true,
		Grants: grantsOf(r.fold), Now: e.Time, Sandbox: permission.Sandbox{Mode: "workspace_write", Filesystem: r.held, Network: r.held},
	}
	if permission.WasRefused(p) {
		q.Refused = p.DecisionReason
	}
	if p.DecisionSource == "hook" {
		q.Hook = &permission.Opinion{Decision: p.Decision, Reason: p.DecisionReason}
	}
	return q
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
