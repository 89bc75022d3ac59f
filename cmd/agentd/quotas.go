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
name. Limits are set under quotas in the configuration. With --json the answer is
that of get_quotas.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd quotas\n  agentd quotas --account acme --json",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withValid(cmd, toLook, p, func(f facts.Source) error { return a.showQuotas(cmd, f, p) })
		},
	}
	cmd.Flags().StringVar(&p.Account, "account", "", "only this account")
	return a.withDataFlags(cmd)
}

func (a *app) showQuotas(cmd *cobra.Command, f facts.Source, p *command.GetQuotas) error {
	return showResult(cmd.Context(), a, f, p, func(out *printer, res *command.GetQuotasResult) {
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
	})
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
