package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentd/cmd/agentd/internal/trialrun"
	"agentd/evidence/atif"
	"agentd/evidence/harbor"
)

// steps adds a task of two steps, plan and build: head stands before the steps in
// task.toml, plan and build in their tables.
func (d *dataset) steps(name, head, plan, build string) {
	d.Helper()
	at := "tasks/" + name + "/"
	d.write(at+"task.toml", fmt.Sprintf("schema_version = \"1.4\"\n%s\n[task]\nname = \"demo/%s\"\n[agent]\ntimeout_sec = 600\n[verifier]\ntimeout_sec = 600\nenv = {WHOSE = \"task\"}\n[[steps]]\nname = \"plan\"\n%s\n[[steps]]\nname = \"build\"\n%s\n", head, name, plan, build))
	d.write(at+"environment/given.txt", "given")
	d.write(at+"tests/lib.sh", "score() { echo \"$1\" > /logs/verifier/reward.txt; }\n")
	d.write(at+"tests/test.sh", ". /tests/lib.sh\ntest \"$WHOSE\" = task || exit 1\ngrep -q one plan.txt && score 1 || score 0\n")
	d.write(at+"steps/plan/instruction.md", "Make the plan.")
	d.write(at+"steps/build/instruction.md", "Build by it.")
	d.write(at+"steps/build/tests/test.sh", ". /tests/lib.sh\ntest \"$WHOSE\" = step || exit 1\ntest -f seed.txt || exit 1\ncp /logs/agent/trajectory.json /logs/artifacts/seen.json\ngrep -q two plan.txt && score 0.5 || score 0\n")
	d.write(at+"steps/build/workdir/seed.txt", "seed")
}

// stepEnv is what the script of the second step asks for.
const stepEnv = "[steps.verifier]\nenv = {WHOSE = \"step\"}\n"

// twoSteps makes a plan, and builds by changing it: without the plan it can't.
const twoSteps = "answers:\n" +
	"  - {when: {contains: Make the plan}, tools: [{name: write_file, arguments: {path: plan.txt, content: one}}], usage: {inputTokens: 1000, outputTokens: 10}}\n" +
	"  - {when: {contains: Make the plan}, text: Planned.}\n" +
	"  - {when: {contains: Build by it}, tools: [{name: edit_file, arguments: {path: plan.txt, old: one, new: one two}}], usage: {inputTokens: 2000, outputTokens: 10}}\n" +
	"  - {when: {contains: Build by it}, text: Built.}\n"

// stepNames are the names of a trial's steps, with their statuses.
func stepNames(x *trialrun.TrialResult) string {
	var out []string
	for _, s := range x.Steps {
		out = append(out, s.Step+" "+s.Status)
	}
	return strings.Join(out, ", ")
}

func TestBenchRunsStepsOneAfterTheOther(t *testing.T) {
	needsConfinement(t)
	d := newDataset(t)
	d.steps("two", "", "", stepEnv)
	code, res, said := d.bench("run", filepath.Join(d.dir, "tasks"), "--config", d.config("base", lazy), "--config", d.config("new", twoSteps), "-n", "2", "--changed", "diligence")
	if code != 0 || len(res.Trials) != 4 || len(res.Comparisons) != 1 {
		t.Fatalf("exit %d: %+v\n%s", code, res, said)
	}
	if c := res.Comparisons[0]; c.Baseline.MeanReward != 0 || c.Candidate.MeanReward != 0.75 || c.MeanRewardDelta != 0.75 || c.Candidate.EvidenceCompletenessRate != 1 {
		t.Errorf("%+v", c)
	}
	for _, x := range res.Trials {
		want := map[string]float64{"base": 0, "new": 0.75}[x.ConfigurationID]
		if x.Status != "completed" || stepNames(x) != "plan completed, build completed" || *x.Reward != want {
			t.Fatalf("%+v %s", x, stepNames(x))
		}
		d.checkSteps(x)
	}
	var lock harbor.Lock
	d.read(filepath.Join(res.Dir, "lock.json"), &lock)
	if raw, err := json.Marshal(lock.Trials[0].Timeouts); err != nil || !strings.Contains(string(raw), `"build":{"agent_sec":600,"verifier_sec":600}`) {
		t.Errorf("%s %v", raw, err)
	}
}

