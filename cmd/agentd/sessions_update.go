package main

import (
	"strings"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/command"
)

func (a *app) sessionsUpdateCommand() *cobra.Command {
	p := &command.UpdateSession{}
	var title string
	var tags []string
	var pinned, archived bool
	cmd := &cobra.Command{
		Use:   "update SESSION",
		Short: "Rename, tag, pin or archive a session",
		Long: `Changes a session's title, tags, pin or archive mark; what isn't given stays. The
tags that are given with --tag take the place of all that there were; --tag ""
removes them. --add-tag and --remove-tag change single tags and leave the others.
With --json the answer is that of update_session.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: `  agentd sessions update sess_01 --title "Release notes"
  agentd sessions update sess_01 --tag release --tag docs
  agentd sessions update sess_01 --add-tag urgent --remove-tag draft
  agentd sessions update sess_01 --pin
  agentd sessions update sess_01 --archive=false`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			p.SessionID = given[0]
			if cmd.Flags().Changed("title") {
				p.Title = &title
			}
			if cmd.Flags().Changed("tag") {
				p.Tags = []string{}
				for _, tag := range tags {
					if tag != "" {
						p.Tags = append(p.Tags, tag)
					}
				}
			}
			if cmd.Flags().Changed("pin") {
				p.Pinned = &pinned
			}
			if cmd.Flags().Changed("archive") {
				p.Archived = &archived
			}
			changesTags := len(p.AddTags)+len(p.RemoveTags) > 0
			if p.Tags != nil && changesTags {
				return usagef("--tag replaces all tags; leave out --add-tag and --remove-tag")
			}
			if p.Title == nil && p.Tags == nil && !changesTags && p.Pinned == nil && p.Archived == nil {
				return usagef("nothing to change: give --title, --tag, --add-tag, --remove-tag, --pin or --archive")
			}
			return a.withValid(cmd, toLook, p, func(f facts.Source) error {
				return showResult(cmd.Context(), a, f, p, printSessionRecord)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&title, "title", "", "the title")
	f.StringArrayVar(&tags, "tag", nil, "a tag, instead of all that there are; may be repeated")
	f.StringArrayVar(&p.AddTags, "add-tag", nil, "a further tag; may be repeated")
	f.StringArrayVar(&p.RemoveTags, "remove-tag", nil, "a tag to take away; may be repeated")
	f.BoolVar(&pinned, "pin", false, "pin the session, or with --pin=false take the pin away")
	f.BoolVar(&archived, "archive", false, "archive the session, or with --archive=false bring it back")
	return a.withDataFlags(cmd)
}

func printSessionRecord(out *printer, r *command.UpdateSessionResult) {
	parts := []string{r.SessionID, terminal.Plain(r.Title)}
	if len(r.Tags) > 0 {
		parts = append(parts, "tags "+terminal.Plain(strings.Join(r.Tags, ", ")))
	}
	if r.Pinned {
		parts = append(parts, "pinned")
	}
	if r.Archived {
		parts = append(parts, "archived")
	}
	out.linef("%s", terminal.JoinDots(parts...))
}

func (a *app) sessionsDeleteCommand() *cobra.Command {
	p := &command.DeleteSession{}
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete SESSION",
		Short: "Delete a session that is at rest",
		Long: `Deletes a session: its events, outputs and index entries. It can't be had back; on
a terminal it asks first. A session with unfinished work is refused. Sessions that
were forked from it go on. With --json the answer is that of delete_session.

Exit codes: 0 done, 1 failed or not wanted, 2 usage.`,
		Example: `  agentd sessions delete sess_04 --reason "no longer needed" --yes`,
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			p.SessionID = given[0]
			return a.withValid(cmd, toLook, p, func(f facts.Source) error {
				if !yes && !a.json && terminal.IsTerminal(a.in) && terminal.IsTerminal(a.out) {
					if err := a.confirm(cmd.Context(), "Delete session "+p.SessionID+"? [y/N] "); err != nil {
						return err
					}
				}
				return showResult(cmd.Context(), a, f, p, func(out *printer, r *command.DeleteSessionResult) {
					kept := ""
					if r.KeptForForks {
						kept = "its events stay for its forks"
					}
					out.linef("%s", terminal.JoinDots("Deleted "+p.SessionID, terminal.Plural(int64(r.Events), "event"), kept))
				})
			})
		},
	}
	cmd.Flags().StringVar(&p.Reason, "reason", "", "why, for people")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "don't ask")
	return a.withDataFlags(cmd)
}
