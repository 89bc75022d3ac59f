package state

import (
	"time"

	"agentd/event"
)

// Routing is what the session's model calls cost and what limits them. How a
// thread's model was chosen is in [Thread.Routing].
type Routing struct {
	Usage event.Usage `json:"usage,omitzero"`
	// ModelCalls counts the answers that the usage is the sum of, Estimated those
	// of them whose usage the provider didn't tell.
	ModelCalls int64 `json:"modelCalls,omitempty"`
	Estimated  int64 `json:"estimated,omitempty"`

	Cost Cost `json:"cost,omitzero"`

	// Quotas holds the budgets and quotas that are low or spent.
	Quotas []Quota `json:"quotas,omitempty"`
	// RateLimit is the last rate limit; RateLimitHits counts all.
	RateLimit     *RateLimit `json:"rateLimit,omitempty"`
	RateLimitHits int64      `json:"rateLimitHits,omitempty"`
	// Limits holds the limits that were set, by kind and name.
	Limits []Limit `json:"limits,omitempty"`
	// Decisions counts the choices of a model, Fallbacks those after a failure,
	// Impossible the turns that no model could do.
	Decisions  int64 `json:"decisions,omitempty"`
	Fallbacks  int64 `json:"fallbacks,omitempty"`
	Impossible int64 `json:"impossible,omitempty"`
}

// Cost is what model calls cost.
type Cost struct {
	// TotalUSD sums the requests whose price is known: Priced of them. Unpriced
	// counts the others, so a total with Unpriced > 0 is a lower bound.
	TotalUSD  float64    `json:"totalUSD,omitempty"`
	Priced    int64      `json:"priced,omitempty"`
	Unpriced  int64      `json:"unpriced,omitempty"`
	Last      *CostEntry `json:"last,omitempty"`
	Estimated *CostEntry `json:"estimated,omitempty"`
}

// CostEntry is the cost of one request; no CostUSD means that no price is known.
type CostEntry struct {
	// CostUSD of the request; absent if no price is known.
	CostUSD *float64 `json:"costUSD,omitempty"`
	// Currency of the price.
	Currency string `json:"currency"`
	// Basis says where the price is from.
	Basis string `json:"basis"`
	// ModelRequestID is the request to the model.
	ModelRequestID string `json:"modelRequestId,omitempty"`
	// ThreadID is the thread that it belongs to.
	ThreadID string `json:"threadId,omitempty"`
	// TurnID is the turn that it belongs to.
	TurnID string `json:"turnId,omitempty"`
	// At is when it happened.
	At time.Time `json:"at"`
	// Sequence of the fact that says so.
	Sequence uint64 `json:"sequence"`
}

