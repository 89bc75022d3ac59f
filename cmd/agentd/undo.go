package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

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
		Short: "Take turns back, with the files that they changed",
		Long: `Takes back the last turn, or TURN and those after it, and restores the files that
they changed. First it shows what would happen, and on a terminal it asks. Nothing
is deleted from the facts. A file that somebody else changed since is left alone
and named, unless --force is given; what can't be restored is named too.

With --json the answer is that of rollback_thread.

Exit codes: 0 done, 1 failed or not wanted, 2 usage.`,
		Example: `  agentd undo
  agentd undo --preview
  agentd undo --files keep --session sess_01 turn_01
  agentd undo --yes --force`,
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			if o.files != "restore" && o.files != "keep" {
				return usagef("--files: %q is not restore or keep", o.files)
			}
			return a.with(cmd, toAct, func(f facts) error { return a.undo(cmd.Context(), f, turnArg(given), o) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.session, "session", "", "the session; default the last one")
	f.StringVar(&o.files, "files", "restore", "what becomes of changed files: restore, keep")
	f.BoolVar(&o.preview, "preview", false, "show what would happen and change nothing")
	f.BoolVar(&o.force, "force", false, "also restore files that somebody else changed since")
	f.BoolVarP(&o.yes, "yes", "y", false, "don't ask")
	return a.where(cmd)
}

func turnArg(given []string) string {
	if len(given) == 0 {
		return ""
	}
	return given[0]
}

func (a *app) undo(ctx context.Context, f facts, turn string, o *undoFlags) error {
	p, err := a.rollbackOf(ctx, f, o.session, turn)
	if err != nil {
		return err
	}
	p.Files, p.Force, p.Preview = o.files, o.force, true
	res, raw, err := rollback(ctx, f, p)
	if err != nil {
		return err
	}
	if !a.json {
		out := a.printer()
		out.linef("Session %s:", p.SessionID)
		for _, line := range undoLines(a.ink(a.out), res) {
			out.linef("%s", line)
		}
		if err := out.flush(); err != nil {
			return err
		}
	}
	if o.preview {
		return a.print(raw, func(*printer) {})
	}
	if !o.yes && !a.json && isTerminal(a.in) && isTerminal(a.out) {
		if err := a.confirm(ctx, "Take it back? [y/N] "); err != nil {
			return err
		}
	}
	p.Preview = false
	if res, raw, err = rollback(ctx, f, p); err != nil {
		return err
	}
	return a.print(raw, func(out *printer) {
		out.linef("%s", facets("Taken back", plural(int64(len(res.RemovedTurns)), "turn"), fileCounts(res.Files)))
	})
}

// confirm asks for a yes.
func (a *app) confirm(ctx context.Context, prompt string) error {
	_, _ = fmt.Fprint(a.out, prompt) // if it can't be written, reading fails too
	line, err := bufio.NewReader(a.input(ctx)).ReadString('\n')
	if word := strings.ToLower(strings.TrimSpace(line)); err == nil && (word == "y" || word == "yes") {
		return nil
	}
	return errors.New("nothing was changed")
}

func rollback(ctx context.Context, f facts, p *command.RollbackThread) (*command.RollbackThreadResult, json.RawMessage, error) {
	var raw json.RawMessage
	if err := f.do(ctx, p, &raw); err != nil {
		return nil, nil, err
	}
	res := &command.RollbackThreadResult{}
	if err := json.Unmarshal(raw, res); err != nil {
		return nil, nil, fmt.Errorf("result of rollback_thread: %w", err)
	}
	return res, raw, nil
}

// rollbackOf plans to take back a turn of a session, by default the last of each.
func (a *app) rollbackOf(ctx context.Context, f facts, session, turn string) (*command.RollbackThread, error) {
	if session == "" {
		var err error
		if session, err = lastSession(ctx, f); err != nil {
			return nil, err
		}
	}
	return planRollback(ctx, f, session, turn)
}

// planRollback returns the command that takes back a turn, or the last one, and
// those after it.
func planRollback(ctx context.Context, f facts, sessionID, turn string) (*command.RollbackThread, error) {
	t, err := mainThread(ctx, f, sessionID)
	if err != nil {
		return nil, err
	}
	p := &command.RollbackThread{SessionID: sessionID, ThreadID: t.ThreadID}
	var turns, inherited []string
	for _, x := range t.Turns {
		if x.TurnID != t.ActiveTurnID {
			turns = append(turns, x.TurnID)
		}
		if x.Inherited {
			inherited = append(inherited, x.TurnID)
		}
	}
	at := len(turns) - 1
	if turn != "" {
		at = slices.Index(turns, turn)
	}
	if at < 1 && t.Truncated {
		// The read model has the newest turns only; the facts have all.
		if turns, err = turnsOf(ctx, f, sessionID, t.ThreadID); err != nil {
			return nil, err
		}
		turns = append(inherited, turns...)
		if at = len(turns) - 1; turn != "" {
			at = slices.Index(turns, turn)
		}
	}
	switch {
	case at < 0 && turn != "":
		return nil, fmt.Errorf("there is no finished turn %s in session %s", turn, sessionID)
	case at < 0:
		return nil, fmt.Errorf("session %s has no finished turn", sessionID)
	case at == 0:
		p.ToStart = true
	default:
		p.ToTurnID = turns[at-1]
	}
	return p, nil
}

