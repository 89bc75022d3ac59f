package main

import (
	"bytes"
	"context"
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
	"agentd/sandbox"
)

// dataset is a folder with tasks and configurations for tests.
type dataset struct {
	*testing.T
	dir string
}

func newDataset(t *testing.T) *dataset {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &dataset{t, dir}
}

func (d *dataset) write(name, content string) {
	d.Helper()
	path := filepath.Join(d.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		d.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		d.Fatal(err)
	}
}

// task adds a task that is scored by a script.
func (d *dataset) task(name, instruction, script string) {
	d.Helper()
	d.write("tasks/"+name+"/task.toml", "schema_version = \"1.4\"\n[task]\nname = \"demo/"+name+"\"\n[agent]\ntimeout_sec = 600\n[verifier]\ntimeout_sec = 600\n")
	d.write("tasks/"+name+"/instruction.md", instruction)
	d.write("tasks/"+name+"/environment/given.txt", "given")
	d.write("tasks/"+name+"/environment/Dockerfile", "FROM scratch")
	if script != "" {
		d.write("tasks/"+name+"/tests/test.sh", script)
	}
}

// config adds a configuration whose model answers as a script says.
func (d *dataset) config(name, answers string) string {
	d.Helper()
	d.write(name+"-answers.yaml", answers)
	d.write(name+".yaml", fmt.Sprintf("providers:\n  - {id: demo, kind: script, script: %q, models: [{id: demo, capabilities: [tools, streaming], price: {inputPerMTok: 1, outputPerMTok: 2}}]}\n", filepath.Join(d.dir, name+"-answers.yaml")))
	return filepath.Join(d.dir, name+".yaml")
}

// bench runs "agentd bench" and returns its exit code and its answer.
func (d *dataset) bench(args ...string) (int, trialrun.Result, string) {
	d.Helper()
	var out, errs bytes.Buffer
	args = append([]string{"bench"}, args...)
	if args[1] == "run" {
		args = append(args, "--jobs-dir", filepath.Join(d.dir, "jobs"), "--job", "job", "--json")
	}
	if !slices.Contains(args, "--data") { // the program would remove the sessions, which are to be run again
		args = append(args, "--data", filepath.Join(d.TempDir(), "data"))
	}
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + d.dir}
	if err := noteStart(recorded(d.T).dir, d.dir, args, env); err != nil {
		d.Fatal(err)
	}
	code := (&Main{}).Run(context.Background(), args, strings.NewReader(""), &out, &errs, env)
	var res trialrun.Result
	if out.Len() > 0 {
		if err := json.Unmarshal(out.Bytes(), &res); err != nil {
			d.Fatalf("%v: %s", err, out.String())
		}
	}
	return code, res, errs.String()
}

// needsConfinement skips a test where the kernel can't confine commands.
func needsConfinement(t *testing.T) {
	t.Helper()
	p, err := sandbox.Prepare(sandbox.Profile{Root: t.TempDir()}, sandbox.Probe())
	if err != nil || p.Enforcement.Filesystem == sandbox.None || p.Enforcement.Network == sandbox.None {
		t.Skipf("skipped: verifiers in the sandbox; the kernel doesn't confine commands here: %v", err)
	}
}

const lazy = "repeat: true\nanswers:\n  - {text: Not today., usage: {inputTokens: 1000, outputTokens: 10}}\n"

// writesHello writes the file that the task wants.
const writesHello = "answers:\n  - {when: {contains: hello}, tools: [{name: write_file, arguments: {path: hello.txt, content: hello}}]}\n  - {when: {contains: hello}, text: Done.}\n"

// wantsHello scores 1 for the file, else 0, as a script for Harbor would.
const wantsHello = "#!/bin/bash\nset -u\ntest -f given.txt -a ! -e Dockerfile || exit 7\nif grep -q hello hello.txt; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n" +
	"cp /logs/agent/trajectory.json /logs/artifacts/seen.json\necho '{\"content\":{\"criteria\":[{\"name\":\"hello\",\"value\":1}]}}' > \"$VERIFIER_DIR/reward-details.json\"\n"