// Quota is a budget or a quota that is low or spent.
type Quota struct {
	// Status is low or blocked.
	Status string `json:"status"`
	// QuotaName says which budget or quota it is.
	QuotaName string `json:"quotaName,omitempty"`
	// Provider whose quota it is.
	Provider string `json:"provider,omitempty"`
	// Limit is all that there is; absent if it isn't known.
	Limit *float64 `json:"limit,omitempty"`
	// Used is what was used; absent if it isn't known.
	Used *float64 `json:"used,omitempty"`
	// Remaining is what is left; absent if it isn't known.
	Remaining *float64 `json:"remaining,omitempty"`
	// Unit that it is counted in.
	Unit string `json:"unit,omitempty"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
	// ThreadID is the thread that it belongs to.
	ThreadID string `json:"threadId,omitempty"`
	// TurnID is the turn that it belongs to.
	TurnID string `json:"turnId,omitempty"`
	// At is when it happened.
	At time.Time `json:"at"`
	// Sequence of the fact that says so.
	Sequence uint64 `json:"sequence"`
}

// RateLimit is a request to wait.
type RateLimit struct {
	// Provider that asks to wait.
	Provider string `json:"provider"`
	// Model that was asked.
	Model string `json:"model,omitempty"`
	// Source says who asks to wait: the provider, or the runtime for it.
	Source string `json:"source,omitempty"`
	// LimitName says which limit it is.
	LimitName string `json:"limitName,omitempty"`
	// RetryAfterMs is how long; absent if the provider does not say.
	RetryAfterMs *int64 `json:"retryAfterMs,omitempty"`
	// ModelRequestID is the request to the model.
	ModelRequestID string `json:"modelRequestId,omitempty"`
	// ThreadID is the thread that it belongs to.
	ThreadID string `json:"threadId,omitempty"`
	// TurnID is the turn that it belongs to.
	TurnID string `json:"turnId,omitempty"`
	// Over says that the provider answered since.
	Over bool `json:"over,omitempty"`
	// At is when it happened.
	At time.Time `json:"at"`
	// Sequence of the fact that says so.
	Sequence uint64 `json:"sequence"`
}

// Limit is a limit that was set.
type Limit struct {
	// Kind of the limit.
	Kind string `json:"kind"`
	// Name of the limit.
	Name string `json:"name"`
	// Limit is the most that is allowed; absent if it was lifted.
	Limit *float64 `json:"limit,omitempty"`
	// Unit that the limit is counted in.
	Unit string `json:"unit,omitempty"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
	// Until is when the limit is over; absent if it stays.
	Until time.Time `json:"until,omitzero"`
	// ChangedBy set it.
	ChangedBy *event.Actor `json:"changedBy,omitempty"`
	// At is when it was set.
	At time.Time `json:"at"`
	// Sequence of the fact that says so.
	Sequence uint64 `json:"sequence"`
}

// LimitOf returns the limit of a kind and name that was told last; nil if none holds.
func (r *Routing) LimitOf(kind, name string) *float64 {
	for i := range r.Limits {
		if r.Limits[i].Kind == kind && r.Limits[i].Name == name {
			return r.Limits[i].Limit
		}
	}
	return nil
}

// routing folds the facts of model choice, cost and limits.
func (f *fold) routing() {
	switch p := f.e.Payload.(type) {
	case *event.TaskProfile:
		f.profileResolved(p)
	case *event.RoutingCandidates:
		f.candidatesResolved(p)
	case *event.RoutingDecision:
		f.routingDecided(p)
	case *event.CostEstimated:
		f.s.Routing.Cost.Estimated = f.cost(p.CostUSD, p.Currency, p.Basis, p.ModelRequestID)
	case *event.CostRecorded:
		f.costRecorded(p)
	case *event.RateLimitHit:
		f.rateLimitHit(p)
	case *event.QuotaState:
		f.quotaChanged(p)
	case *event.LimitChanged:
		f.limitChanged(p)
	}
}

func (f *fold) cost(usd *float64, currency, basis, request string) *CostEntry {
	return &CostEntry{
		CostUSD: usd, Currency: currency, Basis: basis, ModelRequestID: request,
		ThreadID: f.e.ThreadID, TurnID: f.e.TurnID, At: f.e.Time, Sequence: f.e.Sequence,
	}
}

// costRecorded adds the cost of one request to the session and to its turn.
func (f *fold) costRecorded(p *event.CostRecorded) {
	c := &f.s.Routing.Cost
	c.Last = f.cost(p.CostUSD, p.Currency, p.Basis, p.ModelRequestID)
	if p.CostUSD == nil {
		c.Unpriced++
		if turn := f.anyTurn(); turn != nil {
			turn.Unpriced++
		}
		return
	}
	c.Priced++
	c.TotalUSD += *p.CostUSD
	if task := f.s.Tasks.Find(f.e.TaskID); task != nil && task.TaskKind != TaskKindTurn {
		task.CostUSD += *p.CostUSD
	}
	f.delegatedCost(*p.CostUSD)
	if turn := f.anyTurn(); turn != nil {
		turn.CostUSD += *p.CostUSD
	}
}

