package harbor

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// Names in a task folder.
const (
	TaskFile        = "task.toml"
	InstructionFile = "instruction.md"
	EnvironmentDir  = "environment"
	TestsDir        = "tests"
	TestScript      = "test.sh"
)

// Defaults of task.toml.
const (
	defaultVerifierTimeout = 600.0
	defaultAgentTimeout    = 600.0
)

// maxInstruction bounds an agent's instruction.
const maxInstruction = 1 << 20

// Task is a task folder.
type Task struct {
	// Dir is the folder, Name its own name within the data set.
	Dir, Name string
	// Instruction is the agent's input. A task of several steps has one for each
	// of them instead: [Step.Instruction].
	Instruction string
	Config      Config
}

// Config is task.toml, as far as a local run needs it.
type Config struct {
	SchemaVersion string `toml:"schema_version"`
	// Version is the older name of SchemaVersion.
	Version  string         `toml:"version"`
	Task     Meta           `toml:"task"`
	Metadata map[string]any `toml:"metadata"`
	Agent    struct {
		TimeoutSec float64 `toml:"timeout_sec"`
	} `toml:"agent"`
	Verifier    Verifier    `toml:"verifier"`
	Environment Environment `toml:"environment"`
	Source      string      `toml:"source"`
	// Steps are those of a task that has several; RewardStrategy says how their scores
	// become that of the trial.
	Steps          []Step `toml:"steps"`
	RewardStrategy string `toml:"multi_step_reward_strategy"`
	// Artifacts are paths, or tables with source and destination.
	Artifacts []any `toml:"artifacts"`
}

// Meta describes a task.
type Meta struct {
	Name        string   `toml:"name"`
	Version     string   `toml:"version"`
	Description string   `toml:"description"`
	Keywords    []string `toml:"keywords"`
}

// Verifier says how a task is scored.
type Verifier struct {
	TimeoutSec      float64           `toml:"timeout_sec"`
	Env             map[string]string `toml:"env"`
	NetworkMode     string            `toml:"network_mode"`
	EnvironmentMode string            `toml:"environment_mode"`
	Environment     map[string]any    `toml:"environment"`
}

// Environment is what a task runs in.
type Environment struct {
	DockerImage  string            `toml:"docker_image"`
	OS           string            `toml:"os"`
	CPUs         float64           `toml:"cpus"`
	MemoryMB     int64             `toml:"memory_mb"`
	StorageMB    int64             `toml:"storage_mb"`
	NetworkMode  string            `toml:"network_mode"`
	AllowedHosts []string          `toml:"allowed_hosts"`
	Env          map[string]string `toml:"env"`
	Workdir      string            `toml:"workdir"`
}

// schemas are the versions of task.toml that are read.
var schemas = []string{"", "1.0", "1.1", "1.2", "1.3", "1.4"}

// LoadTask reads a task folder.
func LoadTask(dir string) (*Task, error) {
	t := &Task{Dir: dir, Name: filepath.Base(filepath.Clean(dir))}
	path := filepath.Join(dir, TaskFile)
	if _, err := toml.DecodeFile(path, &t.Config); err != nil {
		return nil, fmt.Errorf("harbor: %s: %w", path, placed(err))
	}
	c := &t.Config
	if c.SchemaVersion == "" {
		c.SchemaVersion = c.Version
	}
	if !slices.Contains(schemas, c.SchemaVersion) {
		return nil, fmt.Errorf("harbor: %s: schema_version %q is not known", path, c.SchemaVersion)
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("harbor: %s: %w", path, err)
	}
	if len(c.Steps) > 0 {
		if err := t.loadSteps(path); err != nil {
			return nil, fmt.Errorf("harbor: %w", err)
		}
		return t, nil
	}
	var err error
	if t.Instruction, err = readInstruction(filepath.Join(dir, InstructionFile)); err != nil {
		return nil, fmt.Errorf("harbor: task %s: %w", t.Name, err)
	}
	return t, nil
}

var errTimeout = errors.New("it is negative, too short or longer than a year")

