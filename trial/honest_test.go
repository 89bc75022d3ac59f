package trial_test

import (
	"encoding/json"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/internal/runtimetest"
)

// decisionInputs of a trial's pack.
func decisionInputs(k *runtimetest.Kit, trialID string) map[string]any {
	k.Helper()
	x := runtimetest.Do[command.ExportBenchmarkTrialResult](k, &command.ExportBenchmarkTrial{TrialID: trialID})
	var pack struct{ DecisionInputs map[string]any }
	if err := json.Unmarshal(x.Pack, &pack); err != nil {
		k.Fatal(err)
	}
	return pack.DecisionInputs
}

// Durable snapshots: unknown is better than inferred success. A count that nobody made
// is left out, and no trial is eligible for promotion on it.
func TestWhatNobodyCountedIsLeftOut(t *testing.T) {
	k := endless(runtimetest.New(t))
	tasks := []string{"a", "b"}
	p := &command.CompareBenchmarkRuns{Baseline: scored(k, "base", nil, tasks, 0, 1), Candidate: scored(k, "cand", nil, tasks, 1, 1)}
	trialID := p.Candidate.TrialIDs[0]
	compare := func(count *int64) map[string]any {
		p.P0QcGateRegressionCount = count
		c := runtimetest.Do[command.CompareBenchmarkRunsResult](k, p).Comparison
		facts := k.Facts(c.SessionID)
		return envelopeMember(t, facts[len(facts)-1], "comparison")
	}
	eligible := func(want bool, wantCount any) {
		t.Helper()
		in := decisionInputs(k, trialID)
		if in["promotionEligible"] != want || in["p0QcGateRegressionCount"] != wantCount {
			t.Errorf("decision inputs %v, want eligible %v and count %v", in, want, wantCount)
		}
	}
	eligible(false, nil)
	if c := compare(nil); c["p0QcGateRegressionCount"] != nil || c["baselineEvidenceCompletenessRate"] != 1.0 || c["evidenceCompletenessRate"] != 1.0 {
		t.Errorf("a comparison without a count: %v", c)
	}
	eligible(false, nil)
	if c := compare(new(int64(0))); c["p0QcGateRegressionCount"] != 0.0 {
		t.Errorf("a comparison with a count of 0: %v", c)
	}
	eligible(true, 0.0)
	compare(new(int64(1)))
	eligible(false, 1.0)
	compare(nil) // what was counted before isn't known of this comparison
	eligible(false, nil)
	k.Close()
	k.Open()
	eligible(false, nil)
}

// envelopeMember is a member of a fact's envelope as readers get it.
func envelopeMember(t *testing.T, e *event.Event, name string) map[string]any {
	t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal(event.AppendJSON(nil, e), &all); err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(all[name], &out); err != nil {
		t.Fatalf("%s has no member %s: %v", e.Type, name, err)
	}
	return out
}

// The event schema: a recorded reward is the envelope's member reward.
func TestRewardStandsInTheEnvelope(t *testing.T) {
	k := endless(runtimetest.New(t))
	res, _ := k.RunTrial(&command.StartBenchmarkTrial{Benchmark: runtimetest.TrialOf("t1", "a", "base"), Input: runtimetest.Quoted("Fix it.")})
	p := runtimetest.ScoreOf("t1", 0.25)
	p.Reward.Ref, p.Reward.DetailsRef, p.Reward.FailureCategory = "verifier/reward.json", "verifier/details.json", "tests"
	runtimetest.Do[command.TrialResult](k, p)
	for _, e := range k.Facts(res.SessionID) {
		if e.Type != event.TypeBenchmarkRewardRecorded {
			continue
		}
		r := envelopeMember(t, e, "reward")
		if r["value"] != 0.25 || r["ref"] != "verifier/reward.json" || r["detailsRef"] != "verifier/details.json" || r["failureCategory"] != "tests" || len(r["criteria"].([]any)) != 1 {
			t.Errorf("reward %v", r)
		}
		return
	}
	t.Error("no reward was recorded")
}

// Correlation: the runtime marks a gap and invents no reference. Harbor's files are
// named by whoever started the trial, or not at all.
func TestHarborReferencesAreNotInvented(t *testing.T) {
	k := endless(runtimetest.New(t))
	for _, c := range []struct{ id, given, want string }{{"without", "", "unavailable"}, {"with", "jobs/j/with/outcome.json", "jobs/j/with/outcome.json"}} {
		b := runtimetest.TrialOf(c.id, "a", "base")
		b.HarborTrialRef, b.HarborTrialResultRef = "jobs/j/"+c.id, c.given
		k.RunTrial(&command.StartBenchmarkTrial{Benchmark: b, Input: runtimetest.Quoted("Fix it.")})
		x := runtimetest.Do[command.ExportBenchmarkTrialResult](k, &command.ExportBenchmarkTrial{TrialID: c.id})
		var pack struct{ Refs map[string]string }
		if err := json.Unmarshal(x.Pack, &pack); err != nil || pack.Refs["harborTrialResultRef"] != c.want || pack.Refs["harborVerifierStdoutRef"] != "unavailable" {
			t.Errorf("%s: %v %v", c.id, pack.Refs, err)
		}
	}
}

// A trial without any parameter is a mistake of the caller, not of the runtime; also
// with a key, which is looked up by what was asked for.
func TestTrialsWithoutParametersAreRefused(t *testing.T) {
	k := runtimetest.New(t)
	for _, body := range []string{`{}`, `{"idempotencyKey":"k"}`, `{"benchmark":{}}`, `{"benchmark":null}`} {
		if _, refusal := runtimetest.CallByName(k, "start_benchmark_trial", body); !strings.Contains(refusal, "benchmark") && !strings.Contains(refusal, "datasetId") {
			t.Errorf("%s: %q", body, refusal)
		}
	}
}
