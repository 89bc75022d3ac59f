package command

import (
	"time"

	"agentd/event"
	"agentd/fault"
)

// TrialBenchmark says which trial of which data set is run.
type TrialBenchmark struct {
	// DatasetID is the data set's id.
	DatasetID string `json:"datasetId" max:"1000"`
	// DatasetVersion is its frozen version.
	DatasetVersion string `json:"datasetVersion" max:"1000"`
	// DatasetRef is where the data set is.
	DatasetRef string `json:"datasetRef,omitempty" max:"4096"`
	// TaskID is the data set's task, not one of agentd's.
	TaskID string `json:"taskId" max:"1000"`
	// TrialID is the trial's id; made if absent.
	TrialID string `json:"trialId,omitempty" check:"id"`
	// ConfigurationID names the configuration that is tried.
	ConfigurationID string `json:"configurationId" max:"1000"`
	// Role of the configuration in a comparison.
	Role string `json:"role" enum:"@trialRole"`
	// HarborJobRef is the job in Harbor.
	HarborJobRef string `json:"harborJobRef,omitempty" max:"4096"`
	// HarborTrialRef is the trial in Harbor.
	HarborTrialRef string `json:"harborTrialRef,omitempty" max:"4096"`
	// HarborTrialResultRef is the file that Harbor writes the trial's result to.
	HarborTrialResultRef string `json:"harborTrialResultRef,omitempty" max:"4096"`
	// HarborVerifierStdoutRef is the file with what the verifier printed.
	HarborVerifierStdoutRef string `json:"harborVerifierStdoutRef,omitempty" max:"4096"`
	// TaskTomlRef is the task's description in Harbor.
	TaskTomlRef string `json:"taskTomlRef,omitempty" max:"4096"`
	// SingleChangedVariable is what differs between baseline and candidate.
	SingleChangedVariable string `json:"singleChangedVariable,omitempty" max:"1000"`
}

// TrialDataset says how the data set of a trial was frozen.
type TrialDataset struct {
	// SelectionPolicy says how its tasks were chosen.
	SelectionPolicy string `json:"selectionPolicy,omitempty" max:"1000"`
	// FrozenAt is when it was frozen.
	FrozenAt time.Time `json:"frozenAt,omitzero"`
	// RegistryRef is where it was published.
	RegistryRef string `json:"registryRef,omitempty" max:"4096"`
	// TaskCount is the number of its tasks.
	TaskCount int64 `json:"taskCount,omitempty"`
}

// StartBenchmarkTrial binds a trial to a session and runs its turn.
type StartBenchmarkTrial struct {
	Mutation
	// Benchmark says which trial is run.
	Benchmark *TrialBenchmark `json:"benchmark"`
	// Dataset says how the data set was frozen.
	Dataset *TrialDataset `json:"dataset,omitempty"`
	// Configuration that is tried: model, prompt, tools and what else matters. Its
	// member options are those of the trial's turn. A model that is known here is
	// used, another one is recorded as not applied.
	Configuration event.Raw `json:"configuration,omitempty" check:"object" max:"65536"`
	// Input is submitted as the trial's turn: a text, or a list of parts.
	Input event.Raw `json:"input,omitempty" as:"input"`
	// SessionID of the trial; a session of its own if absent.
	SessionID string `json:"sessionId,omitempty" check:"id"`
	// TimeoutMs ends the trial after that time.
	TimeoutMs int64 `json:"timeoutMs,omitempty" max:"31536000000"`
	// MultiTurn makes the trial go on after the turn of input: all turns of its thread
	// belong to it, until end_benchmark_trial.
	MultiTurn bool `json:"multiTurn,omitempty"`
}

// Command implements [Params].
func (*StartBenchmarkTrial) Command() Name                      { return "start_benchmark_trial" }
func (*StartBenchmarkTrial) returns(*StartBenchmarkTrialResult) {}

// NewID implements [Creating].
func (p *StartBenchmarkTrial) NewID() (noun, id string) { return "benchmark", p.Benchmark.TrialID }

// Validate implements [Params]. It brings the input into its normal form.
func (p *StartBenchmarkTrial) Validate() (err error) {
	if err = firstError(check(p), notRuntime(p.SessionID)); err == nil && len(p.Input) > 0 {
		p.Input, err = normalInput(p.Input)
	}
	if err == nil && p.MultiTurn && len(p.Input) == 0 {
		return fault.Param("input", "is needed: a trial of several turns begins with one")
	}
	return err
}

