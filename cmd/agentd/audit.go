package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/command"
)

// auditFlags say what "audit" shows, and where it goes on.
type auditFlags struct {
	command.ReadAudit
	follow bool
	// cursorFile keeps the cursor between calls.
	cursorFile string
}

func (a *app) auditCommand() *cobra.Command {
	o := &auditFlags{ReadAudit: command.ReadAudit{Limit: command.MaxPage}}
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show what was asked, allowed, denied and changed in all sessions",
		Long: `Shows the facts that an auditor looks at, of all sessions: questions and answers,
decisions and the rules behind them, commands that were started, boundaries that
were met, changes of tokens, quotas, policy and sessions, what retention removed.
With --json each line is the envelope as it is stored, for a program that keeps it
elsewhere.

--cursor-file names a file that keeps the place: the next call goes on there, also
after a restart of the server and on another node. What a call had printed before
it was stopped may come once more, with the same eventId. What retention removed
before it was read is named on standard error.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: `  agentd audit --types 'permission.*,policy.changed'
  agentd audit --json --cursor-file audit.cursor
  agentd audit -f`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkTypes(o.Types); err != nil {
				return err
			}
			if err := o.loadCursor(); err != nil {
				return err
			}
			return a.withFacts(cmd, toLook, func(f facts.Source) error { return a.audit(cmd.Context(), f, o) })
		},
	}
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "go on with new facts as they come")
	cmd.Flags().StringSliceVar(&o.Types, "types", nil, "only these types; * stands for anything")
	cmd.Flags().StringVar(&o.cursorFile, "cursor-file", "", "go on where the file says, and keep the place in it")
	return a.withDataFlags(cmd)
}

// loadCursor reads the place where the last call ended; without a file it is the beginning.
func (o *auditFlags) loadCursor() error {
	if o.cursorFile == "" {
		return nil
	}
	kept, err := os.ReadFile(o.cursorFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return usagef("--cursor-file: %v", err)
	}
	o.After = strings.TrimSpace(string(kept))
	return nil
}

// keepCursor replaces the file as a whole: half a cursor would be none.
func (o *auditFlags) keepCursor() error {
	if o.cursorFile == "" {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(o.cursorFile), ".cursor-*")
	if err != nil {
		return fmt.Errorf("--cursor-file: %w", err)
	}
	_, err = f.WriteString(o.After + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), o.cursorFile)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("--cursor-file: %w", err), os.Remove(f.Name()))
	}
	return nil
}

// audit prints page after page. The cursor is kept after what it stands for was printed.
func (a *app) audit(ctx context.Context, f facts.Source, o *auditFlags) error {
	for {
		var page command.ReadAuditResult
		if err := f.Do(ctx, &o.ReadAudit, &page); err != nil {
			return err
		}
		for _, g := range page.Gaps {
			a.sayf("agentd: retention removed the facts %d to %d of %s before they were read", g.FirstSequence, g.LastSequence, g.SessionID)
		}
		for _, data := range page.Events {
			if err := a.showEvent(facts.Fact{Data: data}, &eventFlags{sessions: true}); err != nil {
				return err
			}
		}
		o.After = page.Cursor
		if err := o.keepCursor(); err != nil {
			return err
		}
		switch {
		case !page.Complete:
			continue
		case !o.follow:
			return nil
		}
		select {
		case <-ctx.Done():
			return nil // it was stopped, as -f always is
		case <-time.After(auditPause):
		}
	}
}

// auditPause is how long -f waits before it looks again.
const auditPause = time.Second
