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
	"agentd/event"
	"agentd/fault"
)

func (a *app) sessionsCommand() *cobra.Command {
	p := &command.ListSessions{}
	var all, pinned bool
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "List sessions, newest first",
		Long: `Lists sessions, newest first. On your own server these are the sessions of the
project that you are in; --all lists those of all folders. Archived ones are left
out; --archived lists them instead. With --json the answer is that of
list_sessions, for all folders.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd sessions\n  agentd sessions --all\n  agentd sessions --query report --limit 20\n  agentd sessions --tag release --sort cost\n  agentd sessions --json --server http://127.0.0.1:8700",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("pinned") {
				p.Pinned = &pinned
			}
			return a.withValid(cmd, toLook, p, func(f facts.Source) error { return a.listSessions(cmd, f, p, all) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&p.Query, "query", "", "only sessions whose id, title, workspace or tags contain it")
	f.StringVar(&p.Status, "status", "", "only sessions in this status, such as running or blocked")
	f.StringVar(&p.Workspace, "workspace", "", "only sessions that work in this folder")
	f.StringVar(&p.Account, "account", "", "only sessions of this account")
	f.StringArrayVar(&p.Tags, "tag", nil, "only sessions with this tag; may be repeated")
	f.BoolVar(&p.Archived, "archived", false, "list the archived sessions")
	f.BoolVar(&pinned, "pinned", false, "only sessions that are pinned")
	f.StringVar(&p.Sort, "sort", "", "order by created, updated, cost, tokens, turns or title (default created)")
	f.StringVar(&p.Order, "order", "", "asc or desc (default asc for title, else desc)")
	addPageFlags(cmd, &p.Page)
	cmd.Flags().BoolVar(&all, "all", false, "the sessions of all folders, and all pages")
	cmd.AddCommand(a.sessionsExportCommand(), a.sessionsImportCommand(), a.sessionsTrimCommand(), a.sessionsUpdateCommand(), a.sessionsArchiveCommand(), a.sessionsDeleteCommand())
	return a.withDataFlags(cmd)
}

// withFacts runs a command on the facts and closes them.
func (a *app) withFacts(cmd *cobra.Command, n need, do func(facts.Source) error) error {
	f, err := a.connect(cmd, n)
	if err != nil {
		return err
	}
	return errors.Join(do(f), f.Close())
}

// withValid is withFacts for a command whose parameters come from flags: they are
// checked first.
func (a *app) withValid(cmd *cobra.Command, n need, p command.Params, do func(facts.Source) error) error {
	if err := p.Validate(); err != nil {
		return &exitError{exitUsage, err}
	}
	return a.withFacts(cmd, n, do)
}

// showResult carries out a command and prints its result: as JSON, or as text writes it.
func showResult[R any](ctx context.Context, a *app, f facts.Source, p command.Params, text func(*printer, *R)) error {
	var res R
	if err := f.Do(ctx, p, &res); err != nil {
		return err
	}
	return a.print(&res, func(out *printer) { text(out, &res) })
}

// addPageFlags adds the flags of a list that comes in pages.
func addPageFlags(cmd *cobra.Command, p *command.Page) {
	cmd.Flags().IntVar(&p.Limit, "limit", 0, "maximum number of entries (default 100)")
	cmd.Flags().StringVar(&p.Cursor, "cursor", "", "continue where an answer with nextCursor ended")
}

// addNarrowFlags adds the flags that narrow and order a list of things in sessions.
func addNarrowFlags(cmd *cobra.Command, n *command.Narrowing, sort *string, orders string) {
	f := cmd.Flags()
	f.StringVar(&n.Query, "query", "", "only those whose id or text contains it")
	f.StringVar(&n.Workspace, "workspace", "", "only those of sessions that work in this folder")
	f.StringVar(&n.Account, "account", "", "only those of this account")
	f.StringArrayVar(&n.Tags, "tag", nil, "only those of sessions with this tag; may be repeated")
	f.StringVar(sort, "sort", "", "order by "+orders+" (default id)")
	f.StringVar(&n.Order, "order", "", "asc or desc (default asc for ids and titles, else desc)")
}

// sayMore says how the next page is shown, if there is one.
func (a *app) sayMore(cursor string) {
	if cursor != "" {
		a.sayf("There are more: --cursor %s", cursor)
	}
}

func (a *app) listSessions(cmd *cobra.Command, f facts.Source, p *command.ListSessions, all bool) error {
	var got command.ListSessionsResult
	here := a.narrowToProject(f, p, all)
	for {
		var page command.ListSessionsResult
		if err := f.Do(cmd.Context(), p, &page); err != nil {
			return err
		}
		got.Sessions, got.Total = append(got.Sessions, page.Sessions...), page.Total
		if got.NextCursor = page.NextCursor; !all || got.NextCursor == "" {
			break
		}
		p.Cursor = got.NextCursor
	}
	if got.Sessions == nil {
		got.Sessions = []command.SessionSummary{}
	}
	return a.print(got, func(out *printer) {
		rows := [][]string{{"SESSION", "STATUS", "TURNS", "UPDATED", "TITLE"}}
		for _, s := range got.Sessions {
			rows = append(rows, []string{s.SessionID, s.Status, strconv.FormatInt(s.TurnCount, 10), ago(s.UpdatedAt), terminal.Plain(s.Title)})
		}
		if here != "" && len(got.Sessions) == 0 {
			a.sayf("No sessions in %s.", here)
		} else {
			out.table(rows)
		}
		if elsewhere := sessionsElsewhere(cmd.Context(), f, p, got.Total); here != "" && elsewhere > 0 {
			a.sayf("%d more in other folders: agentd sessions --all", elsewhere)
		}
		if got.NextCursor != "" {
			a.sayf("%d of %d; the rest: --all, or --cursor %s", len(got.Sessions), got.Total, got.NextCursor)
		}
	})
}

// narrowToProject has a list for people show the sessions of the project that the command
// is in, and returns it; empty if the list shows all.
func (a *app) narrowToProject(f facts.Source, p *command.ListSessions, all bool) string {
	r, ok := f.(*remoteFacts)
	if !ok || !r.own || a.json || all || p.Workspace != "" || p.Account != "" || p.Cursor != "" {
		return ""
	}
	p.Workspace = r.root
	return p.Workspace
}

// sessionsElsewhere counts the sessions that a list shows without its folder and doesn't
// show with it.
func sessionsElsewhere(ctx context.Context, f facts.Source, p *command.ListSessions, shown int64) int64 {
	everywhere := *p
	everywhere.Workspace, everywhere.Page = "", command.Page{Limit: 1}
	var found, own command.ListSessionsResult
	if f.Do(ctx, &everywhere, &found) != nil {
		return 0 // it is only a hint
	}
	if p.Query != "" {
		return found.Total - shown
	}
	everywhere.Query = event.RuntimeSession
	if f.Do(ctx, &everywhere, &own) != nil {
		return 0
	}
	return found.Total - own.Total - shown
}

// ago says how long ago a time was, or how long until it comes, roughly.
func ago(t time.Time) string {
	d := time.Since(t)
	switch {
	case t.IsZero():
		return "-"
	case d <= -time.Minute:
		return "in " + roughly(-d)
	case d < -2*time.Second: // less may be a clock that differs
		return "in <1m"
	case d < time.Minute:
		return "just now"
	}
	return roughly(d) + " ago"
}

func roughly(d time.Duration) string {
	switch {
	case d < time.Hour:
		return strconv.Itoa(int(d.Minutes())) + "m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + "h"
	}
	return strconv.Itoa(int(d.Hours()/24)) + "d"
}

func (a *app) callCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "call COMMAND [JSON]",
		Short: "Run any command of the catalogue",
		Long: `Carries out a command as over HTTP: a JSON object of parameters in, the result as
JSON out. "-" reads the parameters from standard input.

Exit codes: 0 done, 1 failed, 2 usage, also if a parameter is missing or doesn't
fit.`,
		Example: `  agentd call get_session '{"sessionId":"sess_01"}'
  agentd call interrupt_turn '{"sessionId":"sess_01"}'`,
		Args: args(cobra.RangeArgs(1, 2)), ValidArgsFunction: commandNames,
		RunE: func(cmd *cobra.Command, given []string) error {
			body := []byte("{}")
			if len(given) == 2 {
				text, err := a.textOrInput(cmd.Context(), given[1])
				if err != nil {
					return err
				}
				body = []byte(text)
			}
			p, err := command.Decode(command.Name(given[0]), body)
			if fault.KindOf(err) == fault.NotFound {
				return noSuchCall(given[0])
			}
			if f, ok := errors.AsType[*fault.Error](err); ok && f.Param == "" {
				return usagef("JSON: %s", strings.ReplaceAll(f.Detail, "the body", "it")) // over HTTP it is the body
			}
			if err == nil {
				err = p.Validate()
			}
			if err != nil {
				return &exitError{exitUsage, err}
			}
			needsLoop := false
			call := func(f facts.Source) error {
				var result json.RawMessage
				if err := f.Do(cmd.Context(), p, &result); err != nil {
					needsLoop = !f.Live() && fault.KindOf(err) == fault.Unavailable
					return err
				}
				return writeJSON(a.out, result)
			}
			// Most commands only add facts, which a later server acts on. One that needs
			// tools or models says that it isn't carried out here.
			if err = a.withFacts(cmd, toLook, call); needsLoop {
				err = a.withFacts(cmd, toAct, call)
			}
			if fault.KindOf(err) == fault.InvalidParams {
				err = &exitError{exitUsage, err}
			}
			return err
		},
	}
	return a.withDataFlags(cmd)
}

// noSuchCall says which command of the catalogue may have been meant.
func noSuchCall(name string) error {
	var names []string
	for _, d := range command.Catalog() {
		names = append(names, string(d.Name))
	}
	if near := nearest(name, names); near != "" {
		return usagef("COMMAND: there is no command %s in the catalogue; did you mean %s?", name, near)
	}
	return usagef("COMMAND: there is no command %s in the catalogue; docs/reference/commands.md lists them", name)
}
