package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"agentd"
	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/trialrun"
	"agentd/command"
	"agentd/evidence/harbor"
)

// benchFlags are what the command line says of a run.
type benchFlags struct {
	trialrun.Options
	configs []string
	data    string
}

func (o *benchFlags) check() error {
	switch {
	case len(o.configs) == 0:
		return usagef("--config is missing; give it once for each configuration to try")
	case o.Trials < 1, o.Concurrency < 1, o.TimeoutMultiplier <= 0:
		return usagef("-n, --concurrency and --timeout-multiplier must be greater than zero")
	case o.Job != "" && (o.Job != filepath.Base(o.Job) || strings.HasPrefix(o.Job, ".")):
		return usagef("--job: %q is not the name of a folder", o.Job)
	}
	return nil
}

func (a *app) benchRun(ctx context.Context, o *benchFlags) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	if o.Tasks, err = harbor.LoadDataset(o.Dataset); err != nil {
		return usagef("DATASET: %s; give a folder with one folder per task", strings.TrimPrefix(err.Error(), "harbor: "))
	}
	o.Version, o.Getenv, o.Describe = a.version, func(name string) string { return a.env[name] }, describe
	run, err := trialrun.New(&o.Options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	if o.data == "" {
		o.data = run.DataDir()
	}
	configs, err := a.benchConfigs(o) // nothing is left behind by a configuration that can't be used
	if err != nil {
		return err
	}
	res, err := run.Run(ctx, configs)
	if err != nil {
		return err
	}
	if err := a.print(res, func(p *printer) { printRun(p, res) }); err != nil {
		return err
	}
	for _, t := range res.Trials {
		if t.Reward == nil {
			return &exitError{exitFailed, errors.New("not every trial has a score")}
		}
	}
	return nil
}

// benchConfigs reads all configurations before anything runs.
func (a *app) benchConfigs(o *benchFlags) ([]trialrun.Config, error) {
	var out []trialrun.Config
	seen := map[string]bool{}
	for i, path := range o.configs {
		loaded, err := config.Load(config.Sources{File: path, Env: o.Getenv, Flags: map[string]string{"data": o.data}})
		if err != nil {
			return nil, &exitError{exitUsage, err}
		}
		c := loaded.Config
		if i == 0 {
			o.Log = a.quiet(c, false)
		}
		id := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		if seen[id] {
			id = fmt.Sprintf("%s-%d", id, i+1)
		}
		seen[id] = true
		out = append(out, trialrun.Config{ID: id, Path: path, Mode: c.Permissions.Mode, Open: func(ctx context.Context, hidden []string) (*trialrun.Runtime, error) {
			return a.openForTrials(ctx, c, hidden, o.Log)
		}})
	}
	return out, nil
}

// openForTrials opens a runtime for a configuration.
func (a *app) openForTrials(ctx context.Context, c *config.Config, hidden []string, log *slog.Logger) (*trialrun.Runtime, error) {
	always, err := a.hiddenPaths(c)
	if err != nil {
		return nil, err
	}
	s, err := a.openStore(ctx, c, node{}, log)
	if err != nil {
		return nil, err
	}
	l := &localFacts{store: s, caller: command.Local()}
	if l.wired, err = a.wire(ctx, c, s, log); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	o := &l.wired.options
	rt := &trialrun.Runtime{Source: l, Store: s, Sandbox: o.Loop.Sandbox, Processes: o.Loop.Processes}
	rt.Sandbox.Hidden = always // scripts that score must write the results
	o.Recovery = "none"
	o.Loop.Sandbox.Hidden = slices.Concat(o.Loop.Sandbox.Hidden, hidden)
	if l.runtime, err = agentd.Open(ctx, *o); err != nil {
		return nil, errors.Join(err, l.wired.close(), s.Close())
	}
	l.wired.opened(ctx, l.runtime)
	return rt, nil
}

// printRun shows what a run came to.
func printRun(p *printer, res *trialrun.Result) {
	rows := [][]string{{"TASK", "CONFIGURATION", "TRIAL", "STATUS", "REWARD"}}
	for _, t := range res.Trials {
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
		rows = append(rows, []string{terminal.Plain(t.Task), terminal.Plain(t.ConfigurationID), terminal.Plain(t.TrialID), terminal.Plain(status), reward})
	}
	p.table(rows)
	printSteps(p, res)
	for _, c := range res.Comparisons {
		p.linef("")
		printComparison(p, c)
	}
	for _, n := range res.Notes {
		p.linef("%s", terminal.Plain(n))
	}
	p.linef("results are in %s", terminal.Plain(res.Dir))
}

// printSteps shows the steps of the tasks that have several.
func printSteps(p *printer, res *trialrun.Result) {
	rows := [][]string{{"TRIAL", "STEP", "STATUS", "REWARDS"}}
	for _, t := range res.Trials {
		for _, s := range t.Steps {
			status := slices.DeleteFunc([]string{s.Status, s.FailureCategory, s.Exception, s.Stopped}, func(x string) bool { return x == "" })
			rows = append(rows, []string{terminal.Plain(t.TrialID), terminal.Plain(s.Step), terminal.Plain(strings.Join(status, ", ")), terminal.Plain(scoresText(s.Rewards))})
		}
	}
	if len(rows) > 1 {
		p.linef("")
		p.table(rows)
	}
}

// scoresText shows scores to people: the number alone if it is the only one.
func scoresText(rewards map[string]float64) string {
	if v, ok := rewards[harbor.RewardKey]; ok && len(rewards) == 1 {
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
	if len(rewards) == 0 {
		return "none"
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(rewards)) {
		list = append(list, name+"="+strconv.FormatFloat(rewards[name], 'f', 3, 64))
	}
	return strings.Join(list, " ")
}
