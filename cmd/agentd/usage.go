package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/command"
)

func (a *app) usageCommand() *cobra.Command {
	p := &command.Usage{}
	var from, to string
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Show what was used: turns, tokens, cost, tool calls, approvals",
		Long: `Shows turns, tokens, cost, tool calls, failures and approvals, by model unless
--by says otherwise. Costs are those of models whose price is known. With an
admin token all accounts are counted, otherwise the token's own. Times are days
or RFC 3339, in UTC, and are moved outwards to full hours. With --json the
answer is that of usage.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd usage\n  agentd usage --by tool\n  agentd usage --by account,model --bucket month --from 2026-01-01\n  agentd usage --bucket day --json",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if p.From, err = flagTime("--from", from); err != nil {
				return err
			}
			if p.To, err = flagTime("--to", to); err != nil {
				return err
			}
			return a.withValid(cmd, toAct, p, func(f facts.Source) error { return a.showUsage(cmd, f, p) })
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&p.GroupBy, "by", []string{"model"}, "keys of the rows: model, account, session, tool, workspace; \"\" for one row")
	f.StringVar(&p.Bucket, "bucket", "", "split by hour, day or month")
	f.StringVar(&from, "from", "", "only what was used from this time on")
	f.StringVar(&to, "to", "", "only what was used before this time")
	f.StringVar(&p.Account, "account", "", "only what this account used")
	f.IntVar(&p.Limit, "limit", 0, "maximum number of rows (default 1000)")
	return a.withDataFlags(cmd)
}

// flagTime reads a time that was given as a flag.
func flagTime(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, form := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(form, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usagef("%s: %q is not a time; give a day such as 2026-01-31, or RFC 3339", flag, text)
}

// bucketForms are how the beginnings of buckets are shown.
var bucketForms = map[string]string{"hour": "2006-01-02 15:00", "day": time.DateOnly, "month": "2006-01"}

func (a *app) showUsage(cmd *cobra.Command, f facts.Source, p *command.Usage) error {
	return showResult(cmd.Context(), a, f, p, func(out *printer, res *command.UsageResult) {
		var head []string
		if p.Bucket != "" {
			head = append(head, "TIME")
		}
		keys := []struct {
			name, title string
			of          func(*command.UsageRow) string
		}{
			{"account", "ACCOUNT", func(r *command.UsageRow) string { return r.Account }},
			{"workspace", "WORKSPACE", func(r *command.UsageRow) string { return r.Workspace }},
			{"session", "SESSION", func(r *command.UsageRow) string { return r.Session }},
			{"model", "MODEL", func(r *command.UsageRow) string { return r.Model }},
			{"tool", "TOOL", func(r *command.UsageRow) string { return r.Tool }},
		}
		for _, k := range keys {
			if slices.Contains(p.GroupBy, k.name) {
				head = append(head, k.title)
			}
		}
		rows := [][]string{append(head, "TURNS", "FAILED", "INPUT", "OUTPUT", "COST", "CALLS", "FAILED", "APPROVALS", "WAITED")}
		for i := range res.Rows {
			r := &res.Rows[i]
			var row []string
			if p.Bucket != "" {
				row = append(row, r.Bucket.UTC().Format(bucketForms[p.Bucket]))
			}
			for _, k := range keys {
				if slices.Contains(p.GroupBy, k.name) {
					row = append(row, orDash(terminal.Plain(k.of(r))))
				}
			}
			rows = append(rows, append(row, usageCells(r)...))
		}
		if !out.seen {
			out.cols = 0 // figures are for programs, too
		}
		out.table(rows, "WAITED", "APPROVALS")
		if res.Truncated {
			a.sayf("%d of %d rows; --limit shows more", len(res.Rows), res.Total)
		}
	})
}

func usageCells(r *command.UsageRow) []string {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	waited := time.Duration(r.ApprovalWaitMs) * time.Millisecond
	return []string{
		number(r.Turns), number(r.Failures), number(r.InputTokens), number(r.OutputTokens), fmt.Sprintf("$%.4f", r.CostUSD),
		number(r.ToolCalls), number(r.ToolFailures), number(r.Approvals), waited.Round(time.Second).String(),
	}
}
