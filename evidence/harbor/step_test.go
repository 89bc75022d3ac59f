package harbor_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/evidence/harbor"
)

const stepsToml = `schema_version = "1.4"
[agent]
timeout_sec = 30
[verifier]
timeout_sec = 40
env = {A = "task"}
[[steps]]
name = "first"
min_reward = 1
[[steps]]
name = "second.2"
min_reward = {speed = 0.5, style = 1}
[steps.agent]
timeout_sec = 5
[steps.verifier]
timeout_sec = 6.5
env = {A = "step"}
[steps.healthcheck]
command = "true"
start_period_sec = 60
interval_sec = 0
`

// stepTask writes a task folder whose steps have instructions.
func stepTask(t *testing.T, toml string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "task")
	write(t, dir, "task.toml", toml)
	for _, name := range []string{"first", "second.2"} {
		write(t, dir, "steps/"+name+"/instruction.md", "Do "+name+".")
	}
	return dir
}

func TestStepsAreRead(t *testing.T) {
	dir := stepTask(t, stepsToml)
	task, err := harbor.LoadTask(dir)
	if err != nil || len(task.Config.Steps) != 2 || task.Instruction != "" || task.Config.RewardStrategy != harbor.RewardMean {
		t.Fatalf("%v %+v", err, task)
	}
	a, b := &task.Config.Steps[0], &task.Config.Steps[1]
	if a.Instruction != "Do first." || a.AgentTimeout() != 30*time.Second || a.VerifierTimeout() != 40*time.Second || a.Verifier.Env["A"] != "task" || a.Healthcheck != nil {
		t.Errorf("%+v", a)
	}
	if b.AgentTimeout() != 5*time.Second || b.VerifierTimeout() != 6500*time.Millisecond || b.Verifier.Env["A"] != "step" || b.Workdir() != filepath.Join(dir, "steps", "second.2", "workdir") ||
		!slices.Equal(b.Tests(), []string{filepath.Join(dir, "tests"), filepath.Join(dir, "steps", "second.2", "tests")}) {
		t.Errorf("%+v", b)
	}
	h := b.Healthcheck
	if !h.Starting(0) || h.Starting(time.Hour) || h.Interval(0) != 5*time.Second || h.Interval(time.Hour) != 0 || h.Timeout() != 30*time.Second || *h.Retries != 3 {
		t.Errorf("%+v", h)
	}
	for rewards, want := range map[*map[string]float64]string{
		{"speed": 0.5, "style": 1}: "", {"speed": 0.4, "style": 1}: `"speed" is 0.4, and 0.5`, {"speed": 1}: `no score "style"`, nil: "no score",
	} {
		given := map[string]float64(nil)
		if rewards != nil {
			given = *rewards
		}
		if got := b.Misses(given); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%v: %q", given, got)
		}
	}
	if a.Misses(map[string]float64{"reward": 1}) != "" || a.Misses(map[string]float64{"reward": 0.999}) == "" {
		t.Error("a number is about the score called reward")
	}
}

