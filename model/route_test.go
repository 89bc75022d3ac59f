package model_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/event"
	"agentd/model"
)

var noon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// fleet is what the cases choose from.
func fleet() []model.Info {
	price := func(in, out float64) *model.Price {
		return &model.Price{Rates: model.Rates{InputPerMTok: in, OutputPerMTok: out}, Row: "config"}
	}
	tools := []string{model.CapTools, model.CapStreaming}
	return []model.Info{
		{Provider: "a", Model: "big", Capabilities: append(slices.Clone(tools), model.CapVision), ContextWindow: 100_000, Price: price(5, 20)},
		{Provider: "a", Model: "small", Capabilities: tools, ContextWindow: 10_000, Price: price(1, 4)},
		{Provider: "b", Model: "small", Capabilities: tools, Price: price(0, 0)},
		{Provider: "b", Model: "locked", Capabilities: tools, NeedsCredential: true, CredentialHint: "set B_KEY"},
		{Provider: "c", Model: "plain", Capabilities: []string{model.CapStreaming}},
	}
}

func resting(category string, ids ...string) map[string]model.Rest {
	m := make(map[string]model.Rest)
	for i, id := range ids {
		m[id] = model.Rest{Until: noon.Add(time.Duration(i+1) * time.Second), Category: category}
	}
	return m
}