// anyTurn returns the fact's turn, finished or not, or nil: the cost of a request
// may be known only after its turn has ended.
func (f *fold) anyTurn() *Turn {
	t := f.s.Thread(f.e.ThreadID)
	if t == nil {
		return nil
	}
	if turn := t.Turn(f.e.TurnID); turn != nil {
		return turn
	}
	if i := indexWhere(t.Recent, func(x *Turn) bool { return x.TurnID == f.e.TurnID }); i >= 0 {
		return t.Recent[i]
	}
	return nil
}

// modelAnswered adds an answer's tokens to the session's and notes that its
// provider answers again.
func (f *fold) modelAnswered(p *event.ModelCompleted) {
	r := &f.s.Routing
	r.Usage = addUsage(r.Usage, p.Usage)
	r.ModelCalls++
	if p.UsageSource == "estimated" {
		r.Estimated++
	}
	if l := r.RateLimit; l != nil && !l.Over && (p.Provider == "" || p.Provider == l.Provider) {
		over := *l
		over.Over = true
		r.RateLimit = &over
	}
	for i, q := range r.Quotas {
		if q.Provider != "" && q.Provider == p.Provider && q.Status == quotaBlocked {
			r.Quotas = removed(r.Quotas, i) // who answers isn't used up any more
			break
		}
	}
}

func (f *fold) rateLimitHit(p *event.RateLimitHit) {
	f.s.Routing.RateLimitHits++
	f.s.Routing.RateLimit = &RateLimit{
		Provider: p.Provider, Model: p.Model, Source: p.Source, LimitName: p.LimitName, RetryAfterMs: p.RetryAfterMs,
		ModelRequestID: p.ModelRequestID, ThreadID: f.e.ThreadID, TurnID: f.e.TurnID, At: f.e.Time, Sequence: f.e.Sequence,
	}
}

// quotaBlocked is the status of a quota that nothing is left of.
const quotaBlocked = "blocked"

func (f *fold) quotaChanged(p *event.QuotaState) {
	r := &f.s.Routing
	q := Quota{
		Status: "low", QuotaName: p.QuotaName, Provider: p.Provider, Limit: p.Limit, Used: p.Used, Remaining: p.Remaining,
		Unit: p.Unit, Reason: p.Reason, ThreadID: f.e.ThreadID, TurnID: f.e.TurnID, At: f.e.Time, Sequence: f.e.Sequence,
	}
	if f.e.Type == event.TypeQuotaBlocked {
		q.Status = quotaBlocked
		// A provider's quota leaves the others to be asked.
		if turn := f.turn(); turn != nil && p.Provider == "" {
			turn.QuotaBlocked = p.QuotaName + ": " + p.Reason
		}
		f.incident("quota_blocked", "nothing is left of the quota "+p.QuotaName+": "+p.Reason, false)
	}
	for i, x := range r.Quotas {
		if x.QuotaName == q.QuotaName && x.Provider == q.Provider {
			r.Quotas[i] = q
			return
		}
	}
	r.Quotas = recent(r.Quotas, q, keepRecent)
}

// limitChanged sets a limit. What was said about how much of it is left is not
// true any more.
func (f *fold) limitChanged(p *event.LimitChanged) {
	r := &f.s.Routing
	for i, q := range r.Quotas {
		if q.QuotaName == p.Name {
			r.Quotas = removed(r.Quotas, i)
			break
		}
	}
	l := Limit{
		Kind: p.Kind, Name: p.Name, Limit: p.Limit, Unit: p.Unit, Reason: p.Reason, Until: journalTime(p.Until),
		ChangedBy: p.ChangedBy, At: f.e.Time, Sequence: f.e.Sequence,
	}
	for i, x := range r.Limits {
		if x.Kind == l.Kind && x.Name == l.Name {
			r.Limits[i] = l
			return
		}
	}
	r.Limits = recent(r.Limits, l, keepRecent)
}
