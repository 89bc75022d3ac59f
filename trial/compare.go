package trial

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
)

// undecided is the decision of a comparison that was left open.
const undecided = "undecided"

// compareTrials holds two configurations against each other. The fact goes to the
// session of the candidate's first trial: a caller who may see the candidate sees what
// became of it, which would not hold for the runtime's own session.
func (r *Runner) compareTrials(ctx context.Context, caller command.Caller, p *command.CompareBenchmarkRuns) (*command.CompareBenchmarkRunsResult, error) {
	baseline, err := r.side(ctx, caller, p.Baseline)
	if err != nil {
		return nil, err
	}
	candidate, err := r.side(ctx, caller, p.Candidate)
	if err != nil {
		return nil, err
	}
	if err := alike(slices.Concat(baseline, candidate)); err != nil {
		return nil, err
	}
	rec := compared(p, baseline, candidate)
	rec.SessionID = candidate[0].sessionID
	if rec.ComparisonRef, err = r.storeComparison(ctx, rec, baseline, candidate); err != nil {
		return nil, err
	}
	return session.Write(ctx, r.manager, caller, p, rec.SessionID, asBenchmark, func(tx *session.Tx) (*command.CompareBenchmarkRunsResult, error) {
		tx.Refer(rec.ComparisonRef, "application/json")
		tx.Emit(comparisonFact(rec, candidate[0]))
		return &command.CompareBenchmarkRunsResult{Comparison: *rec}, nil
	})
}

// comparisonFact is the comparison as a fact.
func comparisonFact(rec *command.ComparisonRecord, first *foundTrial) event.Event {
	about, delta := first.Benchmark, rec.Comparison
	about = event.Benchmark{
		DatasetID: about.DatasetID, DatasetVersion: about.DatasetVersion, DatasetRef: about.DatasetRef, ConfigurationID: about.ConfigurationID,
		Role: about.Role, HarborJobRef: about.HarborJobRef, SingleChangedVariable: about.SingleChangedVariable,
	}
	return event.Event{
		Type: event.TypeBenchmarkComparisonCompleted, Benchmark: &about, Comparison: &delta, Refs: map[string]string{"comparisonRef": rec.ComparisonRef},
		Payload: &event.BenchmarkComparisonCompleted{
			Baseline: factOfSide(&rec.Baseline), Candidate: factOfSide(&rec.Candidate), Interval: (*event.BenchmarkInterval)(&rec.Interval), CostDeltaUSD: rec.CostDeltaUSD, ComparisonRef: rec.ComparisonRef,
			RemainingRisk: rec.RemainingRisk, Decision: rec.Decision,
		},
	}
}

func factOfSide(s *command.ComparedSide) event.BenchmarkRun {
	return event.BenchmarkRun{
		ConfigurationID: s.ConfigurationID, TrialIDs: s.TrialIDs, MeanReward: &s.MeanReward, TimeoutRate: &s.TimeoutRate, CostUSD: s.CostUSD,
		EvidenceCompletenessRate: &s.EvidenceCompletenessRate,
	}
}

// side returns the trials of one side, which must all have ended, have a reward
// and be of that configuration.
func (r *Runner) side(ctx context.Context, caller command.Caller, p *command.ComparedRun) ([]*foundTrial, error) {
	var out []*foundTrial
	for _, id := range p.TrialIDs {
		t, err := r.trial(ctx, caller, id)
		switch {
		case err != nil:
			return nil, err
		case t.Benchmark.ConfigurationID != p.ConfigurationID:
			return nil, fault.New(fault.Conflict, "trial %s ran the configuration %s, not %s", id, t.Benchmark.ConfigurationID, p.ConfigurationID)
		case t.EndedAt.IsZero():
			return nil, fault.New(fault.Conflict, "trial %s has not ended", id)
		case t.Reward == nil:
			return nil, fault.New(fault.Conflict, "trial %s has no reward", id)
		}
		out = append(out, t)
	}
	return out, nil
}

// alike refuses trials of different data sets or verifiers, and says what
// differs.
func alike(all []*foundTrial) error {
	first := all[0]
	for _, t := range all[1:] {
		for _, x := range []struct{ what, a, b string }{
			{"data set", first.Benchmark.DatasetID, t.Benchmark.DatasetID},
			{"version of the data set", first.Benchmark.DatasetVersion, t.Benchmark.DatasetVersion},
			{"verifier", verifierOf(first).Name, verifierOf(t).Name},
			{"version of the verifier", verifierOf(first).Version, verifierOf(t).Version},
		} {
			if x.a != x.b {
				return fault.New(fault.Conflict, "the trials can't be compared: the %s of %s is %q, that of %s is %q", x.what, first.TrialID, x.a, t.TrialID, x.b)
			}
		}
	}
	return nil
}

