package command

import "time"

// Usage asks what was used.
type Usage struct {
	// GroupBy are the keys that rows have; without them everything is one row.
	GroupBy []string `json:"groupBy,omitempty" enum:"model account session tool workspace" max:"5"`
	// Bucket splits rows by time, in UTC.
	Bucket string `json:"bucket,omitempty" enum:"hour day month"`
	// From leaves out what was used before this time; it is moved back to the full hour.
	From time.Time `json:"from,omitzero"`
	// To leaves out what was used from this time on; it is moved forward to the full hour.
	To time.Time `json:"to,omitzero"`
	// Account keeps what an account used.
	Account string `json:"account,omitempty" max:"256"`
	// Limit is the most rows that are returned; 0 means 1000.
	Limit int `json:"limit,omitempty" max:"10000"`
}

// defaultUsageRows is how many rows of figures are returned without a limit.
const defaultUsageRows = 1000

// Size returns the limit with the default applied.
func (p *Usage) Size() int {
	if p.Limit == 0 {
		return defaultUsageRows
	}
	return p.Limit
}

// Command implements [Params].
func (*Usage) Command() Name        { return "usage" }
func (*Usage) returns(*UsageResult) {}

// Validate implements [Params].
func (p *Usage) Validate() error {
	return firstError(check(p), checkSpan(p.From, p.To))
}

// UsageResult is what was used.
type UsageResult struct {
	// Rows come in the order of their buckets, and in each the most expensive first, then
	// those with the most turns and calls.
	Rows []UsageRow `json:"rows"`
	// Total counts the rows that there are.
	Total int64 `json:"total"`
	// Truncated says that there are more rows than the limit: those that used least in the
	// last buckets are left out.
	Truncated bool `json:"truncated,omitempty"`
}

// UsageRow is what was used by the things that its keys name, in a span of time. A key is
// absent if rows are not grouped by it, and where there is nothing to name: only tool
// calls and questions about them belong to a tool.
type UsageRow struct {
	// Bucket is when the span of time begins; absent without buckets.
	Bucket time.Time `json:"bucket,omitzero"`
	// Model as provider/model.
	Model string `json:"model,omitempty"`
	// Account that owns the sessions.
	Account string `json:"account,omitempty"`
	// Session is the session's id.
	Session string `json:"session,omitempty"`
	// Tool that was called.
	Tool string `json:"tool,omitempty"`
	// Workspace is the folder that the sessions work in.
	Workspace string `json:"workspace,omitempty"`
	// Turns that ended.
	Turns int64 `json:"turns"`
	// Failures counts the turns that failed.
	Failures int64 `json:"failures"`
	// Cancelled counts the turns that were cancelled.
	Cancelled int64 `json:"cancelled"`
	// ModelCalls counts requests to models, also those that failed.
	ModelCalls int64 `json:"modelCalls"`
	// ModelFailures counts requests to models that failed.
	ModelFailures int64 `json:"modelFailures"`
	// InputTokens of all model calls.
	InputTokens int64 `json:"inputTokens"`
	// CachedInputTokens are the part of the input that providers had kept.
	CachedInputTokens int64 `json:"cachedInputTokens"`
	// OutputTokens of all model calls.
	OutputTokens int64 `json:"outputTokens"`
	// ReasoningTokens are the part of the output that was reasoning.
	ReasoningTokens int64 `json:"reasoningTokens"`
	// CostUSD sums the model calls whose price is known.
	CostUSD float64 `json:"costUSD"`
	// ToolCalls counts the calls that models asked for, also those that never ran.
	ToolCalls int64 `json:"toolCalls"`
	// ToolFailures counts the calls that failed, were denied or never ran.
	ToolFailures int64 `json:"toolFailures"`
	// Approvals counts the actions that were answered, expired or were cancelled.
	Approvals int64 `json:"approvals"`
	// ApprovalWaitMs is how long these waited, all together.
	ApprovalWaitMs int64 `json:"approvalWaitMs"`
}
