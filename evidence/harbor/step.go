package harbor

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// Names in the folder of a step.
const (
	StepsDir    = "steps"
	WorkdirDir  = "workdir"
	SetupScript = "setup.sh"
)

// How the scores of steps become that of a trial.
const (
	// RewardMean is, for each name of a score, the mean over the steps that have
	// scores; one that lacks the name counts 0. It is the default.
	RewardMean = "mean"
	// RewardFinal takes the scores of the last step that ran.
	RewardFinal = "final"
)

// maxSteps bounds the steps of a task.
const maxSteps = 10_000

// Step is one of several that a task has: each has an instruction and a script that
// scores it, in the same environment.
type Step struct {
	Name  string `toml:"name"`
	Agent struct {
		TimeoutSec float64 `toml:"timeout_sec"`
	} `toml:"agent"`
	Verifier Verifier `toml:"verifier"`
	// GivenMinReward is min_reward as the file has it: a number, or a table of them.
	GivenMinReward any          `toml:"min_reward"`
	Healthcheck    *Healthcheck `toml:"healthcheck"`

	// Instruction is the agent's input in this step.
	Instruction string `toml:"-"`
	// MinReward are scores, by name, that the step must reach for the next to run.
	MinReward map[string]float64 `toml:"-"`
	// dir is the step's folder, tests those with its scripts: later ones win.
	dir   string
	tests []string
}

// Healthcheck is a command that must succeed before the agent begins with a step.
type Healthcheck struct {
	Command          string   `toml:"command"`
	IntervalSec      *float64 `toml:"interval_sec"`
	TimeoutSec       *float64 `toml:"timeout_sec"`
	StartPeriodSec   float64  `toml:"start_period_sec"`
	StartIntervalSec *float64 `toml:"start_interval_sec"`
	Retries          *int     `toml:"retries"`
}

// AgentTimeout is how long the agent may work on the step.
func (s *Step) AgentTimeout() time.Duration { return seconds(s.Agent.TimeoutSec) }

// VerifierTimeout is how long scoring the step may take.
func (s *Step) VerifierTimeout() time.Duration { return seconds(s.Verifier.TimeoutSec) }

// Workdir is the folder whose files are put into the workspace before the step; it
// need not exist.
func (s *Step) Workdir() string { return filepath.Join(s.dir, WorkdirDir) }

// Tests are the folders with what scores the step, in the order in which they are
// laid over each other; they need not exist.
func (s *Step) Tests() []string { return slices.Clone(s.tests) }

// Misses names the first score that is below what the step must reach; a score that
// isn't there is. It is empty if the next step may run.
func (s *Step) Misses(rewards map[string]float64) string {
	names := make([]string, 0, len(s.MinReward))
	for name := range s.MinReward {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		v, ok := rewards[name]
		if !ok {
			return fmt.Sprintf("there is no score %q, and %v is needed", name, s.MinReward[name])
		}
		if v < s.MinReward[name] {
			return fmt.Sprintf("the score %q is %v, and %v is needed", name, v, s.MinReward[name])
		}
	}
	return ""
}

// TrialRewards are the scores of a trial, given those of the steps that ran; nil
// stands for a step that has none, and for a trial that has none.
func (c *Config) TrialRewards(steps []map[string]float64) map[string]float64 {
	if c.RewardStrategy == RewardFinal {
		if len(steps) == 0 {
			return nil
		}
		return steps[len(steps)-1]
	}
	var sums map[string]float64
	n := 0.0
	for _, rewards := range steps {
		if rewards == nil {
			continue
		}
		n++
		for name, v := range rewards {
			if sums == nil {
				sums = map[string]float64{}
			}
			sums[name] += v
		}
	}
	for name := range sums {
		sums[name] /= n
	}
	return sums
}

// stepName is what the folder of a step may be called.
var stepName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)

// loadSteps checks the steps of a task and reads their instructions.
func (t *Task) loadSteps(path string) error {
	c := &t.Config
	if len(c.Steps) > maxSteps {
		return fmt.Errorf("%s: steps: there are more than %d", path, maxSteps)
	}
	switch c.RewardStrategy {
	case "":
		c.RewardStrategy = RewardMean
	case RewardMean, RewardFinal:
	default:
		return fmt.Errorf("%s: multi_step_reward_strategy is %s or %s, not %q", path, RewardMean, RewardFinal, c.RewardStrategy)
	}
	lines := stepLines(path)
	seen := map[string]bool{}
	for i := range c.Steps {
		s := &c.Steps[i]
		field, err := s.load(t, seen)
		if err != nil {
			return fmt.Errorf("%s%s: steps[%d].%s: %w", path, lines(i), i, field, err)
		}
		seen[s.Name] = true
	}
	return nil
}

// load checks a step, takes over what it leaves to the task, and reads its
// instruction. It names the field that is wrong.
func (s *Step) load(t *Task, seen map[string]bool) (field string, err error) {
	switch {
	case s.Name == "":
		return "name", errors.New("it has none")
	case !stepName.MatchString(s.Name):
		return "name", fmt.Errorf("%.140q is not a valid folder name: use letters, digits, and after the first character also . _ and -", s.Name)
	case seen[s.Name]:
		return "name", fmt.Errorf("%q is the name of an earlier step", s.Name)
	case !waitable(s.Agent.TimeoutSec):
		return "agent.timeout_sec", errTimeout
	case !waitable(s.Verifier.TimeoutSec):
		return "verifier.timeout_sec", errTimeout
	}
	if s.MinReward, err = thresholds(s.GivenMinReward); err != nil {
		return "min_reward", err
	}
	if field, err := s.Healthcheck.check(); err != nil {
		return "healthcheck." + field, err
	}
	s.inherit(t)
	if s.Instruction, err = readInstruction(filepath.Join(s.dir, InstructionFile)); err != nil {
		return "name", fmt.Errorf("%s/%s: %w", StepsDir, s.Name, err)
	}
	return "", nil
}

