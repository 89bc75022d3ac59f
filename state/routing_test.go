package state

import (
	"testing"

	"agentd/event"
)

func TestRoutingIsUnknownBeforeTheFirstFact(t *testing.T) {
	st := newStory(t)
	r := st.s.Snapshot().RoutingLimitSummary
	if r.Status != Unknown || r.SelectedModel != Unknown || r.Limits.Status != Unknown || r.Cost.Status != Unknown || r.Cost.TotalUSD != nil {
		t.Errorf("%+v", r)
	}
}

func TestSingleCandidate(t *testing.T) {
	st := newStory(t)
	st.startTurn()
	st.addFact(event.TypeTaskProfileResolved, inTurn(), &event.TaskProfile{Kind: "chat"})
	st.addFact(event.TypeRoutingCandidatesResolved, inTurn(), &event.RoutingCandidates{
		CandidateCount: 1, Candidates: []event.Candidate{{Provider: "p", Model: "m"}}, HardConstraints: []string{"tools"},
		Excluded: []event.Exclusion{{Model: "n", Reason: "no tools"}},
	})
	st.addFact(event.TypeRoutingSingleCandidate, inTurn(), &event.RoutingDecision{
		CandidateCount: 1, Candidates: []event.Candidate{{Provider: "p", Model: "m"}}, Excluded: []event.Exclusion{{Model: "n", Reason: "no tools"}},
		SelectedProvider: "p", SelectedModel: "m", DecisionSource: "automatic", DecisionReason: "one", CapabilityGap: "none", FallbackChain: []string{},
	})
	r := st.s.Snapshot().RoutingLimitSummary
	if r.Status != Available || !r.SingleCandidate || r.SelectedModel != "m" || r.CandidateCount != 1 || r.TaskProfile.Kind != "chat" || r.ThreadID != "thread_1" {
		t.Errorf("%+v", r.ModelRouting)
	}
	if c := r.CandidateModelSet; len(c.HardConstraints) != 1 || len(c.Excluded) != 1 {
		t.Errorf("candidates %+v", c)
	}
	if turn := st.s.ThreadRead("thread_1").Turns[0]; turn.RoutingDecision == nil || turn.CandidateModelSet == nil || turn.TaskProfile == nil {
		t.Errorf("turn %+v", turn)
	}
}

func TestFallbackAndNotPossible(t *testing.T) {
	st := newStory(t)
	st.startTurn()
	st.addFact(event.TypeRoutingFallbackApplied, inTurn(), &event.RoutingDecision{
		SelectedProvider: "p", SelectedModel: "m2", DecisionSource: "fallback", DecisionReason: "overloaded", CapabilityGap: "none", FromModel: "m",
	})
	if r := st.s.ThreadRead("thread_1").ModelRouting; r.Fallbacks != 1 || r.SelectedModel != "m2" || r.RoutingDecision.FromModel != "m" {
		t.Errorf("%+v", r)
	}
	st.addFact(event.TypeRoutingNotPossible, inTurn(), &event.RoutingCandidates{DecisionReason: "no key", CapabilityGap: "credential"})
	r := st.s.ThreadRead("thread_1").ModelRouting
	if r.Status != ThreadBlocked || r.RoutingDecision != nil || r.SelectedModel != Unknown || r.CapabilityGap != "credential" {
		t.Errorf("%+v", r)
	}
}

func TestCostsAddUp(t *testing.T) {
	st := newStory(t)
	st.startTurn()
	record := func(usd *float64) {
		st.addFact(event.TypeCostRecorded, inTurn(), &event.CostRecorded{CostUSD: usd, Currency: "USD", Basis: "price row", ModelRequestID: "req_1"})
	}
	a, b := 0.25, 0.5
	record(&a)
	record(nil)
	st.addFact(event.TypeTurnCompleted, inTurn(), &event.TurnCompleted{Status: "completed", Outcome: "done"})
	record(&b) // known only after the turn's end
	c := st.s.ThreadRead("thread_1").CostState
	if c.TotalUSD == nil || *c.TotalUSD != 0.75 || c.Priced != 2 || c.Unpriced != 1 || *c.TurnCostUSD != 0.75 {
		t.Errorf("cost %+v", c)
	}
	if turn := st.s.ThreadRead("thread_1").Turns[0]; turn.CostState.CostUSD == nil || *turn.CostState.CostUSD != 0.75 || turn.CostState.Unpriced != 1 {
		t.Errorf("the turn's cost is %v", turn.CostState)
	}
}

func TestUsageAndRateLimit(t *testing.T) {
	st := newStory(t)
	st.startTurn()
	model := inTurn()
	model.ModelRequestID = "req_1"
	limit := func() string { return st.s.Snapshot().RoutingLimitSummary.Limits.RateLimit }
	st.addFact(event.TypeModelRequested, model, &event.ModelRequested{Provider: "p", Model: "m", ModelRequestID: "req_1", Step: 1, Attempt: 1})
	st.addFact(event.TypeRateLimitHit, model, &event.RateLimitHit{Provider: "p", ModelRequestID: "req_1"})
	if limit() != "limited" {
		t.Errorf("rate limit is %s", limit())
	}
	st.addFact(event.TypeModelCompleted, model, &event.ModelCompleted{
		ModelRequestID: "req_1", Provider: "p", StopReason: "end_turn", Usage: event.Usage{InputTokens: 7, OutputTokens: 3}, UsageSource: "estimated",
		Message: &event.ModelMessage{Text: "hi"},
	})
	if limit() != "ok" {
		t.Errorf("after an answer the rate limit is %s", limit())
	}
	if r := st.s.Routing; r.Usage.InputTokens != 7 || r.ModelCalls != 1 || r.Estimated != 1 || r.RateLimitHits != 1 {
		t.Errorf("routing %+v", r)
	}
}

func TestQuotas(t *testing.T) {
	st := newStory(t)
	st.startTurn()
	two := 2.0
	quota := func() string { return st.s.ThreadRead("thread_1").LimitState.Quota }
	st.addFact(event.TypeQuotaLow, inTurn(), &event.QuotaState{QuotaName: "session", Limit: &two})
	if quota() != "low" {
		t.Errorf("quota is %s", quota())
	}
	st.addFact(event.TypeQuotaBlocked, inTurn(), &event.QuotaState{QuotaName: "session", Limit: &two})
	st.addFact(event.TypeQuotaLow, inTurn(), &event.QuotaState{QuotaName: "tokens"})
	if m := st.s.ThreadRead("thread_1"); m.LimitState.Quota != "blocked" || len(m.LimitState.Quotas) != 2 || len(m.Diagnostics.QuotaBlocks) != 1 {
		t.Errorf("limits %+v", m.LimitState)
	}
	st.addFact(event.TypeLimitChanged, event.Scope{}, &event.LimitChanged{Kind: "budget", Name: "session", Limit: &two})
	if l := st.s.ThreadRead("thread_1").LimitState; l.Quota != "low" || len(l.Limits) != 1 {
		t.Errorf("after the limit was raised: %+v", l)
	}
}
