package trial_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
)

// scored runs trials of a configuration, one for each task and score.
func scored(k *runtimetest.Kit, configuration string, change func(*command.TrialBenchmark, *command.RecordBenchmarkReward), tasks []string, scores ...float64) *command.ComparedRun {
	k.Helper()
	run := &command.ComparedRun{ConfigurationID: configuration}
	for i, score := range scores {
		b := runtimetest.TrialOf(fmt.Sprintf("%s-%s-%d", configuration, tasks[i%len(tasks)], i), tasks[i%len(tasks)], configuration)
		p := runtimetest.ScoreOf(b.TrialID, score)
		if change != nil {
			change(b, p)
		}
		k.RunTrial(&command.StartBenchmarkTrial{Benchmark: b, Input: runtimetest.Quoted("Fix it.")})
		runtimetest.Do[command.TrialResult](k, p)
		run.TrialIDs = append(run.TrialIDs, b.TrialID)
	}
	return run
}

func endless(k *runtimetest.Kit) *runtimetest.Kit {
	k.Script.Answers, k.Script.Repeat = []script.Answer{{Text: "Fixed.", Usage: &script.Usage{InputTokens: 100, OutputTokens: 10}}}, true
	return k
}

func TestComparisonOfTwoConfigurations(t *testing.T) {
	k := endless(runtimetest.New(t))
	tasks := []string{"a", "b", "c", "d"}
	p := &command.CompareBenchmarkRuns{
		Baseline: scored(k, "base", nil, tasks, 0, 0.5, 1, 0), Candidate: scored(k, "cand", nil, tasks, 1, 0.5, 1, 0.5), P0QcGateRegressionCount: new(int64(2)), Decision: "revert",
	}
	c := runtimetest.Do[command.CompareBenchmarkRunsResult](k, p).Comparison
	if far(c.MeanRewardDelta, 0.375) || c.Decision != "revert" || c.P0QcGateRegressionCount == nil || *c.P0QcGateRegressionCount != 2 || c.EvidenceCompletenessRate != 1 || c.TimeoutRateDelta != 0 {
		t.Errorf("%+v", c)
	}
	// The differences are 1, 0, 0 and 0.5: t(0.975, 3) = 3.182446, s = 0.478714.
	if i := c.Interval; i.Method != "paired" || i.Samples != 4 || far(*i.Low, 0.375-0.761741) || far(*i.High, 0.375+0.761741) {
		t.Errorf("interval %+v %v %v", i, *i.Low, *i.High)
	}
	if c.CostDeltaUSD != nil || c.Baseline.CostUSD != nil {
		t.Errorf("no price is known, but the cost is %v", c.Baseline.CostUSD)
	}
	facts := k.Facts(c.SessionID)
	last := facts[len(facts)-1]
	if last.Type != event.TypeBenchmarkComparisonCompleted || last.Comparison.Decision != "revert" || last.Refs["comparisonRef"] != c.ComparisonRef || last.Benchmark.ConfigurationID != "cand" {
		t.Errorf("the last fact of the candidate's session: %+v", last)
	}
	var stored struct {
		Trials []struct {
			TrialID string
			Reward  float64
		}
	}
	if err := json.Unmarshal([]byte(k.ReadOutput(c.ComparisonRef)), &stored); err != nil || len(stored.Trials) != 8 {
		t.Errorf("the stored comparison has %d trials: %v", len(stored.Trials), err)
	}
	x := runtimetest.Do[command.ExportBenchmarkTrialResult](k, &command.ExportBenchmarkTrial{TrialID: p.Candidate.TrialIDs[0]})
	if !strings.Contains(string(x.Pack), `"p0QcGateRegressionCount": 2`) || !strings.Contains(string(x.Pack), `"promotionEligible": false`) {
		t.Errorf("the pack of a compared trial: %s", x.Pack)
	}
}

func far(a, b float64) bool { return math.Abs(a-b) > 1e-5 }