func (s *Step) inherit(t *Task) {
	if s.Agent.TimeoutSec == 0 {
		s.Agent.TimeoutSec = t.Config.Agent.TimeoutSec
	}
	if s.Verifier.TimeoutSec == 0 {
		s.Verifier.TimeoutSec = t.Config.Verifier.TimeoutSec
	}
	if len(s.Verifier.Env) == 0 {
		s.Verifier.Env = t.Config.Verifier.Env
	}
	s.dir = filepath.Join(t.Dir, StepsDir, s.Name)
	s.tests = []string{filepath.Join(t.Dir, TestsDir), filepath.Join(s.dir, TestsDir)}
}

// thresholds reads min_reward.
func thresholds(given any) (map[string]float64, error) {
	switch v := given.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		out := map[string]float64{}
		for name, x := range v {
			f, err := parseNumber(x)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", name, err)
			}
			out[name] = f
		}
		if len(out) == 0 {
			return nil, errors.New("the table is empty")
		}
		return out, nil
	}
	f, err := parseNumber(given)
	if err != nil {
		return nil, fmt.Errorf("%w, nor a table of them", err)
	}
	return map[string]float64{RewardKey: f}, nil
}

func parseNumber(v any) (float64, error) {
	f, ok := v.(float64)
	if n, whole := v.(int64); whole {
		f, ok = float64(n), true
	}
	if !ok || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, fmt.Errorf("%.40v is not a number", v)
	}
	return f, nil
}

// Defaults and bounds of health checks.
const (
	healthInterval = 5.0
	healthTimeout  = 30.0
	healthRetries  = 3
	maxRetries     = 10_000
)

func (h *Healthcheck) check() (field string, err error) {
	if h == nil {
		return "", nil
	}
	if strings.TrimSpace(h.Command) == "" {
		return "command", errors.New("it is empty")
	}
	for _, f := range []struct {
		name  string
		value **float64
		def   float64
	}{{"interval_sec", &h.IntervalSec, healthInterval}, {"timeout_sec", &h.TimeoutSec, healthTimeout}, {"start_interval_sec", &h.StartIntervalSec, healthInterval}} {
		if *f.value == nil {
			def := f.def
			*f.value = &def
		}
		if v := **f.value; !waitable(v) || (v == 0 && f.name == "timeout_sec") {
			return f.name, errTimeout
		}
	}
	if !waitable(h.StartPeriodSec) {
		return "start_period_sec", errTimeout
	}
	if h.Retries == nil {
		n := healthRetries
		h.Retries = &n
	}
	if *h.Retries < 1 || *h.Retries > maxRetries {
		return "retries", fmt.Errorf("it is not 1 to %d", maxRetries)
	}
	return "", nil
}

// Timeout is how long one try may take.
func (h *Healthcheck) Timeout() time.Duration { return seconds(*h.TimeoutSec) }

// Interval is how long to wait after a try that failed, since the checks began.
func (h *Healthcheck) Interval(since time.Duration) time.Duration {
	if h.Starting(since) {
		return seconds(*h.StartIntervalSec)
	}
	return seconds(*h.IntervalSec)
}

// Starting reports whether a failure doesn't count yet.
func (h *Healthcheck) Starting(since time.Duration) bool { return since < seconds(h.StartPeriodSec) }

// placed gives an error of the TOML reader its place: what it says alone may have
// none.
func placed(err error) error {
	if p, ok := errors.AsType[toml.ParseError](err); ok && p.Position.Line > 0 && !strings.Contains(err.Error(), "line ") {
		return fmt.Errorf("line %d: %w", p.Position.Line, err)
	}
	return err
}

// stepHeader begins a step in task.toml.
var stepHeader = regexp.MustCompile(`^\s*\[\[\s*["']?steps["']?\s*\]\]`)

// stepLines says on which line a step begins, for people; it says nothing where the
// steps are written in another way.
func stepLines(path string) func(i int) string {
	var at []int
	raw, err := os.ReadFile(path)
	if err == nil {
		for n, line := range bytes.Split(raw, []byte("\n")) {
			if stepHeader.Match(line) {
				at = append(at, n+1)
			}
		}
	}
	return func(i int) string {
		if i >= len(at) {
			return ""
		}
		return fmt.Sprintf(", line %d", at[i])
	}
}

// VerifierDigest is a fingerprint of everything that scores the task.
func (t *Task) VerifierDigest() (string, error) {
	whole, err := t.Digest(TestsDir)
	if err != nil || len(t.Config.Steps) == 0 {
		return whole, err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s %s\n", whole, t.Config.RewardStrategy)
	for i := range t.Config.Steps {
		s := &t.Config.Steps[i]
		sum, err := t.Digest(filepath.Join(StepsDir, s.Name, TestsDir))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%q %s %v\n", s.Name, sum, s.MinReward)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}