// checkSteps holds the folder of a trial of two steps against what Harbor has there.
func (d *dataset) checkSteps(x *trialrun.TrialResult) {
	d.Helper()
	r, err := harbor.ReadResult(filepath.Join(x.Dir, "result.json"))
	if err != nil || len(r.StepResults) != 2 || r.AgentResult != nil || r.VerifierResult.Rewards["reward"] != *x.Reward || r.ExceptionInfo != nil {
		d.Fatalf("%v %+v", err, r)
	}
	whole := d.trajectory(filepath.Join(x.Dir, "agent", "trajectory.json"))
	var said []string
	steps, cost := 0, 0.0
	for i, s := range r.StepResults {
		if s.StepName != x.Steps[i].Step || s.AgentResult == nil || s.AgentResult.CostUSD == nil || s.AgentExecution == nil || s.Verifier == nil || s.VerifierResult.Rewards["reward"] != x.Steps[i].Rewards["reward"] {
			d.Errorf("%+v", s)
		}
		cost += *s.AgentResult.CostUSD
		part := d.trajectory(filepath.Join(x.Dir, "steps", s.StepName, "agent", "trajectory.json"))
		steps += len(part.Steps)
		if part.Extra["turn_id"] != x.Steps[i].TurnID || part.TrajectoryID == whole.TrajectoryID {
			d.Errorf("the trajectory of %s is that of %v", s.StepName, part.Extra)
		}
		for _, name := range []string{"verifier/reward.txt", "verifier/test-stdout.txt"} {
			if _, err := os.Stat(filepath.Join(x.Dir, "steps", s.StepName, name)); err != nil {
				d.Error(err)
			}
		}
	}
	for _, s := range whole.Steps {
		if s.Source == atif.SourceUser {
			said = append(said, s.Message.Text)
		}
	}
	if !slices.Equal(said, []string{"Make the plan.", "Build by it."}) || len(whole.Steps) != steps || *whole.FinalMetrics.CostUSD < cost*0.999 || *whole.FinalMetrics.CostUSD > cost*1.001 {
		d.Errorf("the whole has %d steps and %q, its parts %d; cost %v and %v", len(whole.Steps), said, steps, *whole.FinalMetrics.CostUSD, cost)
	}
	if turns, ok := whole.Extra["turns"].([]any); !ok || len(turns) != 2 {
		d.Errorf("the turns of the trajectory: %v", whole.Extra["turns"])
	}
	seen, err := os.ReadFile(filepath.Join(x.Dir, "steps", "build", "artifacts", "seen.json"))
	if err != nil || !strings.Contains(string(seen), "Build by it.") || strings.Contains(string(seen), "Make the plan.") {
		d.Errorf("the script of the second step saw %v %s", err, seen)
	}
	d.checkStepPack(x)
}

// checkStepPack: the pack is about all steps.
func (d *dataset) checkStepPack(x *trialrun.TrialResult) {
	d.Helper()
	var pack struct {
		Metrics struct {
			Reward           float64
			CostUsd          float64
			EvidenceComplete bool
		}
		DecisionInputs struct{ TrajectoryAtifCompatible bool }
		Reward         struct{ Criteria []string }
	}
	d.read(filepath.Join(x.Dir, "artifacts", "trial-pack.json"), &pack)
	if pack.Metrics.Reward != *x.Reward || pack.Metrics.CostUsd != *x.CostUSD || !pack.Metrics.EvidenceComplete || !pack.DecisionInputs.TrajectoryAtifCompatible || !slices.Equal(pack.Reward.Criteria, []string{"build", "plan"}) {
		d.Errorf("%+v", pack)
	}
	transcript, err := os.ReadFile(filepath.Join(x.Dir, "artifacts", "runtime-transcript.json"))
	if err != nil || !strings.Contains(string(transcript), x.Steps[0].TurnID) || !strings.Contains(string(transcript), x.Steps[1].TurnID) {
		d.Errorf("the transcript lacks a turn: %v", err)
	}
}