func TestScoresOfStepsBecomeOne(t *testing.T) {
	type scores = map[string]float64
	for name, c := range map[string]struct {
		strategy string
		steps    []map[string]float64
		want     map[string]float64
	}{
		"the mean":                      {"mean", []map[string]float64{{"reward": 1}, {"reward": 0.5}}, scores{"reward": 0.75}},
		"a name that a step lacks is 0": {"mean", []map[string]float64{{"reward": 1, "style": 1}, {"reward": 1}}, scores{"reward": 1, "style": 0.5}},
		"a step without is left out":    {"mean", []map[string]float64{{"reward": 1}, nil}, scores{"reward": 1}},
		"nobody has one":                {"mean", []map[string]float64{nil, nil}, nil},
		"the last":                      {"final", []map[string]float64{{"reward": 1}, {"style": 0.5}}, scores{"style": 0.5}},
		"the last has none":             {"final", []map[string]float64{{"reward": 1}, nil}, nil},
		"nothing ran":                   {"final", nil, nil},
	} {
		got := (&harbor.Config{RewardStrategy: c.strategy}).TrialRewards(c.steps)
		if !maps.Equal(got, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestMalformedStepsAreRefused(t *testing.T) {
	const first = "[[steps]]\nname = \"first\"\n"
	for says, toml := range map[string]string{
		"line 3: steps[1].name: it has none":                           first + "[[steps]]\nmin_reward = 1\n",
		"line 2: steps[0].name: \"a/b\" is not":                        "\n[[steps]]\nname = \"a/b\"\n",
		"line 1: steps[0].name: \"..\" is not":                         "[[steps]]\nname = \"..\"\n",
		"line 3: steps[1].name: \"first\" is the name of an earlier":   first + first,
		"line 1: steps[0].name: steps/nobody: there is no instruction": "[[steps]]\nname = \"nobody\"\n",
		"line 1: steps[0].agent.timeout_sec: it is negative":           first + "[steps.agent]\ntimeout_sec = -1\n",
		"steps[0].verifier.timeout_sec: ":                              first + "[steps.verifier]\ntimeout_sec = inf\n",
		"steps[0].min_reward: yes is not a number":                     first + "min_reward = \"yes\"\n",
		"steps[0].min_reward: NaN is not a number":                     first + "min_reward = nan\n",
		"steps[0].min_reward: \"a\": ":                                 first + "min_reward = {a = []}\n",
		"steps[0].min_reward: the table is empty":                      first + "min_reward = {}\n",
		"steps[0].healthcheck.command: it is empty":                    first + "[steps.healthcheck]\nretries = 2\n",
		"steps[0].healthcheck.retries: ":                               first + "[steps.healthcheck]\ncommand = \"x\"\nretries = 0\n",
		"steps[0].healthcheck.timeout_sec: ":                           first + "[steps.healthcheck]\ncommand = \"x\"\ntimeout_sec = 0\n",
		"multi_step_reward_strategy is mean or final, not \"best\"":    "multi_step_reward_strategy = \"best\"\n" + first,
		"line 2":                         "[[steps]]\nname = 7\n",
		"line 1":                         "steps = \"first\"\n",
		"steps[0].name: \"x\\n\" is not": "steps = [{name = \"x\\n\"}]\n",
	} {
		_, err := harbor.LoadTask(stepTask(t, toml))
		if err == nil || !strings.Contains(err.Error(), "task.toml") || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", toml, err, says)
		}
	}
}

func TestTheVerifierOfStepsHasAFingerprint(t *testing.T) {
	dir := stepTask(t, stepsToml)
	sum := func() string {
		task, err := harbor.LoadTask(dir)
		if err != nil {
			t.Fatal(err)
		}
		s, err := task.VerifierDigest()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	seen := map[string]bool{sum(): true}
	for name, change := range map[string]func(){
		"a step's test":   func() { write(t, dir, "steps/first/tests/test.sh", "exit 0") },
		"the task's test": func() { write(t, dir, "tests/test.sh", "exit 0") },
		"the roll-up":     func() { write(t, dir, "task.toml", "multi_step_reward_strategy = \"final\"\n"+stepsToml) },
		"a threshold":     func() { write(t, dir, "task.toml", strings.Replace(stepsToml, "min_reward = 1", "min_reward = 2", 1)) },
	} {
		change()
		if s := sum(); seen[s] {
			t.Errorf("the sum doesn't see %s", name)
		} else {
			seen[s] = true
		}
	}
	if s := sum(); !seen[s] {
		t.Error("the sum is another one the second time")
	}
}

func TestStepsHaveFoldersOfTheirOwn(t *testing.T) {
	l, err := harbor.NewLayout(t.TempDir(), "task", "abcdefg")
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Step("first")
	if err != nil || s.Verifier() != filepath.Join(l.Dir, "steps", "first", "verifier") {
		t.Errorf("%v %+v", err, s)
	}
	for _, name := range []string{"..", "", "a/b", ".hidden"} {
		if _, err := l.Step(name); err == nil {
			t.Errorf("%q was made", name)
		}
	}
}
