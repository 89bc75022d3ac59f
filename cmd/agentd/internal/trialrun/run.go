// Package trialrun runs benchmark trials: the tasks of a folder, with one or more
// configurations, scored by the tasks' own scripts.
//
// # Contract
//
// [New] takes the data set in; [Run.Run] runs every task with every configuration and
// writes results as Harbor writes them. What goes wrong in a trial is in its result and
// ends no other trial. Actions that need a person are denied. The caller opens runtimes,
// and prints.
//
// # Concurrency
//
// A Run is for one goroutine; trials run beside each other in its own.
package trialrun

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"agentd/cmd/agentd/internal/facts"
	"agentd/command"
	"agentd/evidence/harbor"
	processes "agentd/process"
	"agentd/sandbox"
	"agentd/store"
)

// Options say what is run, and how.
type Options struct {
	// Dataset is the folder of the tasks; DatasetID and DatasetVersion name it, by default
	// after the folder and a sum of its files.
	Dataset, DatasetID, DatasetVersion string
	Tasks                              []*harbor.Task
	// Trials of each task with each configuration, and how many run at the same time.
	Trials, Concurrency int
	// JobsDir is the folder for results, Job the job's name in it; by default the time.
	JobsDir, Job string
	// Changed, Reward and Decision are for the record; Reward names the score that counts.
	Changed, Reward, Decision string
	// TimeoutMultiplier multiplies the time limits of the tasks.
	TimeoutMultiplier float64
	// KeepWorkspaces keeps the folders that the agents worked in.
	KeepWorkspaces bool
	// Version of the program.
	Version string
	// Getenv reads variables that the tasks' verifiers ask for.
	Getenv func(name string) string
	Log    *slog.Logger
	// Describe returns an error as a person should read it.
	Describe func(error) string
}

// Config is a configuration that is tried. The first is the baseline.
type Config struct {
	ID, Path string
	// Mode is the permission mode that it sets.
	Mode string
	// Open opens a runtime with it. What is hidden is so from the agent's commands, beside
	// what the configuration hides.
	Open func(ctx context.Context, hidden []string) (*Runtime, error)
}

// Runtime is a runtime that trials run in.
type Runtime struct {
	facts.Source
	Store store.Store
	// Sandbox is the profile of scripts that run beside the agent, Processes starts them.
	Sandbox   sandbox.Profile
	Processes func() *processes.Manager
}

// Run is a run under way.
type Run struct {
	o       *Options
	configs []Config
	// id and version are the data set's, verifier is the version of its tests.
	id, version, verifier string
	// dir is the job's folder, scratch what is removed at the end.
	dir, scratch string

	mu     sync.Mutex
	result Result
	job    *harbor.JobResult
}

// Result is what a run came to.
type Result struct {
	Job            string                      `json:"job"`
	Dir            string                      `json:"dir"`
	DatasetID      string                      `json:"datasetId"`
	DatasetVersion string                      `json:"datasetVersion"`
	Trials         []*TrialResult              `json:"trials"`
	Comparisons    []*command.ComparisonRecord `json:"comparisons"`
	// Notes say why something is not there.
	Notes []string `json:"notes"`
}

// New prepares a run. Its owner calls Close.
func New(o *Options) (*Run, error) {
	b := &Run{o: o}
	if err := b.identify(); err != nil {
		return nil, err
	}
	var err error
	if b.scratch, err = os.MkdirTemp("", "agentd-bench-*"); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	return b, nil
}

// DataDir is a directory for facts that are not kept: Close removes it.
func (b *Run) DataDir() string { return filepath.Join(b.scratch, "data") }

// Close removes what a run doesn't keep.
func (b *Run) Close() error { return os.RemoveAll(b.scratch) }

// makeFolder makes the job's folder, which no other job has, and returns its name. Jobs
// that begin in the same second are numbered.
func (b *Run) makeFolder() (name string, err error) {
	jobs, err := filepath.Abs(b.o.JobsDir)
	if err == nil {
		err = os.MkdirAll(jobs, 0o700)
	}
	if err != nil {
		return "", fmt.Errorf("jobs: %w", err)
	}
	begun := time.Now().Format("2006-01-02__15-04-05")
	for i := 1; ; i++ {
		switch name = b.o.Job; {
		case name == "" && i == 1:
			name = begun
		case name == "":
			name = fmt.Sprintf("%s-%d", begun, i)
		}
		b.dir = filepath.Join(jobs, name)
		err := os.Mkdir(b.dir, 0o700)
		if err == nil {
			return name, nil
		}
		if b.o.Job != "" || !errors.Is(err, os.ErrExist) {
			return "", fmt.Errorf("a job needs a folder of its own: %w", err)
		}
	}
}