func TestRoute(t *testing.T) {
	for _, c := range []struct {
		name string
		ask  model.Ask
		// selected, source, mode; excluded as "id category"; the chain.
		want     string
		excluded []string
		chain    []string
	}{
		{
			"the default",
			model.Ask{Default: "a/small", Required: []string{"tools"}},
			"a/small explicit_default default",
			[]string{"b/locked credential", "c/plain capability"},
			nil,
		},
		{
			"nothing said: the first",
			model.Ask{Required: []string{"tools"}},
			"a/big automatic automatic",
			[]string{"b/locked credential", "c/plain capability"},
			nil,
		},
		{
			"the thread's last model",
			model.Ask{LastModel: "b/small"},
			"b/small automatic automatic",
			[]string{"b/locked credential"},
			nil,
		},
		{
			"little money: the cheapest",
			model.Ask{LastModel: "a/big", Cost: "low", InputTokens: 100, OutputTokens: 100},
			"b/small automatic automatic",
			[]string{"b/locked credential"},
			nil,
		},
		{
			"cheap work",
			model.Ask{BudgetClass: "low", Deny: []string{"b/*"}},
			"a/small automatic automatic",
			[]string{"b/small policy", "b/locked policy"},
			nil,
		},
		{
			"a lock on a model",
			model.Ask{Model: "a/small", Default: "a/big", Fallback: []string{"b/small"}},
			"a/small user_lock locked",
			[]string{"a/big lock", "b/small lock", "b/locked lock", "c/plain lock"},
			nil,
		},
		{
			"a lock with the provider apart",
			model.Ask{Provider: "b", Model: "small"},
			"b/small user_lock locked",
			[]string{"a/big lock", "a/small lock", "b/locked lock", "c/plain lock"},
			nil,
		},
		{
			"a lock on a name that two providers have",
			model.Ask{Model: "small", Default: "b/small"},
			"b/small user_lock locked",
			[]string{"a/big lock", "b/locked lock", "c/plain lock"},
			nil,
		},
		{
			"a lock on a provider leaves a choice and a chain",
			model.Ask{Provider: "a", Fallback: []string{"a/small", "a/big", "b/small"}},
			"a/small user_lock locked",
			[]string{"b/small lock", "b/locked lock", "c/plain lock"},
			[]string{"a/big"},
		},
		{
			"the thread's own model",
			model.Ask{ThreadModel: "c/plain", Default: "a/big"},
			"c/plain task_constraint locked",
			[]string{"a/big lock", "a/small lock", "b/small lock", "b/locked lock"},
			nil,
		},
		{
			"the turn's lock wins over the thread's",
			model.Ask{Model: "a/big", ThreadModel: "c/plain"},
			"a/big user_lock locked",
			[]string{"a/small lock", "b/small lock", "b/locked lock", "c/plain lock"},
			nil,
		},
		{
			"a lock on what can't be used",
			model.Ask{Model: "b/locked", Default: "a/big"},
			"none: the choice is locked to b/locked, and b/locked can't be used: no credential: set B_KEY; gap none",
			[]string{"a/big lock", "a/small lock", "b/small lock", "b/locked credential", "c/plain lock"},
			nil,
		},
		{
			"a lock on what lacks something",
			model.Ask{Model: "c/plain", Required: []string{"tools", "vision", "tools"}},
			"none: the choice is locked to c/plain, and c/plain can't be used: it lacks tools, vision; gap tools, vision",
			[]string{"a/big lock", "a/small lock", "b/small lock", "b/locked lock", "c/plain capability"},
			nil,
		},
		{
			"a lock on what isn't there",
			model.Ask{Model: "a/huge"},
			"none: the choice is locked to a/huge, which is not configured; gap none",
			[]string{"a/big lock", "a/small lock", "b/small lock", "b/locked lock", "c/plain lock"},
			nil,
		},
		{
			"pictures",
			model.Ask{Default: "a/small", Fallback: []string{"b/small", "a/big"}, Required: []string{"vision"}},
			"a/big fallback fallback",
			[]string{"a/small capability", "b/small capability", "b/locked credential", "c/plain capability"},
			nil,
		},
		{
			"a long input",
			model.Ask{Default: "a/small", InputTokens: 10_000, Deny: []string{"c/plain"}},
			"a/big automatic automatic",
			[]string{"a/small context", "b/locked credential", "c/plain policy"},
			nil,
		},
		{
			"an input that just fits",
			model.Ask{Default: "a/small", InputTokens: 9_999},
			"a/small explicit_default default",
			[]string{"b/locked credential"},
			nil,
		},
		{
			"policy allows few",
			model.Ask{Allow: []string{"a/*", "c/plain"}, Deny: []string{"a/b*"}},
			"a/small host_policy automatic",
			[]string{"a/big policy", "b/small policy", "b/locked policy"},
			nil,
		},
		{
			"the default rests",
			model.Ask{Default: "a/big", Fallback: []string{"a/big", "b/small", "a/small"}, Resting: resting("rate_limited", "a/big")},
			"b/small fallback fallback",
			[]string{"b/locked credential", "a/big quota"},
			[]string{"a/small"},
		},
		{
			"the default was unreachable",
			model.Ask{Default: "a/big", Resting: resting("network", "a/big"), LastModel: "a/small"},
			"a/small automatic automatic",
			[]string{"b/locked credential", "a/big network"},
			nil,
		},
		{
			"a rest that is over",
			model.Ask{Default: "a/big", Now: noon.Add(time.Second), Resting: resting("network", "a/big")},
			"a/big explicit_default default",
			[]string{"b/locked credential"},
			nil,
		},
		{
			"the budget is spent: what is free",
			model.Ask{Default: "a/big", Cost: "blocked"},
			"b/small automatic automatic",
			[]string{"a/big quota", "a/small quota", "b/locked credential", "c/plain quota"},
			nil,
		},
		{
			"nothing has it all",
			model.Ask{Required: []string{"vision", "structured_output"}},
			"none: no model can do the work: a/big: it lacks structured_output; a/small: it lacks vision, structured_output; b/small: it lacks vision, structured_output; and 2 more; gap structured_output",
			[]string{"a/big capability", "a/small capability", "b/small capability", "b/locked credential", "c/plain capability"},
			nil,
		},
		{
			"nothing is large enough",
			model.Ask{InputTokens: 1 << 30, Deny: []string{"b/*", "c/*"}},
			"none: no model can do the work: a/big: about 1073741825 tokens are needed and its window has 100000; a/small: about 1073741825 tokens are needed and its window has 10000; b/small: the host's policy denies it (denied: b/*); and 2 more; gap context_window",
			[]string{"a/big context", "a/small context", "b/small policy", "b/locked policy", "c/plain policy"},
			nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.ask.Now.IsZero() {
				c.ask.Now = noon
			}
			r := model.Route(fleet(), c.ask)
			got := fmt.Sprintf("none: %s; gap %s", r.Reason, r.CapabilityGap)
			if r.Possible() {
				got = fmt.Sprintf("%s %s %s", r.Selected.ID(), r.Source, r.Mode)
			}
			if got != c.want {
				t.Errorf("got  %s (%s)\nwant %s", got, r.Reason, c.want)
			}
			var excluded []string
			for _, e := range r.Excluded {
				excluded = append(excluded, e.Model+" "+e.Category)
			}
			if d := cmp.Diff(c.excluded, excluded); d != "" {
				t.Errorf("excluded: %s", d)
			}
			if !slices.Equal(c.chain, r.FallbackChain) {
				t.Errorf("chain %v, want %v", r.FallbackChain, c.chain)
			}
		})
	}
}

