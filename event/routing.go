package event

import "time"

// Candidate is a model that could do the work.
type Candidate struct {
	// Provider that offers the model.
	Provider string `json:"provider" check:"nonempty"`
	// Model that could be chosen.
	Model string `json:"model" check:"nonempty"`
	// Capabilities that the model has.
	Capabilities []string `json:"capabilities,omitempty"`
	// EstimatedCostUSD of the next request; absent where no price is known.
	EstimatedCostUSD *float64 `json:"estimatedCostUSD,omitempty"`
}

// Exclusion is a model that can't do the work, and why.
type Exclusion struct {
	// Model that could not be chosen.
	Model string `json:"model" check:"nonempty"`
	// Reason says why.
	Reason string `json:"reason" check:"nonempty"`
	// Category classifies the reason.
	Category string `json:"category,omitempty" enum:"capability credential quota network policy context lock unknown"`
}

// RestingModel is a model that isn't used for a while after a failure.
type RestingModel struct {
	// Model that is left alone.
	Model string `json:"model" check:"nonempty"`
	// Until is when it is used again.
	Until time.Time `json:"until"`
	// Category says of what kind the failure was.
	Category string `json:"category,omitempty"`
}

// RoutingCandidates is the set of models that a turn can choose from.
type RoutingCandidates struct {
	// CandidateCount counts the candidates.
	CandidateCount int64 `json:"candidateCount"`
	// Candidates are the models that can do the work.
	Candidates []Candidate `json:"candidates"`
	// Excluded are the models that can not, with reasons.
	Excluded []Exclusion `json:"excluded"`
	// HardConstraints are what a model must have.
	HardConstraints []string `json:"hardConstraints,omitempty"`
	// Preferences are what decides between those that have it.
	Preferences []string `json:"preferences,omitempty"`
	// TaskKind is the kind of work, if it is known.
	TaskKind string `json:"taskKind,omitempty"`
	// DecisionReason and CapabilityGap are set when no candidate is left.
	DecisionReason string `json:"decisionReason,omitempty"`
	// CapabilityGap says what every model lacks; set when no candidate is left.
	CapabilityGap string `json:"capabilityGap,omitempty"`
	// Resting are the models that were left alone at that time.
	Resting []RestingModel `json:"resting,omitempty"`
	// ConfigurationRef is the configuration that decisions are made under from here on;
	// empty if it is the one that the session named before.
	ConfigurationRef string `json:"configurationRef,omitempty"`
}

// LimitState is a short view of the limits at a decision.
type LimitState struct {
	// Cost says how much of the budget is left.
	Cost string `json:"cost,omitempty" enum:"@headroom"`
	// Quota says how much of the quota is left.
	Quota string `json:"quota,omitempty" enum:"@headroom"`
	// RateLimit says whether a provider asked to wait.
	RateLimit string `json:"rateLimit,omitempty" enum:"ok limited unknown not_applicable"`
}

// RoutingDecision is the choice of a model.
type RoutingDecision struct {
	// CandidateCount counts the candidates.
	CandidateCount int64 `json:"candidateCount"`
	// Candidates are the models that can do the work.
	Candidates []Candidate `json:"candidates"`
	// Excluded are the models that can not, with reasons.
	Excluded []Exclusion `json:"excluded"`
	// SelectedProvider is the provider that was chosen.
	SelectedProvider string `json:"selectedProvider" check:"nonempty"`
	// SelectedModel is the model that was chosen.
	SelectedModel string `json:"selectedModel" check:"nonempty"`
	// RequestedProvider is the provider that was asked for.
	RequestedProvider string `json:"requestedProvider,omitempty"`
	// RequestedModel is the model that was asked for.
	RequestedModel string `json:"requestedModel,omitempty"`
	// RoutingMode says how the choice was made.
	RoutingMode string `json:"routingMode,omitempty" enum:"locked default automatic fallback"`
	// DecisionSource says who or what decided.
	DecisionSource string `json:"decisionSource" enum:"user_lock explicit_default host_policy automatic fallback task_constraint"`
	// DecisionReason says why.
	DecisionReason string `json:"decisionReason" check:"nonempty"`
	// CapabilityGap says what the model lacks; none if it lacks nothing.
	CapabilityGap string `json:"capabilityGap" check:"nonempty"`
	// FallbackChain are the models that are tried next, in order.
	FallbackChain []string `json:"fallbackChain"`
	// TaskKind is the kind of work, if it is known.
	TaskKind string `json:"taskKind,omitempty"`
	// RequiresUserOverride says that the model lacks something that the work requires, as
	// every other one does: only a person can choose or configure one that has it.
	RequiresUserOverride bool `json:"requiresUserOverride,omitempty"`
	// LimitState says how the limits stood.
	LimitState *LimitState `json:"limitStateSnapshot,omitempty"`
	// FromModel and Cause are set on a fallback.
	FromModel string `json:"fromModel,omitempty"`
	// Cause is the failure that led to a fallback.
	Cause string `json:"cause,omitempty"`
	// Resting are the models that were left alone at that time.
	Resting []RestingModel `json:"resting,omitempty"`
	// ConfigurationRef is the configuration that decisions are made under from here on;
	// empty if it is the one that the session named before.
	ConfigurationRef string `json:"configurationRef,omitempty"`
}