// identify names the data set, its version and that of its verifier.
func (b *Run) identify() error {
	dir, err := filepath.Abs(b.o.Dataset)
	if err != nil {
		return fmt.Errorf("data set: %w", err)
	}
	b.o.Dataset, b.id, b.version = dir, b.o.DatasetID, b.o.DatasetVersion
	if b.id == "" {
		b.id = filepath.Base(dir)
	}
	all, tests := sha256.New(), sha256.New()
	for _, t := range b.o.Tasks {
		whole, err := t.Digest("")
		if err != nil {
			return err
		}
		scripts, err := t.VerifierDigest()
		if err != nil {
			return err
		}
		fmt.Fprintf(all, "%s %s\n", t.Name, whole)
		fmt.Fprintf(tests, "%s %s\n", t.Name, scripts)
	}
	if b.version == "" {
		b.version = "sha256:" + hex.EncodeToString(all.Sum(nil))
	}
	b.verifier = "sha256:" + hex.EncodeToString(tests.Sum(nil))
	return nil
}

// Run runs the configurations one after the other, each in a runtime of its own
// over the same facts, and compares them in the last. What goes wrong in a trial is in
// its result.
func (b *Run) Run(ctx context.Context, configs []Config) (*Result, error) {
	b.configs = configs
	name, err := b.makeFolder()
	if err != nil {
		return nil, err
	}
	b.result = Result{Job: name, Dir: b.dir, DatasetID: b.id, DatasetVersion: b.version, Trials: []*TrialResult{}, Comparisons: []*command.ComparisonRecord{}, Notes: []string{}}
	hidden, err := b.hidden()
	if err != nil {
		return nil, err
	}
	b.job = harbor.NewJob(newUUID(), time.Now().UTC(), len(b.o.Tasks)*len(b.configs)*b.o.Trials)
	if err := b.writeJob(); err != nil {
		return nil, err
	}
	for i := range b.configs {
		rt, err := b.configs[i].Open(ctx, hidden)
		if err != nil {
			return nil, err
		}
		err = b.runAll(ctx, rt, &b.configs[i])
		if err == nil && i == len(b.configs)-1 {
			b.compare(ctx, rt)
		}
		if err = errors.Join(err, rt.Close()); err != nil {
			return nil, err
		}
	}
	b.job.FinishedAt = time.Now().UTC()
	return &b.result, harbor.WriteJSON(filepath.Join(b.dir, "result.json"), b.job)
}

// hidden are the places that agents' commands don't see: the data set with its scripts
// and solutions, and the results. Their file tools stay in the workspace anyway.
func (b *Run) hidden() ([]string, error) {
	var out []string
	for _, dir := range []string{b.o.Dataset, b.dir} {
		resolved, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return nil, fmt.Errorf("bench: %w", err)
		}
		out = append(out, resolved)
	}
	return out, nil
}

// runAll runs all trials of a configuration.
func (b *Run) runAll(ctx context.Context, rt *Runtime, c *Config) error {
	var wg sync.WaitGroup
	slots := make(chan struct{}, b.o.Concurrency)
	for _, task := range b.o.Tasks {
		for range b.o.Trials {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
			}
			if ctx.Err() != nil {
				wg.Wait()
				return ctx.Err()
			}
			wg.Go(func() {
				defer func() { <-slots }()
				t := &trial{b: b, rt: rt, config: c, task: task}
				res := t.runTrial(ctx)
				b.mu.Lock()
				defer b.mu.Unlock()
				b.result.Trials = append(b.result.Trials, res)
				b.job.Add("agentd__"+c.ID+"__"+b.id, &t.out)
			})
		}
	}
	wg.Wait()
	slices.SortStableFunc(b.result.Trials, func(x, y *TrialResult) int { return b.order(x) - b.order(y) })
	return ctx.Err()
}

// order is the place of a trial in lists: by configuration, then by task.
func (b *Run) order(t *TrialResult) int {
	c := slices.IndexFunc(b.configs, func(c Config) bool { return c.ID == t.ConfigurationID })
	k := slices.IndexFunc(b.o.Tasks, func(k *harbor.Task) bool { return k.Name == t.Task })
	return c*len(b.o.Tasks) + k
}