func (c *Config) check() error {
	switch {
	case !waitable(c.Agent.TimeoutSec):
		return fmt.Errorf("agent.timeout_sec: %w", errTimeout)
	case !waitable(c.Verifier.TimeoutSec):
		return fmt.Errorf("verifier.timeout_sec: %w", errTimeout)
	case c.Environment.OS == "windows":
		return errors.New("environment.os is windows")
	}
	if c.Agent.TimeoutSec == 0 {
		c.Agent.TimeoutSec = defaultAgentTimeout
	}
	if c.Verifier.TimeoutSec == 0 {
		c.Verifier.TimeoutSec = defaultVerifierTimeout
	}
	return nil
}

// Bounds of a timeout that is given, in seconds.
const (
	shortestTimeout = 1e-3
	longestTimeout  = 365 * 24 * 3600
)

// waitable refuses durations that can't be waited for, such as inf and nan.
func waitable(seconds float64) bool {
	return seconds == 0 || (seconds >= shortestTimeout && seconds <= longestTimeout)
}

func readInstruction(path string) (string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("there is no %s", InstructionFile)
	}
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxInstruction+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	if len(b) > maxInstruction {
		return "", fmt.Errorf("%s has more than %d bytes", InstructionFile, maxInstruction)
	}
	if strings.TrimSpace(string(b)) == "" {
		return "", fmt.Errorf("%s is empty", InstructionFile)
	}
	return string(b), nil
}

// AgentTimeout is how long the agent may work.
func (t *Task) AgentTimeout() time.Duration { return seconds(t.Config.Agent.TimeoutSec) }

// VerifierTimeout is how long scoring may take.
func (t *Task) VerifierTimeout() time.Duration { return seconds(t.Config.Verifier.TimeoutSec) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Test returns the path of the script that scores the task.
func (t *Task) Test() (string, error) {
	path := filepath.Join(t.Dir, TestsDir, TestScript)
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("harbor: task %s: there is no %s/%s", t.Name, TestsDir, TestScript)
	}
	return path, nil
}

// Digest is a fingerprint of the task's files, of one of its folders if sub is
// given: names, modes and contents.
func (t *Task) Digest(sub string) (string, error) {
	h := sha256.New()
	root := filepath.Join(t.Dir, sub)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%q %v ", filepath.ToSlash(rel), d.Type())
		return hashFile(h, path, d)
	})
	if err != nil && (sub == "" || !errors.Is(err, fs.ErrNotExist)) {
		return "", fmt.Errorf("harbor: task %s: %w", t.Name, err)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

func hashFile(w io.Writer, path string, d fs.DirEntry) error {
	if d.Type()&fs.ModeSymlink != 0 {
		to, err := os.Readlink(path)
		fmt.Fprintf(w, "-> %q\n", to)
		return err
	}
	if !d.Type().IsRegular() {
		return fmt.Errorf("%s is neither a file nor a folder", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	fmt.Fprintf(w, "%x\n", sum.Sum(nil))
	return errors.Join(err, f.Close())
}

// LoadDataset reads the tasks of a folder, in the order of their names. A folder
// that is itself a task is a data set of one.
func LoadDataset(dir string) ([]*Task, error) {
	if _, err := os.Stat(filepath.Join(dir, TaskFile)); err == nil {
		t, err := LoadTask(dir)
		if err != nil {
			return nil, err
		}
		return []*Task{t}, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("harbor: data set: %w", err)
	}
	var tasks []*Task
	var errs []error
	for _, e := range entries {
		sub := filepath.Join(dir, e.Name())
		if _, err := os.Stat(filepath.Join(sub, TaskFile)); err != nil || !e.IsDir() {
			continue
		}
		t, err := LoadTask(sub)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		tasks = append(tasks, t)
	}
	if len(tasks) == 0 && len(errs) == 0 {
		return nil, fmt.Errorf("harbor: %s has no folder with a %s", dir, TaskFile)
	}
	return tasks, errors.Join(errs...)
}
