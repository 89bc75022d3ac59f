package agentd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/loop"
	"agentd/model"
	"agentd/session"
	"agentd/store"
	"agentd/tool"
)

// replaySession is the session that a case is run in.
const replaySession = "sess_replay"

// errUnanswered says that the replay asks something that the recording didn't.
var errUnanswered = errors.New("the replay waits for an answer that the recording doesn't have")

// ReplayOptions say what a replay changes. The zero value changes nothing.
type ReplayOptions struct {
	// Host replaces the policy that held; its mode, if there is one, also that of
	// the turns.
	Host *loop.HostPolicy
	// Live are the options of a runtime whose models and tools are really asked, in
	// its sandbox and its workspace. Its Store is replaced. What people decided is
	// taken from the recording where it fits; anything else is refused, because
	// nobody is there.
	Live *Options
	// Model, for a live replay, is what the turns ask for instead.
	Model string
}

// ReplayReport is what a replay came to.
type ReplayReport struct {
	// Difference is the first one between the facts, or nil.
	Difference *evidence.Difference
	// Decisions are all permission decisions that differ.
	Decisions []evidence.Difference
	// Outcomes are what each turn came to.
	Outcomes []evidence.OutcomeDifference
}

// Replay runs the turns of a case again, through the same loop and the same
// permission decisions as ever, with models, tools and people that answer as they
// did. It returns the first difference between the facts of both runs, or nil. The
// store must be empty, and is the caller's to close. Nothing is executed: no model
// is asked, and no tool touches anything.
func Replay(ctx context.Context, s store.Store, c *evidence.Case) (*evidence.Difference, error) {
	r, err := ReplayWith(ctx, s, c, ReplayOptions{})
	if err != nil {
		return nil, err
	}
	return r.Difference, nil
}

// ReplayWith runs the turns of a case again as [Replay] does, with the changes that
// the options name.
func ReplayWith(ctx context.Context, s store.Store, c *evidence.Case, with ReplayOptions) (*ReplayReport, error) {
	if c.Format != evidence.ReplayFormat {
		return nil, fmt.Errorf("agentd: replay: the case has the format %q, not %q", c.Format, evidence.ReplayFormat)
	}
	if with.Model != "" && with.Live == nil {
		return nil, errors.New("agentd: replay: another model has no recorded answers: it must be asked")
	}
	p := &replaying{c: c, with: with, results: slices.Clone(c.Results), decisions: slices.Clone(c.Decisions)}
	opt, remove, err := p.options(s)
	if err != nil {
		return nil, fmt.Errorf("agentd: replay: %w", err)
	}
	defer remove()
	if p.r, err = Open(ctx, opt); err != nil {
		return nil, err
	}
	err = p.run(ctx)
	if err = errors.Join(err, p.r.Close(ctx)); err != nil && !errors.Is(err, errUnanswered) {
		return nil, fmt.Errorf("agentd: replay: %w", err)
	}
	got := p.got.Facts()
	return &ReplayReport{
		Difference: evidence.Compare(c.Expected, got), Decisions: evidence.CompareDecisions(c.Expected, got), Outcomes: evidence.CompareOutcomes(c.Expected, got),
	}, nil
}

// replaying is a case that is run again.
type replaying struct {
	c    *evidence.Case
	with ReplayOptions
	r    *Runtime
	got  evidence.Projection

	mu        sync.Mutex
	results   []evidence.CaseResult
	decisions []evidence.CaseDecision
}

// options wire a runtime to the recordings. The folder of the case is used if it
// is there, because decisions depend on paths; nothing in it is touched.
func (p *replaying) options(s store.Store) (opt Options, remove func(), err error) {
	remove = func() {}
	if p.with.Live != nil {
		opt = *p.with.Live
		opt.Store, opt.Recovery = s, "none"
		if p.with.Host != nil {
			opt.Loop.Host = *p.with.Host
		}
		return opt, remove, nil
	}
	dir := p.c.Environment.Workspace
	if info, err := os.Stat(dir); dir == "" || err != nil || !info.IsDir() {
		if dir, err = os.MkdirTemp("", "agentd-replay-*"); err != nil {
			return opt, remove, err
		}
		remove = func() { _ = os.Remove(dir) }
	}
	tools, err := p.tools()
	if err != nil {
		return opt, remove, err
	}
	opt = Options{Store: s, RuntimeID: "runtime_replay", Recovery: "none"}
	opt.Loop = loop.Options{
		Workspace: dir, Tools: tools, Host: p.host(),
		Random: func() float64 { return 0 }, Backoff: model.Backoff{Base: time.Millisecond, Max: time.Millisecond},
	}
	p.models(&opt.Loop)
	return opt, remove, nil
}

