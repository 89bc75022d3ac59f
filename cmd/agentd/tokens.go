package main

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"agentd"
	"agentd/cmd/agentd/internal/shortid"
	"agentd/command"
	"agentd/fault"
	"agentd/server"
)

func (a *app) tokensCommand() *cobra.Command {
	return parent("tokens", "Create, list, rotate and revoke tokens",
		`Tokens give clients access to the server. They are kept, hashed, in a file of the
data directory. The server that holds the data, or that --server names, makes the
change and records it; without one the file is changed. Over a database a node has
to do it, which tells the others: the one that runs from the state directory, or
that --server names.

Exit codes: those of its commands.`,
		"  agentd tokens create --role client --account alice laptop\n  agentd tokens list\n  agentd tokens rotate laptop\n  agentd tokens revoke laptop",
		a.tokensCreate(), a.tokensList(), a.tokensRotate(), a.tokensRevoke())
}

// withTokens finds the tokens that a command line means: those of a server, or the file.
func (a *app) withTokens(cmd *cobra.Command, do func(agentd.TokenKeeper) error) error {
	loaded, err := a.load(cmd)
	if err != nil {
		return err
	}
	remote, err := a.remote(cmd.Context(), loaded.Config)
	if err != nil {
		return err
	}
	if remote != nil {
		return errors.Join(do(&serverTokens{cmd.Context(), remote}), remote.Close())
	}
	if loaded.Config.Database() { // no node reads the file of this folder
		return usagef("no node of the database runs from %s, and tokens are the nodes': name one with --server, and set AGENTD_TOKEN to its admin token", loaded.Config.Local())
	}
	if err := a.claimData(loaded.Config); err != nil {
		return err
	}
	t, err := server.OpenTokens(filepath.Join(loaded.Config.Local(), tokensFile), nil)
	if err != nil {
		return err
	}
	return errors.Join(do(t), t.Close())
}

// serverTokens are the tokens of a server.
type serverTokens struct {
	ctx    context.Context //nolint:containedctx // it lives within one command
	remote *remoteFacts
}

// ListTokens implements [agentd.TokenKeeper].
func (t *serverTokens) ListTokens() ([]command.TokenRecord, error) {
	var all []command.TokenRecord
	p := &command.ListTokens{}
	err := command.EachPage(p, func() (string, error) {
		var page command.ListTokensResult
		err := t.remote.Do(t.ctx, p, &page)
		all = append(all, page.Tokens...)
		return page.NextCursor, err
	})
	return all, err
}

// CreateToken implements [agentd.TokenKeeper].
func (t *serverTokens) CreateToken(p *command.CreateToken) (command.TokenRecord, string, error) {
	return t.secretOf(p)
}

// RotateToken implements [agentd.TokenKeeper].
func (t *serverTokens) RotateToken(p *command.RotateToken) (command.TokenRecord, string, error) {
	return t.secretOf(p)
}

func (t *serverTokens) secretOf(p command.Params) (command.TokenRecord, string, error) {
	var res command.NewTokenResult
	err := t.remote.Do(t.ctx, p, &res)
	return res.TokenRecord, res.Token, err
}

// RevokeToken implements [agentd.TokenKeeper].
func (t *serverTokens) RevokeToken(idOrName string) (command.TokenRecord, error) {
	var res command.TokenRecord
	err := t.remote.Do(t.ctx, &command.RevokeToken{TokenID: idOrName}, &res)
	return res, err
}

// tokenOf returns a token's record as this program shows it.
func tokenOf(r *command.TokenRecord) server.Token {
	return server.Token{
		ID: r.TokenID, Name: r.Name, Role: command.Role(r.Role), Account: r.Account,
		CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt, RevokedAt: r.RevokedAt, LastUsedAt: r.LastUsedAt,
	}
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
			p := &command.CreateToken{Name: given[0], Role: role, Account: account, ExpiresInMs: lifetime.Milliseconds()}
			if lifetime < 0 || lifetime == 0 && cmd.Flags().Changed("expires") { // 0 would be for ever
				return usagef("--expires: %s is not a duration greater than zero; leave --expires out for a token that doesn't expire", lifetime)
			}
			if err := p.Validate(); err != nil {
				return &exitError{exitUsage, err}
			}
			return a.withTokens(cmd, func(t agentd.TokenKeeper) error {
				made, secret, err := t.CreateToken(p)
				return a.showSecret(&made, secret, err)
			})
		},
	}
	cmd.Flags().StringVar(&role, "role", "client", "admin, client or observer")
	cmd.Flags().StringVar(&account, "account", "", "the account whose sessions it sees; default: the unnamed one")
	cmd.Flags().DurationVar(&lifetime, "expires", 0, "how long it is valid, such as 720h; default: forever")
	return a.withDataFlags(cmd)
}

