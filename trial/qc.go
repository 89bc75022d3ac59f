package trial

import (
	"cmp"
	"slices"
	"strings"

	"agentd/command"
	"agentd/event"
)

// qcVersion is the version of the Agent QC standard's benchmark.
const qcVersion = "0.5.0"

// storedComparison is a comparison with the trials that it rests on, as a benchmark
// of the Agent QC standard: its names are written with underscores. What no one
// said is said to be unavailable.
type storedComparison struct {
	SchemaVersion  string            `json:"schema_version"`
	ID             string            `json:"id"`
	TargetProject  string            `json:"target_project"`
	Purpose        string            `json:"purpose"`
	Dataset        qcDataset         `json:"dataset"`
	Hypothesis     *qcHypothesis     `json:"hypothesis,omitempty"`
	Configurations []qcConfiguration `json:"configurations"`
	Tasks          []qcTask          `json:"tasks"`
	Trials         []qcTrial         `json:"trials"`
	Metrics        qcMetrics         `json:"metrics"`
	DecisionPolicy string            `json:"decision_policy"`
	Decision       qcDecision        `json:"decision"`
	// Comparison and Verifier are the runtime's own.
	Comparison *command.ComparisonRecord `json:"comparison"`
	Verifier   event.BenchmarkVerifier   `json:"verifier"`
}

type qcDataset struct {
	ID              string `json:"id"`
	Version         string `json:"version"`
	Source          string `json:"source"`
	SelectionPolicy string `json:"selection_policy"`
}

type qcHypothesis struct {
	OneVariableChanged string `json:"one_variable_changed"`
}

type qcConfiguration struct {
	ID   string `json:"id"`
	Role string `json:"role"`
}

type qcTask struct {
	ID               string   `json:"id"`
	InstructionRef   string   `json:"instruction_ref"`
	Verifier         string   `json:"verifier"`
	RequiredGates    []string `json:"required_gates"`
	RequiredEvidence []string `json:"required_evidence"`
}

type qcTrial struct {
	TrialID         string            `json:"trial_id"`
	TaskID          string            `json:"task_id"`
	ConfigurationID string            `json:"configuration_id"`
	Status          string            `json:"status"`
	Reward          float64           `json:"reward"`
	DurationMs      int64             `json:"duration_ms"`
	TrajectoryRef   string            `json:"trajectory_ref,omitempty"`
	RewardRef       string            `json:"reward_ref,omitempty"`
	EvidenceRefs    []string          `json:"evidence_refs"`
	Attempt         int64             `json:"attempt,omitempty"`
	HarborTrialRef  string            `json:"harbor_trial_ref,omitempty"`
	FailureCategory string            `json:"failure_category,omitempty"`
	Correlation     map[string]string `json:"runtime_correlation"`
	Cost            qcCost            `json:"cost"`
	// The runtime's own: what the trial's facts say of its end.
	EndStatus        string `json:"end_status"`
	TimedOut         bool   `json:"timed_out"`
	EvidenceComplete bool   `json:"evidence_complete"`
}

type qcCost struct {
	Tokens  int64    `json:"tokens"`
	CostUSD *float64 `json:"cost_usd,omitempty"`
}

type qcMetrics struct {
	Primary     string   `json:"primary"`
	Secondary   []string `json:"secondary"`
	NoisePolicy string   `json:"noise_policy"`
}

type qcDecision struct {
	Outcome               string   `json:"outcome"`
	Reason                string   `json:"reason"`
	RemainingRisks        []string `json:"remaining_risks"`
	P0GateRegressionCount *int64   `json:"p0_qc_gate_regression_count,omitempty"`
}

