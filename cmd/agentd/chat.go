package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/chat"
	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/tui"
	"agentd/event"
)

// chatFlags are the flags of chat beside those of a turn.
type chatFlags struct {
	turnFlags
	last         bool
	plain        bool
	screenReader bool
	// here is the folder in the project that turns begin in.
	here string
}

func (a *app) chatCommand() *cobra.Command {
	o := &chatFlags{}
	cmd := &cobra.Command{
		Use:   "chat [PROMPT]",
		Short: "Talk to an agent at the terminal",
		Long: `Talks to an agent: an input line with what goes on above it, and the
conversation in the terminal's own scrollback.

While the agent works, Enter puts what was typed into the queue and Alt-Enter
gives it to the turn that runs. Esc or Ctrl-C interrupts that turn; Esc twice
goes back to an earlier one. Ctrl-J begins a new line, Ctrl-R finds an earlier
prompt, Ctrl-O shows all that tools wrote, Ctrl-G opens $EDITOR. "/" lists the
commands, "@" completes files, "!" runs a command of yours. /help lists
everything.

With --plain, --screen-reader, AGENTD_SCREEN_READER=1, TERM=dumb or in a pipe
nothing is drawn: lines are read and lines are written. In a pipe each line is
a turn, or the answer to what the turn before asked.

Turns run on your own server, which is started if it doesn't run, or on the one
that --server names: they continue when you leave, and --continue returns to
them. With --data and no server that holds it they run in this process, and a
running one is interrupted when you leave.

Exit codes: 0 left, 1 failed, 2 usage, 3 the input ended with a question open.`,
		Example: `  agentd chat
  agentd chat --continue
  agentd chat --mode auto "fix the failing test"
  agentd chat --plain
  agentd chat --server http://127.0.0.1:8700 --session sess_01`,
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.chat(cmd, o, strings.Join(given, ""))
		},
	}
	o.addFlags(cmd)
	cmd.Flags().BoolVar(&o.last, "continue", false, "continue the last session")
	cmd.Flags().BoolVar(&o.plain, "plain", false, "read and write lines, draw nothing")
	cmd.Flags().BoolVar(&o.screenReader, "screen-reader", false, "the same as --plain, without colour")
	return a.withDataFlags(cmd)
}

func (a *app) chat(cmd *cobra.Command, o *chatFlags, prompt string) error {
	if a.json {
		return usagef("chat doesn't support --json; use \"agentd run --json\"")
	}
	if err := a.checkTheme(); err != nil {
		return err
	}
	if o.last && o.session != "" {
		return usagef("--continue and --session can't be used together")
	}
	if err := o.useProject(a, cmd); err != nil {
		return err
	}
	if _, err := o.params("hello"); err != nil { // what is typed comes later, with the same flags
		return err
	}
	if _, _, drawn := a.drawnTerminal(o); drawn {
		held, errs := &heldLog{}, a.err
		a.err = held // the log would be written into what is drawn
		defer func() {
			a.err = errs
			held.writeTo(errs)
		}()
	}
	return a.withFacts(cmd, toRun, func(f facts.Source) error {
		if o.session == "" {
			o.here = currentFolder(f)
		}
		if o.last {
			var err error
			if o.session, err = facts.LastSession(cmd.Context(), f); err != nil {
				return err
			}
		}
		if err := o.keepMode(cmd.Context(), f, o.session); err != nil {
			return err
		}
		return a.converse(cmd.Context(), f, o, prompt)
	})
}

// converse runs the client that the terminal can take.
func (a *app) converse(ctx context.Context, f facts.Source, o *chatFlags, prompt string) error {
	turn := event.TurnOptions{Model: o.model, PermissionMode: o.mode, MaxSteps: o.maxSteps, Cwd: o.here}
	review := func(ctx context.Context, ref, form string, w io.Writer) error {
		return copyReview(ctx, f, ref, form, w)
	}
	folder, err := os.Getwd()
	if err != nil {
		return err
	}
	in, out, drawn := a.drawnTerminal(o)
	if drawn {
		return tui.Run(ctx, &tui.Options{
			Source: f, Session: o.session, Turn: turn, Prompt: prompt, Version: a.version, Ink: a.ink(a.out), Describe: describe,
			Review: review, Folder: folder, SameMachine: a.server == "", Env: a.env, Theme: a.theme(), KeepTheme: a.keepTheme,
		}, in, out)
	}
	ink := a.ink(a.out)
	if o.screenReader || a.env["AGENTD_SCREEN_READER"] != "" {
		ink = terminal.NoColour
	}
	err = chat.Run(ctx, &chat.Options{
		Source: f, Session: o.session, Turn: turn, Prompt: prompt, Version: a.version, Ink: ink, Describe: describe,
		Review: review, Folder: folder, SameMachine: a.server == "", Prompts: terminal.IsTerminal(a.in), Width: terminal.Width(a.out),
	}, a.in, a.out)
	if errors.Is(err, chat.ErrUnanswered) {
		return &exitError{exitBlocked, err}
	}
	return err
}

// drawnTerminal returns the terminal that can be drawn on; false if lines are wanted.
func (a *app) drawnTerminal(o *chatFlags) (in, out *os.File, drawn bool) {
	in, isIn := a.in.(*os.File)
	out, isOut := a.out.(*os.File)
	drawn = isIn && isOut && terminal.IsTerminal(a.in) && terminal.IsTerminal(a.out) && a.env["TERM"] != "dumb" && a.env["TERM"] != "" &&
		!o.plain && !o.screenReader && a.env["AGENTD_SCREEN_READER"] == ""
	return in, out, drawn
}

// heldLog keeps what is logged while the terminal is drawn on, for afterwards. Many
// goroutines may write to it.
type heldLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// maxHeld bounds what is kept; the beginning says what went wrong first.
const maxHeld = 64 << 10

// Write implements [io.Writer].
func (h *heldLog) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.text.Len()+len(b) <= maxHeld {
		h.text.Write(b)
	}
	return len(b), nil
}

func (h *heldLog) writeTo(w io.Writer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, _ = w.Write(h.text.Bytes()) // the log that would say so is this one
}