// turnsOf reads the finished turns of a thread from its facts, oldest first,
// without those that were taken back.
func turnsOf(ctx context.Context, f facts, sessionID, threadID string) ([]string, error) {
	var turns []string
	err := eachFact(ctx, f, sessionID, func(e *event.Event) {
		if e.ThreadID != threadID {
			return
		}
		if isTurnEnd(e) {
			turns = append(turns, e.TurnID)
		}
		if p, ok := e.Payload.(*event.RollbackCompleted); ok {
			turns = slices.DeleteFunc(turns, func(id string) bool { return slices.Contains(p.RemovedTurns, id) })
		}
	})
	return turns, err
}

// eachFact reads all facts of a session. Those of a newer server are passed over.
func eachFact(ctx context.Context, f facts, sessionID string, with func(*event.Event)) error {
	for after := uint64(0); ; {
		page, last, err := f.page(ctx, sessionID, after, pageSize)
		if err != nil {
			return err
		}
		for _, x := range page {
			if e, err := event.Decode(x.data); err == nil {
				with(e)
			}
			after = x.sequence
		}
		if len(page) == 0 || after >= last {
			return nil
		}
	}
}

// undoLines say what a rollback does, or would do.
func undoLines(k ink, res *command.RollbackThreadResult) []string {
	out := []string{"  " + plural(int64(len(res.RemovedTurns)), "turn") + ": " + strings.Join(res.RemovedTurns, ", ")}
	if len(res.Files) == 0 {
		return append(out, k.paint(dim, "  no file was changed"))
	}
	colours := map[string]string{"restored": green, "deleted": red, "kept": dim, "conflict": yellow, "unavailable": yellow}
	for _, f := range res.Files {
		line := "  " + k.paint(colours[f.Change], fmt.Sprintf("%-11s", f.Change)) + " " + plainText(f.Path)
		if f.Reason != "" {
			line += k.paint(dim, " ("+plainText(f.Reason)+")")
		}
		out = append(out, line)
	}
	return out
}

func fileCounts(files []event.RollbackFile) string {
	counts := map[string]int64{}
	for _, f := range files {
		counts[f.Change]++
	}
	var parts []string
	for _, change := range []string{"restored", "deleted", "kept", "conflict", "unavailable"} {
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
or with --all the whole session. With --json the answer is that of
rollback_thread with preview and diff.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd diff\n  agentd diff --session sess_01 turn_01\n  agentd diff --all > changes.patch",
		Args:    args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.with(cmd, toAct, func(f facts) error {
				p, err := a.rollbackOf(cmd.Context(), f, session, turnArg(given))
				if err != nil {
					return err
				}
				if all {
					p.ToTurnID, p.ToStart = "", true
				}
				p.Preview, p.Diff, p.Files = true, true, "restore"
				res, raw, err := rollback(cmd.Context(), f, p)
				if err != nil {
					return err
				}
				return a.print(raw, func(out *printer) {
					for _, line := range diffLines(a.ink(a.out), res.Diff) {
						out.linef("%s", line)
					}
				})
			})
		},
	}
	cmd.Flags().StringVar(&session, "session", "", "the session; default the last one")
	cmd.Flags().BoolVar(&all, "all", false, "everything that the session changed")
	return a.where(cmd)
}

// diffLines colours a unified diff. What isn't for a terminal is left exact.
func diffLines(k ink, diff string) []string {
	if diff == "" {
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(diff, "\n"), "\n")
	if !bool(k) {
		return lines
	}
	for i, line := range lines {
		colour := ""
		switch {
		case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"), strings.HasPrefix(line, "diff "):
			colour = bold
		case strings.HasPrefix(line, "+"):
			colour = green
		case strings.HasPrefix(line, "-"):
			colour = red
		case strings.HasPrefix(line, "@@"):
			colour = cyan
		}
		line = strings.TrimSuffix(plainBlock(line+"\n"), "\n")
		if lines[i] = line; colour != "" {
			lines[i] = k.paint(colour, line)
		}
	}
	return lines
}