func (d *dataset) trajectory(path string) *atif.Trajectory {
	d.Helper()
	raw, err := os.ReadFile(path)
	if err == nil {
		err = atif.Validate(raw)
	}
	t := &atif.Trajectory{}
	if err == nil {
		err = json.Unmarshal(raw, t)
	}
	if err != nil {
		d.Fatalf("%s: %v", path, err)
	}
	return t
}

// TestBenchStopsAtAStep: a step that is not good enough, or can't be scored, is the
// last.
func TestBenchStopsAtAStep(t *testing.T) {
	needsConfinement(t)
	d := newDataset(t)
	d.steps("gate", "", "min_reward = 1.0", stepEnv)
	d.steps("named", "", "min_reward = {reward = 0.0, style = 0.5}", stepEnv)
	d.steps("passes", "", "min_reward = 0", stepEnv)
	d.steps("mute", "", "", stepEnv)
	d.write("tasks/mute/tests/test.sh", "exit 3\n")
	d.steps("half", "", "", "")
	d.steps("final", "multi_step_reward_strategy = \"final\"", "", stepEnv)
	d.write("tasks/final/steps/plan/tests/test.sh", "echo 1 > /logs/verifier/reward.txt\n")
	d.steps("finalless", "multi_step_reward_strategy = \"final\"", "", "")
	code, res, said := d.bench("run", filepath.Join(d.dir, "tasks"), "--config", d.config("base", lazy), "--concurrency", "4")
	if code != 1 || !strings.Contains(said, "not every trial has a score") {
		t.Fatalf("exit %d: %s", code, said)
	}
	for _, x := range res.Trials {
		want := map[string]struct {
			steps, exception, status, category string
			reward                             *float64
		}{
			"gate":      {"plan completed", "", "completed", "", new(float64)},
			"named":     {"plan completed", "", "completed", "", new(float64)},
			"passes":    {"plan completed, build completed", "", "completed", "", new(float64)},
			"mute":      {"plan completed", "RewardFileNotFoundError", "failed", "verifier_error", nil},
			"half":      {"plan completed, build completed", "", "completed", "", new(float64)},
			"final":     {"plan completed, build completed", "", "completed", "", new(float64)},
			"finalless": {"plan completed, build completed", "RewardFileNotFoundError", "failed", "verifier_error", nil},
		}[x.Task]
		if stepNames(x) != want.steps || x.Exception != want.exception || x.Status != want.status || x.FailureCategory != want.category || (x.Reward == nil) != (want.reward == nil) {
			t.Errorf("%s: %s: %+v", x.Task, stepNames(x), x)
			continue
		}
		if x.Reward != nil && *x.Reward != *want.reward {
			t.Errorf("%s has the reward %v", x.Task, *x.Reward)
		}
		r, err := harbor.ReadResult(filepath.Join(x.Dir, "result.json"))
		if err != nil || len(r.StepResults) != len(x.Steps) {
			t.Errorf("%s: %v %+v", x.Task, err, r)
			continue
		}
		if x.Task == "half" && (x.Steps[1].Exception != "RewardFileNotFoundError" || r.StepResults[1].ExceptionInfo == nil || r.StepResults[1].VerifierResult != nil) {
			t.Errorf("the second step of half: %+v %+v", x.Steps[1], r.StepResults[1])
		}
		d.trajectory(filepath.Join(x.Dir, "agent", "trajectory.json"))
	}
	if len(res.Trials) != 7 {
		t.Errorf("%d trials", len(res.Trials))
	}
}