func verifierOf(t *foundTrial) event.BenchmarkVerifier {
	if t.Reward == nil || t.Reward.Verifier == nil {
		return event.BenchmarkVerifier{}
	}
	return *t.Reward.Verifier
}

// compared computes what a comparison says, from the trials alone.
func compared(p *command.CompareBenchmarkRuns, baseline, candidate []*foundTrial) *command.ComparisonRecord {
	rec := &command.ComparisonRecord{Baseline: runOf(p.Baseline, baseline), Candidate: runOf(p.Candidate, candidate)}
	rec.MeanRewardDelta, rec.Interval = interval(samples(baseline), samples(candidate))
	rec.TimeoutRateDelta = rec.Candidate.TimeoutRate - rec.Baseline.TimeoutRate
	rec.EvidenceCompletenessRate, rec.BaselineEvidenceCompletenessRate = rec.Candidate.EvidenceCompletenessRate, &rec.Baseline.EvidenceCompletenessRate
	rec.Decision, rec.P0QcGateRegressionCount = cmp.Or(p.Decision, undecided), p.P0QcGateRegressionCount
	if rec.Baseline.CostUSD != nil && rec.Candidate.CostUSD != nil {
		d := *rec.Candidate.CostUSD/float64(len(candidate)) - *rec.Baseline.CostUSD/float64(len(baseline))
		rec.CostDeltaUSD = &d
	}
	rec.RemainingRisk = risks(p, rec, baseline[0])
	return rec
}

// risks says what the figures don't show.
func risks(p *command.CompareBenchmarkRuns, rec *command.ComparisonRecord, first *foundTrial) string {
	var out []string
	if p.RemainingRisk != "" {
		out = append(out, p.RemainingRisk)
	}
	if i := rec.Interval; i.Low == nil || (*i.Low <= 0 && *i.High >= 0) {
		out = append(out, "the trials don't tell the two apart: the interval holds zero, or there is none")
	}
	if rec.Candidate.EvidenceCompletenessRate < 1 || rec.Baseline.EvidenceCompletenessRate < 1 {
		out = append(out, "not every trial has complete evidence")
	}
	if verifierOf(first).Name == "" {
		out = append(out, "no verifier was named")
	}
	if n := rec.P0QcGateRegressionCount; n == nil {
		out = append(out, "it was not said whether the quality gate found regressions")
	} else if *n > 0 {
		out = append(out, fmt.Sprintf("the quality gate found %d regressions", *n))
	}
	return strings.Join(out, "; ")
}

func samples(list []*foundTrial) []sample {
	out := make([]sample, len(list))
	for i, t := range list {
		out[i] = sample{t.Benchmark.TaskID, t.Reward.Value}
	}
	return out
}

// runOf sums up one side. The cost is known if it is of every trial.
func runOf(p *command.ComparedRun, list []*foundTrial) command.ComparedSide {
	n := float64(len(list))
	var reward, timeouts, complete, cost float64
	priced := true
	for _, t := range list {
		reward += t.Reward.Value
		if t.TimedOut {
			timeouts++
		}
		if t.EvidenceComplete() {
			complete++
		}
		if t.CostUSD == nil {
			priced = false
		} else {
			cost += *t.CostUSD
		}
	}
	run := command.ComparedSide{ConfigurationID: p.ConfigurationID, TrialIDs: p.TrialIDs, MeanReward: reward / n, TimeoutRate: timeouts / n, EvidenceCompletenessRate: complete / n}
	if priced {
		run.CostUSD = &cost
	}
	return run
}

// storeComparison stores a comparison with the trials that it rests on.
func (r *Runner) storeComparison(ctx context.Context, rec *command.ComparisonRecord, baseline, candidate []*foundTrial) (string, error) {
	raw, err := json.MarshalIndent(qcBenchmark(rec, baseline, candidate), "", "  ")
	if err != nil {
		return "", fault.Wrap(fault.Internal, err, "the comparison could not be written down")
	}
	return r.manager.PutOutput(ctx, bytes.NewReader(raw))
}