// CostEstimated is the expected cost of a request.
type CostEstimated struct {
	// CostUSD is the expected cost in US dollars; null where no price is known.
	CostUSD *float64 `json:"costUSD"`
	// Currency is the currency of the price.
	Currency string `json:"currency" check:"nonempty"`
	// Basis says where the price comes from.
	Basis string `json:"basis" check:"nonempty"`
	// ModelRequestID is the request to the model.
	ModelRequestID string `json:"modelRequestId,omitempty"`
	// InputTokens are those that the estimate counts on.
	InputTokens int64 `json:"inputTokens,omitempty"`
	// OutputTokens are those that the estimate counts on.
	OutputTokens int64 `json:"outputTokens,omitempty"`
}

// CostRecorded is the cost of one request; null where no price is known.
type CostRecorded struct {
	// CostUSD is the cost in US dollars; null where no price is known.
	CostUSD *float64 `json:"costUSD"`
	// Currency is the currency of the price.
	Currency string `json:"currency" check:"nonempty"`
	// Basis says where the price comes from.
	Basis string `json:"basis" check:"nonempty"`
	// ModelRequestID is the request to the model.
	ModelRequestID string `json:"modelRequestId" check:"nonempty"`
	// Usage counts the tokens that were used.
	Usage *Usage `json:"usage,omitempty"`
	// SessionCostUSD is the session's sum after this request.
	SessionCostUSD float64 `json:"sessionCostUSD,omitempty"`
}

// RateLimitHit says that a provider or the runtime's own limit asked to wait.
type RateLimitHit struct {
	// Provider is the provider whose limit it is.
	Provider string `json:"provider" check:"nonempty"`
	// Model is the model whose limit it is.
	Model string `json:"model,omitempty"`
	// RetryAfterMs is how long to wait, in milliseconds; absent if nobody says.
	RetryAfterMs *int64 `json:"retryAfterMs,omitempty"`
	// ModelRequestID is the request that was refused.
	ModelRequestID string `json:"modelRequestId" check:"nonempty"`
	// Source says whose limit it is: the provider or the runtime itself.
	Source string `json:"source,omitempty" enum:"provider client"`
	// LimitName names the limit.
	LimitName string `json:"limitName,omitempty"`
}

// QuotaState says how much of a budget or a quota is left; null where a
// provider doesn't tell.
type QuotaState struct {
	// Limit is the most that may be used.
	Limit *float64 `json:"limit"`
	// Used is what was used.
	Used *float64 `json:"used"`
	// Remaining is what is left.
	Remaining *float64 `json:"remaining"`
	// Unit says what is counted, such as USD.
	Unit string `json:"unit,omitempty"`
	// QuotaName names the quota or the budget.
	QuotaName string `json:"quotaName,omitempty"`
	// Account is whose quota it is.
	Account string `json:"account,omitempty"`
	// Provider is the provider whose quota it is.
	Provider string `json:"provider,omitempty"`
	// ModelRequestID is the request that it was noticed at.
	ModelRequestID string `json:"modelRequestId,omitempty"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
}

// LimitChanged says that a limit was set or changed.
type LimitChanged struct {
	// Kind says what is limited.
	Kind string `json:"kind" enum:"cost quota rate_limit budget policy"`
	// Name names the limit.
	Name string `json:"name" check:"nonempty"`
	// Limit is the most that may be used from now on; null for no limit.
	Limit *float64 `json:"limit"`
	// Unit says what is counted, such as USD.
	Unit string `json:"unit,omitempty"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
	// Until is when the limit ends; absent if it does not.
	Until time.Time `json:"until,omitzero"`
	// ChangedBy is who changed it.
	ChangedBy *Actor `json:"changedBy,omitempty"`
}
