package main

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
	"strings"
	"sync"
	"time"

	"agentd"
	"agentd/cmd/agentd/internal/config"
	"agentd/command"
	"agentd/evidence/harbor"
)

// benchOptions are what the command line says of a run.
type benchOptions struct {
	dataset, datasetID, datasetVersion string
	configs                            []string
	n, concurrency                     int
	jobs, job, data                    string
	changed, reward, decision          string
	patience                           float64
	keep                               bool
}

func (o *benchOptions) check() error {
	switch {
	case len(o.configs) == 0:
		return usagef("--config is needed, once for each configuration that is tried")
	case o.n < 1, o.concurrency < 1, o.patience <= 0:
		return usagef("-n, --concurrency and --timeout-multiplier are greater than zero")
	case o.job != "" && (o.job != filepath.Base(o.job) || strings.HasPrefix(o.job, ".")):
		return usagef("--job is the name of a folder, not %q", o.job)
	}
	return nil
}

// benchConfig is a configuration that is tried.
type benchConfig struct {
	id, path, role string
	c              *config.Config
}

// bench is a run under way.
type bench struct {
	a       *app
	o       *benchOptions
	tasks   []*harbor.Task
	configs []benchConfig
	// id and version are the data set's, verifier is the version of its tests.
	id, version, verifier string
	// dir is the job's folder, scratch what is removed at the end.
	dir, scratch string
	log          *slog.Logger

	mu     sync.Mutex
	result benchResult
	job    *harbor.JobResult
}

// benchResult is what a run came to.
type benchResult struct {
	Job            string                      `json:"job"`
	Dir            string                      `json:"dir"`
	DatasetID      string                      `json:"datasetId"`
	DatasetVersion string                      `json:"datasetVersion"`
	Trials         []*benchTrialResult         `json:"trials"`
	Comparisons    []*command.ComparisonRecord `json:"comparisons"`
	// Notes say why something is not there.
	Notes []string `json:"notes"`
}

func (a *app) benchRun(ctx context.Context, o *benchOptions) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	b := &bench{a: a, o: o}
	defer func() {
		if b.scratch != "" {
			err = errors.Join(err, os.RemoveAll(b.scratch))
		}
	}()
	if err := b.prepare(); err != nil {
		return err
	}
	if err := b.run(ctx); err != nil {
		return err
	}
	if err := a.print(b.result, b.print); err != nil {
		return err
	}
	for _, t := range b.result.Trials {
		if t.Reward == nil {
			return &exitError{exitFailed, errNoScore}
		}
	}
	return nil
}

// prepare reads the tasks and the configurations, and makes the job's folder.
func (b *bench) prepare() error {
	tasks, err := harbor.LoadDataset(b.o.dataset)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	b.tasks = tasks
	if err := b.identify(); err != nil {
		return err
	}
	if b.scratch, err = os.MkdirTemp("", "agentd-bench-*"); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	if err := b.load(); err != nil { // nothing is left behind by a configuration that can't be used
		return err
	}
	name, err := b.folder()
	if err != nil {
		return err
	}
	b.result = benchResult{Job: name, Dir: b.dir, DatasetID: b.id, DatasetVersion: b.version, Trials: []*benchTrialResult{}, Comparisons: []*command.ComparisonRecord{}, Notes: []string{}}
	return nil
}

