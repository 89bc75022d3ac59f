package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/turntext"
	"agentd/command"
	"agentd/event"
)

// undoFlags say what "undo" takes back, and how.
type undoFlags struct {
	session, files      string
	preview, force, yes bool
}

func (a *app) undoCommand() *cobra.Command {
	o := &undoFlags{}
	cmd := &cobra.Command{
		Use:   "undo [TURN]",
		Short: "Roll back turns and the files that they changed",
		Long: `Rolls back the last turn, or TURN and those after it, and restores the files that
they changed. First it shows what would happen, and on a terminal it asks. Nothing
is deleted from the facts. A file that was changed by something else since is left
alone and named, unless --force is given; what can't be restored is named too.

With --json the answer is that of rollback_thread.

Exit codes: 0 done, 1 failed or declined, 2 usage.`,
		Example: `  agentd undo
  agentd undo --preview
  agentd undo --files keep --session sess_01 turn_01
  agentd undo --yes --force`,
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.withFacts(cmd, toAct, func(f facts.Source) error { return a.undo(cmd.Context(), f, turnArg(given), o) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.session, "session", "", "the session; default the last one")
	f.StringVar(&o.files, "files", "restore", "what to do with changed files: restore, keep")
	f.BoolVar(&o.preview, "preview", false, "show what would happen and change nothing")
	f.BoolVar(&o.force, "force", false, "also restore files that something else changed since")
	f.BoolVarP(&o.yes, "yes", "y", false, "don't ask")
	return a.withDataFlags(cmd)
}

func turnArg(given []string) string {
	if len(given) == 0 {
		return ""
	}
	return given[0]
}

func (a *app) undo(ctx context.Context, f facts.Source, turn string, o *undoFlags) error {
	p, err := a.rollbackOf(ctx, f, o.session, turn)
	if err != nil {
		return err
	}
	p.Files, p.Force, p.Preview = o.files, o.force, true
	res, raw, err := facts.Rollback(ctx, f, p)
	if err != nil {
		return err
	}
	if !a.json {
		out := a.printer()
		out.linef("Session %s:", p.SessionID)
		for _, line := range turntext.RollbackLines(a.ink(a.out), res) {
			out.linef("%s", line)
		}
		if err := out.flush(); err != nil {
			return err
		}
	}
	if o.preview {
		return a.print(raw, func(*printer) {})
	}
	if !o.yes && !a.json && terminal.IsTerminal(a.in) && terminal.IsTerminal(a.out) {
		if err := a.confirm(ctx, "Undo it? [y/N] "); err != nil {
			return err
		}
	}
	p.Preview = false
	if res, raw, err = facts.Rollback(ctx, f, p); err != nil {
		return err
	}
	return a.print(raw, func(out *printer) {
		out.linef("%s", terminal.JoinDots("Taken back", terminal.Plural(int64(len(res.RemovedTurns)), "turn"), fileCounts(res.Files)))
	})
}

// confirm asks for a yes.
func (a *app) confirm(ctx context.Context, prompt string) error {
	if a.saysYes(ctx, func() { _, _ = fmt.Fprint(a.out, prompt) }) { // if it can't be written, reading fails too
		return nil
	}
	return errors.New("nothing was changed")
}

// saysYes asks something, reads a line from the terminal and reports whether it is a yes.
func (a *app) saysYes(ctx context.Context, ask func()) bool {
	lines := terminal.NewLines(a.in)
	lines.Ask()
	ask()
	answer := make(chan bool, 1)
	go func() { // a terminal may keep it until the process ends
		t := lines.Answer() // none is no
		if t.Pasted {
			lines.Drop() // or the shell runs it
		}
		word := strings.ToLower(strings.TrimSpace(t.Line))
		answer <- !t.Pasted && (word == "y" || word == "yes")
	}()
	select {
	case yes := <-answer:
		return yes
	case <-ctx.Done():
		return false
	}
}

// rollbackOf plans to take back a turn of a session, by default the last of each.
func (a *app) rollbackOf(ctx context.Context, f facts.Source, session, turn string) (*command.RollbackThread, error) {
	if session == "" {
		var err error
		if session, err = facts.LastSession(ctx, f); err != nil {
			return nil, err
		}
	}
	return facts.PlanRollback(ctx, f, session, turn)
}

func fileCounts(files []event.RollbackFile) string {
	counts := map[string]int64{}
	for _, f := range files {
		counts[f.Change]++
	}
	var parts []string
	for _, change := range event.EnumValues("@rollbackChange") {
		if n := counts[change]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, change))
		}
	}
	return strings.Join(parts, ", ")
}

func (a *app) diffCommand() *cobra.Command {
	var session string
	var all bool
	cmd := &cobra.Command{
		Use:   "diff [TURN]",
		Short: "Show what turns changed in the workspace",
		Long: `Shows, as a unified diff, what the last turn changed, or TURN and those after it,
or with --all the whole session: from the files as they were before to the files
as the turns left them. With --json the answer is that of get_diff.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd diff\n  agentd diff --session sess_01 turn_01\n  agentd diff --all > changes.patch",
		Args:    args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.withFacts(cmd, toAct, func(f facts.Source) error {
				return a.diff(cmd.Context(), f, session, turnArg(given), all)
			})
		},
	}
	cmd.Flags().StringVar(&session, "session", "", "the session; default the last one")
	cmd.Flags().BoolVar(&all, "all", false, "everything that the session changed")
	return a.withDataFlags(cmd)
}

func (a *app) diff(ctx context.Context, f facts.Source, session, turn string, all bool) error {
	if session == "" {
		var err error
		if session, err = facts.LastSession(ctx, f); err != nil {
			return err
		}
	}
	p, err := facts.PlanDiff(ctx, f, session, turn, all)
	if err != nil {
		return err
	}
	res, raw, err := facts.Diff(ctx, f, p)
	if err != nil {
		return err
	}
	text := res.Diff
	if res.DiffRef != "" && !a.json {
		whole, err := facts.ReadContent(ctx, f, res.DiffRef, 0)
		if err != nil {
			return err
		}
		text = string(whole)
	}
	if strings.TrimSpace(text) == "" && !a.json {
		a.sayf("%s", nothingChanged(p, all))
	}
	return a.print(raw, func(out *printer) {
		for _, line := range turntext.DiffLines(a.ink(a.out), text) {
			out.linef("%s", line)
		}
	})
}

// nothingChanged says what an empty diff is about, and what may have more.
func nothingChanged(p *command.GetDiff, all bool) string {
	if all {
		return fmt.Sprintf("Session %s changed no files.", p.SessionID)
	}
	what := "Turn " + p.TurnID
	if p.TurnID == "" {
		what = "The turn and those after it"
	}
	return what + " changed no files; --all shows what the whole session changed."
}