// compare holds each candidate against the baseline, over the trials that have a
// score.
func (b *Run) compare(ctx context.Context, rt *Runtime) {
	scored, unscored := map[string][]string{}, map[string]int{}
	for _, t := range b.result.Trials {
		if t.Reward != nil {
			scored[t.ConfigurationID] = append(scored[t.ConfigurationID], t.TrialID)
		} else {
			unscored[t.ConfigurationID]++
		}
	}
	for i := range b.configs {
		id := b.configs[i].ID
		if n := unscored[id]; n > 0 && len(scored[id]) > 0 && len(b.configs) > 1 {
			b.result.Notes = append(b.result.Notes, fmt.Sprintf("%d of %d trials of %s have no score and are left out of the comparison", n, n+len(scored[id]), id))
		}
	}
	base := &b.configs[0]
	for _, c := range b.configs[1:] {
		if len(scored[base.ID]) == 0 || len(scored[c.ID]) == 0 {
			b.result.Notes = append(b.result.Notes, fmt.Sprintf("%s and %s are not compared: one of them has no trial with a score", base.ID, c.ID))
			continue
		}
		var res command.CompareBenchmarkRunsResult
		err := rt.Do(ctx, &command.CompareBenchmarkRuns{
			Baseline:  &command.ComparedRun{ConfigurationID: base.ID, TrialIDs: scored[base.ID]},
			Candidate: &command.ComparedRun{ConfigurationID: c.ID, TrialIDs: scored[c.ID]}, Decision: b.o.Decision,
		}, &res)
		if err != nil {
			b.result.Notes = append(b.result.Notes, fmt.Sprintf("%s and %s are not compared: %s", base.ID, c.ID, b.o.Describe(err)))
			continue
		}
		b.result.Comparisons = append(b.result.Comparisons, &res.Comparison)
	}
}

// writeJob writes the files of the job that are known before it runs.
func (b *Run) writeJob() error {
	lock := harbor.Lock{
		SchemaVersion: 1, CreatedAt: b.job.StartedAt, Harbor: harbor.LockHarbor{Version: "agentd " + b.o.Version},
		Invocation: []string{"agentd", "bench", "run", b.o.Dataset}, ConcurrentTrials: b.o.Concurrency,
	}
	for _, c := range b.configs {
		for _, t := range b.o.Tasks {
			digest, err := t.Digest("")
			if err != nil {
				return err
			}
			lock.Trials = append(lock.Trials, harbor.LockTrial{
				Task:        harbor.LockTask{Name: t.Name, Type: "local", Digest: digest},
				Timeouts:    b.timeouts(t),
				Agent:       map[string]any{"name": "agentd", "configuration": c.ID},
				Environment: map[string]any{"type": "local"}, Verifier: map[string]any{"name": verifierName, "version": b.verifier},
			})
		}
	}
	settings := map[string]any{
		"job_name": b.result.Job, "n_attempts": b.o.Trials, "n_concurrent_trials": b.o.Concurrency, "timeout_multiplier": b.o.TimeoutMultiplier,
		"datasets": []map[string]string{{"path": b.o.Dataset, "id": b.id, "version": b.version}}, "configurations": b.paths(),
	}
	log := fmt.Sprintf("%s job %s: %d trials of %s\n", b.job.StartedAt.Format(time.RFC3339), b.result.Job, b.job.Total, b.id)
	return errors.Join(
		harbor.WriteJSON(filepath.Join(b.dir, "lock.json"), lock),
		harbor.WriteJSON(filepath.Join(b.dir, "config.json"), settings),
		os.WriteFile(filepath.Join(b.dir, "job.log"), []byte(log), 0o600))
}

// timeouts are the limits of a task, or of each of its steps.
func (b *Run) timeouts(t *harbor.Task) map[string]any {
	limits := func(agent, verifier time.Duration) map[string]any {
		return map[string]any{"agent_sec": b.scaled(agent).Seconds(), "verifier_sec": b.scaled(verifier).Seconds()}
	}
	if len(t.Config.Steps) == 0 {
		return limits(t.AgentTimeout(), t.VerifierTimeout())
	}
	steps := map[string]any{}
	for i := range t.Config.Steps {
		s := &t.Config.Steps[i]
		steps[s.Name] = limits(s.AgentTimeout(), s.VerifierTimeout())
	}
	return map[string]any{"steps": steps}
}

func (b *Run) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * b.o.TimeoutMultiplier)
}

// paths are the files of the configurations.
func (b *Run) paths() []string {
	out := make([]string, len(b.configs))
	for i := range b.configs {
		out[i] = b.configs[i].Path
	}
	return out
}

// newUUID returns a random UUID.
func newUUID() string {
	var u [16]byte
	_, _ = rand.Read(u[:]) // never fails, by its contract
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