// folder makes the job's folder, which no other job has, and returns its name. Jobs
// that begin in the same second are numbered.
func (b *bench) folder() (name string, err error) {
	jobs, err := filepath.Abs(b.o.jobs)
	if err == nil {
		err = os.MkdirAll(jobs, 0o700)
	}
	if err != nil {
		return "", fmt.Errorf("jobs: %w", err)
	}
	begun := time.Now().Format("2006-01-02__15-04-05")
	for i := 1; ; i++ {
		switch name = b.o.job; {
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
		if b.o.job != "" || !errors.Is(err, os.ErrExist) {
			return "", fmt.Errorf("a job needs a folder of its own: %w", err)
		}
	}
}

// identify names the data set, its version and that of its verifier.
func (b *bench) identify() error {
	dir, err := filepath.Abs(b.o.dataset)
	if err != nil {
		return fmt.Errorf("data set: %w", err)
	}
	b.o.dataset, b.id, b.version = dir, b.o.datasetID, b.o.datasetVersion
	if b.id == "" {
		b.id = filepath.Base(dir)
	}
	all, tests := sha256.New(), sha256.New()
	for _, t := range b.tasks {
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

// load reads all configurations before anything runs.
func (b *bench) load() error {
	data := b.o.data
	if data == "" {
		data = filepath.Join(b.scratch, "data")
	}
	seen := map[string]bool{}
	for i, path := range b.o.configs {
		src := config.Sources{File: path, Env: func(name string) string { return b.a.env[name] }, Flags: map[string]string{"data": data}}
		loaded, err := config.Load(src)
		if err != nil {
			return &exitError{exitUsage, err}
		}
		id := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		if seen[id] {
			id = fmt.Sprintf("%s-%d", id, i+1)
		}
		seen[id] = true
		role := "baseline"
		if i > 0 {
			role = "candidate"
		}
		b.configs = append(b.configs, benchConfig{id, path, role, loaded.Config})
	}
	b.log = b.a.quiet(b.configs[0].c, false)
	return nil
}

// run runs the configurations one after the other, each in a runtime of its own
// over the same facts, and compares them in the last.
func (b *bench) run(ctx context.Context) error {
	b.job = harbor.NewJob(newUUID(), time.Now().UTC(), len(b.tasks)*len(b.configs)*b.o.n)
	if err := b.writeJob(); err != nil {
		return err
	}
	for i := range b.configs {
		f, err := b.open(ctx, &b.configs[i])
		if err != nil {
			return err
		}
		err = b.runAll(ctx, f, &b.configs[i])
		if err == nil && i == len(b.configs)-1 {
			b.compare(ctx, f)
		}
		if err = errors.Join(err, f.close()); err != nil {
			return err
		}
	}
	b.job.FinishedAt = time.Now().UTC()
	return harbor.WriteJSON(filepath.Join(b.dir, "result.json"), b.job)
}

// open opens a runtime for a configuration. What is in the data set, scripts and
// solutions, is hidden from the agent's commands, and so are the results; its file
// tools stay in the workspace anyway.
func (b *bench) open(ctx context.Context, c *benchConfig) (*localFacts, error) {
	s, err := b.a.openStore(ctx, c.c, "", b.log)
	if err != nil {
		return nil, err
	}
	l := &localFacts{store: s, caller: command.Local()}
	if l.wired, err = b.a.wire(ctx, c.c, s, b.log); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	o := &l.wired.options
	o.Recovery = "none"
	if o.Loop.Sandbox.Hidden, err = b.hidden(o.Loop.Sandbox.Hidden); err != nil {
		return nil, errors.Join(err, l.wired.close(), s.Close())
	}
	if l.runtime, err = agentd.Open(ctx, *o); err != nil {
		return nil, errors.Join(err, l.wired.close(), s.Close())
	}
	l.wired.opened(ctx, l.runtime)
	return l, nil
}

func (b *bench) hidden(more []string) ([]string, error) {
	out := append([]string{}, more...)
	for _, dir := range []string{b.o.dataset, b.dir} {
		resolved, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return nil, fmt.Errorf("bench: %w", err)
		}
		out = append(out, resolved)
	}
	return out, nil
}

// runAll runs all trials of a configuration.
func (b *bench) runAll(ctx context.Context, f *localFacts, c *benchConfig) error {
	var wg sync.WaitGroup
	slots := make(chan struct{}, b.o.concurrency)
	for _, task := range b.tasks {
		for range b.o.n {
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
				t := &benchTrial{b: b, f: f, config: c, task: task}
				res := t.run(ctx)
				b.mu.Lock()
				defer b.mu.Unlock()
				b.result.Trials = append(b.result.Trials, res)
				b.job.Add("agentd__"+c.id+"__"+b.id, &t.out)
			})
		}
	}
	wg.Wait()
	slices.SortStableFunc(b.result.Trials, func(x, y *benchTrialResult) int { return b.order(x) - b.order(y) })
	return ctx.Err()
}

// order is the place of a trial in lists: by configuration, then by task.
func (b *bench) order(t *benchTrialResult) int {
	c := slices.IndexFunc(b.configs, func(c benchConfig) bool { return c.id == t.ConfigurationID })
	k := slices.IndexFunc(b.tasks, func(k *harbor.Task) bool { return k.Name == t.Task })
	return c*len(b.tasks) + k
}

