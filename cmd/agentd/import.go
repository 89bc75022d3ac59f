package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/facts"
	"agentd/command"
	"agentd/event"
	"agentd/transfer"
)

const (
	// folderData is the data directory that earlier releases made in each folder.
	folderData = ".agentd"
	// importedFile says in such a directory that it is not to be offered any more.
	importedFile = "imported"
	// databaseFile says in the directory of a server over a database which one it is.
	databaseFile = "database"
)

// importedData is the answer of "agentd import".
type importedData struct {
	Data     string            `json:"data"`
	Sessions []importedSession `json:"sessions"`
	// Failed counts the sessions that were not imported.
	Failed int `json:"failed"`
}

type importedSession struct {
	SessionID string `json:"sessionId"`
	Events    int64  `json:"events"`
	// New says whether it wasn't there already.
	New     bool   `json:"new"`
	Problem string `json:"problem,omitempty"`
}

func (a *app) importCommand() *cobra.Command {
	var dismiss bool
	cmd := &cobra.Command{
		Use:   "import [DIR]",
		Short: "Bring sessions of a folder's data directory to your own server",
		Long: `Copies all sessions of a data directory, by default ./.agentd, which earlier
releases made in every folder, to your own server. The directory must be yours;
it stays as it is and isn't offered again. Sessions keep their ids and all facts.
What is kept for undo is not copied, and sessions that named no folder work in
none of your projects when they are continued. It can be repeated.

Exit codes: 0 all are there, 1 some are not, 2 usage.`,
		Example: "  agentd import\n  agentd import ~/project/.agentd\n  agentd import --dismiss",
		Args:    args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			dir := folderData
			if len(given) == 1 {
				dir = given[0]
			}
			if dismiss {
				return a.dismissImport(cmd, dir)
			}
			return a.importData(cmd, dir)
		},
	}
	cmd.Flags().BoolVar(&dismiss, "dismiss", false, "import nothing, and don't offer the directory again")
	return a.settings(cmd)
}

// oldData returns the configuration of a directory to import from, if it can be.
func (a *app) oldData(cmd *cobra.Command, dir string) (own, old *config.Config, err error) {
	if own, err = a.ownConfig(cmd); err != nil {
		return nil, nil, err
	}
	if !hasStore(dir) {
		return nil, nil, usagef("there is no store in %s", dir)
	}
	old = own.WithData(dir)
	if absolute(dir) == absolute(own.Data) {
		return nil, nil, usagef("%s is your own server's directory", dir)
	}
	return own, old, a.checkData(old)
}

func (a *app) dismissImport(cmd *cobra.Command, dir string) error {
	if _, _, err := a.oldData(cmd, dir); err != nil {
		return err
	}
	return markImported(dir)
}

func markImported(dir string) error {
	return os.WriteFile(filepath.Join(dir, importedFile), nil, 0o600)
}

func (a *app) importData(cmd *cobra.Command, dir string) error {
	ctx := cmd.Context()
	own, old, err := a.oldData(cmd, dir)
	if err != nil {
		return err
	}
	from, err := a.openOld(ctx, cmd, old)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // it was only read
	to, err := a.attach(cmd, own, toAct)
	if err != nil {
		return err
	}
	defer func() { _ = to.Close() }() // what was written is acknowledged
	result := &importedData{Data: absolute(dir), Sessions: []importedSession{}}
	all, err := allSessions(ctx, from)
	if err != nil {
		return err
	}
	for _, s := range all {
		one := importedSession{SessionID: s}
		if got, err := moveSession(ctx, from.(mover), to.(mover), s); err != nil {
			one.Problem = describe(err)
			result.Failed++
		} else {
			one.Events, one.New = int64(got.Events), got.Written > 0
		}
		result.Sessions = append(result.Sessions, one)
	}
	if result.Failed == 0 {
		if err := markImported(dir); err != nil {
			return err
		}
	}
	if err := a.print(result, func(p *printer) {
		for _, s := range result.Sessions {
			if s.Problem != "" {
				p.linef("%s: not imported: %s", s.SessionID, s.Problem)
			}
		}
		p.linef("%d of %d sessions of %s are on your server", len(all)-result.Failed, len(all), result.Data)
	}); err != nil || result.Failed == 0 {
		return err
	}
	return silent(exitFailed)
}

// openOld opens a data directory, or the server that holds it.
func (a *app) openOld(ctx context.Context, cmd *cobra.Command, old *config.Config) (facts.Source, error) {
	if r, err := a.remote(ctx, old); err != nil || r != nil {
		return r, err
	}
	return a.openLocal(ctx, old, toAct, a.quiet(old, cmd.Flags().Changed("log-level")))
}

// allSessions lists the ids of all sessions, oldest first, so that a fork comes after
// what it was made from.
func allSessions(ctx context.Context, f facts.Source) ([]string, error) {
	var out []string
	for _, archived := range []bool{false, true} {
		p := &command.ListSessions{Archived: archived, Sort: "created", Order: "asc", Page: command.Page{Limit: command.MaxPage}}
		for {
			var page command.ListSessionsResult
			if err := f.Do(ctx, p, &page); err != nil {
				return nil, err
			}
			for _, s := range page.Sessions {
				if s.SessionID != event.RuntimeSession && !slices.Contains(out, s.SessionID) {
					out = append(out, s.SessionID)
				}
			}
			if p.Cursor = page.NextCursor; p.Cursor == "" {
				break
			}
		}
	}
	return out, nil
}

// moveSession copies a session over a file, because it is read twice.
func moveSession(ctx context.Context, from, to mover, sessionID string) (got *transfer.ImportedSession, err error) {
	spool, err := os.CreateTemp("", "agentd-import-*")
	if err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	defer func() { err = errors.Join(err, spool.Close(), os.Remove(spool.Name())) }()
	if err := from.exportSession(ctx, sessionID, spool); err != nil {
		return nil, err
	}
	if _, err := spool.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	// The user's own agentd recorded it, so its permissions are the user's.
	return to.importSession(ctx, spool, transfer.ImportOptions{AllowOpen: true, AllowPolicy: true})
}

// sayOldData tells of a data directory in the folder that the user's own server doesn't
// use.
func (a *app) sayOldData() {
	// What isn't the user's own may have come with a checkout, and is not even read.
	if a.json || a.jsonErrors || a.keeper().Check(folderData) != nil {
		return
	}
	if text, err := os.ReadFile(filepath.Join(folderData, databaseFile)); err == nil {
		a.sayf("agentd: ./%s is of a server over %s, and this command uses your own server; name that one with --data or --server", folderData, string(text))
		return
	}
	if !hasStore(folderData) || exists(filepath.Join(folderData, importedFile)) {
		return
	}
	a.sayf("agentd: ./%s has sessions from before your own server; \"agentd import\" copies them there, \"agentd import --dismiss\" leaves them", folderData)
}
