package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/fault"
	"agentd/server"
	"agentd/store"
	"agentd/store/pebble"
)

func (a *app) backupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write all facts into one file, even while a server runs",
		Long: `Writes a copy of all durable data into FILE, a tar archive with checksums; "-"
is standard output. The file must not exist. A running server goes on meanwhile;
appends wait only while the copy starts. The admin token is not included.

For data in PostgreSQL use the database's own tools.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd backup agentd-2026-11-15.tar\n  agentd backup --data /var/lib/agentd - | gzip > agentd.tar.gz",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			loaded, err := a.loadOnly(cmd)
			if err != nil {
				return err
			}
			if loaded.Config.Database() && a.server == "" {
				return usagef("the data is in a database: use its own tools, such as pg_dump")
			}
			return a.backup(cmd.Context(), loaded.Config, given[0], a.opener(cmd, loaded.Config))
		},
	}
	return a.withDataFlags(cmd)
}

// backup writes a backup to a file, or to standard output.
func (a *app) backup(ctx context.Context, c *config.Config, file string, open opener) error {
	if file == "-" {
		return a.copyFacts(ctx, c, a.out, open)
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	show := a.progress()
	err = a.copyFacts(ctx, c, show.counting("backup", f), open)
	show.eraseLine()
	if err == nil {
		err = f.Sync()
	}
	info, statErr := f.Stat()
	if err = errors.Join(err, statErr, f.Close()); err == nil {
		err = checkBackup(file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file))
	}
	return a.print(map[string]any{"file": file, "bytes": info.Size()}, func(p *printer) {
		p.linef("%s: %s", file, terminal.Plural(info.Size(), "byte"))
	})
}

// checkBackup reads a backup again: one that broke off must not look like one.
func checkBackup(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	_, err = readArchive(f, "")
	return errors.Join(err, f.Close())
}

// opener opens the store of a directory that no server holds.
type opener func(ctx context.Context) (store.Store, error)

func (a *app) opener(cmd *cobra.Command, c *config.Config) opener {
	return func(ctx context.Context) (store.Store, error) {
		return openExisting(ctx, c, a.env, a.quiet(c, cmd.Flags().Changed("log-level")))
	}
}

// copyFacts asks the server for a backup, or makes one of the data directory.
func (a *app) copyFacts(ctx context.Context, c *config.Config, w io.Writer, open opener) error {
	if a.server != "" || a.trustsData(c) {
		r, err := a.remote(ctx, c)
		if err != nil {
			return err
		}
		if r != nil {
			return r.backup(ctx, w)
		}
	}
	s, err := open(ctx)
	if err != nil {
		return err
	}
	return errors.Join(writeBackup(s, c, w, a.version), s.Close())
}

func (r *remoteFacts) backup(ctx context.Context, w io.Writer) error {
	res, err := r.send(ctx, http.MethodPost, backupPath, nil)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	_, err = io.Copy(w, res.Body)
	return errors.Join(err, res.Body.Close(), r.Close())
}

// scratch is what folders of backups under way are called.
const scratch = ".backup-*"

// writeBackup makes a copy inside the data directory, where it costs almost no
// space, and writes it as an archive.
func writeBackup(s store.Store, c *config.Config, w io.Writer, version string) (err error) {
	p, ok := s.(*pebble.Store)
	if !ok {
		return fault.New(fault.Conflict, "the data is in a database: use its own tools, such as pg_dump")
	}
	dir, err := os.MkdirTemp(c.Data, scratch)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	files := filepath.Join(dir, "copy")
	if err := p.Checkpoint(files); err != nil {
		return err
	}
	extra := map[string]string{}
	if tokens := filepath.Join(c.Local(), tokensFile); exists(tokens) {
		extra[tokensFile] = tokens
	}
	return writeArchive(w, files, extra, archiveInfo{archiveFormat, version, time.Now().UTC().Truncate(time.Second)})
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// removeScratch removes what a backup left that was cut off.
func removeScratch(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, scratch))
	for _, d := range left {
		err = errors.Join(err, os.RemoveAll(d))
	}
	return err
}

// backupPath is where a running server hands out a backup.
const backupPath = "/v1/backup"

// serveBackup answers POST /v1/backup with an archive, for admins. One that
// breaks off has no manifest, which the reader checks.
func (s *serving) serveBackup(w http.ResponseWriter, r *http.Request) {
	caller, ok := server.CallerFrom(r.Context())
	switch {
	case !ok || !caller.Admin:
		server.WriteProblem(w, fault.New(fault.Forbidden, "a backup contains every account's facts: only an admin may make one"))
		return
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		server.WriteProblem(w, fault.New(fault.MethodNotAllowed, "possible here: POST"))
		return
	case !s.backups.TryLock():
		server.WriteProblem(w, &fault.Error{Kind: fault.RateLimited, Detail: "another backup is running", RetryAfter: 10 * time.Second})
		return
	}
	defer s.backups.Unlock()
	out := &startedWriter{ResponseWriter: w}
	w.Header().Set("Content-Type", "application/x-tar")
	err := writeBackup(s.store, s.loaded.Config, out, s.version)
	if err != nil {
		s.log.Error("backup failed", "error", err)
		if out.started {
			panic(http.ErrAbortHandler) // so that the client doesn't take it for whole
		}
		server.WriteProblem(w, fault.Wrap(fault.KindOf(err), err, "the backup could not be made; the log says why"))
	}
}

// startedWriter knows whether anything was sent.
type startedWriter struct {
	http.ResponseWriter
	started bool
}

// Write implements [io.Writer].
func (w *startedWriter) Write(p []byte) (int, error) {
	w.started = true
	return w.ResponseWriter.Write(p)
}
