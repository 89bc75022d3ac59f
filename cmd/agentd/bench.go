package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/trialrun"
	"agentd/command"
	"agentd/evidence/atif"
)

func (a *app) benchCommand() *cobra.Command {
	return parent("bench", "Run benchmark trials and compare configurations",
		"Runs tasks in Harbor's folder format, compares configurations and exports trials.\nagentd doesn't score: a task's own script does.\n\nExit codes: those of its commands.",
		"  agentd bench run ./tasks --config base.yaml --config new.yaml -n 3\n  agentd bench export trial_01 --trajectory", a.benchRunCommand(), a.benchCompareCommand(), a.benchExportCommand())
}

func (a *app) benchRunCommand() *cobra.Command {
	o := &benchFlags{}
	cmd := &cobra.Command{
		Use:   "run DATASET",
		Short: "Run the tasks of a folder with one or more configurations",
		Long: `Runs each task of a folder with each configuration, -n times, and scores it with
the task's tests/test.sh. DATASET is a folder of task folders (task.toml,
instruction.md, environment/, tests/), or one task folder. The first --config is
the baseline, the others are compared with it.

The agent works in a copy of environment/, without a container. The script runs in
the sandbox afterwards, in the same folder. Calls that would need approval are
denied. A task with [[steps]] is worked on step by step, in one session: a turn
and a score each. Results are written as Harbor writes them:
JOBS/JOB/TASK__XXXXXXX/.

Exit codes: 0 every trial has a score, 1 one has none or the run failed, 2 usage,
or a task or a configuration can't be used.`,
		Example: "  agentd bench run ./tasks --config agentd.yaml\n  agentd bench run ./tasks --config base.yaml --config new.yaml -n 5 --json",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			o.Dataset = given[0]
			return a.benchRun(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.configs, "config", nil, "configuration file; give it once per configuration")
	f.IntVarP(&o.Trials, "trials", "n", 1, "trials of each task with each configuration")
	f.IntVar(&o.Concurrency, "concurrency", 1, "trials at the same time")
	f.StringVar(&o.JobsDir, "jobs-dir", "jobs", "folder for the results")
	f.StringVar(&o.Job, "job", "", "name of the job (default the time)")
	f.StringVar(&o.data, "data", "", "directory for the facts (default a temporary one)")
	f.StringVar(&o.DatasetID, "dataset-id", "", "id of the data set (default the folder's name)")
	f.StringVar(&o.DatasetVersion, "dataset-version", "", "its version (default a sum of its files)")
	f.StringVar(&o.Changed, "changed", "", "the one difference between the configurations, for the record")
	f.StringVar(&o.Reward, "reward", "", "name of the score in reward.json (default reward, or the only one)")
	f.Float64Var(&o.TimeoutMultiplier, "timeout-multiplier", 1, "multiplies the time limits of the tasks")
	f.BoolVar(&o.KeepWorkspaces, "keep-workspaces", false, "keep the folders that the agents worked in")
	f.StringVar(&o.Decision, "decision", "", "the decision, for the record: promote, revert ...")
	return cmd
}

func (a *app) benchCompareCommand() *cobra.Command {
	p := &command.CompareBenchmarkRuns{}
	var baseline, candidate string
	var regressions int64
	cmd := &cobra.Command{
		Use:   "compare --baseline CONFIG=TRIALS --candidate CONFIG=TRIALS",
		Short: "Compare the trials of two configurations",
		Long: `Compares the scored trials of two configurations and records the comparison. A
side is the id of a configuration and its trials: CONFIG=ID,ID...

Exit codes: 0 done, 1 failed (also if the trials can't be compared), 2 usage.`,
		Example: "  agentd bench compare --baseline base=trial_1,trial_2 --candidate new=trial_3,trial_4",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if p.Baseline, err = sideOf("baseline", baseline); err != nil {
				return err
			}
			if p.Candidate, err = sideOf("candidate", candidate); err != nil {
				return err
			}
			if cmd.Flags().Changed("p0-regressions") {
				p.P0QcGateRegressionCount = &regressions
			}
			return a.withFacts(cmd, toAct, func(f facts.Source) error {
				var res command.CompareBenchmarkRunsResult
				if err := f.Do(cmd.Context(), p, &res); err != nil {
					return err
				}
				return a.print(res, func(out *printer) { printComparison(out, &res.Comparison) })
			})
		},
	}
	cmd.Flags().StringVar(&baseline, "baseline", "", "the configuration in use: CONFIG=ID,ID...")
	cmd.Flags().StringVar(&candidate, "candidate", "", "the configuration to try: CONFIG=ID,ID...")
	cmd.Flags().StringVar(&p.Decision, "decision", "", "the decision: promote, revert ...")
	cmd.Flags().Int64Var(&regressions, "p0-regressions", 0, "regressions that the quality gate found")
	return a.withDataFlags(cmd)
}

