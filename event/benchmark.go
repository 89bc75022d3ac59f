package event

import "time"

// Benchmark is the envelope's part that joins a fact to a trial.
type Benchmark struct {
	// DatasetID is the data set's id.
	DatasetID string `json:"datasetId,omitempty"`
	// DatasetVersion of the data set.
	DatasetVersion string `json:"datasetVersion,omitempty"`
	// DatasetRef is where the data set is.
	DatasetRef string `json:"datasetRef,omitempty"`
	// TaskID is the data set's task that is tried.
	TaskID string `json:"taskId,omitempty"`
	// TrialID is the trial's id.
	TrialID string `json:"trialId,omitempty"`
	// ConfigurationID is the configuration that is tried.
	ConfigurationID string `json:"configurationId,omitempty"`
	// Role of the configuration in a comparison.
	Role string `json:"role,omitempty" enum:"@trialRole"`
	// HarborJobRef is the job in Harbor.
	HarborJobRef string `json:"harborJobRef,omitempty"`
	// HarborTrialRef is the trial in Harbor.
	HarborTrialRef string `json:"harborTrialRef,omitempty"`
	// TaskTomlRef is the task's definition in Harbor.
	TaskTomlRef string `json:"taskTomlRef,omitempty"`
	// SingleChangedVariable is what alone differs from the baseline.
	SingleChangedVariable string `json:"singleChangedVariable,omitempty"`
	// HarborTrialResultRef is the result of the trial in Harbor, if start_benchmark_trial
	// named it.
	HarborTrialResultRef string `json:"harborTrialResultRef,omitempty"`
	// HarborVerifierStdoutRef is what Harbor's verifier printed, if start_benchmark_trial
	// named it.
	HarborVerifierStdoutRef string `json:"harborVerifierStdoutRef,omitempty"`
}

// Reward is the envelope's part of a score: what a reader joins on without knowing
// the payload.
type Reward struct {
	Value           float64  `json:"value"`
	Ref             string   `json:"ref,omitempty"`
	DetailsRef      string   `json:"detailsRef,omitempty"`
	Criteria        []string `json:"criteria,omitempty"`
	FailureCategory string   `json:"failureCategory,omitempty"`
}

// Comparison is the envelope's part of a comparison of two configurations.
type Comparison struct {
	// MeanRewardDelta is the candidate's mean reward less the baseline's.
	MeanRewardDelta float64 `json:"meanRewardDelta"`
	// TimeoutRateDelta is the candidate's rate of timeouts less the baseline's.
	TimeoutRateDelta float64 `json:"timeoutRateDelta"`
	// EvidenceCompletenessRate is the share of the candidate's trials with complete
	// evidence.
	EvidenceCompletenessRate float64 `json:"evidenceCompletenessRate"`
	// BaselineEvidenceCompletenessRate is the share of the baseline's trials with
	// complete evidence.
	BaselineEvidenceCompletenessRate *float64 `json:"baselineEvidenceCompletenessRate,omitempty"`
	// P0QcGateRegressionCount is how many regressions the quality gate found; absent
	// where they were not counted.
	P0QcGateRegressionCount *int64 `json:"p0QcGateRegressionCount,omitempty" check:"nonnegative"`
	// Decision that was taken, such as promote or revert.
	Decision string `json:"decision" check:"nonempty"`
}

// BenchmarkDataset says which frozen data set a trial belongs to.
type BenchmarkDataset struct {
	SelectionPolicy string    `json:"selectionPolicy,omitempty"`
	FrozenAt        time.Time `json:"frozenAt,omitzero"`
	Path            string    `json:"path,omitempty"`
	RegistryRef     string    `json:"registryRef,omitempty"`
	TaskCount       int64     `json:"taskCount,omitempty"`
}

// BenchmarkConfiguration says what was run.
type BenchmarkConfiguration struct {
	Runtime string `json:"runtime,omitempty"`
	Agent   string `json:"agent,omitempty"`
	Model   string `json:"model,omitempty"`
	Prompt  string `json:"promptRef,omitempty"`
	Tools   Raw    `json:"tools,omitempty"`
	Context Raw    `json:"context,omitempty"`
	Routing Raw    `json:"routing,omitempty"`
	Details Raw    `json:"details,omitempty"`
}