func TestBenchComparesTwoConfigurations(t *testing.T) {
	needsConfinement(t)
	d := newDataset(t)
	d.task("hello", "Write hello.", wantsHello)
	d.task("more", "Write hello again.", wantsHello)
	code, res, said := d.bench("run", filepath.Join(d.dir, "tasks"), "--config", d.config("base", lazy), "--config", d.config("new", writesHello),
		"-n", "2", "--concurrency", "2", "--changed", "diligence", "--decision", "promote")
	if code != 0 || len(res.Trials) != 8 || len(res.Comparisons) != 1 {
		t.Fatalf("exit %d: %+v\n%s", code, res, said)
	}
	c := res.Comparisons[0]
	if c.Baseline.MeanReward != 0 || c.Candidate.MeanReward != 1 || c.MeanRewardDelta != 1 || c.Interval.Method != "paired" || c.Decision != "promote" {
		t.Errorf("%+v %+v", c, c.Interval)
	}
	if c.CostDeltaUSD == nil || *c.Baseline.CostUSD <= 0 {
		t.Errorf("the prices are known, the costs are %v and %v", c.Baseline.CostUSD, c.Candidate.CostUSD)
	}
	for _, x := range res.Trials {
		d.checkTrial(x)
	}
	var job harbor.JobResult
	d.read(filepath.Join(res.Dir, "result.json"), &job)
	if job.Stats.Trials != 8 || job.Stats.Errors != 0 || len(job.Stats.Evals) != 2 {
		t.Errorf("the job's result: %+v", job.Stats)
	}
}

// checkTrial holds the folder of a trial against what Harbor has there.
func (d *dataset) checkTrial(x *trialrun.TrialResult) {
	d.Helper()
	at := filepath.Join(d.dir, "jobs", "job", x.TrialID)
	r, err := harbor.ReadResult(filepath.Join(at, "result.json"))
	if err != nil || r.TrialName != x.TrialID || r.VerifierResult.Rewards["reward"] != *x.Reward || r.AgentResult.CostUSD == nil {
		d.Errorf("result of %s: %v %+v", x.TrialID, err, r)
	}
	doc, err := os.ReadFile(filepath.Join(at, "agent", "trajectory.json"))
	if err == nil {
		err = atif.Validate(doc)
	}
	if err != nil {
		d.Errorf("trajectory of %s: %v", x.TrialID, err)
	}
	seen, err := os.ReadFile(filepath.Join(at, "artifacts", "seen.json"))
	if err != nil || !bytes.Equal(seen, doc) {
		d.Errorf("the script of %s saw another trajectory: %v", x.TrialID, err)
	}
	list, err := harbor.ReadManifest(filepath.Join(at, "artifacts", "manifest.json"))
	if err == nil {
		err = harbor.Verify(filepath.Join(at, "artifacts"), list)
	}
	if err != nil || len(list) != 2 {
		d.Errorf("manifest of %s: %v", x.TrialID, err)
	}
	var pack struct {
		Benchmark struct{ SingleChangedVariable, TaskTomlRef string }
		Metrics   struct {
			Reward           float64
			EvidenceComplete bool
		}
		Reward struct{ Criteria []string }
	}
	d.read(filepath.Join(at, "artifacts", "trial-pack.json"), &pack)
	if pack.Metrics.Reward != *x.Reward || !pack.Metrics.EvidenceComplete || pack.Benchmark.SingleChangedVariable != "diligence" || !slices.Equal(pack.Reward.Criteria, []string{"content/hello"}) {
		d.Errorf("pack of %s: %+v", x.TrialID, pack)
	}
	for _, name := range []string{"config.json", "trial.log", "verifier/reward.txt", "verifier/test-stdout.txt", "artifacts/runtime-transcript.json"} {
		if _, err := os.Stat(filepath.Join(at, name)); err != nil {
			d.Errorf("%s: %v", x.TrialID, err)
		}
	}
}

func (d *dataset) read(path string, into any) {
	d.Helper()
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		d.Fatal(err)
	}
}

