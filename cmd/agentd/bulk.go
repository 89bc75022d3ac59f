package main

import (
	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/command"
)

// respondAll gives several actions the same answer.
func (a *app) respondAll(cmd *cobra.Command, one *command.RespondAction, ids []string) error {
	p := &command.RespondActions{ActionIDs: ids, Decision: one.Decision, Scope: one.Scope, ExpiresInMs: one.ExpiresInMs, Reason: one.Reason}
	return a.withValid(cmd, toLook, p, func(f facts.Source) error {
		var res command.RespondActionsResult
		if err := f.Do(cmd.Context(), p, &res); err != nil {
			return err
		}
		if !f.Live() {
			a.sayf("No server holds the data: the work continues when \"agentd serve\" starts.")
		}
		return a.printSeveral(&res, &res.BulkCounts, func(out *printer) {
			for _, r := range res.Results {
				sayOne(out, r.ActionID, p.Decision, r.Error)
			}
		})
	})
}

// printSeveral shows what became of several; the program fails if one of them did.
func (a *app) printSeveral(res any, counts *command.BulkCounts, text func(*printer)) error {
	if err := a.print(res, func(out *printer) {
		text(out)
		if counts.Remaining > 0 {
			out.linef("%d more were not looked at: call again for the rest", counts.Remaining)
		}
	}); err != nil {
		return err
	}
	if counts.Failed > 0 {
		return silent(exitFailed)
	}
	return nil
}

// sayOne shows what became of one of several.
func sayOne(out *printer, id, done string, failed *command.BulkError) {
	if failed != nil {
		out.linef("%s: failed: %s (%s)", id, terminal.Plain(nameCommandLines(failed.Detail)), failed.Code)
		return
	}
	out.linef("%s: %s", id, done)
}

func (a *app) interruptCommand() *cobra.Command {
	p := &command.InterruptTurns{}
	var all, clearQueue bool
	cmd := &cobra.Command{
		Use:   "interrupt SESSION...",
		Short: "Stop the running turns of sessions",
		Long: `Stops the running turn of each session's main thread, at most 1,000 at a time.
With --all that of every session with unfinished work. One that fails doesn't keep
the others from being stopped. With --json the answer is that of interrupt_turns.

Exit codes: 0 done, 1 one or more failed, 2 usage.`,
		Example: "  agentd interrupt sess_01\n  agentd interrupt --reason \"the release is out\" --clear sess_01 sess_02\n  agentd interrupt --all",
		Args: func(cmd *cobra.Command, given []string) error {
			if all {
				return args(cobra.NoArgs)(cmd, given)
			}
			return args(cobra.MinimumNArgs(1))(cmd, given)
		},
		RunE: func(cmd *cobra.Command, given []string) error {
			if p.SessionIDs = given; all {
				p.Filter = &command.SessionFilter{}
			}
			if clearQueue {
				p.Queue = "clear"
			}
			return a.withValid(cmd, toLook, p, func(f facts.Source) error {
				var res command.InterruptTurnsResult
				if err := f.Do(cmd.Context(), p, &res); err != nil {
					return err
				}
				return a.printSeveral(&res, &res.BulkCounts, func(out *printer) {
					for _, r := range res.Results {
						done := "nothing runs"
						if r.Interrupted {
							done = "interrupted " + r.TurnID
						}
						sayOne(out, r.SessionID, done, r.Error)
					}
				})
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "every session with unfinished work")
	cmd.Flags().BoolVar(&clearQueue, "clear", false, "also remove the turns that wait")
	cmd.Flags().StringVar(&p.Reason, "reason", "", "why, for the record")
	return a.withDataFlags(cmd)
}

func (a *app) sessionsArchiveCommand() *cobra.Command {
	p := &command.ArchiveSessions{}
	var back bool
	cmd := &cobra.Command{
		Use:   "archive SESSION...",
		Short: "Archive sessions, or bring them back",
		Long: `Archives sessions, at most 1,000 at a time: lists leave them out unless they are
asked for. One that fails doesn't keep the others from being archived. With --json
the answer is that of archive_sessions.

Exit codes: 0 done, 1 one or more failed, 2 usage.`,
		Example: "  agentd sessions archive sess_01 sess_04\n  agentd sessions archive --restore sess_01",
		Args:    args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			archived, done := !back, "archived"
			if back {
				done = "restored"
			}
			p.SessionIDs, p.Archived = given, &archived
			return a.withValid(cmd, toLook, p, func(f facts.Source) error {
				var res command.ArchiveSessionsResult
				if err := f.Do(cmd.Context(), p, &res); err != nil {
					return err
				}
				return a.printSeveral(&res, &res.BulkCounts, func(out *printer) {
					for _, r := range res.Results {
						sayOne(out, r.SessionID, done, r.Error)
					}
				})
			})
		},
	}
	cmd.Flags().BoolVar(&back, "restore", false, "bring the sessions back instead")
	return a.withDataFlags(cmd)
}
