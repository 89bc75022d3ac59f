package trial

import (
	"cmp"

	"agentd/event"
	"agentd/evidence/atif"
	"agentd/state"
)

// unavailable stands in a trial's pack where the runtime has nothing to say: for a
// reference that wasn't given, or a report that wasn't made.
const unavailable = "unavailable"

// trialPack is what is exported of a trial. The proof of [evidence.Sealed] follows
// as the member integrity.
type trialPack struct {
	SchemaVersion      string          `json:"schemaVersion"`
	Benchmark          packBenchmark   `json:"benchmark"`
	RuntimeCorrelation packCorrelation `json:"runtimeCorrelation"`
	Refs               packRefs        `json:"refs"`
	Metrics            packMetrics     `json:"metrics"`
	DecisionInputs     packInputs      `json:"decisionInputs"`
	Trajectory         packTrajectory  `json:"trajectory"`
	Reward             packReward      `json:"reward"`
}

// packBenchmark says which trial of which data set it was. Every member is there.
type packBenchmark struct {
	DatasetID             string `json:"datasetId"`
	DatasetVersion        string `json:"datasetVersion"`
	DatasetRef            string `json:"datasetRef"`
	TaskID                string `json:"taskId"`
	TrialID               string `json:"trialId"`
	ConfigurationID       string `json:"configurationId"`
	Role                  string `json:"role"`
	HarborJobRef          string `json:"harborJobRef"`
	HarborTrialRef        string `json:"harborTrialRef"`
	TaskTomlRef           string `json:"taskTomlRef"`
	SingleChangedVariable string `json:"singleChangedVariable"`
}

// packCorrelation joins the trial to the runtime's facts.
type packCorrelation struct {
	RuntimeID string `json:"runtimeId"`
	SessionID string `json:"sessionId"`
	ThreadID  string `json:"threadId"`
	TurnID    string `json:"turnId"`
	TaskID    string `json:"taskId"`
	RunID     string `json:"runId"`
	TraceID   string `json:"traceId"`
}

// packRefs says where the trial's files are.
type packRefs struct {
	TrajectoryRef           string `json:"trajectoryRef"`
	RuntimeTranscriptRef    string `json:"runtimeTranscriptRef"`
	RewardRef               string `json:"rewardRef"`
	RewardDetailsRef        string `json:"rewardDetailsRef"`
	AgentQcReportRef        string `json:"agentQcReportRef"`
	ArtifactManifestRef     string `json:"artifactManifestRef"`
	HarborTrialResultRef    string `json:"harborTrialResultRef"`
	HarborVerifierStdoutRef string `json:"harborVerifierStdoutRef"`
}

// packMetrics are the trial's figures; null is not known.
type packMetrics struct {
	Reward *float64 `json:"reward"`
	// DurationMs is null until the trial has ended.
	DurationMs            *int64   `json:"durationMs"`
	Timeout               bool     `json:"timeout"`
	DeniedSideEffectCount int64    `json:"deniedSideEffectCount"`
	EvidenceComplete      bool     `json:"evidenceComplete"`
	Tokens                int64    `json:"tokens"`
	CachedTokens          int64    `json:"cachedTokens"`
	CostUSD               *float64 `json:"costUsd"`
	ArtifactCount         int      `json:"artifactCount"`
}

// packInputs is what a decision about the candidate may rest on.
type packInputs struct {
	// P0QcGateRegressionCount is null until a comparison says it.
	P0QcGateRegressionCount *int64 `json:"p0QcGateRegressionCount"`
	FailureCategory         string `json:"failureCategory"`
	// PromotionEligible is true only if everything that it rests on is known.
	PromotionEligible                     bool `json:"promotionEligible"`
	ArtifactManifestPresent               bool `json:"artifactManifestPresent"`
	TrajectoryAtifCompatible              bool `json:"trajectoryAtifCompatible"`
	SeparateVerifierTrajectoryTransferred bool `json:"separateVerifierTrajectoryTransferred"`
}

// packTrajectory says what became of the trajectory.
type packTrajectory struct {
	Schema string `json:"schema"`
	Ref    string `json:"ref"`
	// ExportStatus is exported, or partial while the trial goes on.
	ExportStatus        string          `json:"exportStatus"`
	RequiredFieldStatus map[string]bool `json:"requiredFieldStatus"`
}

// packReward is the score that was recorded from outside.
type packReward struct {
	Value           *float64                 `json:"value"`
	Ref             string                   `json:"ref"`
	DetailsRef      string                   `json:"detailsRef"`
	Criteria        []string                 `json:"criteria"`
	FailureCategory string                   `json:"failureCategory"`
	Verifier        *event.BenchmarkVerifier `json:"verifier,omitempty"`
}

