package agentd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"agentd/permission"
	"agentd/session"
	"agentd/store"
	"agentd/tool"
)

// replaySession is the session that a case is run in, unless it is a fork.
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
	p := &replaying{c: c, with: with, asked: map[string]int{}, answers: slices.Clone(c.Answers), results: slices.Clone(c.Results), decisions: slices.Clone(c.Decisions)}
	p.others, p.acts = newParties(p), newActing(p)
	opt, remove, err := p.options(s)
	if err != nil {
		return nil, fmt.Errorf("agentd: replay: %w", err)
	}
	defer remove()
	if p.r, err = Open(ctx, opt); err != nil {
		return nil, err
	}
	err = p.run(ctx)
	p.acts.close()
	if err = errors.Join(err, p.r.Close(ctx)); err != nil && !errors.Is(err, errUnanswered) {
		return nil, fmt.Errorf("agentd: replay: %w", err)
	}
	p.acts.wg.Wait()
	got := evidence.Within(c, p.got.Facts())
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
	// session is the one that the case is run in.
	session string

	mu sync.Mutex
	// turn is the one that runs, asked how many answers each was given.
	turn      string
	asked     map[string]int
	answers   []evidence.CaseAnswer
	results   []evidence.CaseResult
	decisions []evidence.CaseDecision
	others    *parties
	acts      *acting
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
	opt = Options{Store: s, RuntimeID: "runtime_replay", Recovery: "none", Work: p.others.limits()}
	opt.Loop = loop.Options{
		Workspace: dir, Tools: tools, Host: p.host(), NobodyToAsk: p.c.Environment.NobodyToAsk, Confinement: p.confinement(),
		Random: func() float64 { return 0 }, Backoff: model.Backoff{Base: time.Millisecond, Max: time.Millisecond},
	}
	if raw := p.c.Environment.Limits; len(raw) > 0 {
		if err := json.Unmarshal(raw, &opt.Loop.Policy); err != nil { //nolint:musttag // the form that the export wrote
			return opt, remove, fmt.Errorf("the limits of the case: %w", err)
		}
	}
	if err := p.models(&opt.Loop); err != nil {
		return opt, remove, fmt.Errorf("the models of the case: %w", err)
	}
	p.acts.options(&opt)
	opt.Observer = p.others
	opt.Loop.Hooks, err = p.others.runner()
	return opt, remove, err
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

// confinement is what held for commands; nothing did if the recording has none.
func (p *replaying) confinement() *permission.Sandbox {
	s := p.c.Environment.Sandbox
	if s == nil {
		return nil
	}
	return &permission.Sandbox{Mode: s.Mode, Filesystem: s.Filesystem, Network: s.Network, WriteRoots: s.WriteRoots}
}

