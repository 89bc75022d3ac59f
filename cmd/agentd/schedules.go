package main

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/command"
)

func (a *app) schedulesCommand() *cobra.Command {
	p := &command.ListSchedules{}
	cmd := &cobra.Command{
		Use:   "schedules",
		Short: "List, create, pause and delete schedules",
		Long: `Lists schedules, which start a job or a task again and again, with their next and
last runs. Schedules run while a server holds the data; runs missed meanwhile
follow the schedule's policy, and are recorded. With --json the answer is that of
list_schedules.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd schedules\n  agentd schedules create --cron \"0 6 * * 1-5\" --time-zone Europe/Paris --task \"Read the news.\"\n  agentd schedules pause schedule_01\n  agentd schedules delete schedule_01",
		Args:    noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withValid(cmd, toAct, p, func(f facts.Source) error { return a.listSchedules(cmd.Context(), f, p) })
		},
	}
	cmd.Flags().StringVar(&p.SessionID, "session", "", "only those of this session")
	addPageFlags(cmd, &p.Page)
	cmd.AddCommand(a.scheduleCreateCommand(), a.scheduleRunCommand(), a.schedulePauseCommand(), a.scheduleResumeCommand(), a.scheduleDeleteCommand())
	return a.withDataFlags(cmd)
}

func (a *app) listSchedules(ctx context.Context, f facts.Source, p *command.ListSchedules) error {
	return showResult(ctx, a, f, p, func(out *printer, res *command.ListSchedulesResult) {
		rows := [][]string{{"SCHEDULE", "STATUS", "WHEN", "STARTS", "NEXT", "LAST", "RUNS", "MISSED", "TITLE"}}
		for i := range res.Schedules {
			rows = append(rows, scheduleRow(&res.Schedules[i]))
		}
		out.table(rows, "MISSED", "RUNS", "LAST")
		a.sayMore(res.NextCursor)
	})
}

func scheduleRow(x *command.ScheduleRecord) []string {
	when := x.Cron
	switch {
	case x.Cron == "":
		when = "every " + (time.Duration(x.EveryMs) * time.Millisecond).String()
	case x.TimeZone != "":
		when += " " + x.TimeZone
	}
	next, what := ago(x.NextAt), terminal.Plain(x.Title)
	switch {
	case x.Status == "paused":
		next, what = "-", what+"  ("+terminal.Plain(x.StatusReason)+")"
	case !x.QueuedDueAt.IsZero():
		next = "after the last"
	}
	if x.LastError != nil {
		what += "  (the last run: " + terminal.Plain(x.LastError.Message) + ")"
	}
	return []string{x.ScheduleID, x.Status, when, x.Kind, next, ago(x.LastAt), strconv.FormatInt(x.Fired, 10), strconv.FormatInt(x.MissedCount, 10), strings.TrimSpace(what)}
}

// moment shows a time by the clock of this place.
func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// newSchedule is what "schedules create" was given.
type newSchedule struct {
	command.CreateSchedule
	every time.Duration
	// task is an objective, items a file of a job's items.
	task, items string
	job         command.CreateJob
}

func (a *app) scheduleCreateCommand() *cobra.Command {
	o := &newSchedule{}
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create a schedule that starts a job or a task again and again",
		Long: `Creates a schedule: by --cron (minute, hour, day, month, day of the week, in
--time-zone, or a name such as @daily) or by an interval with --every. What it
starts is a task with an objective (--task), or a job over the items of a file
(--items with --instruction).

--missed decides about runs that were due while no server was up: run_once starts
one for all of them, skip none, run_all each. --overlap decides about a run that
is due while the last one is still running: skip leaves it out, queue lets one
wait, allow starts it.

Exit codes: 0 created, 1 failed, 2 usage.`,
		Example: `  agentd schedules create --cron @hourly --task "Look at the queue."
  agentd schedules create --every 15m --overlap queue --items urls.jsonl --instruction "Summarize."
  agentd schedules create --cron "30 2 * * *" --time-zone Europe/Paris --missed run_all --task "Back up."`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.readSchedule(cmd.Context(), o); err != nil {
				return &exitError{exitUsage, err}
			}
			if err := a.canWork(cmd); err != nil {
				return err
			}
			return a.withFacts(cmd, toRun, func(f facts.Source) error { return a.askSchedule(cmd.Context(), f, &o.CreateSchedule) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Cron, "cron", "", "five fields, or a name such as @daily")
	f.DurationVar(&o.every, "every", 0, "an interval such as 15m, in place of --cron")
	f.StringVar(&o.TimeZone, "time-zone", "", "time zone of --cron (default UTC)")
	f.StringVar(&o.Missed, "missed", "", "runs missed while down: run_once (default), skip, run_all")
	f.StringVar(&o.Overlap, "overlap", "", "a run due while the last one is running: skip (default), queue, allow")
	f.StringVar(&o.task, "task", "", "objective of the task that is started")
	f.StringVar(&o.items, "items", "", "file with the items of the job that is started, \"-\" is standard input")
	f.StringVar(&o.job.Instruction, "instruction", "", "what the job does with each item")
	f.Int64Var(&o.job.Concurrency, "concurrency", 0, "items in parallel (default 8)")
	f.StringVar(&o.ScheduleID, "id", "", "id of the schedule; default: a new one")
	f.StringVar(&o.SessionID, "session", "", "session of the schedule; default: a new one")
	f.StringVar(&o.Title, "title", "", "title, for people")
	return a.withDataFlags(cmd)
}

// readSchedule puts together what the flags say.
func (a *app) readSchedule(ctx context.Context, o *newSchedule) error {
	o.EveryMs = o.every.Milliseconds()
	switch {
	case (o.task == "") == (o.items == ""):
		return errors.New("give either --task or --items, to say what to start")
	case (o.Cron == "") == (o.every == 0):
		return errors.New("give either --cron or --every, to say when")
	}
	var err error
	if o.task != "" {
		o.Task, err = json.Marshal(map[string]string{"objective": o.task})
	} else if err = a.readJob(ctx, o.items, "", &o.job); err == nil {
		o.Job, err = json.Marshal(struct {
			Instruction string                 `json:"instruction"`
			Items       []command.JobItemInput `json:"items"`
			Concurrency int64                  `json:"concurrency,omitempty"`
		}{o.job.Instruction, o.job.Items, o.job.Concurrency})
	}
	if err != nil {
		return err
	}
	return o.Validate()
}

func (a *app) scheduleRunCommand() *cobra.Command {
	p := &command.RunSchedule{}
	return a.scheduleChange("run", "Start a run of a schedule now",
		"Starts a run now, besides those that are due. It waits for the end of the run\nbefore, unless the schedule lets runs overlap.\n\nExit codes: 0 accepted, 1 failed, 2 usage.",
		"  agentd schedules run schedule_01", func(id string) command.Params { p.ScheduleID = id; return p })
}

func (a *app) schedulePauseCommand() *cobra.Command {
	p := &command.PauseSchedule{}
	cmd := a.scheduleChange("pause", "Pause a schedule: it starts nothing until it is resumed",
		"Pauses a schedule. What it started continues.\n\nExit codes: 0 paused, 1 failed, 2 usage.",
		"  agentd schedules pause --reason holidays schedule_01", func(id string) command.Params { p.ScheduleID = id; return p })
	cmd.Flags().StringVar(&p.Reason, "reason", "", "why, for the record")
	return cmd
}

func (a *app) scheduleResumeCommand() *cobra.Command {
	p := &command.ResumeSchedule{}
	cmd := a.scheduleChange("resume", "Resume a paused schedule",
		"Resumes a paused schedule. Runs that were due meanwhile follow its policy for\nmissed ones. With recovery: manual every schedule is paused when a server starts.\n\nExit codes: 0 resumed, 1 failed, 2 usage.",
		"  agentd schedules resume schedule_01", func(id string) command.Params { p.ScheduleID = id; return p })
	cmd.Flags().StringVar(&p.Reason, "reason", "", "why, for the record")
	return cmd
}

func (a *app) scheduleDeleteCommand() *cobra.Command {
	p := &command.DeleteSchedule{}
	cmd := a.scheduleChange("delete", "Delete a schedule; what it started continues",
		"Deletes a schedule. What it started continues.\n\nExit codes: 0 deleted, 1 failed, 2 usage.",
		"  agentd schedules delete schedule_01", func(id string) command.Params { p.ScheduleID = id; return p })
	cmd.Flags().StringVar(&p.Reason, "reason", "", "why, for the record")
	return cmd
}

// scheduleChange is a command that changes one schedule.
func (a *app) scheduleChange(verb, short, long, example string, of func(id string) command.Params) *cobra.Command {
	return a.withDataFlags(&cobra.Command{
		Use: verb + " SCHEDULE", Short: short, Long: long, Example: example, Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			p := of(given[0])
			return a.withFacts(cmd, toAct, func(f facts.Source) error { return a.askSchedule(cmd.Context(), f, p) })
		},
	})
}

// askSchedule carries out a command that answers with a schedule's standing.
func (a *app) askSchedule(ctx context.Context, f facts.Source, p command.Params) error {
	if err := p.Validate(); err != nil {
		return &exitError{exitUsage, err}
	}
	return showResult(ctx, a, f, p, func(out *printer, res *command.ScheduleResult) {
		next := ""
		if !res.NextAt.IsZero() && res.Status == "active" {
			next = "  next " + moment(res.NextAt)
		}
		out.linef("%s  %s%s", res.ScheduleID, res.Status, next)
	})
}
