package model

import (
	"cmp"
	"fmt"

	"agentd/event"
)

// Possible reports whether a model was found.
func (r *Routing) Possible() bool { return r.Selected != nil }

// Single reports whether there was nothing to choose from.
func (r *Routing) Single() bool { return r.Possible() && len(r.Candidates) == 1 }

// Event returns the fact that tells the outcome, with its payload:
// routing.decided, routing.single_candidate, routing.fallback.applied or
// routing.not_possible.
func (r *Routing) Event() (event.Type, event.Payload) {
	switch {
	case !r.Possible():
		return event.TypeRoutingNotPossible, r.NotPossible()
	case r.FromModel != "":
		return event.TypeRoutingFallbackApplied, r.Decision()
	case r.Single():
		return event.TypeRoutingSingleCandidate, r.Decision()
	}
	return event.TypeRoutingDecided, r.Decision()
}

// CandidateSet is the payload of routing.candidates.resolved.
func (r *Routing) CandidateSet() *event.RoutingCandidates {
	return &event.RoutingCandidates{
		CandidateCount: int64(len(r.Candidates)), Candidates: r.candidates(), Excluded: r.excluded(),
		HardConstraints: r.constraints(), Preferences: r.preferences(), TaskKind: r.ask.TaskKind,
	}
}

// NotPossible is the payload of routing.not_possible.
func (r *Routing) NotPossible() *event.RoutingCandidates {
	p := r.CandidateSet()
	p.DecisionReason, p.CapabilityGap = r.Reason, r.CapabilityGap
	return p
}

// Decision is the payload of routing.decided, routing.single_candidate and
// routing.fallback.applied; nil if no model was found.
func (r *Routing) Decision() *event.RoutingDecision {
	if !r.Possible() {
		return nil
	}
	chain := r.FallbackChain
	if chain == nil {
		chain = []string{}
	}
	return &event.RoutingDecision{
		CandidateCount: int64(len(r.Candidates)), Candidates: r.candidates(), Excluded: r.excluded(),
		SelectedProvider: r.Selected.Provider, SelectedModel: r.Selected.Model,
		RequestedProvider: r.ask.Provider, RequestedModel: r.ask.Model,
		RoutingMode: r.Mode, DecisionSource: r.Source, DecisionReason: r.Reason, CapabilityGap: r.CapabilityGap, RequiresUserOverride: r.CapabilityGap != noGap,
		FallbackChain: chain, TaskKind: r.ask.TaskKind, LimitState: r.limits(),
		FromModel: r.FromModel, Cause: r.Cause,
	}
}

func (r *Routing) candidates() []event.Candidate {
	out := make([]event.Candidate, len(r.Candidates))
	for i, m := range r.Candidates {
		usd, _ := EstimateCost(m, r.ask.InputTokens, r.ask.OutputTokens)
		out[i] = event.Candidate{Provider: m.Provider, Model: m.Model, Capabilities: m.Capabilities, EstimatedCostUSD: usd}
	}
	return out
}

func (r *Routing) excluded() []event.Exclusion {
	if r.Excluded == nil {
		return []event.Exclusion{}
	}
	return r.Excluded
}

// constraints lists what can't be bent.
func (r *Routing) constraints() []string {
	var out []string
	if _, lock := r.ask.lock(r.models); lock != "" {
		out = append(out, "lock: "+lock)
	}
	for _, c := range r.ask.Required {
		out = append(out, "capability: "+c)
	}
	if n := r.ask.InputTokens; n > 0 {
		out = append(out, fmt.Sprintf("context: %d tokens", n))
	}
	for _, p := range r.ask.Allow {
		out = append(out, "policy allows: "+p)
	}
	for _, p := range r.ask.Deny {
		out = append(out, "policy denies: "+p)
	}
	if r.ask.Cost == BudgetBlocked {
		out = append(out, "budget: spent")
	}
	return out
}

// preferences lists what decides between candidates, strongest first.
func (r *Routing) preferences() []string {
	var out []string
	if r.ask.Default != "" {
		out = append(out, "default: "+r.ask.Default)
	}
	for _, f := range r.ask.Fallback {
		out = append(out, "fallback: "+f)
	}
	if r.ask.wantsCheap() {
		out = append(out, "cheapest")
	}
	if r.ask.LastModel != "" {
		out = append(out, "continuity: "+r.ask.LastModel)
	}
	return out
}

func (r *Routing) limits() *event.LimitState {
	s := &event.LimitState{Cost: r.ask.Cost, Quota: "unknown", RateLimit: "ok"}
	if s.Cost == "" {
		s.Cost = BudgetNone
	}
	if !r.RestUntil.IsZero() {
		s.RateLimit = "limited"
	}
	return s
}

// Profile is the payload of task.profile.resolved: what the work needs of a
// model, before any model is looked at.
func (a Ask) Profile() *event.TaskProfile {
	p := &event.TaskProfile{
		Kind: cmp.Or(a.ProfileKind, a.TaskKind), Source: cmp.Or(a.ProfileSource, event.ProfileFromRuntime), RequiredCapabilities: a.Required, WaivableCapabilities: a.Waivable,
		LatencyTarget: a.LatencyTarget, BudgetClass: a.BudgetClass,
		FallbackPolicy: "none", SettingsSource: "automatic", Continuity: "none",
		EstimatedInputTokens: a.InputTokens,
	}
	switch {
	case a.Model != "" || a.Provider != "":
		p.SettingsSource = "turn"
	case a.ThreadModel != "":
		p.SettingsSource, p.Continuity = "thread", "keep"
	case a.Default != "":
		p.SettingsSource = "host"
	}
	if len(a.Fallback) > 0 && len(a.FallbackOn) > 0 && a.Model == "" && a.ThreadModel == "" {
		p.FallbackPolicy = "chain"
	}
	if p.Continuity == "none" && a.LastModel != "" {
		p.Continuity = "prefer"
	}
	return p
}
