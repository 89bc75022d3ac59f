package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/shortid"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/index"
	"agentd/session"
	"agentd/store"
	"agentd/store/pebble"
)

func (a *app) verifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify [SESSION...]",
		Short: "Check all stored data: hashes, state, indexes",
		Long: `Reads every session from its first fact, or from the anchor that replaced
facts removed by retention, recomputes its hash chain, folds its state
again, and compares snapshots, index entries and contents with the result.
It also says whether the indexes of lists and search have all facts; what they
lack is added when agentd starts next. It changes nothing. While a server holds
a data directory, a copy is verified, which the server makes as for "agentd
backup". A database is read as it is, beside its nodes; its tables must be of
this version.

Exit codes: 0 no problems, 1 problems were found (each is printed with its
place) or the verification could not be done, 2 usage.`,
		Example: `  agentd verify
  agentd verify --data ./.agentd sess_01
  agentd verify --json`,
		RunE: func(cmd *cobra.Command, sessions []string) error {
			loaded, err := a.loadOnly(cmd)
			if err != nil {
				return err
			}
			if a.server != "" {
				return a.verifyServed(cmd.Context(), loaded.Config, sessions, nil)
			}
			trusted := a.trustsData(loaded.Config)
			s, err := openExistingAs(cmd.Context(), loaded.Config, a.env, node{reads: true}, a.quiet(loaded.Config, cmd.Flags().Changed("log-level")))
			if locked, ok := errors.AsType[*lockedError](err); ok && trusted {
				return a.verifyServed(cmd.Context(), loaded.Config, sessions, locked)
			}
			if err != nil {
				return err
			}
			return errors.Join(a.verify(cmd.Context(), s, sessions), s.Close())
		},
	}
	return a.withDataFlags(cmd)
}

// verifyServed verifies a copy that the server makes: it appends facts meanwhile. A
// holder that isn't a server can't be asked for one.
func (a *app) verifyServed(ctx context.Context, c *config.Config, sessions []string, locked *lockedError) (err error) {
	r, err := a.remote(ctx, c)
	if err != nil {
		return err
	}
	if r == nil {
		return verifyRefused(locked)
	}
	dir, err := os.MkdirTemp("", "agentd-verify-*")
	if err != nil {
		return errors.Join(fmt.Errorf("verify: %w", err), r.Close())
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	out, in := io.Pipe()
	copied := make(chan error, 1)
	show := a.progress()
	go func() {
		err := r.backup(ctx, show.counting("copying the data", in))
		copied <- errors.Join(err, in.CloseWithError(err))
	}()
	_, err = readArchive(out, dir)
	_ = out.CloseWithError(err) // the copy ends, also if not all of it was read
	failed := <-copied
	show.eraseLine()
	if failed != nil || err != nil {
		return cmp.Or(failed, err)
	}
	s, err := pebble.Open(dir, nil)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	return errors.Join(a.verify(ctx, s, sessions), s.Close())
}

// verifyRefused says why a store that is in use by something else than a server
// isn't verified.
func verifyRefused(locked *lockedError) error {
	return fmt.Errorf("%s; that process isn't a server, so the data can't be copied; wait until it has ended", locked.holder())
}

// verify verifies an open store and prints what was found.
func (a *app) verify(ctx context.Context, s store.Store, sessions []string) error {
	sessions, err := wholeSessions(ctx, s, sessions)
	if err != nil {
		return err
	}
	show := a.progress()
	report, err := session.Verify(ctx, s, session.VerifyOptions{Sessions: sessions, Progress: show.verified})
	show.eraseLine()
	if err != nil {
		return err
	}
	indexes, err := index.Standings(ctx, s)
	if err != nil {
		return err
	}
	whole := verified{report, indexes}
	if err := a.print(whole, func(p *printer) { whole.printText(p) }); err != nil {
		return err
	}
	if len(report.Problems) > 0 {
		return silent(exitFailed)
	}
	return nil
}

// wholeSessions returns the ids of the sessions that were named, maybe by their
// beginnings. It refuses what names nothing, which would otherwise be reported as damage.
func wholeSessions(ctx context.Context, s store.Store, given []string) ([]string, error) {
	out := slices.Clone(given)
	for i, text := range out {
		head, err := s.Head(ctx, text)
		if err != nil {
			return nil, err
		}
		if head.Sequence > 0 {
			continue
		}
		var found []idEntry
		for id, err := range s.Sessions(ctx, "") {
			if err != nil {
				return nil, err
			}
			if shortid.Begins(id, text) {
				found = append(found, idEntry{id: id})
			}
		}
		switch len(found) {
		case 0:
			return nil, usagef("there is no session %s; \"agentd sessions\" lists them", text)
		case 1:
			out[i] = found[0].id
		default:
			return nil, ambiguous(&idUse{kind: idKinds()["session"], name: "SESSION"}, text, found)
		}
	}
	return out, nil
}

// verified is what verify says.
type verified struct {
	*session.Report
	// Indexes says how far lists, search and figures follow the facts.
	Indexes []index.Standing `json:"indexes"`
}

func (v *verified) printText(p *printer) {
	r := v.Report
	for _, problem := range r.Problems {
		p.linef("%s", p.Paint(terminal.Red, terminal.Plain(problem.String())))
	}
	p.linef("%s, %s (%s), %s, %s, %s", terminal.Plural(r.Sessions, "session"), terminal.Plural(r.Events, "fact"), terminal.Plural(r.Bytes, "byte"),
		terminal.Plural(r.Snapshots, "snapshot"), terminal.Plural(r.Entries, "index entry"), terminal.Plural(r.Blobs, "blob"))
	if r.Trimmed > 0 {
		p.linef("after %s that retention removed, %s checked from the state that replaced these", terminal.Plural(r.Removed, "event"), isOrAre(r.Trimmed, "session"))
	}
	for _, i := range v.Indexes {
		switch i.Status {
		case index.StatusBehind:
			p.linef("index %s is complete but for the last %s, which agentd adds by itself", i.Name, terminal.Plural(i.Changes, "write"))
		case index.StatusBuilding:
			p.linef("index %s is being built", i.Name)
		default:
			p.linef("index %s is complete", i.Name)
		}
	}
	if len(r.Problems) == 0 {
		p.linef("%s", p.Paint(terminal.Green, "no problems found"))
		return
	}
	p.linef("%s", p.Paint(terminal.Red, terminal.Plural(len(r.Problems), "problem")))
}

// isOrAre counts something and goes on with the verb.
func isOrAre(n int64, what string) string {
	if n == 1 {
		return terminal.Plural(n, what) + " is"
	}
	return terminal.Plural(n, what) + " are"
}