// compare holds each candidate against the baseline, over the trials that have a
// score.
func (b *bench) compare(ctx context.Context, f *localFacts) {
	scored, unscored := map[string][]string{}, map[string]int{}
	for _, t := range b.result.Trials {
		if t.Reward != nil {
			scored[t.ConfigurationID] = append(scored[t.ConfigurationID], t.TrialID)
		} else {
			unscored[t.ConfigurationID]++
		}
	}
	for i := range b.configs {
		id := b.configs[i].id
		if n := unscored[id]; n > 0 && len(scored[id]) > 0 && len(b.configs) > 1 {
			b.result.Notes = append(b.result.Notes, fmt.Sprintf("%d of %d trials of %s have no score and are left out of the comparison", n, n+len(scored[id]), id))
		}
	}
	base := &b.configs[0]
	for _, c := range b.configs[1:] {
		if len(scored[base.id]) == 0 || len(scored[c.id]) == 0 {
			b.result.Notes = append(b.result.Notes, fmt.Sprintf("%s and %s are not compared: one of them has no trial with a score", base.id, c.id))
			continue
		}
		var res command.CompareBenchmarkRunsResult
		err := f.do(ctx, &command.CompareBenchmarkRuns{
			Baseline:  &command.ComparedRun{ConfigurationID: base.id, TrialIDs: scored[base.id]},
			Candidate: &command.ComparedRun{ConfigurationID: c.id, TrialIDs: scored[c.id]}, Decision: b.o.decision,
		}, &res)
		if err != nil {
			b.result.Notes = append(b.result.Notes, fmt.Sprintf("%s and %s are not compared: %s", base.id, c.id, describe(err)))
			continue
		}
		b.result.Comparisons = append(b.result.Comparisons, &res.Comparison)
	}
}

// writeJob writes the files of the job that are known before it runs.
func (b *bench) writeJob() error {
	lock := harbor.Lock{
		SchemaVersion: 1, CreatedAt: b.job.StartedAt, Harbor: harbor.LockHarbor{Version: "agentd " + b.a.version},
		Invocation: []string{"agentd", "bench", "run", b.o.dataset}, ConcurrentTrials: b.o.concurrency,
	}
	for _, c := range b.configs {
		for _, t := range b.tasks {
			digest, err := t.Digest("")
			if err != nil {
				return err
			}
			lock.Trials = append(lock.Trials, harbor.LockTrial{
				Task:        harbor.LockTask{Name: t.Name, Type: "local", Digest: digest},
				Timeouts:    b.timeouts(t),
				Agent:       map[string]any{"name": "agentd", "configuration": c.id},
				Environment: map[string]any{"type": "local"}, Verifier: map[string]any{"name": verifierName, "version": b.verifier},
			})
		}
	}
	settings := map[string]any{
		"job_name": b.result.Job, "n_attempts": b.o.n, "n_concurrent_trials": b.o.concurrency, "timeout_multiplier": b.o.patience,
		"datasets": []map[string]string{{"path": b.o.dataset, "id": b.id, "version": b.version}}, "configurations": b.o.configs,
	}
	log := fmt.Sprintf("%s job %s: %d trials of %s\n", b.job.StartedAt.Format(time.RFC3339), b.result.Job, b.job.Total, b.id)
	return errors.Join(
		harbor.WriteJSON(filepath.Join(b.dir, "lock.json"), lock),
		harbor.WriteJSON(filepath.Join(b.dir, "config.json"), settings),
		os.WriteFile(filepath.Join(b.dir, "job.log"), []byte(log), 0o600))
}

// timeouts are the limits of a task, or of each of its steps.
func (b *bench) timeouts(t *harbor.Task) map[string]any {
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

func (b *bench) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * b.o.patience)
}

// print shows what a run came to.
func (b *bench) print(p *printer) {
	rows := [][]string{{"TASK", "CONFIGURATION", "TRIAL", "STATUS", "REWARD"}}
	for _, t := range b.result.Trials {
		reward, status := "none", t.Status
		if t.Reward != nil {
			reward = fmt.Sprintf("%.3f", *t.Reward)
		}
		if t.FailureCategory != "" {
			status += " (" + t.FailureCategory + ")"
		}
		if t.Exception != "" {
			status += ", " + t.Exception
		}
		rows = append(rows, []string{plainText(t.Task), plainText(t.ConfigurationID), plainText(t.TrialID), plainText(status), reward})
	}
	p.table(rows)
	b.printSteps(p)
	for _, c := range b.result.Comparisons {
		p.linef("")
		printComparison(p, c)
	}
	for _, n := range b.result.Notes {
		p.linef("%s", plainText(n))
	}
	p.linef("results are in %s", plainText(b.dir))
}

// newUUID returns a random UUID.
func newUUID() string {
	var u [16]byte
	_, _ = rand.Read(u[:]) // never fails, by its contract
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
