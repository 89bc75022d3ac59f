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
	// Value is the score.
	Value float64 `json:"value"`
	// Ref is where the score is recorded.
	Ref string `json:"ref,omitempty"`
	// DetailsRef is where the details of the score are.
	DetailsRef string `json:"detailsRef,omitempty"`
	// Criteria name what was scored.
	Criteria []string `json:"criteria,omitempty"`
	// FailureCategory says of what kind a failure is.
	FailureCategory string `json:"failureCategory,omitempty"`
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
	// SelectionPolicy says how its tasks were chosen.
	SelectionPolicy string `json:"selectionPolicy,omitempty"`
	// FrozenAt is when it was frozen.
	FrozenAt time.Time `json:"frozenAt,omitzero"`
	// Path is where it is on disk.
	Path string `json:"path,omitempty"`
	// RegistryRef is where it was published.
	RegistryRef string `json:"registryRef,omitempty"`
	// TaskCount counts its tasks.
	TaskCount int64 `json:"taskCount,omitempty"`
}

// BenchmarkConfiguration says what was run.
type BenchmarkConfiguration struct {
	// Runtime is the runtime and its version.
	Runtime string `json:"runtime,omitempty"`
	// Agent is the agent.
	Agent string `json:"agent,omitempty"`
	// Model is the model.
	Model string `json:"model,omitempty"`
	// Prompt is where the prompt is.
	Prompt string `json:"promptRef,omitempty"`
	// Tools are the tools.
	Tools Raw `json:"tools,omitempty"`
	// Context says what context was given.
	Context Raw `json:"context,omitempty"`
	// Routing says how models were chosen.
	Routing Raw `json:"routing,omitempty"`
	// Details are what else belongs to the configuration.
	Details Raw `json:"details,omitempty"`
}

// BenchmarkTrialStarted opens a trial.
type BenchmarkTrialStarted struct {
	// Status is running.
	Status string `json:"status" enum:"running"`
	// TimeoutMs is how long the trial may take, in milliseconds.
	TimeoutMs int64 `json:"timeoutMs,omitempty"`
	// BudgetUSD is what the trial may cost in US dollars.
	BudgetUSD *float64 `json:"budgetUSD,omitempty"`
	// Sandbox is the mode of the boundary that the trial runs in.
	Sandbox string `json:"sandbox,omitempty"`
	// Attempt counts the attempts at the trial, from 1.
	Attempt int64 `json:"attempt,omitempty"`
	// MultiTurn says that the trial is all turns of its thread, until it is ended.
	MultiTurn bool `json:"multiTurn,omitempty"`
	// RequestDigest is a fingerprint of what was asked for under the trial's id.
	RequestDigest string `json:"requestDigest,omitempty"`
}

// BenchmarkTrialEnded ends a trial: completed, or failed with a category.
type BenchmarkTrialEnded struct {
	// Status says how the trial ended.
	Status string `json:"status" enum:"completed failed"`
	// DurationMs is how long it took, in milliseconds.
	DurationMs int64 `json:"durationMs"`
	// FailureCategory says of what kind a failure is, for programs.
	FailureCategory string `json:"failureCategory,omitempty"`
	// Error says what went wrong.
	Error *Failure `json:"error,omitempty"`
	// Cleanup says what became of the place that the trial ran in.
	Cleanup string `json:"cleanup,omitempty"`
	// TrajectoryRef is where the trajectory is.
	TrajectoryRef string `json:"trajectoryRef,omitempty"`
	// ArtifactRefs point to what the trial made.
	ArtifactRefs []string `json:"artifactRefs,omitempty"`
	// TimedOut says that the time was over.
	TimedOut bool `json:"timedOut,omitempty"`
	// Usage and CostUSD are those of the trial, its subagents included; the cost is
	// absent where no price is known.
	Usage *Usage `json:"usage,omitempty"`
	// CostUSD is what the trial cost in US dollars; absent where no price is known.
	CostUSD *float64 `json:"costUSD,omitempty"`
	// ModelCalls and ToolCalls count the calls of the trial.
	ModelCalls int64 `json:"modelCalls,omitempty"`
	// ToolCalls counts the tool calls of the trial.
	ToolCalls int64 `json:"toolCalls,omitempty"`
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
	// Value is the score.
	Value float64 `json:"value"`
	// Ref is where the score is recorded.
	Ref string `json:"ref,omitempty"`
	// DetailsRef is where the details of the score are.
	DetailsRef string `json:"detailsRef,omitempty"`
	// Criteria name what was scored.
	Criteria []string `json:"criteria,omitempty"`
	// FailureCategory says of what kind a failure is, for programs.
	FailureCategory string `json:"failureCategory,omitempty"`
	// Verifier is who scored.
	Verifier *BenchmarkVerifier `json:"verifier,omitempty"`
	// Drift says whether the verifier or its data changed since the data set was frozen.
	Drift string `json:"drift,omitempty"`
	// OracleSanity says whether the known solution of the task gets the full score.
	OracleSanity string `json:"oracleSanity,omitempty"`
}

// BenchmarkRun is one side of a comparison.
type BenchmarkRun struct {
	// ConfigurationID is the configuration that was tried.
	ConfigurationID string `json:"configurationId" check:"nonempty"`
	// TrialIDs are its trials.
	TrialIDs []string `json:"trialIds"`
	// MeanReward is the mean of the scores; null without any.
	MeanReward *float64 `json:"meanReward"`
	// TimeoutRate is the share of trials whose time was over; null where it is not known.
	TimeoutRate *float64 `json:"timeoutRate"`
	// CostUSD is what the trials cost in US dollars; null where no price is known.
	CostUSD *float64 `json:"costUSD"`
	// EvidenceCompletenessRate is the share of trials with complete evidence; null where it
	// is not known.
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
	// Baseline is what was compared with.
	Baseline BenchmarkRun `json:"baseline"`
	// Candidate is what was compared.
	Candidate BenchmarkRun `json:"candidate"`
	// Interval is that of the difference of the mean rewards.
	Interval *BenchmarkInterval `json:"interval,omitempty"`
	// CostDeltaUSD is the candidate's mean cost of a trial less the baseline's;
	// absent where it isn't known of every trial.
	CostDeltaUSD *float64 `json:"costDeltaUSD,omitempty"`
	// ComparisonRef is where the whole comparison is.
	ComparisonRef string `json:"comparisonRef,omitempty"`
	// RemainingRisk says what the comparison does not show.
	RemainingRisk string `json:"remainingRisk,omitempty"`
	// Decision is what was decided, such as promote or revert.
	Decision string `json:"decision" check:"nonempty"`
}