func TestRouteWithoutModels(t *testing.T) {
	r := model.Route(nil, model.Ask{Model: "a/b"})
	if r.Possible() || r.Reason != "no model is configured" {
		t.Errorf("%+v", r)
	}
}

// When all that could do the work rest, waiting is better than failing.
func TestAllRest(t *testing.T) {
	ask := model.Ask{Model: "a/big", Now: noon, Resting: resting("rate_limited", "a/big")}
	r := model.Route(fleet(), ask)
	if !r.Possible() || !r.RestUntil.Equal(noon.Add(time.Second)) || r.Decision().LimitState.RateLimit != "limited" {
		t.Errorf("%+v", r)
	}
	if !strings.Contains(r.Reason, "until 2026-11-15T12:00:01Z") {
		t.Errorf("reason %q", r.Reason)
	}
}

func TestFallback(t *testing.T) {
	ask := model.Ask{
		Default: "a/big", Fallback: []string{"a/big", "a/small", "b/locked", "b/small"}, Now: noon,
		FallbackOn: []string{model.RateLimited, model.Overloaded, model.Timeout},
	}
	first := model.Route(fleet(), ask)
	if !slices.Equal(first.FallbackChain, []string{"a/small", "b/small"}) {
		t.Fatalf("chain %v", first.FallbackChain)
	}
	if _, ok := model.Fallback(first, []string{"a/big"}, model.Auth); ok {
		t.Error("fell back on what the host didn't name")
	}
	if _, ok := model.Fallback(first, nil, model.Timeout); ok {
		t.Error("fell back without a failure")
	}
	second, ok := model.Fallback(first, []string{"a/big"}, model.RateLimited)
	if !ok || second.Selected.ID() != "a/small" || second.FromModel != "a/big" || second.Cause != model.RateLimited || !slices.Equal(second.FallbackChain, []string{"b/small"}) {
		t.Fatalf("second %+v", second)
	}
	typ, p := second.Event()
	d := p.(*event.RoutingDecision)
	if typ != event.TypeRoutingFallbackApplied || d.DecisionSource != "fallback" || d.RoutingMode != "fallback" || d.FromModel != "a/big" {
		t.Errorf("%s %+v", typ, d)
	}
	if !slices.ContainsFunc(d.Excluded, func(e event.Exclusion) bool { return e.Model == "a/big" && e.Category == "quota" }) {
		t.Errorf("the failed one isn't excluded: %+v", d.Excluded)
	}
	third, ok := model.Fallback(second, []string{"a/big", "a/small"}, model.Timeout)
	if !ok || third.Selected.ID() != "b/small" || len(third.FallbackChain) != 0 {
		t.Fatalf("third %+v", third)
	}
	if _, ok := model.Fallback(third, []string{"a/big", "a/small", "b/small"}, model.Timeout); ok {
		t.Error("the chain goes on beyond its end")
	}
	// Made again while the one that failed rests: the next is not passed over.
	ask.Resting = resting("rate_limited", "a/big")
	if again, ok := model.Fallback(model.Route(fleet(), ask), []string{"a/big"}, model.RateLimited); !ok || again.Selected.ID() != "a/small" || !slices.Equal(again.FallbackChain, []string{"b/small"}) {
		t.Errorf("again %+v", again)
	}
	// And without a default: what is chosen by itself is no fallback.
	ask.Default, ask.Fallback, ask.LastModel = "", []string{"a/big"}, "a/big"
	if again, ok := model.Fallback(model.Route(fleet(), ask), []string{"a/big"}, model.RateLimited); ok {
		t.Errorf("left the list: %+v", again.Selected)
	}
	// After a restart the first routing is made again, and the failures known.
	if again, ok := model.Fallback(first, []string{"a/big", "a/small"}, model.Timeout); !ok || again.Selected.ID() != "b/small" {
		t.Errorf("again %+v", again)
	}
}

