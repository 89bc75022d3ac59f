// Package chat is the interactive client that draws nothing: it reads lines and writes
// lines.
//
// # Contract
//
// [Run] talks to an agent until its input ends or the user leaves. It moves no cursor,
// shows no spinner and never changes a line that was written, so that screen readers,
// dumb terminals, pipes and logs can follow. The conversation is package conversation's,
// its text package turntext's.
//
// # Concurrency
//
// One goroutine owns the conversation, one reads lines. Run waits for all but the
// reader, which a terminal may block until the process ends.
package chat

import (
	"context"
	"io"
	"strings"
	"time"

	"agentd/cmd/agentd/internal/conversation"
	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/turntext"
	"agentd/event"
)

// Options of a conversation. Source and Describe are needed.
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
	// Prompts says that a prompt is written where a line is waited for; in a pipe nobody
	// waits.
	Prompts bool
	// Width is where lines are broken; 0 is 80.
	Width int
}

// client reads lines and writes lines. One goroutine owns it.
type client struct {
	options *Options
	out     io.Writer
	talk    *conversation.Conversation
	posts   chan func()
	ended   chan struct{}

	lines *terminal.Lines
	// want takes the next line in place of the conversation, and lead says what it is.
	want func(line string)
	lead string
	// question is what lines answer that nothing else takes.
	question *turntext.Question
	partial  []string
	// asked is when the question or the list was written that a line decides, early how
	// many bytes of lines had been typed by then that are still to come. Held are lines for
	// it that others may follow at once, and heldAt is that time of theirs.
	asked, heldAt time.Time
	early         int
	held          []string
	writeErr      error
	left          bool
	// closed says that no more lines come: the client ends with the last turn.
	closed  bool
	failure error
	// prompted says that the prompt stands at the end of what was written, due that it
	// should: something was written since.
	prompted, due bool
}

// Run runs a conversation in lines until the input ends or the user leaves.
func Run(ctx context.Context, o *Options, in io.Reader, out io.Writer) error {
	c := &client{options: o, out: out, lines: terminal.NewLines(in), posts: make(chan func()), ended: make(chan struct{})}
	c.talk = conversation.New(&conversation.Options{
		Source: o.Source, Front: c, Turn: o.Turn, Ink: o.Ink, Describe: o.Describe, Review: o.Review, Folder: o.Folder, SameMachine: o.SameMachine, Flat: true,
	})
	defer c.talk.Close()
	defer close(c.ended)
	if o.Session != "" {
		if err := c.talk.Open(ctx, o.Session); err != nil {
			return err
		}
	}
	what := "new session"
	if s := c.talk.Session(); s != "" {
		what = "session " + s
	}
	c.Print("agentd " + terminal.JoinDots(o.Version, what, "/help lists the commands"))
	if o.Prompt != "" {
		c.talk.Say(&conversation.Message{Text: o.Prompt}, false)
	}
	typed := make(chan input)
	go c.readLines(typed)
	err := c.loop(ctx, typed)
	if s := c.talk.Session(); s != "" && err == nil {
		c.Print("session " + s + " · agentd chat --continue resumes it")
	}
	return err
}

// input is a line, or says that nothing follows those that came at once.
type input struct {
	line string
	read time.Time
	rest bool
}

func (c *client) readLines(typed chan<- input) {
	defer close(typed)
	send := func(in input) bool {
		select {
		case typed <- in:
			return true
		case <-c.ended:
			return false
		}
	}
	for line, more := c.lines.Next(); more; line, more = c.lines.Next() {
		if !send(input{line: strings.TrimSuffix(line, "\r"), read: time.Now()}) {
			return
		}
		if c.options.Prompts && !c.lines.Followed() && !send(input{rest: true}) {
			return
		}
	}
	send(input{rest: true})
}