// showSecret prints a token that was made or renewed, the only time that it is shown.
func (a *app) showSecret(r *command.TokenRecord, secret string, err error) error {
	if fault.KindOf(err) == fault.InvalidParams {
		return &exitError{exitUsage, err}
	}
	if err != nil {
		return err
	}
	made := tokenOf(r)
	return a.print(createdToken{made, secret}, func(p *printer) {
		a.sayf("Token %s (%s, %s). It is not shown again:", made.ID, made.Name, made.Role)
		p.linef("%s", secret)
	})
}

func (a *app) tokensRotate() *cobra.Command {
	p := &command.RotateToken{}
	var lifetime time.Duration
	cmd := &cobra.Command{
		Use:   "rotate ID|NAME",
		Short: "Replace the secret of a token and print the new one once",
		Long: `Replaces the secret of a token and prints the new one. It can't be shown again.
The old one is refused at once, also in open streams; name, role and account stay.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd tokens rotate laptop\n  agentd tokens rotate --expires 720h laptop",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			if lifetime < 0 || lifetime == 0 && cmd.Flags().Changed("expires") {
				return usagef("--expires: %s is not a duration greater than zero; leave --expires out to keep the end as it is", lifetime)
			}
			p.ExpiresInMs = lifetime.Milliseconds()
			return a.withTokens(cmd, func(t agentd.TokenKeeper) error {
				var err error
				if p.TokenID, err = wholeToken(t, given[0]); err != nil {
					return err
				}
				made, secret, err := t.RotateToken(p)
				return a.showSecret(&made, secret, err)
			})
		},
	}
	cmd.Flags().DurationVar(&lifetime, "expires", 0, "how long it is valid from now on, such as 720h; default: as before")
	return a.withDataFlags(cmd)
}

func (a *app) tokensList() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List tokens",
		Long:    "Lists all tokens, including expired and revoked ones, without their secrets. The\nadmin token in DATA/token or AGENTD_TOKEN is not listed. The time of last use is\nwritten now and then, and may lag by some minutes.\n\nExit codes: 0 done, 1 failed, 2 usage.",
		Example: "  agentd tokens list\n  agentd tokens list --json",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withTokens(cmd, func(t agentd.TokenKeeper) error {
				records, err := t.ListTokens()
				if err != nil {
					return err
				}
				list := make([]server.Token, len(records))
				for i := range records {
					list[i] = tokenOf(&records[i])
				}
				return a.print(map[string]any{"tokens": list}, func(p *printer) { printTokens(p, list) })
			})
		},
	}
	return a.withDataFlags(cmd)
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
		Long:    "Revokes a token at once, and at other nodes within a second; open streams end\nwithin a second, too. Revoking one twice is fine. Of tokens that two nodes gave\nthe same name at the same moment, name one by its id.\n\nExit codes: 0 done, 1 failed, 2 usage.",
		Example: "  agentd tokens revoke laptop",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.withTokens(cmd, func(t agentd.TokenKeeper) error {
				id, err := wholeToken(t, given[0])
				if err != nil {
					return err
				}
				if _, err := t.RevokeToken(id); err != nil {
					return err
				}
				return a.print(map[string]any{"revoked": id}, func(p *printer) { p.linef("%s is revoked", id) })
			})
		},
	}
	return a.withDataFlags(cmd)
}

// wholeToken returns the id or the name of the token that was named, maybe by the
// beginning of its id. What is not there is left to the command, which says so.
func wholeToken(t agentd.TokenKeeper, text string) (string, error) {
	records, err := t.ListTokens()
	if err != nil {
		return "", err
	}
	newer, placed := shortid.Place(text)
	var found []idEntry
	for i := range records {
		r := tokenOf(&records[i])
		if r.ID == text || r.Name == text {
			return text, nil
		}
		if placed || shortid.Begins(r.ID, text) {
			found = append(found, idEntry{id: r.ID, says: r.Name, at: r.CreatedAt})
		}
	}
	slices.SortStableFunc(found, func(x, y idEntry) int { return y.at.Compare(x.at) })
	switch {
	case placed && newer < len(found):
		return found[newer].id, nil
	case len(found) == 0 || placed:
		return text, nil
	case len(found) == 1:
		return found[0].id, nil
	}
	return "", ambiguous(&idUse{kind: &idKind{noun: "token"}, name: "ID"}, text, found)
}