// TestBenchStepsPrepareTheirWorkspace: setup scripts and health checks run before
// the agent, and if they fail nothing of the step does.
func TestBenchStepsPrepareTheirWorkspace(t *testing.T) {
	needsConfinement(t)
	d := newDataset(t)
	workdir := "[environment]\nworkdir = \"/app\"\n"
	d.steps("ready", "", workdir, "[steps.healthcheck]\ncommand = \"test -f /app/ready.txt\"\ninterval_sec = 0\n"+stepEnv)
	d.write("tasks/ready/steps/build/workdir/setup.sh", "set -e\ntest -f plan.txt\necho ready > /app/ready.txt\nrm -- \"$0\"\n")
	d.steps("broken", "", "", stepEnv)
	d.write("tasks/broken/steps/build/workdir/setup.sh", "echo no way; exit 9\n")
	d.steps("sick", "", "", "[steps.healthcheck]\ncommand = \"exit 1\"\ninterval_sec = 0\nretries = 2\n"+stepEnv)
	d.steps("never", "", "", stepEnv)
	d.write("tasks/never/steps/plan/workdir/setup.sh", "exit 1\n")
	code, res, said := d.bench("run", filepath.Join(d.dir, "tasks"), "--config", d.config("base", twoSteps), "--concurrency", "4", "--keep-workspaces")
	if code != 1 || len(res.Trials) != 4 {
		t.Fatalf("exit %d: %s %+v", code, said, res)
	}
	for _, x := range res.Trials {
		want := map[string]struct{ steps, exception, says string }{
			"ready": {"plan completed, build completed", "", ""}, "broken": {"plan completed, build not_run", "EnvironmentError", "exited with 9: no way"},
			"sick": {"plan completed, build not_run", "HealthcheckError", "failed 2 times"}, "never": {"plan not_run", "EnvironmentError", "exited with 1"},
		}[x.Task]
		last := x.Steps[len(x.Steps)-1]
		if stepNames(x) != want.steps || last.Exception != want.exception || !strings.Contains(last.Error, want.says) {
			t.Errorf("%s: %s %+v", x.Task, stepNames(x), last)
		}
		// The steps that were scored count.
		if rewards := map[string]float64{"ready": 0.75, "broken": 1, "sick": 1}; (x.Reward == nil) != (x.Task == "never") || x.Reward != nil && *x.Reward != rewards[x.Task] {
			t.Errorf("%s: %+v", x.Task, x)
		}
		if _, err := os.Stat(filepath.Join(x.Dir, "workspace", "setup.sh")); (err == nil) != (x.Task == "broken" || x.Task == "never") {
			t.Errorf("%s: setup.sh: %v", x.Task, err)
		}
	}
}

// TestBenchStepThatTimesOut: the time of one step ends that step alone; the script
// still scores what it left, and the next step begins.
func TestBenchStepThatTimesOut(t *testing.T) {
	needsConfinement(t)
	d := newDataset(t)
	d.steps("slow", "", "[steps.agent]\ntimeout_sec = 0.05", stepEnv)
	answers := "answers:\n  - {when: {contains: Make the plan}, stall: 10m, text: Late.}\n" +
		"  - {when: {contains: Build by it}, tools: [{name: write_file, arguments: {path: plan.txt, content: two}}]}\n  - {when: {contains: Build by it}, text: Built.}\n"
	code, res, said := d.bench("run", filepath.Join(d.dir, "tasks"), "--config", d.config("base", answers))
	if code != 0 || len(res.Trials) != 1 {
		t.Fatalf("exit %d: %s", code, said)
	}
	x := res.Trials[0]
	if stepNames(x) != "plan failed, build completed" || x.Steps[0].FailureCategory != "timed_out" || x.Status != "failed" || x.FailureCategory != "timed_out" || *x.Reward != 0.25 {
		t.Errorf("%s: %+v", stepNames(x), x)
	}
	var pack struct{ Metrics struct{ Timeout bool } }
	d.read(filepath.Join(x.Dir, "artifacts", "trial-pack.json"), &pack)
	if !pack.Metrics.Timeout {
		t.Error("the pack doesn't say that a step timed out")
	}
	d.trajectory(filepath.Join(x.Dir, "agent", "trajectory.json"))
}

// TestBenchRefusesMalformedSteps names the file, the line and the field.
func TestBenchRefusesMalformedSteps(t *testing.T) {
	d := newDataset(t)
	config := d.config("base", lazy)
	d.steps("bad", "", "", "min_reward = \"high\"")
	code, _, said := d.bench("run", filepath.Join(d.dir, "tasks"), "--config", config)
	if code != exitUsage || !strings.Contains(said, "task.toml, line 13: steps[1].min_reward: ") {
		t.Errorf("exit %d: %s", code, said)
	}
}