// manifestEntry is a file of a trial in its manifest. The first four members are
// those of Harbor's manifests.
type manifestEntry struct {
	Source      string `json:"source"`
	Destination string `json:"destination"`
	Type        string `json:"type"`
	Status      string `json:"status"`
	Producer    string `json:"producer"`
	// SHA256 is the sum of the content; empty where it isn't kept.
	SHA256    string `json:"sha256,omitempty"`
	SizeBytes *int64 `json:"sizeBytes"`
	MediaType string `json:"mediaType,omitempty"`
	// Redaction says what was done to the content before it was stored.
	Redaction string `json:"redaction"`
}

// packing is a pack that is being made.
type packing struct {
	runtimeID string
	t         *foundTrial
	sum       *atif.Summary
	doc       *trajectoryDoc
	refs      packRefs
	manifest  []manifestEntry
	// regressions is what the last comparison with the trial says; nil where no one
	// counted them.
	regressions *int64
}

// trajectoryDoc is what the exported document turned out to be.
type trajectoryDoc struct {
	valid  bool
	fields map[string]bool
}

func (p *packing) pack() *trialPack {
	t := &p.t.Trial
	return &trialPack{
		SchemaVersion: event.SchemaStandard, Benchmark: benchmarkPart(&t.Benchmark),
		RuntimeCorrelation: packCorrelation{
			RuntimeID: p.runtimeID, SessionID: p.t.sessionID, ThreadID: cmp.Or(t.ThreadID, event.NotApplicable), TurnID: cmp.Or(t.TurnID, event.NotApplicable),
			TaskID: cmp.Or(t.TaskID, event.NotApplicable), RunID: cmp.Or(t.RunID, event.NotApplicable), TraceID: cmp.Or(p.sum.TraceID, unavailable),
		},
		Refs: p.refs, Metrics: p.metrics(), DecisionInputs: p.inputs(),
		Trajectory: packTrajectory{Schema: atif.Version, Ref: p.refs.TrajectoryRef, ExportStatus: p.status(), RequiredFieldStatus: p.doc.fields},
		Reward:     rewardPart(t.Reward),
	}
}

func benchmarkPart(b *event.Benchmark) packBenchmark {
	or := func(s string) string { return cmp.Or(s, unavailable) }
	return packBenchmark{
		DatasetID: b.DatasetID, DatasetVersion: b.DatasetVersion, DatasetRef: or(b.DatasetRef), TaskID: b.TaskID, TrialID: b.TrialID,
		ConfigurationID: b.ConfigurationID, Role: b.Role, HarborJobRef: or(b.HarborJobRef), HarborTrialRef: or(b.HarborTrialRef),
		TaskTomlRef: or(b.TaskTomlRef), SingleChangedVariable: or(b.SingleChangedVariable),
	}
}

func rewardPart(r *state.Reward) packReward {
	if r == nil {
		return packReward{Ref: unavailable, DetailsRef: unavailable, Criteria: []string{}, FailureCategory: unavailable}
	}
	return packReward{
		Value: &r.Value, Ref: cmp.Or(r.Ref, unavailable), DetailsRef: cmp.Or(r.DetailsRef, unavailable), Criteria: append([]string{}, r.Criteria...),
		FailureCategory: cmp.Or(r.FailureCategory, "none"), Verifier: r.Verifier,
	}
}

func (p *packing) status() string {
	if p.t.EndedAt.IsZero() {
		return "partial"
	}
	return "exported"
}

func (p *packing) metrics() packMetrics {
	t := &p.t.Trial
	m := packMetrics{
		Timeout: t.TimedOut, DeniedSideEffectCount: p.sum.DeniedEffects, EvidenceComplete: p.complete(),
		Tokens: p.sum.Usage.InputTokens + p.sum.Usage.OutputTokens, CachedTokens: p.sum.Usage.CachedInputTokens, ArtifactCount: len(p.manifest),
	}
	if t.Reward != nil {
		m.Reward = &t.Reward.Value
	}
	if !t.EndedAt.IsZero() {
		m.DurationMs = &t.DurationMs
	}
	m.CostUSD = p.sum.Cost()
	return m
}

func (p *packing) complete() bool { return p.t.EvidenceComplete() && p.doc.valid }

func (p *packing) inputs() packInputs {
	t := &p.t.Trial
	category := t.FailureCategory
	if t.Reward != nil {
		category = cmp.Or(category, t.Reward.FailureCategory)
	}
	if t.EndedAt.IsZero() {
		category = cmp.Or(category, "unknown")
	}
	return packInputs{
		P0QcGateRegressionCount: p.regressions, FailureCategory: cmp.Or(category, "none"),
		PromotionEligible:       t.Status == "completed" && p.complete() && t.Reward != nil && p.regressions != nil && *p.regressions == 0,
		ArtifactManifestPresent: true, TrajectoryAtifCompatible: p.doc.valid,
	}
}
