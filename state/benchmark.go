package state

import (
	"maps"
	"slices"
	"time"

	"agentd/event"
)

// Benchmark is what is known of the trials that the session is part of. The
// runtime doesn't score: rewards come from external graders.
type Benchmark struct {
	// Dataset and Configurations are the newest facts of their kind.
	Dataset        *TrialDataset        `json:"dataset,omitempty"`
	Configurations []TrialConfiguration `json:"configurations,omitempty"`
	// Open holds the trials that have not ended, Recent the last ended ones.
	Open   []*Trial `json:"open,omitempty"`
	Recent []*Trial `json:"recent,omitempty"`
	// Comparisons holds the last ones, oldest first.
	Comparisons []Comparison `json:"comparisons,omitempty"`
	// Started, Completed, Failed and Rewards count over all time.
	Started   int64 `json:"started,omitempty"`
	Completed int64 `json:"completed,omitempty"`
	Failed    int64 `json:"failed,omitempty"`
	Rewards   int64 `json:"rewards,omitempty"`
}

// TrialDataset is the frozen data set of a trial.
type TrialDataset struct {
	event.Benchmark
	// SelectionPolicy says which tasks were taken.
	SelectionPolicy string `json:"selectionPolicy,omitempty"`
	// FrozenAt is when the data set was frozen.
	FrozenAt time.Time `json:"frozenAt,omitzero"`
	// Path of the data set.
	Path string `json:"path,omitempty"`
	// RegistryRef is where the data set is registered.
	RegistryRef string `json:"registryRef,omitempty"`
	// TaskCount counts the tasks.
	TaskCount int64 `json:"taskCount,omitempty"`
	// At is when it was recorded.
	At time.Time `json:"at"`
}

// TrialConfiguration is what a trial runs; the whole is in the fact at Sequence.
type TrialConfiguration struct {
	// ConfigurationID is the configuration's id.
	ConfigurationID string `json:"configurationId"`
	// Role of the configuration in a comparison.
	Role string `json:"role,omitempty"`
	// Runtime that is tried.
	Runtime string `json:"runtime,omitempty"`
	// Agent that is tried.
	Agent string `json:"agent,omitempty"`
	// Model that is tried.
	Model string `json:"model,omitempty"`
	// PromptRef is where the prompt is.
	PromptRef string `json:"promptRef,omitempty"`
	// At is when it was recorded.
	At time.Time `json:"at"`
	// Sequence of the fact that says so.
	Sequence uint64 `json:"sequence"`
}

// Trial is one run of a benchmark's task.
type Trial struct {
	// TrialID is the trial's id.
	TrialID string `json:"trialId"`
	// Benchmark says what is tried.
	Benchmark event.Benchmark `json:"benchmark"`
	// Status of the trial.
	Status string `json:"status"`
	// ThreadID is the thread that it belongs to.
	ThreadID string `json:"threadId,omitempty"`
	// TurnID is the turn that it belongs to.
	TurnID string `json:"turnId,omitempty"`
	// TaskID is the task that it belongs to.
	TaskID string `json:"taskId,omitempty"`
	// RunID is the task's run that it belongs to.
	RunID string `json:"runId,omitempty"`
	// TimeoutMs is how long it may take.
	TimeoutMs int64 `json:"timeoutMs,omitempty"`
	// BudgetUSD bounds what the trial may cost.
	BudgetUSD *float64 `json:"budgetUSD,omitempty"`
	// Sandbox is the mode of its boundary.
	Sandbox string `json:"sandbox,omitempty"`
	// Attempt counts the attempts, from 1.
	Attempt int64 `json:"attempt,omitempty"`
	// MultiTurn says that the trial is all turns of its thread, until it is ended;
	// TurnID is then the first.
	MultiTurn bool `json:"multiTurn,omitempty"`

	// DurationMs is how long it took, in milliseconds.
	DurationMs int64 `json:"durationMs,omitempty"`
	// FailureCategory classifies the failure.
	FailureCategory string `json:"failureCategory,omitempty"`
	// Error is why the trial failed.
	Error *event.Failure `json:"error,omitempty"`
	// TimedOut says that its time was up.
	TimedOut bool `json:"timedOut,omitempty"`
	// Cleanup says what became of its place.
	Cleanup string `json:"cleanup,omitempty"`
	// TrajectoryRef is where the trajectory is.
	TrajectoryRef string `json:"trajectoryRef,omitempty"`
	// ArtifactRefs are what the trial made.
	ArtifactRefs []string `json:"artifactRefs,omitempty"`
	// Reward that was recorded.
	Reward *Reward `json:"reward,omitempty"`
	// Refs point to more, by name.
	Refs map[string]string `json:"refs,omitempty"`

	// Usage of the trial.
	Usage event.Usage `json:"usage,omitzero"`
	// CostUSD of the trial; absent where it isn't known.
	CostUSD *float64 `json:"costUSD,omitempty"`
	// ModelCalls counts the requests to models.
	ModelCalls int64 `json:"modelCalls,omitempty"`
	// ToolCalls counts the calls of tools.
	ToolCalls int64 `json:"toolCalls,omitempty"`
	// DeniedSideEffects counts the calls that were denied.
	DeniedSideEffects int64 `json:"deniedSideEffectCount,omitempty"`
	// EvidenceGaps say what could not be proved.
	EvidenceGaps []string `json:"evidenceGaps,omitempty"`

	// StartedAt is when it began; absent until then.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// EndedAt is when it ended; absent until then.
	EndedAt time.Time `json:"endedAt,omitzero"`
}