// StartBenchmarkTrialResult is the running trial.
type StartBenchmarkTrialResult struct {
	// TrialID is the trial's id.
	TrialID string `json:"trialId"`
	// SessionID of the trial.
	SessionID string `json:"sessionId"`
	// ThreadID of the trial.
	ThreadID string `json:"threadId"`
	// TurnID of the trial's turn; absent without input.
	TurnID string `json:"turnId,omitempty"`
	// TaskID of the trial.
	TaskID string `json:"taskId"`
	// RunID of the trial.
	RunID string `json:"runId"`
}

// Reward is a score that an external grader gave.
type Reward struct {
	// Value of the score.
	Value *float64 `json:"value" check:"signed"`
	// DetailsRef is where the details are.
	DetailsRef string `json:"detailsRef,omitempty" max:"4096"`
	// Ref is where the score is kept.
	Ref string `json:"ref,omitempty" max:"4096"`
	// Criteria that the score is made of.
	Criteria []string `json:"criteria,omitempty"`
	// FailureCategory says why there is no better score.
	FailureCategory string `json:"failureCategory,omitempty" max:"256"`
	// Drift says whether the verifier or its data changed since the data set was
	// frozen.
	Drift string `json:"drift,omitempty" max:"1000"`
	// OracleSanity says whether the known solution of the task gets the full score.
	OracleSanity string `json:"oracleSanity,omitempty" max:"1000"`
}

// RecordBenchmarkReward attaches a score to a trial.
type RecordBenchmarkReward struct {
	Mutation
	// TrialID is the trial's id.
	TrialID string `json:"trialId" check:"id"`
	// Reward is the score.
	Reward *Reward `json:"reward"`
	// Verifier is who scored.
	Verifier *event.BenchmarkVerifier `json:"verifier,omitempty"`
}

// Command implements [Params].
func (*RecordBenchmarkReward) Command() Name        { return "record_benchmark_reward" }
func (*RecordBenchmarkReward) returns(*TrialResult) {}

// Validate implements [Params].
func (p *RecordBenchmarkReward) Validate() error { return check(p) }

// TrialResult names the trial that a command was about.
type TrialResult struct {
	// TrialID is the trial's id.
	TrialID string `json:"trialId"`
}

// EndBenchmarkTrial ends a trial of several turns, or records why one that ended with its
// turn has no score.
type EndBenchmarkTrial struct {
	Mutation
	// TrialID is the trial's id.
	TrialID string `json:"trialId" check:"id"`
	// FailureCategory says what went wrong outside the agent, such as environment or
	// verifier_error; without it the trial is what its turns were.
	FailureCategory string `json:"failureCategory,omitempty" max:"256"`
	// Reason is the same for people.
	Reason string `json:"reason,omitempty" max:"10000"`
}

// Command implements [Params].
func (*EndBenchmarkTrial) Command() Name        { return "end_benchmark_trial" }
func (*EndBenchmarkTrial) returns(*TrialResult) {}

// Validate implements [Params].
func (p *EndBenchmarkTrial) Validate() error { return check(p) }

// ExportBenchmarkTrial exports a trial's pack and trajectory.
type ExportBenchmarkTrial struct {
	Mutation
	// TrialID is the trial's id.
	TrialID string `json:"trialId" check:"id"`
}

// Command implements [Params].
func (*ExportBenchmarkTrial) Command() Name                       { return "export_benchmark_trial" }
func (*ExportBenchmarkTrial) returns(*ExportBenchmarkTrialResult) {}

// Validate implements [Params].
func (p *ExportBenchmarkTrial) Validate() error { return check(p) }

// ExportBenchmarkTrialResult is an exported trial.
type ExportBenchmarkTrialResult struct {
	ExportResult
	// Trajectory of the trial, in the format ATIF.
	Trajectory event.Raw `json:"trajectory" as:"object"`
}

// ComparedRun is one side of a comparison.
type ComparedRun struct {
	// ConfigurationID names the configuration.
	ConfigurationID string `json:"configurationId" max:"1000"`
	// TrialIDs are its trials.
	TrialIDs []string `json:"trialIds" check:"id" max:"10000"`
}

