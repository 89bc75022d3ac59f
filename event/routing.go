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
	Model    string    `json:"model" check:"nonempty"`
	Until    time.Time `json:"until"`
	Category string    `json:"category,omitempty"`
}

// RoutingCandidates is the set of models that a turn can choose from.
type RoutingCandidates struct {
	CandidateCount  int64       `json:"candidateCount"`
	Candidates      []Candidate `json:"candidates"`
	Excluded        []Exclusion `json:"excluded"`
	HardConstraints []string    `json:"hardConstraints,omitempty"`
	Preferences     []string    `json:"preferences,omitempty"`
	TaskKind        string      `json:"taskKind,omitempty"`
	// DecisionReason and CapabilityGap are set when no candidate is left.
	DecisionReason string `json:"decisionReason,omitempty"`
	CapabilityGap  string `json:"capabilityGap,omitempty"`
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
	CandidateCount    int64       `json:"candidateCount"`
	Candidates        []Candidate `json:"candidates"`
	Excluded          []Exclusion `json:"excluded"`
	SelectedProvider  string      `json:"selectedProvider" check:"nonempty"`
	SelectedModel     string      `json:"selectedModel" check:"nonempty"`
	RequestedProvider string      `json:"requestedProvider,omitempty"`
	RequestedModel    string      `json:"requestedModel,omitempty"`
	RoutingMode       string      `json:"routingMode,omitempty" enum:"locked default automatic fallback"`
	DecisionSource    string      `json:"decisionSource" enum:"user_lock explicit_default host_policy automatic fallback task_constraint"`
	DecisionReason    string      `json:"decisionReason" check:"nonempty"`
	CapabilityGap     string      `json:"capabilityGap" check:"nonempty"`
	FallbackChain     []string    `json:"fallbackChain"`
	TaskKind          string      `json:"taskKind,omitempty"`
	// RequiresUserOverride says that the model lacks something that the work requires, as
	// every other one does: only a person can choose or configure one that has it.
	RequiresUserOverride bool        `json:"requiresUserOverride,omitempty"`
	LimitState           *LimitState `json:"limitStateSnapshot,omitempty"`
	// FromModel and Cause are set on a fallback.
	FromModel string `json:"fromModel,omitempty"`
	Cause     string `json:"cause,omitempty"`
	// Resting are the models that were left alone at that time.
	Resting []RestingModel `json:"resting,omitempty"`
	// ConfigurationRef is the configuration that decisions are made under from here on;
	// empty if it is the one that the session named before.
	ConfigurationRef string `json:"configurationRef,omitempty"`
}

// CostEstimated is the expected cost of a request.
type CostEstimated struct {
	CostUSD        *float64 `json:"costUSD"`
	Currency       string   `json:"currency" check:"nonempty"`
	Basis          string   `json:"basis" check:"nonempty"`
	ModelRequestID string   `json:"modelRequestId,omitempty"`
	InputTokens    int64    `json:"inputTokens,omitempty"`
	OutputTokens   int64    `json:"outputTokens,omitempty"`
}

// CostRecorded is the cost of one request; null where no price is known.
type CostRecorded struct {
	CostUSD        *float64 `json:"costUSD"`
	Currency       string   `json:"currency" check:"nonempty"`
	Basis          string   `json:"basis" check:"nonempty"`
	ModelRequestID string   `json:"modelRequestId" check:"nonempty"`
	Usage          *Usage   `json:"usage,omitempty"`
	// SessionCostUSD is the session's sum after this request.
	SessionCostUSD float64 `json:"sessionCostUSD,omitempty"`
}

// RateLimitHit says that a provider or the runtime's own limit asked to wait.
type RateLimitHit struct {
	Provider       string `json:"provider" check:"nonempty"`
	Model          string `json:"model,omitempty"`
	RetryAfterMs   *int64 `json:"retryAfterMs,omitempty"`
	ModelRequestID string `json:"modelRequestId" check:"nonempty"`
	Source         string `json:"source,omitempty" enum:"provider client"`
	LimitName      string `json:"limitName,omitempty"`
}

// QuotaState says how much of a budget or a quota is left; null where a
// provider doesn't tell.
type QuotaState struct {
	Limit          *float64 `json:"limit"`
	Used           *float64 `json:"used"`
	Remaining      *float64 `json:"remaining"`
	Unit           string   `json:"unit,omitempty"`
	QuotaName      string   `json:"quotaName,omitempty"`
	Account        string   `json:"account,omitempty"`
	Provider       string   `json:"provider,omitempty"`
	ModelRequestID string   `json:"modelRequestId,omitempty"`
	Reason         string   `json:"reason,omitempty"`
}

// LimitChanged says that a limit was set or changed.
type LimitChanged struct {
	Kind      string    `json:"kind" enum:"cost quota rate_limit budget policy"`
	Name      string    `json:"name" check:"nonempty"`
	Limit     *float64  `json:"limit"`
	Unit      string    `json:"unit,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Until     time.Time `json:"until,omitzero"`
	ChangedBy *Actor    `json:"changedBy,omitempty"`
}