// EvidenceComplete reports whether everything is there that a decision about the
// trial needs: it ended, its trajectory is kept and has no gaps, and it has a
// reward.
func (t *Trial) EvidenceComplete() bool {
	return !t.EndedAt.IsZero() && t.TrajectoryRef != "" && len(t.EvidenceGaps) == 0 && t.Reward != nil
}

// Find returns a trial that is open or among the recent ones, or nil.
func (b *Benchmark) Find(trialID string) *Trial {
	for _, list := range [...][]*Trial{b.Open, b.Recent} {
		if i := indexWhere(list, func(x *Trial) bool { return x.TrialID == trialID }); i >= 0 {
			return list[i]
		}
	}
	return nil
}

func (b *Benchmark) open() bool { return len(b.Open) > 0 }

// Reward is a score that an external grader gave.
type Reward struct {
	// Value is the score.
	Value float64 `json:"value"`
	// Ref is where the grader wrote it.
	Ref string `json:"ref,omitempty"`
	// DetailsRef is where the details are.
	DetailsRef string `json:"detailsRef,omitempty"`
	// Criteria that the grader looked at.
	Criteria []string `json:"criteria,omitempty"`
	// FailureCategory classifies the failure.
	FailureCategory string `json:"failureCategory,omitempty"`
	// Verifier is the grader.
	Verifier *event.BenchmarkVerifier `json:"verifier,omitempty"`
	// Drift is what the grader says of changes around the task.
	Drift string `json:"drift,omitempty"`
	// OracleSanity is what the grader says of the known solution.
	OracleSanity string `json:"oracleSanity,omitempty"`
	// At is when it was recorded.
	At time.Time `json:"at"`
	// Sequence of the fact that says so.
	Sequence uint64 `json:"sequence"`
}

// Same reports whether a score is the one that is kept. A long list of criteria is
// cut where it is kept.
func (r *Reward) Same(p *event.BenchmarkRewardRecorded) bool {
	verifier := func(v *event.BenchmarkVerifier) event.BenchmarkVerifier {
		if v == nil {
			return event.BenchmarkVerifier{}
		}
		return *v
	}
	return r.Value == p.Value && r.Ref == p.Ref && r.DetailsRef == p.DetailsRef && r.FailureCategory == p.FailureCategory &&
		r.Drift == p.Drift && r.OracleSanity == p.OracleSanity && verifier(r.Verifier) == verifier(p.Verifier) &&
		slices.Equal(r.Criteria, firstN(p.Criteria, keepItems))
}

// Comparison checks two configurations against each other.
type Comparison struct {
	// Baseline is what was compared with.
	Baseline ComparedRun `json:"baseline"`
	// Candidate is what was compared.
	Candidate ComparedRun `json:"candidate"`
	// Delta has the differences.
	Delta event.Comparison `json:"delta"`
	// Interval is that of the difference of the mean rewards.
	Interval *event.BenchmarkInterval `json:"interval,omitempty"`
	// CostDeltaUSD is the candidate's cost less the baseline's.
	CostDeltaUSD *float64 `json:"costDeltaUSD,omitempty"`
	// ComparisonRef is where the comparison is whole.
	ComparisonRef string `json:"comparisonRef,omitempty"`
	// RemainingRisk says what the comparison leaves open.
	RemainingRisk string `json:"remainingRisk,omitempty"`
	// Decision that follows.
	Decision string `json:"decision"`
	// At is when it happened.
	At time.Time `json:"at"`
	// Sequence of the fact that says so.
	Sequence uint64 `json:"sequence"`
}