// CompareBenchmarkRuns compares two configurations.
type CompareBenchmarkRuns struct {
	Mutation
	// Baseline is what was there.
	Baseline *ComparedRun `json:"baseline"`
	// Candidate is what is tried.
	Candidate *ComparedRun `json:"candidate"`
	// P0QcGateRegressionCount is how many regressions the quality gate found.
	P0QcGateRegressionCount *int64 `json:"p0QcGateRegressionCount,omitempty"`
	// Decision that was taken, such as promote or revert; undecided if absent.
	Decision string `json:"decision,omitempty" max:"1000"`
	// RemainingRisk is what the figures don't show, for people.
	RemainingRisk string `json:"remainingRisk,omitempty" max:"10000"`
}

// Command implements [Params].
func (*CompareBenchmarkRuns) Command() Name                       { return "compare_benchmark_runs" }
func (*CompareBenchmarkRuns) returns(*CompareBenchmarkRunsResult) {}

// Validate implements [Params].
func (p *CompareBenchmarkRuns) Validate() error {
	if err := check(p); err != nil {
		return err
	}
	if err := firstError(distinct("baseline.trialIds", p.Baseline.TrialIDs), distinct("candidate.trialIds", p.Candidate.TrialIDs)); err != nil {
		return err
	}
	if p.Baseline.ConfigurationID == p.Candidate.ConfigurationID {
		return fault.Param("candidate.configurationId", "names the baseline; name another configuration to compare with it")
	}
	return nil
}

// distinct refuses a trial that is named twice: it would count twice.
func distinct(path string, ids []string) error {
	seen := make(map[string]bool, len(ids))
	for _, id := range ids {
		if seen[id] {
			return fault.Param(path, "%s is named twice", id)
		}
		seen[id] = true
	}
	return nil
}

// CompareBenchmarkRunsResult is the comparison.
type CompareBenchmarkRunsResult struct {
	// Comparison holds the differences.
	Comparison ComparisonRecord `json:"comparison"`
}

// ComparisonRecord is a comparison.
type ComparisonRecord struct {
	event.Comparison
	// Baseline is what was there.
	Baseline ComparedSide `json:"baseline"`
	// Candidate is what is tried.
	Candidate ComparedSide `json:"candidate"`
	// Interval is that of the difference of the mean rewards.
	Interval ComparedInterval `json:"interval"`
	// CostDeltaUSD is the candidate's mean cost of a trial less the baseline's;
	// absent where it isn't known of every trial.
	CostDeltaUSD *float64 `json:"costDeltaUSD,omitempty"`
	// RemainingRisk is what the figures don't show.
	RemainingRisk string `json:"remainingRisk,omitempty"`
	// ComparisonRef is where the comparison's bytes are.
	ComparisonRef string `json:"comparisonRef"`
	// SessionID is where the comparison is recorded: that of the candidate's first
	// trial.
	SessionID string `json:"sessionId"`
}

// ComparedSide is one side of a comparison, summed up.
type ComparedSide struct {
	// ConfigurationID names the configuration.
	ConfigurationID string `json:"configurationId"`
	// TrialIDs are its trials.
	TrialIDs []string `json:"trialIds"`
	// MeanReward of its trials.
	MeanReward float64 `json:"meanReward"`
	// TimeoutRate is the share of its trials that ran out of time.
	TimeoutRate float64 `json:"timeoutRate"`
	// CostUSD is the cost of all its trials; absent where it isn't known of each.
	CostUSD *float64 `json:"costUSD,omitempty"`
	// EvidenceCompletenessRate is the share of its trials with complete evidence.
	EvidenceCompletenessRate float64 `json:"evidenceCompletenessRate"`
}

// ComparedInterval is a confidence interval of the difference of two mean rewards.
type ComparedInterval struct {
	// Method is paired, over the tasks that both sides ran, or welch.
	Method string `json:"method" enum:"@comparisonMethod"`
	// Level is the confidence.
	Level float64 `json:"level"`
	// Low bounds the difference from below; absent where there are too few trials.
	Low *float64 `json:"low,omitempty"`
	// High bounds the difference from above; absent where there are too few trials.
	High *float64 `json:"high,omitempty"`
	// Samples counts the pairs, or the trials of both sides.
	Samples int64 `json:"samples"`
	// Note says why there are no bounds, or what they leave out.
	Note string `json:"note,omitempty"`
}
