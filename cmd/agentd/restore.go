package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/session"
	"agentd/store/pebble"
)

func (a *app) restoreCommand() *cobra.Command {
	var unchecked bool
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a data directory from a backup",
		Long: `Makes the data directory from a backup; "-" reads standard input. The directory
must not exist, or must be empty: nothing is ever overwritten. The checksums of
all files and then all facts are verified before the directory is put in place.

Exit codes: 0 done, 1 failed or the backup has problems, 2 usage.`,
		Example: "  agentd restore --data ./restored agentd-2026-11-15.tar\n  gunzip < agentd.tar.gz | agentd restore --data ./restored -",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			loaded, err := a.loadOnly(cmd)
			if err != nil {
				return err
			}
			if loaded.Config.Database() {
				return usagef("the data is in a database: use its own tools, such as pg_restore")
			}
			in, err := a.openInput(cmd.Context(), given[0])
			if err != nil {
				return err
			}
			return errors.Join(a.restore(cmd.Context(), loaded.Config, in, !unchecked), in.Close())
		},
	}
	cmd.Flags().BoolVar(&unchecked, "no-verify", false, "verify only the checksums of the files, not the facts")
	return a.settings(cmd, "data")
}

func (a *app) openInput(ctx context.Context, name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(a.input(ctx)), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	return f, nil
}

// restore unpacks beside the target and renames, so that the target is there
// whole or not at all.
func (a *app) restore(ctx context.Context, c *config.Config, in io.Reader, verify bool) (err error) {
	target := filepath.Clean(c.Data)
	if err := mustBeFree(target); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(target), ".restore-*")
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	show := a.progress()
	defer show.eraseLine()
	head, err := readArchive(show.reading("restore", in), dir)
	if err != nil {
		return err
	}
	report := &session.Report{}
	if verify {
		if report, err = verifyRestored(ctx, dir, show); err != nil {
			return err
		}
	}
	if err := a.acceptNew(c, dir); err != nil {
		return err
	}
	// An empty target would be in the way of the rename.
	if err := os.Remove(target); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("restore: %w", err)
	}
	if err := os.Rename(dir, target); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	show.eraseLine()
	return a.print(map[string]any{"data": target, "createdAt": head.CreatedAt, "verified": verify, "sessions": report.Sessions, "events": report.Events}, func(p *printer) {
		p.linef("%s: restored the backup of %s", target, head.CreatedAt.Format("2006-01-02 15:04:05 MST"))
		if verify {
			p.linef("%s, %s: no problems found", terminal.Plural(report.Sessions, "session"), terminal.Plural(report.Events, "fact"))
		}
	})
}

// mustBeFree refuses a target that holds anything.
func mustBeFree(target string) error {
	entries, err := os.ReadDir(target)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("restore: %w", err)
	case len(entries) > 0:
		return fmt.Errorf("%s is not empty, and nothing is overwritten; move it away, or name another directory with --data", target)
	}
	return nil
}

func verifyRestored(ctx context.Context, dir string, show *progress) (*session.Report, error) {
	s, err := pebble.Open(dir, nil)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	report, err := session.Verify(ctx, s, session.VerifyOptions{Progress: show.verified})
	if err = errors.Join(err, s.Close(), os.Remove(filepath.Join(dir, "lock"))); err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	if len(report.Problems) > 0 {
		var all []string
		for _, p := range report.Problems {
			all = append(all, terminal.Plain(p.String()))
		}
		return nil, fmt.Errorf("the facts in the backup are inconsistent:\n%s", strings.Join(all, "\n"))
	}
	return report, nil
}