// qcBenchmark puts a comparison into the shape of the Agent QC standard.
func qcBenchmark(rec *command.ComparisonRecord, baseline, candidate []*foundTrial) *storedComparison {
	b, first := &baseline[0].Benchmark, &candidate[0].Benchmark
	s := &storedComparison{
		SchemaVersion: qcVersion, ID: "comparison:" + baseline[0].TrialID + ":" + candidate[0].TrialID, TargetProject: "agentd",
		Purpose:        "compare " + rec.Candidate.ConfigurationID + " with " + rec.Baseline.ConfigurationID,
		Dataset:        qcDataset{ID: b.DatasetID, Version: b.DatasetVersion, Source: cmp.Or(b.DatasetRef, unavailable), SelectionPolicy: unavailable},
		Configurations: []qcConfiguration{{rec.Baseline.ConfigurationID, "baseline"}, {rec.Candidate.ConfigurationID, "candidate"}},
		Metrics: qcMetrics{
			Primary: "mean_reward", Secondary: []string{"timeout_rate", "cost_usd", "evidence_completeness_rate"},
			NoisePolicy: "95 % interval of the difference of the means: " + rec.Interval.Method,
		},
		DecisionPolicy: "the runtime doesn't decide; the outcome is what the caller of compare_benchmark_runs said",
		Decision: qcDecision{
			Outcome: qcOutcome(rec.Decision), Reason: rec.Decision, RemainingRisks: []string{}, P0GateRegressionCount: rec.P0QcGateRegressionCount,
		},
		Comparison: rec, Verifier: verifierOf(baseline[0]),
	}
	if first.SingleChangedVariable != "" {
		s.Hypothesis = &qcHypothesis{first.SingleChangedVariable}
	}
	if rec.RemainingRisk != "" {
		s.Decision.RemainingRisks = strings.Split(rec.RemainingRisk, "; ")
	}
	for _, t := range slices.Concat(baseline, candidate) {
		s.Trials = append(s.Trials, qcTrialOf(t))
		s.task(t)
	}
	return s
}

// task adds the task of a trial, once.
func (s *storedComparison) task(t *foundTrial) {
	id := t.Benchmark.TaskID
	if slices.ContainsFunc(s.Tasks, func(x qcTask) bool { return x.ID == id }) {
		return
	}
	v := verifierOf(t)
	s.Tasks = append(s.Tasks, qcTask{
		ID: id, InstructionRef: cmp.Or(t.Benchmark.TaskTomlRef, unavailable), Verifier: strings.TrimSpace(cmp.Or(v.Name, unavailable) + " " + v.Version),
		RequiredGates: []string{"p0"}, RequiredEvidence: []string{"trajectory", "reward"},
	})
}

func qcTrialOf(t *foundTrial) qcTrial {
	out := qcTrial{
		TrialID: t.TrialID, TaskID: t.Benchmark.TaskID, ConfigurationID: t.Benchmark.ConfigurationID, Status: qcStatus(t), Reward: t.Reward.Value,
		DurationMs: t.DurationMs, TrajectoryRef: t.TrajectoryRef, RewardRef: t.Reward.Ref, Attempt: t.Attempt, HarborTrialRef: t.Benchmark.HarborTrialRef,
		FailureCategory: t.FailureCategory, Cost: qcCost{t.Usage.InputTokens + t.Usage.OutputTokens, t.CostUSD},
		EndStatus: t.Status, TimedOut: t.TimedOut, EvidenceComplete: t.EvidenceComplete(),
		// The facts themselves are the evidence that is always there.
		EvidenceRefs: []string{"agentd:sessions/" + t.sessionID},
		Correlation:  map[string]string{"sessionId": t.sessionID, "threadId": t.ThreadID, "turnId": t.TurnID, "taskId": t.TaskID, "runId": t.RunID},
	}
	if t.TrajectoryRef != "" {
		out.EvidenceRefs = append(out.EvidenceRefs, "agentd:outputs/"+t.TrajectoryRef)
	}
	return out
}

// qcStatus is what a trial came to in the standard's words. Only a full reward is a
// pass and only none is a failure: a person judges what lies between.
func qcStatus(t *foundTrial) string {
	switch {
	case t.TimedOut:
		return "exhausted"
	case t.FailureCategory == "blocked":
		return "blocked"
	case t.Status != "completed" || t.Reward.Value <= 0:
		return "failed"
	case t.Reward.Value >= 1:
		return "passed"
	}
	return "needs-review"
}

// qcOutcome is a decision in the standard's words; what has none there needs a
// review.
func qcOutcome(decision string) string {
	word := strings.ReplaceAll(strings.ToLower(decision), "_", "-")
	if slices.Contains([]string{"promote", "promote-with-monitoring", "hold", "revert", "blocked"}, word) {
		return word
	}
	return "needs-review"
}
