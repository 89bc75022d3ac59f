// Package tui is the client that people stay in: a conversation at a terminal, with the
// input and what goes on at the bottom and everything that is finished in the
// terminal's own scrollback.
//
// # Contract
//
// [Run] talks to an agent until the user leaves, and puts the terminal back as it was.
// The conversation itself is package conversation's and its text package turntext's;
// here is what is drawn around them: the input with its completion, pickers, forms and
// the status line. What models, tools and other people wrote reaches the terminal only
// after package terminal made it plain.
//
// # Concurrency
//
// Bubble Tea's event loop owns everything. One goroutine beside it prints finished
// lines in order; Run waits for it.
package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/term"

	"agentd/cmd/agentd/internal/conversation"
	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/event"
)

// Options of the client. Source, Describe and KeepTheme are needed.
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
	// Review writes the review behind a reference in a form.
	Review func(ctx context.Context, ref, form string, w io.Writer) error
	// Folder is where the client was started.
	Folder string
	// SameMachine says that the runtime's files are this machine's.
	SameMachine bool
	// Env is the environment.
	Env map[string]string
	// Theme is the theme that was chosen, empty if none was; KeepTheme keeps another one.
	Theme     string
	KeepTheme func(theme string) error
}

// errTerminalGone ends a client whose terminal was closed.
var errTerminalGone = errors.New("the terminal is gone")

// Run runs the client at a terminal until the user leaves.
func Run(ctx context.Context, o *Options, in, out *os.File) error {
	c := newClient(o)
	// What is printed before the first message about the size would be broken at another width.
	if cols, rows, err := term.GetSize(out.Fd()); err == nil && cols > 0 && rows > 0 {
		c.cols, c.rows = cols, rows
	}
	tty := &ttyOutput{File: out, drawn: make(chan struct{}), marked: make(chan struct{}, 1)}
	c.out = out
	c.program = tea.NewProgram(c, tea.WithContext(context.WithoutCancel(ctx)), tea.WithInput(in), tea.WithOutput(tty), tea.WithoutSignalHandler(),
		tea.WithFilter(c.filter), tea.WithEnvironment(environ(o.Env)))
	c.talk = conversation.New(&conversation.Options{
		Source: o.Source, Front: c, Turn: o.Turn, Ink: o.Ink, Describe: o.Describe, Review: o.Review, Folder: o.Folder, SameMachine: o.SameMachine,
	})
	defer c.talk.Close()
	if o.Session != "" {
		if err := c.talk.Open(ctx, o.Session); err != nil {
			c.program.Kill()
			return err
		}
	}
	c.greet()
	if o.Prompt != "" {
		c.talk.Say(c.message(o.Prompt), false)
	}
	err := c.runProgram(ctx, tty)
	if c.talk.Session() != "" && err == nil {
		_, err = fmt.Fprintln(out, o.Ink.Paint(terminal.Dim, "session "+c.talk.Session()+" · agentd chat --continue resumes it"))
	}
	return err
}

// runProgram runs the event loop, with what ends it from outside.
func (c *client) runProgram(ctx context.Context, tty *ttyOutput) error {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	ended := make(chan struct{})
	c.beside.Go(func() { c.printer.run(c.program, tty, ended) })
	c.beside.Go(func() { c.tellWritten(tty, ended) })
	c.beside.Go(func() {
		select {
		case <-ctx.Done():
			c.Post(c.talk.Leave)
		case <-hangup:
			c.program.Kill()
		case <-ended:
		}
	})
	_, err := c.program.Run()
	close(ended)
	c.beside.Wait()
	if err != nil && !c.quitting {
		c.talk.Abandon()
		return errTerminalGone
	}
	return c.failure
}

// tellWritten tells the event loop which drawing has reached the terminal.
func (c *client) tellWritten(tty *ttyOutput, ended <-chan struct{}) {
	for {
		select {
		case <-tty.marked:
			mark := tty.mark.Load()
			c.Post(func() {
				c.settler.written(mark)
				c.uncover()
			})
		case <-ended:
			return
		}
	}
}

func environ(env map[string]string) []string {
	out := make([]string, 0, len(env))
	for k, v := range env {
		out = append(out, k+"="+v)
	}
	return out
}