func TestComparisonOfDifferentTasksIsUnpaired(t *testing.T) {
	k := endless(runtimetest.New(t))
	c := runtimetest.Do[command.CompareBenchmarkRunsResult](k, &command.CompareBenchmarkRuns{
		Baseline: scored(k, "base", nil, []string{"a", "b"}, 0.1, 0.3), Candidate: scored(k, "cand", nil, []string{"c", "d", "e"}, 0.5, 0.7, 0.9),
	}).Comparison
	if c.Interval.Method != "welch" || far(c.MeanRewardDelta, 0.5) || c.Decision != "undecided" || !strings.Contains(c.RemainingRisk, "quality gate") {
		t.Errorf("%+v %+v", c, c.Interval)
	}
	// Welch: se² = 0.02/2 + 0.04/3, degrees 2.8824, t(0.975) = 3.259.
	if half := (*c.Interval.High - *c.Interval.Low) / 2; math.Abs(half-0.4977) > 0.002 {
		t.Errorf("half of the interval is %v", half)
	}
	one := runtimetest.Do[command.CompareBenchmarkRunsResult](k, &command.CompareBenchmarkRuns{
		Baseline: scored(k, "one", nil, []string{"a"}, 0), Candidate: scored(k, "two", nil, []string{"a"}, 1),
	}).Comparison
	if one.Interval.Low != nil || one.Interval.Note == "" || !strings.Contains(one.RemainingRisk, "don't tell the two apart") {
		t.Errorf("one trial each: %+v", one.Interval)
	}
}

func TestComparisonsThatMeanNothingAreRefused(t *testing.T) {
	k := endless(runtimetest.New(t))
	tasks := []string{"a", "b"}
	base := scored(k, "base", nil, tasks, 0, 1)
	change := func(to func(*command.TrialBenchmark, *command.RecordBenchmarkReward)) func(string) *command.ComparedRun {
		return func(id string) *command.ComparedRun { return scored(k, id, to, tasks, 1, 1) }
	}
	cases := []struct {
		name string
		side *command.ComparedRun
		says string
	}{
		{"data set", change(func(b *command.TrialBenchmark, _ *command.RecordBenchmarkReward) { b.DatasetID = "other" })("c1"), "data set"},
		{"version", change(func(b *command.TrialBenchmark, _ *command.RecordBenchmarkReward) { b.DatasetVersion = "2.0" })("c2"), "version of the data set"},
		{"verifier", change(func(_ *command.TrialBenchmark, p *command.RecordBenchmarkReward) { p.Verifier.Name = "judge" })("c3"), "verifier"},
		{"verifier's version", change(func(_ *command.TrialBenchmark, p *command.RecordBenchmarkReward) { p.Verifier.Version = "2" })("c4"), "version of the verifier"},
		{"no verifier", change(func(_ *command.TrialBenchmark, p *command.RecordBenchmarkReward) { p.Verifier = nil })("c5"), "verifier"},
		{"configuration", &command.ComparedRun{ConfigurationID: "c6", TrialIDs: base.TrialIDs}, "configuration"},
	}
	k.RunTrial(&command.StartBenchmarkTrial{Benchmark: runtimetest.TrialOf("bare", "a", "c7"), Input: runtimetest.Quoted("Fix it.")})
	cases = append(cases, struct {
		name string
		side *command.ComparedRun
		says string
	}{"no reward", &command.ComparedRun{ConfigurationID: "c7", TrialIDs: []string{"bare"}}, "bare has no reward"})
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			k := &runtimetest.Kit{T: t, Runtime: k.Runtime}
			if said := runtimetest.Refused(k, &command.CompareBenchmarkRuns{Baseline: base, Candidate: c.side}, fault.Conflict); !strings.Contains(said, c.says) {
				t.Errorf("said %s", said)
			}
		})
	}
	runtimetest.Refused(k, &command.CompareBenchmarkRuns{Baseline: base, Candidate: &command.ComparedRun{ConfigurationID: "x", TrialIDs: []string{"none"}}}, fault.NotFound)
	runtimetest.Refused(k, &command.CompareBenchmarkRuns{Baseline: base, Candidate: base}, fault.InvalidParams)
	twice := &command.ComparedRun{ConfigurationID: "x", TrialIDs: []string{"bare", "bare"}}
	runtimetest.Refused(k, &command.CompareBenchmarkRuns{Baseline: base, Candidate: twice}, fault.InvalidParams)
}