// turnOptions are those of the recording, but for what is tried instead.
func (p *replaying) turnOptions(t *evidence.CaseTurn) *event.TurnOptions {
	o := event.TurnOptions{}
	if t.Options != nil {
		o = *t.Options
	}
	if p.with.Live == nil && len(t.Tools) > 0 && p.hasMore(t.Tools) {
		o.Tools = t.Tools // the runtime of a replay has those of all turns
	}
	if p.with.Live == nil {
		o.TimeoutMs = p.acts.timeout(t.TurnID)
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
func (p *replaying) models(o *loop.Options) error {
	if p.c.Environment.Catalog != nil && len(p.c.Environment.Catalog.Models) > 0 {
		return p.catalog(o)
	}
	seen := map[string]bool{}
	offer := func(provider, name string) (id string) {
		info := model.Info{
			Provider: provider, Model: name, HasCredential: true, ContextWindow: p.c.Environment.Windows[provider+"/"+name],
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
	return nil
}

// tools are those of the recording. Asking for an input is left to the loop: the
// answer is among the decisions.
func (p *replaying) tools() (*tool.Registry, error) {
	var list []tool.Tool
	builtins := tool.Builtins(nil)
	for _, info := range p.c.Tools {
		i := slices.IndexFunc(builtins, func(t tool.Tool) bool { return t.Info().ToolName == info.ToolName })
		if i >= 0 && tool.IsLoopOwned(info.ToolName) {
			list = append(list, p.loopOwned(builtins[i], info.InputSchema))
			continue
		}
		if i >= 0 && len(info.InputSchema) == 0 {
			info = builtins[i].Info()
		}
		if i >= 0 && info.ToolName == tool.Shell {
			info.InputSchema = escalating(builtins[i], info.InputSchema)
		}
		if len(info.InputSchema) == 0 {
			info.InputSchema = event.Raw(`{"type":"object"}`)
		}
		info.Policy, info.Reason = "", ""
		list = append(list, &recordedTool{p, info})
	}
	return tool.NewRegistry(list...)
}

// escalating is the schema of commands that may ask to leave the sandbox: the loop
// decides where they may, whatever the schema says.
func escalating(shell tool.Tool, otherwise event.Raw) event.Raw {
	r, err := tool.NewRegistry(shell)
	if err != nil {
		return otherwise
	}
	for _, e := range r.Resolve(tool.Selection{Escalate: true}).Entries {
		return e.Info.InputSchema
	}
	return otherwise
}

// run submits the turns one after the other and answers what they ask.
func (p *replaying) run(ctx context.Context) error {
	if err := p.create(ctx); err != nil {
		return err
	}
	sub, err := p.r.Subscribe(ctx, command.Local(), p.session, 0)
	if err != nil {
		return err
	}
	defer sub.Close()
	p.others.offer()
	for i, t := range p.c.Turns {
		if t.Unstarted {
			continue
		}
		if err := p.others.spawnBefore(ctx, sub, i); err != nil {
			return err
		}
		if err := p.acts.idle(ctx, sub); err != nil {
			return err
		}
		if err := p.others.beforeTurn(ctx, i); err != nil {
			return err
		}
		thread, err := p.acts.threadOf(ctx, t.Thread)
		if err != nil {
			return err
		}
		p.begin(t.TurnID)
		res, err := p.r.Do(ctx, command.Local(), &command.SubmitTurn{SessionID: p.session, ThreadID: thread, Input: t.Input, Options: p.turnOptions(t)})
		if err != nil {
			return err
		}
		p.acts.turn(t.TurnID, res.(*command.SubmitTurnResult))
		if err := p.follow(ctx, sub, res.(*command.SubmitTurnResult).TurnID); err != nil {
			return err
		}
		if t.Open && p.acts.faithful() {
			if err := p.acts.leave(ctx, t.Thread); err != nil {
				return err
			}
		}
	}
	if err := p.others.remaining(ctx, sub); err != nil {
		return err
	}
	return p.acts.finish(ctx, sub)
}

// follow takes the facts of a turn until it has ended.
func (p *replaying) follow(ctx context.Context, sub *session.Subscription, turnID string) error {
	for ended := false; !ended; {
		events, err := p.acts.more(ctx, sub)
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := p.take(ctx, e); err != nil {
				return err
			}
			ended = ended || e.TurnID == turnID && (e.Type == event.TypeTurnCompleted || e.Type == event.TypeTurnFailed) || p.acts.complete()
		}
	}
	return nil
}

// take takes a fact, and does what was done then.
func (p *replaying) take(ctx context.Context, e *event.Event) error {
	p.got.Take(e)
	p.others.saw(e)
	if err := p.others.elsewhere(ctx, e); err != nil {
		return err
	}
	if err := p.others.reached(ctx); err != nil {
		return err
	}
	if err := p.answer(ctx, e); err != nil {
		return err
	}
	if err := errors.Join(p.acts.began(ctx, e), p.acts.reached(ctx)); err != nil {
		return err
	}
	return p.others.reached(ctx) // what comes after an act
}

// takeMore takes the next facts.
func (p *replaying) takeMore(ctx context.Context, sub *session.Subscription) error {
	events, err := p.acts.more(ctx, sub)
	if err != nil {
		return err
	}
	for _, e := range events {
		if err := p.take(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// answer answers an action as it was answered.
func (p *replaying) answer(ctx context.Context, e *event.Event) error {
	q, ok := e.Payload.(*event.ActionRequired)
	if !ok || p.others.away[e.SubagentID] { // what another agent asks is answered with its work
		return nil
	}
	call := p.others.recordedCall(ctx, e.ThreadID, e.ToolCallID)
	if p.others.unanswered(q, call) {
		return nil
	}
	i := p.decision(q, call)
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
	if err := p.others.beforeDecision(ctx); err != nil {
		return err
	}
	d := p.decisions[i]
	p.decisions = slices.Delete(p.decisions, i, i+1)
	return p.acts.respond(ctx, e.ActionID, d)
}

// respond gives an answer that was given.
func (p *replaying) respond(ctx context.Context, actionID string, d evidence.CaseDecision) error {
	var answer command.Params = &command.RespondAction{ActionID: actionID, Decision: d.Decision, Payload: d.Payload, Scope: d.Scope, ExpiresInMs: p.acts.holds(&d)}
	if d.Source == "host_policy" {
		answer = &command.ResolvePermission{ActionID: actionID, Decision: d.Decision}
	}
	_, err := p.r.Do(ctx, command.Local(), answer)
	return err
}
