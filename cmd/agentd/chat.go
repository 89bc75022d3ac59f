package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/chat"
	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/event"
)

func (a *app) chatCommand() *cobra.Command {
	o := &turnFlags{}
	var last bool
	cmd := &cobra.Command{
		Use:   "chat [PROMPT]",
		Short: "Talk to an agent at the terminal",
		Long: `Talks to an agent: an input line, with the conversation above it. Needs a
terminal; in a pipe use "agentd run".

While the agent works, Enter puts what was typed into the queue and Alt-Enter, or
/steer TEXT, gives it to the turn that runs. Ctrl-C interrupts that turn; on an
empty line it leaves, and so does Ctrl-D. Ctrl-J begins a new line, the arrow
keys go through earlier input. /help lists the commands.

Without a server, turns run in this process, and a running one is
interrupted when you leave. On a server it continues, and --continue returns
to it.

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
				return usagef("--continue and --session can't be used together")
			}
			if _, err := o.params("hello"); err != nil { // what is typed comes later, with the same flags
				return err
			}
			return a.withFacts(cmd, toRun, func(f facts.Source) error {
				if last {
					if o.session, err = facts.LastSession(cmd.Context(), f); err != nil {
						return err
					}
				}
				return chat.Run(cmd.Context(), &chat.Options{
					Source: f, Session: o.session, Turn: event.TurnOptions{Model: o.model, PermissionMode: o.mode, MaxSteps: o.maxSteps},
					Prompt: strings.Join(given, ""), Version: a.version, Ink: a.ink(a.out), Describe: describe,
				}, in, out)
			})
		},
	}
	o.addFlags(cmd)
	cmd.Flags().BoolVar(&last, "continue", false, "continue the last session")
	return a.withDataFlags(cmd)
}

// chatTerminal returns the terminal that is talked at.
func (a *app) chatTerminal() (in, out *os.File, err error) {
	in, isIn := a.in.(*os.File)
	out, isOut := a.out.(*os.File)
	switch {
	case a.json:
		return nil, nil, usagef("chat doesn't support --json; use \"agentd run --json\"")
	case !isIn || !isOut || !terminal.IsTerminal(a.in) || !terminal.IsTerminal(a.out):
		return nil, nil, usagef("chat needs a terminal; in a pipe use \"agentd run\"")
	case a.env["TERM"] == "dumb":
		return nil, nil, usagef("chat needs a terminal that can move its cursor, and TERM is dumb; use \"agentd run\"")
	}
	return in, out, nil
}
