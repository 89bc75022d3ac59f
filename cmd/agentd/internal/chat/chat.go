// Package chat is the interactive client at a terminal.
//
// # Contract
//
// [Run] talks to an agent until the user leaves: it submits what is typed, follows the
// session, asks what the agent asks, and puts the terminal back as it was. What is drawn
// is package turntext's; here is what drives a session: the commands, the keys and the
// line that is typed.
//
// # Concurrency
//
// One goroutine owns the conversation; commands run beside it and hand back what to do
// with their result. Run waits for all of them.
package chat

import (
	"context"
	"errors"
	"os"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/turntext"
	"agentd/event"
)

// Options of a conversation.
type Options struct {
	// Source carries out the turns.
	Source facts.Source
	// Session is taken up; if empty, the first turn makes one.
	Session string
	// Turn are the options of the turns that are submitted.
	Turn event.TurnOptions
	// Prompt is the first turn, if it isn't empty.
	Prompt string
	// Version of the program, for the greeting.
	Version string
	Ink     terminal.Ink
	// Describe returns an error as a person should read it.
	Describe func(error) string
}

// Run runs a conversation at a terminal until the user leaves.
func Run(ctx context.Context, o *Options, in, out *os.File) error {
	c := newConversation(o, turntext.NewScreen(out))
	if err := c.open(ctx, o.Session); err != nil {
		return err
	}
	t, err := openRaw(in, out)
	if err != nil {
		c.close()
		return err
	}
	c.showWelcome()
	if o.Prompt != "" {
		c.submitTurn(o.Prompt, "")
	}
	err = c.loop(ctx, t)
	c.screen.Show(nil)
	err = errors.Join(err, t.close())
	c.close()
	if c.session != "" && !c.dead {
		_, _ = out.WriteString(o.Ink.Paint(terminal.Dim, "session "+c.session+" · agentd chat --continue resumes it") + "\n")
	}
	return err
}