// host is the policy of the recording, or the one to try.
func (p *replaying) host() loop.HostPolicy {
	h := loop.HostPolicy{Mode: p.c.Environment.PermissionMode, Rules: p.c.Environment.Rules}
	if w := p.with.Host; w != nil {
		h.Rules = w.Rules
		if w.Mode != "" {
			h.Mode = w.Mode
		}
	}
	return h
}

// turnOptions are those of the recording, but for what is tried instead.
func (p *replaying) turnOptions(t *evidence.CaseTurn) *event.TurnOptions {
	if p.with.Live == nil && p.with.Host == nil {
		return t.Options
	}
	o := event.TurnOptions{}
	if t.Options != nil {
		o = *t.Options
	}
	if p.with.Host != nil && p.with.Host.Mode != "" {
		o.PermissionMode = p.with.Host.Mode
	}
	if p.with.Live != nil {
		// The recorded model may not be known here, nor the folder be the same.
		o.Model, o.Provider, o.Cwd = p.with.Model, "", ""
	}
	return &o
}

// models offers the models of the recording: those that answered, the first one as
// the default, and those that could have.
func (p *replaying) models(o *loop.Options) {
	seen := map[string]bool{}
	offer := func(provider, name string) (id string) {
		info := model.Info{
			Provider: provider, Model: name, HasCredential: true,
			Capabilities: []string{model.CapTools, model.CapStreaming, model.CapVision, model.CapReasoning, model.CapStructuredOutput},
		}
		if seen[info.ID()] || provider == "" || name == "" {
			return ""
		}
		if !seen[provider] {
			o.Providers = append(o.Providers, &recordedModel{p, provider})
		}
		seen[info.ID()], seen[provider] = true, true
		o.Models = append(o.Models, info)
		return info.ID()
	}
	for _, a := range p.c.Answers {
		switch id := offer(a.Provider, a.Model); {
		case id == "":
		case o.DefaultModel == "":
			o.DefaultModel = id
		default:
			o.Fallback = append(o.Fallback, id)
		}
	}
	for _, id := range p.c.Environment.Candidates {
		provider, name, _ := strings.Cut(id, "/")
		if id := offer(provider, name); o.DefaultModel == "" {
			o.DefaultModel = id
		}
	}
	if len(o.Models) == 0 {
		info := model.Info{Provider: "recorded", Model: "none", HasCredential: true, Capabilities: []string{model.CapTools, model.CapStreaming}}
		o.Providers, o.Models, o.DefaultModel = []model.Provider{&recordedModel{p, "recorded"}}, []model.Info{info}, info.ID()
	}
}

// tools are those of the recording. Asking for an input is left to the loop: the
// answer is among the decisions.
func (p *replaying) tools() (*tool.Registry, error) {
	var list []tool.Tool
	builtins := tool.Builtins(nil)
	for _, info := range p.c.Tools {
		i := slices.IndexFunc(builtins, func(t tool.Tool) bool { return t.Info().ToolName == info.ToolName })
		if i >= 0 && (info.ToolName == tool.RequestInput || info.ToolName == tool.SpawnAgent) {
			list = append(list, builtins[i])
			continue
		}
		if i >= 0 && len(info.InputSchema) == 0 {
			info = builtins[i].Info()
		}
		if len(info.InputSchema) == 0 {
			info.InputSchema = event.Raw(`{"type":"object"}`)
		}
		info.Policy, info.Reason = "", ""
		list = append(list, &recordedTool{p, info})
	}
	return tool.NewRegistry(list...)
}

// recordedModel answers as the recording does.
type recordedModel struct {
	p    *replaying
	name string
}

// Name implements [model.Provider].
func (m *recordedModel) Name() string { return m.name }

// Stream implements [model.Provider].
func (m *recordedModel) Stream(_ context.Context, r *model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		answers := m.p.c.Answers
		if r.Call < 0 || r.Call >= int64(len(answers)) {
			yield(model.Chunk{}, &model.Error{Category: model.InvalidRequest, Message: fmt.Sprintf("the recording has no answer to call %d", r.Call+1)})
			return
		}
		a := answers[r.Call]
		if a.ErrorCategory != "" {
			yield(model.Chunk{}, &model.Error{Category: a.ErrorCategory, Message: a.ErrorMessage, Retryable: a.Retryable})
			return
		}
		for _, c := range chunks(&a) {
			if !yield(c, nil) {
				return
			}
		}
	}
}