// TestBenchWithVerifiersThatFail: a script that gives no score leaves a trial
// without one, and the others their own.
func TestBenchWithVerifiersThatFail(t *testing.T) {
	needsConfinement(t)
	d := newDataset(t)
	d.task("hangs", "Write hello.", "sleep 1000 & sleep 1000\n")
	d.write("tasks/hangs/task.toml", "version = \"1.0\"\n[verifier]\ntimeout_sec = 0.3\n")
	d.task("nonsense", "Write hello.", "echo very good > /logs/verifier/reward.txt\n")
	d.task("nested", "Write hello.", `echo '{"reward": {"value": 1}}' > /logs/verifier/reward.json`)
	d.task("empty", "Write hello.", ": > /logs/verifier/reward.txt\n")
	d.task("nothing", "Write hello.", "exit 3\n")
	d.task("link", "Write hello.", "ln -s /etc/hostname /logs/verifier/reward.txt\n")
	d.task("several", "Write hello.", `echo '{"speed": 1, "style": 0}' > /logs/verifier/reward.json`)
	d.task("without", "Write hello.", "")
	d.task("works", "Write hello.", wantsHello)
	code, res, said := d.bench("run", filepath.Join(d.dir, "tasks"), "--config", d.config("base", writesHello), "--concurrency", "4")
	if code != 1 || !strings.Contains(said, "not every trial has a score") {
		t.Fatalf("exit %d: %s", code, said)
	}
	want := map[string]string{
		"hangs": "VerifierTimeoutError", "nonsense": "VerifierOutputParseError", "nested": "VerifierOutputParseError", "empty": "RewardFileEmptyError",
		"nothing": "RewardFileNotFoundError", "link": "VerifierOutputParseError", "several": "VerifierOutputParseError", "without": "VerifierError", "works": "",
	}
	for _, x := range res.Trials {
		status, category := "failed", "verifier_error"
		if x.Task == "works" {
			status, category = "completed", ""
		}
		if x.Exception != want[x.Task] || (x.Reward != nil) != (x.Task == "works") || x.Status != status || x.FailureCategory != category {
			t.Errorf("%s: %+v", x.Task, x)
		}
		r, err := harbor.ReadResult(filepath.Join(x.Dir, "result.json"))
		if x.Task != "works" && (err != nil || r.ExceptionInfo == nil || r.ExceptionInfo.Type != want[x.Task]) {
			t.Errorf("result of %s: %v %+v", x.Task, err, r)
		}
	}
	if len(res.Trials) != len(want) {
		t.Errorf("%d trials", len(res.Trials))
	}
}

// TestBenchHidesTheTestsFromTheAgent: an agent that could read the script could
// also read the solution.
func TestBenchHidesTheTestsFromTheAgent(t *testing.T) {
	needsConfinement(t)
	// Not in /tmp, which commands have one of their own of.
	dir, err := os.MkdirTemp("testdata", "bench-*") //nolint:usetesting // that is in /tmp
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if dir, err = filepath.Abs(dir); err != nil {
		t.Fatal(err)
	}
	d := &dataset{t, dir}
	d.task("hello", "Write hello.", "echo the-secret-of-the-test; echo 1 > /logs/verifier/reward.txt\n")
	script := filepath.Join(d.dir, "tasks", "hello", "tests", "test.sh")
	answers := fmt.Sprintf("answers:\n  - tools:\n      - {name: shell, arguments: {command: %q}}\n      - {name: read_file, arguments: {path: %q}}\n  - {text: Done.}\n", "cat '"+script+"'; cat given.txt", script)
	code, res, said := d.bench("run", filepath.Join(d.dir, "tasks", "hello"), "--config", d.config("base", answers))
	if code != 0 {
		t.Fatalf("exit %d: %s %+v", code, said, res)
	}
	doc, err := os.ReadFile(filepath.Join(res.Trials[0].Dir, "agent", "trajectory.json"))
	if err != nil || strings.Contains(string(doc), "the-secret-of-the-test") || !strings.Contains(string(doc), "given") {
		t.Errorf("%v: the agent saw %s", err, doc)
	}
}