// sideOf reads one side of a comparison.
func sideOf(flag, text string) (*command.ComparedRun, error) {
	if text == "" {
		return nil, usagef("--%s is missing: give a configuration and its trials as CONFIG=ID,ID...", flag)
	}
	id, trials, ok := strings.Cut(text, "=")
	if !ok || id == "" || trials == "" {
		return nil, usagef("--%s: %q is not of the form CONFIG=ID,ID...", flag, text)
	}
	return &command.ComparedRun{ConfigurationID: id, TrialIDs: strings.Split(trials, ",")}, nil
}

func (a *app) benchExportCommand() *cobra.Command {
	var out, version string
	var trajectory bool
	cmd := &cobra.Command{
		Use:   "export TRIAL",
		Short: "Export a trial's pack or its trajectory",
		Long: `Exports a trial: its pack, or with --trajectory what the agent did, in the format
ATIF v1.8. --atif-version 1.4 leaves out what that version has no place for.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd bench export trial_01 > pack.json\n  agentd bench export trial_01 --trajectory --atif-version 1.4 --out trajectory.json",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.withFacts(cmd, toAct, func(f facts.Source) error {
				return a.benchExport(cmd.Context(), f, given[0], trajectory, version, out)
			})
		},
	}
	cmd.Flags().BoolVar(&trajectory, "trajectory", false, "the trajectory instead of the pack")
	cmd.Flags().StringVar(&version, "atif-version", "1.8", "version of the trajectory: 1.8 or 1.4")
	cmd.Flags().StringVar(&out, "out", "", "output file (default standard output)")
	return a.withDataFlags(cmd)
}

func (a *app) benchExport(ctx context.Context, f facts.Source, trial string, trajectory bool, version, out string) error {
	var res command.ExportBenchmarkTrialResult
	if err := f.Do(ctx, &command.ExportBenchmarkTrial{TrialID: trial}, &res); err != nil {
		return err
	}
	if out == "" && a.json && !trajectory {
		return writeJSON(a.out, res)
	}
	doc, err := facts.ReadContent(ctx, f, res.Ref, 0)
	if err == nil && trajectory {
		doc, err = trajectoryOf(ctx, f, doc, version)
	}
	if err != nil {
		return err
	}
	write := func(w io.Writer) error {
		_, err := w.Write(doc)
		return err
	}
	if out == "" {
		return write(a.out)
	}
	if err := intoFile(out, write); err != nil {
		return fmt.Errorf("export to %s: %w", out, err)
	}
	return a.print(map[string]string{"evidenceId": res.EvidenceID, "ref": res.Ref, "out": out}, func(p *printer) {
		p.linef("%s is in %s", terminal.Plain(trial), terminal.Plain(out))
	})
}

// trajectoryOf reads the trajectory that a pack refers to, in a version.
func trajectoryOf(ctx context.Context, f facts.Source, pack []byte, version string) ([]byte, error) {
	refs, err := trialrun.ReadPackRefs(pack)
	if err != nil {
		return nil, err
	}
	doc, err := facts.ReadContent(ctx, f, refs.TrajectoryRef, 0)
	if err != nil || version == "1.8" {
		return doc, err
	}
	return atif.Downlevel(doc)
}

// printComparison shows a comparison to people.
func printComparison(p *printer, c *command.ComparisonRecord) {
	number := func(f *float64, digits int) string {
		if f == nil {
			return "unknown"
		}
		return strconv.FormatFloat(*f, 'f', digits, 64)
	}
	rows := [][]string{{"CONFIGURATION", "TRIALS", "MEAN REWARD", "TIMEOUTS", "COST USD", "EVIDENCE"}}
	for _, r := range []*command.ComparedSide{&c.Baseline, &c.Candidate} {
		rows = append(rows, []string{
			terminal.Plain(r.ConfigurationID), strconv.Itoa(len(r.TrialIDs)), number(&r.MeanReward, 3), number(&r.TimeoutRate, 2), number(r.CostUSD, 4),
			number(&r.EvidenceCompletenessRate, 2),
		})
	}
	p.table(rows)
	bounds := "no interval: " + c.Interval.Note
	if c.Interval.Low != nil {
		bounds = fmt.Sprintf("95 %% interval %+.3f to %+.3f, %s, %s", *c.Interval.Low, *c.Interval.High, c.Interval.Method, terminal.Plural(c.Interval.Samples, "sample"))
	}
	p.linef("mean reward %+.3f (%s)", c.MeanRewardDelta, bounds)
	regressions := "not counted"
	if n := c.P0QcGateRegressionCount; n != nil {
		regressions = strconv.FormatInt(*n, 10)
	}
	p.linef("timeout rate %+.2f, mean cost %s USD, P0 regressions %s, decision %s", c.TimeoutRateDelta, number(c.CostDeltaUSD, 4), regressions, terminal.Plain(c.Decision))
	if c.RemainingRisk != "" {
		p.linef("remaining risk: %s", terminal.Plain(c.RemainingRisk))
	}
}
