package main

import (
	"time"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/command"
	"agentd/fault"
)

func (a *app) turnsCommand() *cobra.Command {
	p := &command.ListTurns{}
	cmd := &cobra.Command{
		Use:   "turns",
		Short: "List turns of all sessions, newest first",
		Long: `Lists the turns of all sessions, newest first, with what they cost. Filters add
up. With --json the answer is that of list_turns, which has more: tokens, tools,
duration, outcome.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd turns\n  agentd turns --status failed --from 24h\n  agentd turns --query \"release notes\" --sort cost\n  agentd turns --tool shell --json",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withValid(cmd, toLook, p, func(f facts.Source) error { return a.listTurns(cmd, f, p) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&p.SessionID, "session", "", "only turns of this session")
	f.StringVar(&p.Query, "query", "", "only turns whose input has all of these words")
	f.StringVar(&p.Status, "status", "", "only turns in this status, such as running or failed")
	f.StringVar(&p.Outcome, "outcome", "", "only turns that ended with this outcome")
	f.StringVar(&p.Model, "model", "", "only turns that this model answered")
	f.StringVar(&p.Tool, "tool", "", "only turns that called this tool")
	f.StringVar(&p.Workspace, "workspace", "", "only turns that worked in this folder")
	f.StringVar(&p.Account, "account", "", "only turns of this account")
	f.StringArrayVar(&p.Tags, "tag", nil, "only turns of sessions with this tag; may be repeated")
	addTimeFlags(cmd, &p.From, &p.To)
	f.StringVar(&p.Sort, "sort", "", "order by started, duration, cost or tokens (default started)")
	f.StringVar(&p.Order, "order", "", "asc or desc (default desc)")
	addPageFlags(cmd, &p.Page)
	return a.withDataFlags(cmd)
}

func (a *app) listTurns(cmd *cobra.Command, f facts.Source, p *command.ListTurns) error {
	return showResult(cmd.Context(), a, f, p, func(out *printer, res *command.ListTurnsResult) {
		rows := [][]string{{"TURN", "STATUS", "STARTED", "COST", "INPUT"}}
		for i := range res.Turns {
			t := &res.Turns[i]
			rows = append(rows, []string{t.TurnID, t.Status, ago(t.StartedAt), terminal.Money(t.CostUSD), terminal.Plain(t.Preview)})
		}
		out.table(rows)
		if res.NextCursor != "" {
			a.sayf("%d of %d; the next: --cursor %s", len(res.Turns), res.Total, res.NextCursor)
		}
	})
}

// timeFlag is a flag with a time: a date, a time, or how long ago.
type timeFlag struct {
	at   *time.Time
	text string
}

// addTimeFlags adds the flags of a list that is limited to a time.
func addTimeFlags(cmd *cobra.Command, from, to *time.Time) {
	cmd.Flags().Var(&timeFlag{at: from}, "from", "only at or after this time: 2026-01-31, 2026-01-31T15:04:05Z, or 24h for a day ago")
	cmd.Flags().Var(&timeFlag{at: to}, "to", "only before this time")
}

func (f *timeFlag) String() string { return f.text }

// Type implements pflag.Value.
func (f *timeFlag) Type() string { return "time" }

// Set implements pflag.Value.
func (f *timeFlag) Set(text string) error {
	f.text = text
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		*f.at = time.Now().Add(-d).UTC()
		return nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			*f.at = t
			return nil
		}
	}
	return fault.New(fault.InvalidParams, "%q is no time; use a date such as 2026-01-31, a time such as 2026-01-31T15:04:05Z, or a duration such as 24h", text)
}