// ComparedRun is one side of a comparison; a figure that isn't known is absent.
type ComparedRun struct {
	// ConfigurationID is the configuration that was tried.
	ConfigurationID string `json:"configurationId"`
	// TrialIDs are its trials.
	TrialIDs []string `json:"trialIds,omitempty"`
	// TrialCount counts its trials.
	TrialCount int64 `json:"trialCount"`
	// MeanReward of its trials.
	MeanReward *float64 `json:"meanReward,omitempty"`
	// TimeoutRate is the share of its trials that timed out.
	TimeoutRate *float64 `json:"timeoutRate,omitempty"`
	// CostUSD is what its trials cost.
	CostUSD *float64 `json:"costUSD,omitempty"`
	// EvidenceCompletenessRate is the share of its trials with complete evidence.
	EvidenceCompletenessRate *float64 `json:"evidenceCompletenessRate,omitempty"`
}

// benchmark folds the facts of trials. The catalogue has every one of them carry
// the envelope's benchmark.
func (f *fold) benchmark() {
	if f.e.Benchmark == nil {
		return
	}
	b := &f.s.Benchmark
	switch p := f.e.Payload.(type) {
	case *event.BenchmarkDataset:
		b.Dataset = &TrialDataset{
			Benchmark: *f.e.Benchmark, SelectionPolicy: p.SelectionPolicy, FrozenAt: journalTime(p.FrozenAt),
			Path: p.Path, RegistryRef: p.RegistryRef, TaskCount: p.TaskCount, At: f.e.Time,
		}
	case *event.BenchmarkConfiguration:
		f.trialConfiguration(p)
	case *event.BenchmarkTrialStarted:
		f.trialStarted(p)
	case *event.BenchmarkTrialEnded:
		f.trialEnded(p)
	case *event.BenchmarkRewardRecorded:
		f.rewardRecorded(p)
	case *event.BenchmarkComparisonCompleted:
		f.comparisonCompleted(p)
	}
}

func (f *fold) trialConfiguration(p *event.BenchmarkConfiguration) {
	b := &f.s.Benchmark
	c := TrialConfiguration{
		ConfigurationID: f.e.Benchmark.ConfigurationID, Role: f.e.Benchmark.Role,
		Runtime: p.Runtime, Agent: p.Agent, Model: p.Model, PromptRef: p.Prompt, At: f.e.Time, Sequence: f.e.Sequence,
	}
	for i, x := range b.Configurations {
		if x.ConfigurationID == c.ConfigurationID {
			b.Configurations[i] = c
			return
		}
	}
	b.Configurations = recent(b.Configurations, c, keepRecent)
}

// takeTrial takes the fact's trial out of the list that holds it, or makes it
// known, and notes the ids that the fact carries.
func (f *fold) takeTrial() *Trial {
	b := &f.s.Benchmark
	id := f.e.Benchmark.TrialID
	t := &Trial{TrialID: id, Status: Unknown}
	for _, list := range [...]*[]*Trial{&b.Open, &b.Recent} {
		if i := indexWhere(*list, func(x *Trial) bool { return x.TrialID == id }); i >= 0 {
			t = (*list)[i]
			*list = removed(*list, i)
			break
		}
	}
	t.Benchmark = *f.e.Benchmark
	if isKnown(f.e.ThreadID) {
		t.ThreadID = f.e.ThreadID
	}
	if isKnown(f.e.TurnID) {
		t.TurnID = f.e.TurnID
	}
	setIf(&t.TaskID, f.e.TaskID)
	setIf(&t.RunID, f.e.RunID)
	if len(f.e.Refs) > 0 {
		t.Refs = maps.Clone(f.e.Refs)
		delete(t.Refs, event.PayloadRef) // it isn't the trial's
	}
	return t
}