func TestNoFallbackFromALock(t *testing.T) {
	ask := model.Ask{Model: "a/big", Fallback: []string{"a/small"}, FallbackOn: []string{model.Timeout}, Now: noon}
	if _, ok := model.Fallback(model.Route(fleet(), ask), []string{"a/big"}, model.Timeout); ok {
		t.Error("left the model that the user locked")
	}
	if p := ask.Profile(); p.FallbackPolicy != "none" || p.SettingsSource != "turn" {
		t.Errorf("profile %+v", p)
	}
}

func TestFallbackWhenTheNextRests(t *testing.T) {
	ask := model.Ask{Default: "a/big", Fallback: []string{"a/small", "b/small"}, FallbackOn: []string{model.Timeout}, Now: noon}
	// The routing is made again with what rests by now.
	later := func(models ...string) model.Routing {
		ask.Resting = resting("rate_limited", models...)
		return model.Route(fleet(), ask)
	}
	next, ok := model.Fallback(later("a/small"), []string{"a/big"}, model.Timeout)
	if !ok || next.Selected.ID() != "b/small" || !next.RestUntil.IsZero() {
		t.Errorf("one rests: %v %+v", ok, next.Selected)
	}
	// c/plain is awake, but not in the chain: the first of the chain is waited for.
	next, ok = model.Fallback(later("a/small", "b/small"), []string{"a/big"}, model.Timeout)
	if !ok || next.Selected.ID() != "a/small" || !next.RestUntil.Equal(noon.Add(time.Second)) {
		t.Errorf("all rest: %v %+v until %v", ok, next.Selected, next.RestUntil)
	}
}

func TestFacts(t *testing.T) {
	ask := model.Ask{Provider: "a", Model: "small", Required: []string{"tools"}, InputTokens: 1000, OutputTokens: 500, TaskKind: "coding", Cost: "ok", Now: noon}
	r := model.Route(fleet(), ask)
	typ, p := r.Event()
	if typ != event.TypeRoutingSingleCandidate {
		t.Errorf("type %s", typ)
	}
	d := p.(*event.RoutingDecision)
	if d.SelectedProvider != "a" || d.SelectedModel != "small" || d.RequestedProvider != "a" || d.RequestedModel != "small" || d.CapabilityGap != "none" ||
		d.FallbackChain == nil || d.CandidateCount != 1 || *d.Candidates[0].EstimatedCostUSD != 0.003 || d.TaskKind != "coding" || d.LimitState.Cost != "ok" {
		t.Errorf("decision %+v", d)
	}
	set := r.CandidateSet()
	if !slices.Equal(set.HardConstraints, []string{"lock: a/small", "capability: tools", "context: 1000 tokens"}) || set.DecisionReason != "" {
		t.Errorf("set %+v", set)
	}
	r = model.Route(fleet(), model.Ask{Default: "a/big", Fallback: []string{"b/small"}, LastModel: "a/big", Cost: "low", Now: noon})
	if typ, _ := r.Event(); typ != event.TypeRoutingDecided {
		t.Errorf("type %s", typ)
	}
	if got := r.CandidateSet().Preferences; !slices.Equal(got, []string{"default: a/big", "fallback: b/small", "cheapest", "continuity: a/big"}) {
		t.Errorf("preferences %v", got)
	}
	r = model.Route(fleet(), model.Ask{Required: []string{"smell"}, Now: noon})
	typ, p = r.Event()
	np := p.(*event.RoutingCandidates)
	if typ != event.TypeRoutingNotPossible || np.CapabilityGap != "smell" || np.DecisionReason == "" || np.Candidates == nil || r.Decision() != nil {
		t.Errorf("%s %+v", typ, np)
	}
}

func TestProfile(t *testing.T) {
	for _, c := range []struct {
		ask                            model.Ask
		settings, fallback, continuity string
	}{
		{model.Ask{}, "automatic", "none", "none"},
		{model.Ask{Default: "a/big", Fallback: []string{"x"}, FallbackOn: []string{"timeout"}}, "host", "chain", "none"},
		{model.Ask{Fallback: []string{"x"}, LastModel: "a/big"}, "automatic", "none", "prefer"},
		{model.Ask{ThreadModel: "a/big", LastModel: "a/big"}, "thread", "none", "keep"},
		{model.Ask{Provider: "a"}, "turn", "none", "none"},
	} {
		p := c.ask.Profile()
		if p.SettingsSource != c.settings || p.FallbackPolicy != c.fallback || p.Continuity != c.continuity {
			t.Errorf("%+v: %+v", c.ask, p)
		}
	}
}
