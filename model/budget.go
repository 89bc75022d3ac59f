package model

import (
	"fmt"

	"agentd/event"
)

// The standings of a budget; those of a routing decision's limits.
const (
	BudgetOK      = "ok"
	BudgetLow     = "low"
	BudgetBlocked = "blocked"
	BudgetNone    = "not_applicable"
)

// QuotaBudget is the name of a session's budget in facts.
const QuotaBudget = "session_cost"

// Budget bounds what a session's model calls may cost.
type Budget struct {
	// SessionCostUSD is the bound. If zero or less there is none.
	SessionCostUSD float64
	// LowAt is the fraction from which the budget counts as low. If zero, it
	// defaults to 0.8.
	LowAt float64
}

// BudgetStanding is how much of a budget is left.
type BudgetStanding struct {
	// Status is one of the standings above.
	Status                 string
	Limit, Used, Remaining float64
	// Unpriced counts requests whose cost isn't known: Used is a lower bound if
	// there are any.
	Unpriced int64
}

// Standing says how the budget stands when so much was spent. It is checked
// before a request, so that the request that crosses the bound is the last: what
// a request will cost is not known before it ends.
func (b Budget) Standing(usedUSD float64, unpriced int64) BudgetStanding {
	if b.SessionCostUSD <= 0 {
		return BudgetStanding{Status: BudgetNone, Used: usedUSD, Unpriced: unpriced}
	}
	low := b.LowAt
	if low <= 0 {
		low = 0.8
	}
	s := BudgetStanding{
		Status: BudgetOK, Limit: b.SessionCostUSD, Used: usedUSD,
		Remaining: max(0, b.SessionCostUSD-usedUSD), Unpriced: unpriced,
	}
	switch {
	case usedUSD >= b.SessionCostUSD:
		s.Status = BudgetBlocked
	case usedUSD >= low*b.SessionCostUSD:
		s.Status = BudgetLow
	}
	return s
}

// Event returns the fact that tells the standing when it changed from before:
// quota.low or quota.blocked. A standing that is the same, or better, tells nothing.
func (s BudgetStanding) Event(before BudgetStanding, requestID string) (event.Type, *event.QuotaState) {
	if s.Status == before.Status {
		return "", nil
	}
	switch s.Status {
	case BudgetLow:
		return event.TypeQuotaLow, s.payload(requestID)
	case BudgetBlocked:
		return event.TypeQuotaBlocked, s.payload(requestID)
	}
	return "", nil
}

// Payload of quota.low or quota.blocked, whatever was recorded before.
func (s BudgetStanding) payload(requestID string) *event.QuotaState {
	reason := fmt.Sprintf("%.4f of %.4f USD are spent", s.Used, s.Limit)
	if s.Unpriced > 0 {
		reason += fmt.Sprintf(", and %d requests have no known price", s.Unpriced)
	}
	return &event.QuotaState{
		Limit: &s.Limit, Used: &s.Used, Remaining: &s.Remaining, Unit: Currency,
		QuotaName: QuotaBudget, ModelRequestID: requestID, Reason: reason,
	}
}

// Blocked is the payload of quota.blocked for a spent budget: the loop tells it
// for each turn that ends on it, also when an earlier turn did already.
func (s BudgetStanding) Blocked(requestID string) *event.QuotaState { return s.payload(requestID) }

// lowFraction is the part of a provider's own limit below which what is left
// counts as low.
const lowFraction = 0.1

// QuotaTold returns the quota.low that follows from what a provider said about
// its own limits, or nil: less than a tenth is left. A provider that doesn't tell
// how much it was of gives no fraction, and no fact.
func QuotaTold(provider, requestID string, s *Standing) *event.QuotaState {
	if s == nil {
		return nil
	}
	if q := quotaState(s.RequestsLeft, s.RequestsLimit, "requests"); q != nil {
		q.Provider, q.ModelRequestID = provider, requestID
		return q
	}
	if q := quotaState(s.TokensLeft, s.TokensLimit, "tokens"); q != nil {
		q.Provider, q.ModelRequestID = provider, requestID
		return q
	}
	return nil
}

func quotaState(left, limit int64, unit string) *event.QuotaState {
	if left < 0 || limit <= 0 || float64(left) >= lowFraction*float64(limit) {
		return nil
	}
	l, u, r := float64(limit), float64(max(0, limit-left)), float64(left)
	return &event.QuotaState{
		Limit: &l, Used: &u, Remaining: &r, Unit: unit, QuotaName: "provider_" + unit,
		Reason: fmt.Sprintf("the provider says that %d of %d %s are left", left, limit, unit),
	}
}
