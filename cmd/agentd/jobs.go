package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/command"
	"agentd/event"
)

func (a *app) jobsCommand() *cobra.Command {
	p := &command.ListJobs{}
	var follow bool
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "List jobs with their progress",
		Long: `Lists jobs with their progress. With -f changes in a session are shown as they
come, until the command is stopped: on a terminal the bars are redrawn, in a pipe
each change is a line. With --json the answer is that of list_jobs, and with -f
each line is a fact about a job.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd jobs\n  agentd jobs --status running\n  agentd jobs -f --session sess_01\n  agentd jobs --session sess_01 --json",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := p.Validate(); err != nil {
				return &exitError{exitUsage, err}
			}
			if follow && p.SessionID == "" {
				return usagef("-f follows one session; name it with --session")
			}
			return a.withFacts(cmd, toAct, func(f facts.Source) error { return a.jobs(cmd.Context(), f, p, follow) })
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "show changes as they come")
	cmd.Flags().StringVar(&p.SessionID, "session", "", "only those of this session")
	cmd.Flags().StringVar(&p.Status, "status", "", "only those with this status")
	addNarrowFlags(cmd, &p.Narrowing, &p.Sort, "id, created, updated, title or items")
	addPageFlags(cmd, &p.Page)
	return a.withDataFlags(cmd)
}

// jobChanges are the facts that are lines of a list of jobs; those of single items
// are too many, and job.progress counts them.
var jobChanges = []string{"job.created", "job.started", "job.progress", "job.held", "job.completed", "job.failed", "job.cancelled"}

func (a *app) jobs(ctx context.Context, f facts.Source, p *command.ListJobs, follow bool) error {
	if !follow {
		return a.listJobs(ctx, f, p)
	}
	return a.watch(ctx, f, watched{
		sessionID: p.SessionID, types: jobChanges, redraw: []string{"job.*"},
		show: func(ctx context.Context) error { return a.listJobs(ctx, f, p) },
	})
}

func (a *app) listJobs(ctx context.Context, f facts.Source, p *command.ListJobs) error {
	return showResult(ctx, a, f, p, func(out *printer, res *command.ListJobsResult) {
		rows := [][]string{{"JOB", "STATUS", "PROGRESS", "DONE", "FAILED", "CREATED", "TITLE"}}
		for i := range res.Jobs {
			j := &res.Jobs[i]
			rows = append(rows, []string{
				j.JobID, j.Status, bar(j.Progress, 10), fmt.Sprintf("%d/%d", ended(j.Progress), j.Progress.Total),
				strconv.FormatInt(j.Progress.Failed, 10), ago(j.CreatedAt), terminal.Plain(j.Title),
			})
		}
		out.table(rows, "CREATED")
		a.sayMore(res.NextCursor)
	})
}

// ended counts the items that ended, well or not.
func ended(c event.JobCounts) int64 { return c.Completed + c.Reported + c.Failed }

// bar draws how far a job is.
func bar(c event.JobCounts, width int) string {
	full := 0
	if c.Total > 0 {
		full = int(ended(c) * int64(width) / c.Total)
	}
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", width-full) + "]"
}

func (a *app) jobCommand() *cobra.Command {
	return parent("job", "Run, show, cancel and retry a job",
		"A job works on many items with one instruction, each in a thread of its own.\n\nExit codes: 0 done, 1 failed, 2 usage.",
		"  agentd job run items.jsonl --instruction \"Translate to French.\"\n  agentd job show job_01\n  agentd job cancel job_01\n  agentd job retry job_01 item_000007",
		a.jobRunCommand(), a.jobShowCommand(), a.jobCancelCommand(), a.jobRetryCommand())
}

func (a *app) jobShowCommand() *cobra.Command {
	p := &command.GetJob{}
	cmd := &cobra.Command{
		Use:     "show JOB",
		Short:   "Show a job with a page of its items",
		Long:    "Shows a job and its items. With --json the answer is that of get_job.\n\nExit codes: 0 done, 1 failed, 2 usage.",
		Example: "  agentd job show job_01\n  agentd job show --limit 1000 --json job_01",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			p.JobID = given[0]
			return a.withFacts(cmd, toAct, func(f facts.Source) error { return a.askJob(cmd, f, p) })
		},
	}
	cmd.Flags().IntVar(&p.Limit, "limit", 0, "maximum number of items (default 100)")
	cmd.Flags().StringVar(&p.Cursor, "cursor", "", "go on where an answer with nextCursor ended")
	return a.withDataFlags(cmd)
}

func (a *app) jobCancelCommand() *cobra.Command {
	p := &command.CancelJob{}
	cmd := &cobra.Command{
		Use:     "cancel JOB",
		Short:   "Cancel a job; finished items stay",
		Long:    "Cancels a job. Finished items stay as they are.\n\nExit codes: 0 stopped, 1 failed, 2 usage.",
		Example: "  agentd job cancel --reason \"wrong language\" job_01",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			p.JobID = given[0]
			return a.withFacts(cmd, toAct, func(f facts.Source) error { return a.askJob(cmd, f, p) })
		},
	}
	cmd.Flags().StringVar(&p.Reason, "reason", "", "why, for the record")
	return a.withDataFlags(cmd)
}

func (a *app) jobRetryCommand() *cobra.Command {
	p := &command.RetryJobItem{}
	cmd := &cobra.Command{
		Use:     "retry JOB ITEM",
		Short:   "Start another attempt at an item that failed",
		Long:    "Starts another attempt at an item that failed. It is worked on while a server\nholds the data.\n\nExit codes: 0 started, 1 failed, 2 usage.",
		Example: "  agentd job retry job_01 item_000007",
		Args:    args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, given []string) error {
			p.JobID, p.ItemID = given[0], given[1]
			return a.withFacts(cmd, toAct, func(f facts.Source) error { return a.askJob(cmd, f, p) })
		},
	}
	return a.withDataFlags(cmd)
}

// askJob carries out a command that answers with a job.
func (a *app) askJob(cmd *cobra.Command, f facts.Source, p command.Params) error {
	if err := p.Validate(); err != nil {
		return &exitError{exitUsage, err}
	}
	return showResult(cmd.Context(), a, f, p, func(out *printer, res *command.JobRecord) {
		out.linef("%s  %s  %s %d/%d  %d failed", res.JobID, res.Status, bar(res.Progress, 20), ended(res.Progress), res.Progress.Total, res.Progress.Failed)
		if res.ResultsRef != "" {
			out.linef("results: %s", res.ResultsRef)
		}
		rows := [][]string{{"ITEM", "STATUS", "ATTEMPTS", "THREAD", "WHY"}}
		for _, x := range res.Items {
			why := ""
			if x.LastError != nil {
				why = x.LastError.Message
			}
			rows = append(rows, []string{x.ItemID, x.Status, strconv.FormatInt(x.AttemptCount, 10), x.ThreadID, terminal.Plain(why)})
		}
		out.table(rows, "THREAD")
		a.sayMore(res.NextCursor)
	})
}
