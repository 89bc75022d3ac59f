package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/command"
	"agentd/quota"
)

func (a *app) quotasCommand() *cobra.Command {
	p := &command.GetQuotas{}
	cmd := &cobra.Command{
		Use:   "quotas",
		Short: "Show how much of its quotas each account uses",
		Long: `Shows the limit and the use of each quota. With an admin token every account is
shown, otherwise the token's own. The account "-" is the operator's, which has no
name. Limits are set under quotas in the configuration, or with "agentd quotas
set". With --json the answer is that of get_quotas.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd quotas\n  agentd quotas --account acme --json",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withValid(cmd, toLook, p, func(f facts.Source) error { return a.showQuotas(cmd, f, p) })
		},
	}
	cmd.Flags().StringVar(&p.Account, "account", "", "only this account")
	cmd.AddCommand(a.quotasSetCommand())
	return a.withDataFlags(cmd)
}

func (a *app) quotasSetCommand() *cobra.Command {
	p := &command.SetQuotas{}
	limits := map[string]*int64{}
	cmd := &cobra.Command{
		Use:   "set ACCOUNT",
		Short: "Change the quotas of an account",
		Long: `Changes the limits of an account, at once and until they are changed again; what
isn't given stays, and 0 is no limit. The account "-" is the operator's. --reset
brings the limits of the configuration back. With --json the answer is that of
set_quotas.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd quotas set acme --sessions 100 --stored-bytes 1073741824\n  agentd quotas set acme --reset",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			if p.Account = given[0]; p.Account == "-" {
				p.Account, p.Operator = "", true
			}
			change := &command.QuotaChange{}
			for name, field := range map[string]**int64{
				"sessions": &change.Sessions, "queued-turns": &change.QueuedTurns, "subscriptions": &change.Subscriptions,
				"stored-bytes": &change.StoredBytes, "schedules": &change.Schedules, "processes": &change.Processes,
			} {
				if cmd.Flags().Changed(name) {
					*field, p.Limits = limits[name], change
				}
			}
			if p.Limits == nil && !p.Reset {
				return usagef("nothing to change: give a limit such as --sessions 100, or --reset")
			}
			return a.withValid(cmd, toLook, p, func(f facts.Source) error {
				return showResult(cmd.Context(), a, f, p, printQuotas)
			})
		},
	}
	for name, means := range map[string]string{
		"sessions": "sessions", "queued-turns": "turns that wait", "subscriptions": "open streams",
		"stored-bytes": "bytes that are stored", "schedules": "schedules", "processes": "running processes",
	} {
		limits[name] = cmd.Flags().Int64(name, 0, "the most "+means)
	}
	cmd.Flags().BoolVar(&p.Reset, "reset", false, "bring the limits of the configuration back")
	return a.withDataFlags(cmd)
}

func (a *app) showQuotas(cmd *cobra.Command, f facts.Source, p *command.GetQuotas) error {
	return showResult(cmd.Context(), a, f, p, printQuotas)
}

func printQuotas(out *printer, res *command.GetQuotasResult) {
	rows := [][]string{{"ACCOUNT", "QUOTA", "LIMIT", "USED"}}
	for _, q := range res.Quotas {
		account, limit := q.Account, "unlimited"
		if account == "" {
			account = "-"
		}
		if q.Limit != nil {
			limit = quotaNumber(q.Quota, *q.Limit)
		}
		rows = append(rows, []string{terminal.Plain(account), q.Quota, limit, quotaNumber(q.Quota, q.Used)})
	}
	out.table(rows)
}

// byteSize writes a number of bytes for people.
func byteSize(n int64) string {
	for _, u := range []struct {
		shift int
		name  string
	}{{30, "GiB"}, {20, "MiB"}, {10, "KiB"}} {
		if n >= 1<<u.shift {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(int64(1)<<u.shift), u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

// quotaNumber writes a number of a quota for people.
func quotaNumber(name string, n int64) string {
	if name == string(quota.StoredBytes) {
		return byteSize(n)
	}
	return strconv.FormatInt(n, 10)
}
