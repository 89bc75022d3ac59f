package state

import "agentd/event"

// ModelRouting is how a thread's model was chosen.
type ModelRouting struct {
	// Status is unknown before the first routing fact and blocked when no model
	// can do the work.
	Status string `json:"status"`
	// TaskProfile is what the work needs.
	TaskProfile *event.TaskProfile `json:"taskProfile,omitempty"`
	// CandidateCount counts the models that could be chosen.
	CandidateCount int64 `json:"candidateCount"`
	// CandidateModelSet is what could be chosen.
	CandidateModelSet *CandidateSet `json:"candidateModelSet,omitempty"`
	// RoutingDecision is the last choice.
	RoutingDecision *RoutingDecision `json:"routingDecision,omitempty"`
	// SingleCandidate says that there was nothing to choose from.
	SingleCandidate bool `json:"singleCandidate"`
	// SelectedProvider that was chosen, or unknown.
	SelectedProvider string `json:"selectedProvider"`
	// SelectedModel that was chosen, or unknown.
	SelectedModel string `json:"selectedModel"`
	// CapabilityGap is what the choice lacks: none, a capability, or unknown.
	CapabilityGap string `json:"capabilityGap"`
	// NotPossible says why no model can do the work.
	NotPossible string `json:"notPossible,omitempty"`
	// Fallbacks counts the choices after a failure.
	Fallbacks int64 `json:"fallbacks"`
}

func modelRouting(t *Thread) ModelRouting {
	v := ModelRouting{Status: Unknown, SelectedProvider: Unknown, SelectedModel: Unknown, CapabilityGap: Unknown}
	if t == nil || t.Routing == nil {
		return v
	}
	r := t.Routing
	v.Status, v.TaskProfile, v.CandidateModelSet, v.RoutingDecision = Available, r.Profile, r.Candidates, r.Decision
	v.SingleCandidate, v.NotPossible, v.Fallbacks = r.SingleCandidate, r.NotPossible, r.Fallbacks
	v.CapabilityGap = orUnknown(r.CapabilityGap)
	if r.Candidates != nil {
		v.CandidateCount = r.Candidates.CandidateCount
	}
	if r.Decision != nil {
		v.SelectedProvider, v.SelectedModel = r.Decision.SelectedProvider, r.Decision.SelectedModel
	}
	if r.NotPossible != "" {
		v.Status = ThreadBlocked
	}
	return v
}

// LimitState says how much is left. Its words are the session's: budgets and
// rates hold for all its threads.
type LimitState struct {
	// Status is available, or unknown if no fact says anything yet.
	Status string `json:"status"`
	// Quota is ok, low, blocked or unknown.
	Quota string `json:"quota"`
	// RateLimit is ok, limited or unknown.
	RateLimit string `json:"rateLimit"`
	// Quotas are the budgets and quotas that are low or spent.
	Quotas []Quota `json:"quotas"`
	// LastRateLimit is the last time that a provider asked to wait.
	LastRateLimit *RateLimit `json:"lastRateLimit,omitempty"`
	// RateLimitHits counts how often a provider asked to wait.
	RateLimitHits int64 `json:"rateLimitHits"`
	// Limits that were set, by kind and name.
	Limits []Limit `json:"limits"`
}

func (s *Session) limitState() LimitState {
	r := &s.Routing
	v := LimitState{
		Quota: Unknown, RateLimit: Unknown, Quotas: listCopy(r.Quotas), LastRateLimit: r.RateLimit, RateLimitHits: r.RateLimitHits,
		Limits: listCopy(r.Limits),
	}
	for _, q := range r.Quotas {
		if v.Quota != "blocked" {
			v.Quota = q.Status
		}
	}
	switch {
	case r.RateLimit != nil && !r.RateLimit.Over:
		v.RateLimit = "limited"
	case r.RateLimit != nil || r.ModelCalls > 0:
		v.RateLimit = "ok"
	}
	v.Status = statusOf(len(r.Quotas)+len(r.Limits) > 0 || v.RateLimit != Unknown, Unknown)
	return v
}

// CostState is what model calls cost as far as prices are known.
type CostState struct {
	// Status is available, or unknown if no fact says anything yet.
	Status string `json:"status"`
	// TotalUSD is the session's sum over priced requests; null before the first.
	TotalUSD *float64 `json:"totalUSD"`
	// Priced counts the requests whose price is known.
	Priced int64 `json:"priced"`
	// Unpriced counts requests without a known price, which the total lacks.
	Unpriced int64 `json:"unpriced"`
	// Last is what the last request cost.
	Last *CostEntry `json:"last,omitempty"`
	// Estimated is what the next request was expected to cost.
	Estimated *CostEntry `json:"estimated,omitempty"`
	// TurnCostUSD is the sum of the thread's active or else last turn.
	TurnCostUSD *float64 `json:"turnCostUSD,omitempty"`
	// Usage sums the tokens of all requests.
	Usage event.Usage `json:"usage"`
	// ModelCalls counts the requests that were answered.
	ModelCalls int64 `json:"modelCalls"`
}

// costState is the session's cost, with the turn's of a thread if t isn't nil.
func (s *Session) costState(t *Thread) CostState {
	c := &s.Routing.Cost
	v := CostState{
		Status: statusOf(c.Priced+c.Unpriced > 0 || c.Estimated != nil, Unknown), Priced: c.Priced, Unpriced: c.Unpriced,
		Last: c.Last, Estimated: c.Estimated, Usage: s.Routing.Usage, ModelCalls: s.Routing.ModelCalls,
	}
	if c.Priced > 0 {
		total := c.TotalUSD
		v.TotalUSD = &total
	}
	if t == nil || c.Priced == 0 {
		return v
	}
	turn := t.Active
	if turn == nil && len(t.Recent) > 0 {
		turn = t.Recent[len(t.Recent)-1]
	}
	if turn != nil {
		cost := turn.CostUSD
		v.TurnCostUSD = &cost
	}
	return v
}

// RoutingLimitSummary is how the session's last model was chosen, what it cost
// and what is left.
type RoutingLimitSummary struct {
	ModelRouting
	// ThreadID is the thread whose choice is shown: the last that was made.
	ThreadID string `json:"threadId,omitempty"`
	// Limits says what is left.
	Limits LimitState `json:"limitState"`
	// Cost is what the model calls cost.
	Cost CostState `json:"costState"`
	// Decisions counts the choices of a model.
	Decisions int64 `json:"decisions"`
	// NotPossibleCount counts the turns that no model could do.
	NotPossibleCount int64 `json:"notPossibleCount"`
}

func (s *Session) routingLimitSummary() RoutingLimitSummary {
	var last *Thread
	for _, t := range s.Threads {
		if t.Routing != nil && (last == nil || t.Routing.Sequence > last.Routing.Sequence) {
			last = t
		}
	}
	v := RoutingLimitSummary{
		ModelRouting: modelRouting(last), Limits: s.limitState(), Cost: s.costState(nil),
		Decisions: s.Routing.Decisions, NotPossibleCount: s.Routing.Impossible,
	}
	if last != nil {
		v.ThreadID = last.ThreadID
	}
	return v
}
