package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"agentd/event"
)

func (a *app) chatCommand() *cobra.Command {
	o := &turnFlags{}
	var last bool
	cmd := &cobra.Command{
		Use:   "chat [PROMPT]",
		Short: "Talk to an agent at the terminal",
		Long: `Talks to an agent: a line to type in, and above it what is said and done. Needs a
terminal; in a pipe use "agentd run".

While the agent works, Enter puts what was typed into the queue and Alt-Enter, or
/steer TEXT, gives it to the turn that runs. Ctrl-C interrupts that turn; on an
empty line it leaves, and so does Ctrl-D. Ctrl-J begins a new line, the arrows go
through what was typed before. /help lists the commands.

Without a server the turns run in this process, and one that still runs is
interrupted when you leave. On a server it goes on, and --continue comes back to
it.

Exit codes: 0 left, 1 failed, 2 usage.`,
		Example: `  agentd chat
  agentd chat --continue
  agentd chat --mode auto "fix the failing test"
  agentd chat --server http://127.0.0.1:8700 --session sess_01`,
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			in, out, err := a.chatTerminal()
			if err != nil {
				return err
			}
			if last && o.session != "" {
				return usagef("--continue and --session exclude each other")
			}
			if _, err := o.params("hello"); err != nil { // what is typed comes later, with the same flags
				return err
			}
			return a.with(cmd, toRun, func(f facts) error {
				if last {
					if o.session, err = lastSession(cmd.Context(), f); err != nil {
						return err
					}
				}
				return a.chat(cmd.Context(), f, o, given, in, out)
			})
		},
	}
	o.add(cmd)
	cmd.Flags().BoolVar(&last, "continue", false, "go on with the last session")
	return a.where(cmd)
}

// chatTerminal returns the terminal that is talked at.
func (a *app) chatTerminal() (in, out *os.File, err error) {
	in, isIn := a.in.(*os.File)
	out, isOut := a.out.(*os.File)
	switch {
	case a.json:
		return nil, nil, usagef("chat has no --json; \"agentd run --json\" has")
	case !isIn || !isOut || !isTerminal(a.in) || !isTerminal(a.out):
		return nil, nil, usagef("chat needs a terminal; \"agentd run\" works in a pipe")
	case a.env["TERM"] == "dumb":
		return nil, nil, usagef("chat needs a terminal that can move its cursor, and TERM is dumb; use \"agentd run\"")
	}
	return in, out, nil
}

// chat runs a conversation until the user leaves.
func (a *app) chat(ctx context.Context, f facts, o *turnFlags, given []string, in, out *os.File) error {
	c := newChat(a, f, newScreen(out))
	c.options = event.TurnOptions{Model: o.model, PermissionMode: o.mode, MaxSteps: o.maxSteps}
	if err := c.open(ctx, o.session); err != nil {
		return err
	}
	t, err := openRaw(in, out)
	if err != nil {
		c.close()
		return err
	}
	c.welcome()
	if len(given) > 0 {
		c.submit(given[0], "")
	}
	err = c.loop(ctx, t)
	c.screen.show(nil)
	err = errors.Join(err, t.close())
	c.close()
	if c.session != "" && !c.dead {
		_, _ = out.WriteString(c.view.ink.paint(dim, "session "+c.session+" · agentd chat --continue goes on") + "\n")
	}
	return err
}