// BenchmarkTrialStarted opens a trial.
type BenchmarkTrialStarted struct {
	Status    string   `json:"status" enum:"running"`
	TimeoutMs int64    `json:"timeoutMs,omitempty"`
	BudgetUSD *float64 `json:"budgetUSD,omitempty"`
	Sandbox   string   `json:"sandbox,omitempty"`
	Attempt   int64    `json:"attempt,omitempty"`
	// MultiTurn says that the trial is all turns of its thread, until it is ended.
	MultiTurn bool `json:"multiTurn,omitempty"`
	// RequestDigest is a fingerprint of what was asked for under the trial's id.
	RequestDigest string `json:"requestDigest,omitempty"`
}

// BenchmarkTrialEnded ends a trial: completed, or failed with a category.
type BenchmarkTrialEnded struct {
	Status          string   `json:"status" enum:"completed failed"`
	DurationMs      int64    `json:"durationMs"`
	FailureCategory string   `json:"failureCategory,omitempty"`
	Error           *Failure `json:"error,omitempty"`
	Cleanup         string   `json:"cleanup,omitempty"`
	TrajectoryRef   string   `json:"trajectoryRef,omitempty"`
	ArtifactRefs    []string `json:"artifactRefs,omitempty"`
	TimedOut        bool     `json:"timedOut,omitempty"`
	// Usage and CostUSD are those of the trial, its subagents included; the cost is
	// absent where no price is known.
	Usage   *Usage   `json:"usage,omitempty"`
	CostUSD *float64 `json:"costUSD,omitempty"`
	// ModelCalls and ToolCalls count the calls of the trial.
	ModelCalls int64 `json:"modelCalls,omitempty"`
	ToolCalls  int64 `json:"toolCalls,omitempty"`
	// DeniedSideEffects counts calls that were denied and had an effect all the same.
	DeniedSideEffects int64 `json:"deniedSideEffectCount,omitempty"`
	// EvidenceGaps say what the evidence of the trial lacks.
	EvidenceGaps []string `json:"evidenceGaps,omitempty"`
}

// BenchmarkVerifier names who scored.
type BenchmarkVerifier struct {
	// Name of the verifier.
	Name string `json:"name,omitempty"`
	// Version of the verifier.
	Version string `json:"version,omitempty"`
	// Status says how the verification ended.
	Status string `json:"status,omitempty"`
}

// BenchmarkRewardRecorded attaches a score that an external grader gave.
type BenchmarkRewardRecorded struct {
	Value           float64            `json:"value"`
	Ref             string             `json:"ref,omitempty"`
	DetailsRef      string             `json:"detailsRef,omitempty"`
	Criteria        []string           `json:"criteria,omitempty"`
	FailureCategory string             `json:"failureCategory,omitempty"`
	Verifier        *BenchmarkVerifier `json:"verifier,omitempty"`
	Drift           string             `json:"drift,omitempty"`
	OracleSanity    string             `json:"oracleSanity,omitempty"`
}

// BenchmarkRun is one side of a comparison.
type BenchmarkRun struct {
	ConfigurationID          string   `json:"configurationId" check:"nonempty"`
	TrialIDs                 []string `json:"trialIds"`
	MeanReward               *float64 `json:"meanReward"`
	TimeoutRate              *float64 `json:"timeoutRate"`
	CostUSD                  *float64 `json:"costUSD"`
	EvidenceCompletenessRate *float64 `json:"evidenceCompletenessRate"`
}

// BenchmarkInterval is a confidence interval of the difference of two mean rewards.
type BenchmarkInterval struct {
	// Method is paired, over the tasks that both sides ran, or welch.
	Method string `json:"method" enum:"@comparisonMethod"`
	// Level is the confidence, such as 0.95.
	Level float64 `json:"level"`
	// Low is the lower bound of the difference; null where too few trials are there to say.
	Low *float64 `json:"low"`
	// High is the upper bound of the difference; null where too few trials are there to say.
	High *float64 `json:"high"`
	// Samples counts the pairs, or the trials of both sides.
	Samples int64 `json:"samples"`
	// Note says why there are no bounds, or what they leave out.
	Note string `json:"note,omitempty"`
}

// BenchmarkComparisonCompleted compares two configurations.
type BenchmarkComparisonCompleted struct {
	Baseline  BenchmarkRun `json:"baseline"`
	Candidate BenchmarkRun `json:"candidate"`
	// Interval is that of the difference of the mean rewards.
	Interval *BenchmarkInterval `json:"interval,omitempty"`
	// CostDeltaUSD is the candidate's mean cost of a trial less the baseline's;
	// absent where it isn't known of every trial.
	CostDeltaUSD  *float64 `json:"costDeltaUSD,omitempty"`
	ComparisonRef string   `json:"comparisonRef,omitempty"`
	RemainingRisk string   `json:"remainingRisk,omitempty"`
	Decision      string   `json:"decision" check:"nonempty"`
}
