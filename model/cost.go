package model

import (
	"math"

	"agentd/event"
)

// Currency of all prices and costs.
const Currency = "USD"

// ExpectedOutput is how many tokens an answer is taken to have before it is
// there: what earlier answers had on average, or 1,000 when there was none, and
// never more than the model or the request allows.
func ExpectedOutput(i Info, maxOutput int64, earlier event.Usage, answers int64) int64 {
	n := int64(1000)
	if answers > 0 {
		n = max(1, earlier.OutputTokens/answers)
	}
	for _, limit := range []int64{maxOutput, i.MaxOutputTokens} {
		if limit > 0 {
			n = min(n, limit)
		}
	}
	return n
}

// Cost is what a request with that usage costs, and on which basis; nil where no
// price is known. Tokens that were read from the provider's cache and that were written
// to it are parts of the input and cost their own prices. Reasoning tokens are part of the
// output.
func Cost(i Info, u event.Usage) (usd *float64, basis string) {
	p := i.Price
	if p == nil {
		return nil, "no price is known for " + i.ID()
	}
	rates := p.Rates
	basis = p.Row
	if p.Long != nil && u.InputTokens > p.Long.Above {
		rates = p.Long.Rates
		basis += " (long input)"
	}
	if basis == "" {
		basis = "price of " + i.ID()
	}
	sum := rates.cost(u) / 1e6
	// Sums of many requests stay readable when each is exact to a billionth.
	sum = math.Round(sum*1e9) / 1e9
	return &sum, basis
}

// EstimateCost is what a request is likely to cost if nothing of it is cached.
func EstimateCost(i Info, inputTokens, outputTokens int64) (usd *float64, basis string) {
	return Cost(i, event.Usage{InputTokens: inputTokens, OutputTokens: outputTokens})
}

// CostEstimated is the payload of cost.estimated for a request.
func CostEstimated(i Info, requestID string, inputTokens, outputTokens int64) *event.CostEstimated {
	usd, basis := EstimateCost(i, inputTokens, outputTokens)
	return &event.CostEstimated{
		CostUSD: usd, Currency: Currency, Basis: basis, ModelRequestID: requestID,
		InputTokens: inputTokens, OutputTokens: outputTokens,
	}
}

// CostRecorded is the payload of cost.recorded for a request that ended with u.
// Spent is the session's cost before it. An estimated usage says so in the basis.
func CostRecorded(i Info, requestID string, u event.Usage, estimated bool, spent float64) *event.CostRecorded {
	usd, basis := Cost(i, u)
	if estimated {
		basis += ", usage estimated"
	}
	sum := spent
	if usd != nil {
		sum += *usd
	}
	return &event.CostRecorded{
		CostUSD: usd, Currency: Currency, Basis: basis, ModelRequestID: requestID, Usage: &u, SessionCostUSD: sum,
	}
}
