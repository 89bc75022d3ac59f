package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/terminal"
	"agentd/event"
	"agentd/server"
	"agentd/store"
	"agentd/store/pebble"
)

func (a *app) dataCommand() *cobra.Command {
	return parent("data", "Decide which data directories are yours",
		`A data directory contains tokens, the address of a server, and policies. agentd
uses one only if it created it for you, because a repository could bring its own.
The mark is the file "owner" in the directory, made with a key in
$XDG_STATE_HOME/agentd, or ~/.local/state/agentd. A copy of a directory, and one
from a release without marks, must be accepted once.

Exit codes: those of its commands.`,
		"  agentd data accept ./.agentd", a.dataAccept())
}

// dataContents is what a data directory would bring along.
type dataContents struct {
	Data     string   `json:"data"`
	Accepted bool     `json:"accepted"`
	Entries  []string `json:"entries"`
	// Server is the address in its server.json.
	Server string `json:"server,omitempty"`
	// Tokens are those that could come in, without their secrets.
	Tokens []server.Token `json:"tokens,omitempty"`
	// Mode and Rules are the policy that was stored for the host.
	Mode  string             `json:"mode,omitempty"`
	Rules []event.PolicyRule `json:"rules,omitempty"`
	// Sessions counts the sessions with facts.
	Sessions int `json:"sessions"`
	// Problem says why not all of it could be read.
	Problem string `json:"problem,omitempty"`
}

func (a *app) dataAccept() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "accept DIR",
		Short: "Trust a data directory that agentd did not make for you",
		Long: `Shows what a data directory would bring along: tokens that could come in, the
stored policy of the host, the server it names. At a terminal it asks, elsewhere
it needs --yes; then it marks the directory as yours. Nothing in it is run.

Exit codes: 0 accepted, 1 failed or not accepted, 2 usage.`,
		Example: "  agentd data accept ./.agentd\n  agentd data accept --yes /var/lib/agentd",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.acceptData(cmd.Context(), given[0], yes)
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "accept without asking")
	return cmd
}

func (a *app) acceptData(ctx context.Context, dir string, yes bool) error {
	found, err := lookInto(ctx, dir)
	if err != nil {
		return err
	}
	if !yes {
		if a.json || !terminal.IsTerminal(a.in) {
			return usagef("can't ask whether to accept %s: run this at a terminal without --json, or add --yes", dir)
		}
		p := a.printer()
		found.print(p)
		if err := p.flush(); err != nil {
			return err
		}
		if !a.saysYes(ctx, func() { a.sayf("Accept %s as yours? [y/N]", dir) }) {
			return fmt.Errorf("%s was not accepted", dir)
		}
	}
	if err := a.keeper().Accept(dir); err != nil {
		return err
	}
	found.Accepted = true
	return a.print(found, func(p *printer) {
		if yes {
			found.print(p)
		}
		p.linef("%s is accepted", dir)
	})
}

// lookInto reads what a data directory would bring along.
func lookInto(ctx context.Context, dir string) (*dataContents, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	found := &dataContents{Data: dir, Entries: []string{}}
	for _, e := range entries {
		found.Entries = append(found.Entries, e.Name())
	}
	if note, err := readNote(dir); err != nil {
		found.Problem = err.Error()
	} else if note != nil {
		found.Server = note.URL
	}
	if err := found.readTokens(dir); err != nil {
		found.Problem = err.Error()
	}
	if !hasStore(dir) {
		return found, nil
	}
	if err := found.readStore(ctx, dir); err != nil {
		found.Problem = err.Error()
	}
	return found, nil
}

func (d *dataContents) readTokens(dir string) error {
	path := filepath.Join(dir, tokensFile)
	if !exists(path) {
		return nil
	}
	t, err := server.OpenTokens(path, nil)
	if err != nil {
		return err
	}
	d.Tokens, err = t.List()
	return err // closing would write the times of last use, of which there are none
}

// readStore reads the host's stored policy from the facts, which are read and not
// acted on.
func (d *dataContents) readStore(ctx context.Context, dir string) (err error) {
	s, err := pebble.Open(dir, nil)
	if err != nil {
		return explain(err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for id, err := range s.Sessions(ctx, "") {
		if err != nil {
			return err
		}
		if id != event.RuntimeSession {
			d.Sessions++
		}
	}
	for rec, err := range s.Read(ctx, event.RuntimeSession, store.Range{}) {
		if err != nil {
			return err
		}
		e, err := store.DecodeFact(ctx, s, rec.Data)
		if err != nil {
			return fmt.Errorf("fact %d of the runtime: %w", rec.Sequence, err)
		}
		if p, ok := e.Payload.(*event.PolicyChanged); ok && p.Source == "host" {
			d.Mode, d.Rules = p.Mode, p.Rules
		}
	}
	return nil
}

func (d *dataContents) print(p *printer) {
	p.linef("%s contains %s: %s", d.Data, terminal.Plural(len(d.Entries), "entry"), terminal.Plain(strings.Join(d.Entries, ", ")))
	p.linef("sessions: %d", d.Sessions)
	if d.Server != "" {
		p.linef("names a server at %s", terminal.Plain(d.Server))
	}
	for _, t := range d.Tokens {
		p.linef("token %s (%s) gives access as %s of account %s", t.ID, terminal.Plain(t.Name), t.Role, orDash(terminal.Plain(t.Account)))
	}
	switch {
	case d.Mode == "" && len(d.Rules) == 0:
		p.linef("no stored policy")
	default:
		p.linef("stored policy: mode %s, %s", orDash(d.Mode), terminal.Plural(len(d.Rules), "rule"))
		for _, r := range d.Rules {
			p.linef("  %s %s %s", r.Decision, terminal.Plain(r.Tool), terminal.Plain(r.Match))
		}
	}
	if d.Problem != "" {
		p.linef("%s", p.Paint(terminal.Red, "some of it can't be read: "+terminal.Plain(d.Problem)))
	}
}