func chunks(a *evidence.CaseAnswer) []model.Chunk {
	var out []model.Chunk
	done := &model.Done{StopReason: a.StopReason, Usage: a.Usage}
	if m := a.Message; m != nil {
		out = append(out, model.Chunk{Text: m.Text, Reasoning: m.Reasoning})
		for _, c := range m.ToolCalls {
			out = append(out, model.Chunk{ToolCall: &model.ToolCall{ProviderID: c.ProviderCallID, Name: c.ToolName, Arguments: c.Arguments}})
		}
		done.Native = m.Native
	}
	return append(out, model.Chunk{Done: done})
}

// recordedTool gives what the tool gave.
type recordedTool struct {
	p    *replaying
	info event.ToolInfo
}

// Info implements [tool.Tool].
func (t *recordedTool) Info() event.ToolInfo { return t.info }

// Run implements [tool.Tool].
func (t *recordedTool) Run(_ context.Context, call *tool.Call) (*tool.Result, error) {
	x, ok := t.p.result(t.info.ToolName, call.Input)
	switch {
	case !ok:
		return nil, tool.Errorf(tool.Unavailable, "the recording has no more results of %s", t.info.ToolName)
	case x.ErrorCategory != "":
		return nil, &tool.Error{Category: x.ErrorCategory, Message: x.ErrorMessage, Advice: x.Advice, Retryable: x.Retryable}
	}
	return &tool.Result{Output: []byte(x.Output), IsError: x.IsError, ExitCode: x.ExitCode}, nil
}

// result takes the first recorded result of a tool for the same input, else the
// first of the tool: a hook may have rewritten the input.
func (p *replaying) result(name string, input event.Raw) (evidence.CaseResult, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	same := func(x evidence.CaseResult) bool { return x.ToolName == name && sameJSON(x.Arguments, input) }
	i := slices.IndexFunc(p.results, same)
	if i < 0 {
		i = slices.IndexFunc(p.results, func(x evidence.CaseResult) bool { return x.ToolName == name })
	}
	if i < 0 {
		return evidence.CaseResult{}, false
	}
	x := p.results[i]
	p.results = slices.Delete(p.results, i, i+1)
	return x, true
}

func sameJSON(a, b event.Raw) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// run submits the turns one after the other and answers what they ask.
func (p *replaying) run(ctx context.Context) error {
	if _, err := p.r.Do(ctx, command.Local(), &command.CreateSession{SessionID: replaySession}); err != nil {
		return err
	}
	sub, err := p.r.Subscribe(ctx, command.Local(), replaySession, 0)
	if err != nil {
		return err
	}
	defer sub.Close()
	for _, t := range p.c.Turns {
		res, err := p.r.Do(ctx, command.Local(), &command.SubmitTurn{SessionID: replaySession, Input: t.Input, Options: p.turnOptions(t)})
		if err != nil {
			return err
		}
		if err := p.follow(ctx, sub, res.(*command.SubmitTurnResult).TurnID); err != nil {
			return err
		}
	}
	return nil
}

// follow takes the facts of a turn until it has ended.
func (p *replaying) follow(ctx context.Context, sub *session.Subscription, turnID string) error {
	for ended := false; !ended; {
		records, err := sub.Next(ctx)
		if err != nil {
			return err
		}
		for _, rec := range records {
			e, err := event.Decode(rec.Data)
			if err != nil {
				return err
			}
			p.got.Take(e)
			if err := p.answer(ctx, e); err != nil {
				return err
			}
			ended = ended || e.TurnID == turnID && (e.Type == event.TypeTurnCompleted || e.Type == event.TypeTurnFailed)
		}
	}
	return nil
}

// answer answers an action as it was answered.
func (p *replaying) answer(ctx context.Context, e *event.Event) error {
	q, ok := e.Payload.(*event.ActionRequired)
	if !ok {
		return nil
	}
	i := slices.IndexFunc(p.decisions, func(d evidence.CaseDecision) bool { return d.ActionType == q.ActionType && d.ToolName == q.ToolName })
	if i < 0 && p.with.Live == nil && p.with.Host == nil {
		return fmt.Errorf("%w: %s %s", errUnanswered, q.ActionType, q.ToolName)
	}
	if i < 0 {
		refusal := &command.RespondAction{ActionID: e.ActionID, Decision: "deny", Reason: "nobody is there to answer in a replay"}
		if !slices.Contains(q.Decisions, "deny") {
			refusal.Decision = "cancel"
		}
		_, err := p.r.Do(ctx, command.Local(), refusal)
		return err
	}
	d := p.decisions[i]
	p.decisions = slices.Delete(p.decisions, i, i+1)
	_, err := p.r.Do(ctx, command.Local(), &command.RespondAction{ActionID: e.ActionID, Decision: d.Decision, Payload: d.Payload, Scope: d.Scope})
	return err
}