func TestBenchRefusesWhatCannotBeRun(t *testing.T) {
	d := newDataset(t)
	d.task("hello", "Write hello.", wantsHello)
	config := d.config("base", lazy)
	tasks := filepath.Join(d.dir, "tasks")
	d.write("mute/task/task.toml", "version = \"1.0\"\n")
	d.write("later/task/task.toml", "schema_version = \"9.9\"\n")
	d.write("later/task/instruction.md", "x")
	d.write("broken/task/task.toml", "[agent\n")
	d.write("steps/task/task.toml", "[[steps]]\nname = \"one\"\n")
	d.write("bad.yaml", "nonsense: 1\n")
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no configuration":       {[]string{"run", tasks}, "--config"},
		"no data set":            {[]string{"run", filepath.Join(d.dir, "none"), "--config", config}, "none"},
		"no task":                {[]string{"run", d.dir, "--config", config}, "task.toml"},
		"no instruction":         {[]string{"run", filepath.Join(d.dir, "mute"), "--config", config}, "instruction.md"},
		"an unknown version":     {[]string{"run", filepath.Join(d.dir, "later"), "--config", config}, "9.9"},
		"a broken task.toml":     {[]string{"run", filepath.Join(d.dir, "broken"), "--config", config}, "task.toml"},
		"a step without files":   {[]string{"run", filepath.Join(d.dir, "steps"), "--config", config}, "line 1: steps[0].name: steps/one: there is no instruction.md"},
		"a broken configuration": {[]string{"run", tasks, "--config", filepath.Join(d.dir, "bad.yaml")}, "nonsense"},
		"no trials":              {[]string{"run", tasks, "--config", config, "-n", "0"}, "greater than zero"},
		"a version of ATIF":      {[]string{"export", "x", "--atif-version", "2"}, "not one of 1.8, 1.4"},
		"half a side":            {[]string{"compare", "--baseline", "base", "--candidate", "new=a"}, "CONFIG=ID"},
	} {
		t.Run(name, func(t *testing.T) {
			d := &dataset{t, d.dir}
			code, _, said := d.bench(c.args...)
			if code != exitUsage || !strings.Contains(said, c.says) {
				t.Errorf("exit %d: %s", code, said)
			}
			if err := os.RemoveAll(filepath.Join(d.dir, "jobs")); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestBenchCommandsOnKeptFacts runs into a directory that stays, and exports and
// compares from it.
func TestBenchCommandsOnKeptFacts(t *testing.T) {
	needsConfinement(t)
	d := newDataset(t)
	d.task("hello", "Write hello.", wantsHello)
	data := filepath.Join(d.dir, "data")
	code, res, said := d.bench("run", filepath.Join(d.dir, "tasks"), "--config", d.config("base", lazy), "--config", d.config("new", writesHello), "--data", data, "--keep-workspaces")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, said)
	}
	if got, err := os.ReadFile(filepath.Join(res.Trials[1].Dir, "workspace", "hello.txt")); err != nil || string(got) != "hello" {
		t.Errorf("the kept workspace: %q, %v", got, err)
	}
	run := func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := (&Main{}).Run(context.Background(), append(args, "--data", data), strings.NewReader(""), &out, &errs, []string{"HOME=" + d.dir}); code != 0 {
			t.Fatalf("%v: exit %d: %s", args, code, errs.String())
		}
		return out.String()
	}
	trial := res.Trials[1].TrialID
	if doc := run("bench", "export", trial, "--trajectory"); atif.Validate([]byte(doc)) != nil || !strings.Contains(doc, `"ATIF-v1.8"`) {
		t.Errorf("%s", doc)
	}
	if doc := run("bench", "export", trial, "--trajectory", "--atif-version", "1.4"); atif.Validate([]byte(doc)) != nil || !strings.Contains(doc, `"ATIF-v1.4"`) {
		t.Errorf("%s", doc)
	}
	if pack := run("bench", "export", trial); !strings.Contains(pack, `"trialId": "`+trial) {
		t.Errorf("%s", pack)
	}
	table := run("bench", "compare", "--baseline", "base="+res.Trials[0].TrialID, "--candidate", "new="+trial, "--decision", "promote")
	if !strings.Contains(table, "mean reward +1.000") || !strings.Contains(table, "decision promote") {
		t.Errorf("%s", table)
	}
}
