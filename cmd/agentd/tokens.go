package main

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"agentd/command"
	"agentd/fault"
	"agentd/server"
)

func (a *app) tokensCommand() *cobra.Command {
	return parent("tokens", "Create, list and revoke tokens",
		`Tokens give clients access to the server. They are kept, hashed, in a file
of the data directory; a running server sees a change at the next request.

Exit codes: those of its commands.`,
		"  agentd tokens create --role client --account alice laptop\n  agentd tokens list\n  agentd tokens revoke laptop",
		a.tokensCreate(), a.tokensList(), a.tokensRevoke())
}

// withTokens opens the file of tokens that a command line means.
func (a *app) withTokens(cmd *cobra.Command, do func(*server.Tokens) error) error {
	loaded, err := a.load(cmd)
	if err != nil {
		return err
	}
	dir := loaded.Config.Local()
	if err := a.claimData(loaded.Config); err != nil {
		return err
	}
	t, err := server.OpenTokens(filepath.Join(dir, tokensFile), nil)
	if err != nil {
		return err
	}
	return errors.Join(do(t), t.Close())
}

// createdToken is the answer of "tokens create": the only time that the secret
// is shown.
type createdToken struct {
	server.Token
	Secret string `json:"token"`
}

func (a *app) tokensCreate() *cobra.Command {
	var role, account string
	var lifetime time.Duration
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a token and print it once",
		Long: `Creates a token and prints it. It can't be shown again. Roles: admin may do
everything and sees every account; client works in its account; observer reads in
its account. Without --account that is the unnamed account, which also owns the
sessions opened with the admin token or by commands on this machine.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd tokens create --role client --account alice laptop\n  agentd tokens create --role observer --expires 720h dashboard",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			n := server.NewToken{Name: given[0], Role: command.Role(role), Account: account}
			if lifetime < 0 || lifetime == 0 && cmd.Flags().Changed("expires") { // 0 would be for ever
				return usagef("--expires: %s is not a duration greater than zero; leave --expires out for a token that doesn't expire", lifetime)
			}
			if lifetime > 0 {
				n.ExpiresAt = time.Now().Add(lifetime).UTC().Truncate(time.Second)
			}
			return a.withTokens(cmd, func(t *server.Tokens) error {
				made, secret, err := t.Create(n)
				if fault.KindOf(err) == fault.InvalidParams {
					return &exitError{exitUsage, err}
				}
				if err != nil {
					return err
				}
				return a.print(createdToken{made, secret}, func(p *printer) {
					a.sayf("Token %s (%s, %s). It is not shown again:", made.ID, made.Name, made.Role)
					p.linef("%s", secret)
				})
			})
		},
	}
	cmd.Flags().StringVar(&role, "role", "client", "admin, client or observer")
	cmd.Flags().StringVar(&account, "account", "", "the account whose sessions it sees; default: the unnamed one")
	cmd.Flags().DurationVar(&lifetime, "expires", 0, "how long it is valid, such as 720h; default: forever")
	return a.settings(cmd, "data", "stateDir")
}

func (a *app) tokensList() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List tokens",
		Long:    "Lists all tokens, including expired and revoked ones, without their secrets. The\nadmin token in DATA/token or AGENTD_TOKEN is not listed. The time of last use is\nwritten now and then, and may lag by some minutes.\n\nExit codes: 0 done, 1 failed, 2 usage.",
		Example: "  agentd tokens list\n  agentd tokens list --json",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withTokens(cmd, func(t *server.Tokens) error {
				list, err := t.List()
				if err != nil {
					return err
				}
				return a.print(map[string]any{"tokens": list}, func(p *printer) { printTokens(p, list) })
			})
		},
	}
	return a.settings(cmd, "data", "stateDir")
}

func printTokens(p *printer, list []server.Token) {
	rows := [][]string{{"ID", "NAME", "ROLE", "ACCOUNT", "STATUS", "LAST USED"}}
	now := time.Now()
	for _, t := range list {
		status := "active"
		switch {
		case !t.RevokedAt.IsZero():
			status = "revoked"
		case !t.Active(now):
			status = "expired"
		case !t.ExpiresAt.IsZero():
			status = "until " + t.ExpiresAt.Format(time.DateOnly)
		}
		rows = append(rows, []string{t.ID, t.Name, string(t.Role), orDash(t.Account), status, ago(t.LastUsedAt)})
	}
	p.table(rows)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func (a *app) tokensRevoke() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "revoke ID|NAME",
		Short:   "Revoke a token, also in open streams",
		Long:    "Revokes a token at once; open streams end at their next heartbeat. Revoking one\ntwice is fine.\n\nExit codes: 0 done, 1 failed, 2 usage.",
		Example: "  agentd tokens revoke laptop",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.withTokens(cmd, func(t *server.Tokens) error {
				if err := t.Revoke(given[0]); err != nil {
					return err
				}
				return a.print(map[string]any{"revoked": given[0]}, func(p *printer) { p.linef("%s is revoked", given[0]) })
			})
		},
	}
	return a.settings(cmd, "data", "stateDir")
}