func (f *fold) trialStarted(p *event.BenchmarkTrialStarted) {
	t := f.takeTrial()
	t.Status, t.TimeoutMs, t.BudgetUSD, t.Sandbox, t.Attempt = p.Status, p.TimeoutMs, p.BudgetUSD, p.Sandbox, p.Attempt
	t.MultiTurn, t.StartedAt, t.EndedAt = p.MultiTurn, f.e.Time, time.Time{}
	f.s.Benchmark.Started++
	f.s.Benchmark.Open = append(f.s.Benchmark.Open, t)
}

func (f *fold) trialEnded(p *event.BenchmarkTrialEnded) {
	t := f.takeTrial()
	if !t.EndedAt.IsZero() { // the result of its verification comes afterwards
		if t.Status == "completed" {
			f.s.Benchmark.Completed--
		} else {
			f.s.Benchmark.Failed--
		}
	}
	t.Status, t.DurationMs, t.FailureCategory, t.Error = p.Status, p.DurationMs, p.FailureCategory, p.Error
	t.TimedOut, t.Cleanup, t.TrajectoryRef = p.TimedOut, p.Cleanup, p.TrajectoryRef
	t.ArtifactRefs, t.EndedAt = firstN(p.ArtifactRefs, keepRefs), f.e.Time
	t.CostUSD, t.ModelCalls, t.ToolCalls, t.DeniedSideEffects = p.CostUSD, p.ModelCalls, p.ToolCalls, p.DeniedSideEffects
	t.EvidenceGaps = firstN(p.EvidenceGaps, keepItems)
	if p.Usage != nil {
		t.Usage = *p.Usage
	}
	if f.e.Type == event.TypeBenchmarkTrialCompleted {
		f.s.Benchmark.Completed++
	} else {
		f.s.Benchmark.Failed++
	}
	f.keepTrial(t)
}

// keepTrial puts a trial among the recent ones; the oldest leaves.
func (f *fold) keepTrial(t *Trial) {
	b := &f.s.Benchmark
	if len(b.Recent) == keepRecent {
		f.evict("trial/"+b.Recent[0].TrialID, b.Recent[0])
	}
	b.Recent = recent(b.Recent, t, keepRecent)
}

// rewardRecorded attaches a score. It doesn't end a trial that still runs. That of
// a trial which left the working set is kept beside the trial's record.
func (f *fold) rewardRecorded(p *event.BenchmarkRewardRecorded) {
	f.s.Benchmark.Rewards++
	reward := &Reward{
		Value: p.Value, Ref: p.Ref, DetailsRef: p.DetailsRef, Criteria: firstN(p.Criteria, keepItems), FailureCategory: p.FailureCategory,
		Verifier: p.Verifier, Drift: p.Drift, OracleSanity: p.OracleSanity, At: f.e.Time, Sequence: f.e.Sequence,
	}
	known := f.s.Benchmark.Find(f.e.Benchmark.TrialID)
	if known == nil {
		f.evict("trial_reward/"+f.e.Benchmark.TrialID, reward)
		return
	}
	open := known.EndedAt.IsZero()
	t := f.takeTrial()
	t.Reward = reward
	if open {
		f.s.Benchmark.Open = append(f.s.Benchmark.Open, t)
		return
	}
	f.keepTrial(t)
}

func (f *fold) comparisonCompleted(p *event.BenchmarkComparisonCompleted) {
	c := Comparison{
		Baseline: comparedRun(&p.Baseline), Candidate: comparedRun(&p.Candidate),
		Interval: p.Interval, CostDeltaUSD: p.CostDeltaUSD,
		ComparisonRef: p.ComparisonRef, RemainingRisk: p.RemainingRisk, Decision: p.Decision, At: f.e.Time, Sequence: f.e.Sequence,
	}
	if f.e.Comparison != nil {
		c.Delta = *f.e.Comparison
	}
	f.s.Benchmark.Comparisons = recent(f.s.Benchmark.Comparisons, c, keepRecent)
}

func comparedRun(r *event.BenchmarkRun) ComparedRun {
	return ComparedRun{
		ConfigurationID: r.ConfigurationID, TrialIDs: firstN(r.TrialIDs, keepItems), TrialCount: int64(len(r.TrialIDs)),
		MeanReward: r.MeanReward, TimeoutRate: r.TimeoutRate, CostUSD: r.CostUSD, EvidenceCompletenessRate: r.EvidenceCompletenessRate,
	}
}
