package command

import (
	"time"

	"agentd/event"
)

// ListTrials lists benchmark trials.
type ListTrials struct {
	Page
	// SessionID keeps the trials of one session.
	SessionID string `json:"sessionId,omitempty" check:"id"`
	// Status keeps the trials with that status.
	Status string `json:"status,omitempty" enum:"@trialStatus"`
	// DatasetID keeps the trials of a data set.
	DatasetID string `json:"datasetId,omitempty" max:"1000"`
	// ConfigurationID keeps the trials of a configuration.
	ConfigurationID string `json:"configurationId,omitempty" max:"1000"`
	// Type keeps the trials whose configuration has this role.
	Type string `json:"type,omitempty" enum:"@trialRole"`
	Narrowing
	// Sort is what the trials are ordered by; default id.
	Sort string `json:"sort,omitempty" enum:"@workOrder"`
}

// Command implements [Params].
func (*ListTrials) Command() Name             { return "list_trials" }
func (*ListTrials) returns(*ListTrialsResult) {}

// Validate implements [Params].
func (p *ListTrials) Validate() error { return checkNarrowing(p, &p.Narrowing) }

// ListTrialsResult is a page of trials.
type ListTrialsResult struct {
	// Trials of this page.
	Trials []TrialRecord `json:"trials"`
	// Total counts the trials that the filters keep, over all pages.
	Total int64 `json:"total"`
	// NextCursor is the cursor of the next page; absent on the last.
	NextCursor string `json:"nextCursor,omitempty"`
}

// TrialRecord is a trial in a list.
type TrialRecord struct {
	// TrialID is the trial's id.
	TrialID string `json:"trialId"`
	// SessionID of the trial.
	SessionID string `json:"sessionId"`
	// ThreadID of the trial.
	ThreadID string `json:"threadId,omitempty"`
	// TurnID of the trial's first turn.
	TurnID string `json:"turnId,omitempty"`
	// TaskID of the trial in agentd.
	TaskID string `json:"taskId,omitempty"`
	// Status of the trial.
	Status string `json:"status"`
	// Benchmark says which trial of which data set it is.
	Benchmark event.Benchmark `json:"benchmark"`
	// Reward is the score that the trial got; absent without one.
	Reward *float64 `json:"reward,omitempty"`
	// EvidenceComplete says that everything is there that a decision about the trial needs.
	EvidenceComplete bool `json:"evidenceComplete"`
	// FailureCategory says why the trial failed.
	FailureCategory string `json:"failureCategory,omitempty"`
	// TimedOut says that the trial ran out of time.
	TimedOut bool `json:"timedOut,omitempty"`
	// InputTokens of the trial's model calls.
	InputTokens int64 `json:"inputTokens,omitempty"`
	// OutputTokens of the trial's model calls.
	OutputTokens int64 `json:"outputTokens,omitempty"`
	// CostUSD of the trial; absent where it isn't known.
	CostUSD *float64 `json:"costUSD,omitempty"`
	// ToolCalls counts the trial's tool calls.
	ToolCalls int64 `json:"toolCalls,omitempty"`
	// DurationMs is how long the trial took.
	DurationMs int64 `json:"durationMs,omitempty"`
	// StartedAt is when the trial began.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// EndedAt is when the trial ended.
	EndedAt time.Time `json:"endedAt,omitzero"`
}
