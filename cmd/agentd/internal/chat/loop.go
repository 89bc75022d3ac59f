package chat

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"agentd/cmd/agentd/internal/conversation"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/turntext"
)

// ErrUnanswered says that the input ended while a question waits for an answer.
var ErrUnanswered = errors.New("the turn waits for an answer, and no more lines come; \"agentd actions\" lists what is asked")

// loop waits for lines and for what the conversation hands back.
func (c *client) loop(ctx context.Context, lines <-chan input) error {
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, syscall.SIGHUP)
	defer signal.Stop(interrupts)
	stop := ctx.Done()
	for !c.left && c.writeErr == nil {
		c.promptIfDue()
		from := lines
		if !c.takesLines() {
			from = nil
		}
		if c.closed && c.question != nil && !c.talk.Pending() {
			return ErrUnanswered
		}
		if c.closed && c.talk.Idle() {
			return c.failure
		}
		select {
		case in, open := <-from:
			if !open {
				c.prompted = false
				lines, c.closed = nil, true
				if c.options.Prompts {
					c.talk.Leave() // Ctrl-D
				}
				continue
			}
			c.takeInput(in)
		case do := <-c.posts:
			do()
		case <-interrupts:
			c.talk.Abandon()
			return errors.New("the terminal is gone")
		case <-stop:
			stop = nil
			c.talk.Leave()
		}
	}
	return errors.Join(c.failure, c.writeErr)
}

// takesLines reports whether a line has a meaning now. At a terminal it always has one;
// lines of a pipe come one after the other.
func (c *client) takesLines() bool {
	return !c.closed && (c.options.Prompts || c.want != nil || c.question != nil && !c.talk.Pending() || c.talk.Idle())
}

// promptIfDue writes what stands before a line that is waited for.
func (c *client) promptIfDue() {
	if !c.options.Prompts || !c.due || c.left {
		return
	}
	lead := "> "
	switch {
	case c.want != nil:
		lead = c.lead
	case c.talk.Pending(): // what it says comes first
		return
	case c.question != nil:
		lead = c.question.Prompt()
	case !c.talk.Idle():
		return
	}
	c.prompted, c.due = true, false
	c.write(lead)
}

func (c *client) write(s string) {
	if _, err := io.WriteString(c.out, s); err != nil && c.writeErr == nil {
		c.writeErr = err
	}
}

// takeInput takes a line, or holds it until it is known to have come alone: several lines
// that come at once were pasted, and what is pasted decides nothing.
func (c *client) takeInput(in input) {
	if in.rest {
		c.takeHeld()
		return
	}
	isEarly := c.early > 0 || in.read.Before(c.asked)
	c.early = max(c.early-len(in.line)-1, 0)
	c.prompted = false
	switch {
	case !c.decides():
		c.takeLine(in.line)
	case isEarly: // nobody could see what is asked
		c.takeWords(in.line)
	default:
		c.held, c.heldAt = append(c.held, in.line), c.asked
	}
}

// decides reports whether a line at the terminal chooses one of several answers.
func (c *client) decides() bool {
	return c.options.Prompts && (c.want != nil || c.question != nil && len(c.question.Answers()) > 0)
}

// takeHeld takes the line that came alone.
func (c *client) takeHeld() {
	held := c.held
	c.held = nil
	switch {
	case len(held) == 0:
	case !c.decides() || !c.heldAt.Equal(c.asked): // it was answered elsewhere meanwhile
		c.due = true
	case len(held) > 1:
		c.lines.Discard()
		c.Print(terminal.SeveralLines)
	default:
		c.takeLine(held[0])
	}
}

// takeLine takes a line for what it is wanted for, or as a part of the conversation.
func (c *client) takeLine(line string) {
	switch {
	case c.want != nil:
		c.want(line)
	case c.question != nil:
		c.takeAnswer(line)
	default:
		c.takeWords(line)
	}
}

// takeWords takes a line of the conversation. One that ends with a backslash goes on in the next.
func (c *client) takeWords(line string) {
	if before, more := strings.CutSuffix(line, `\`); more {
		c.partial = append(c.partial, before)
		return
	}
	text := strings.TrimSpace(strings.Join(append(c.partial, line), "\n"))
	c.partial = nil
	switch {
	case text == "":
		c.due = true
	case strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "//"):
		c.talk.RunSlash(text, c.commands())
	default:
		c.talk.Say(&conversation.Message{Text: strings.TrimPrefix(text, "/")}, false)
	}
}

func (c *client) commands() []conversation.Command {
	all := c.talk.Commands()
	help := conversation.Command{Name: "/help", Help: "show this", Run: func(string) {
		c.Print(conversation.HelpLines(c.options.Ink, c.commands(), c.width())...)
	}}
	last := all[len(all)-1]
	all = append(all[:len(all)-1], help)
	if c.question != nil && c.question.CanCancel() {
		all = append(all, conversation.Command{Name: cancels, Help: "leave the question without an answer", Run: func(string) { c.takeAnswer(cancels) }})
	}
	return append(all, last)
}

func (c *client) width() int {
	if c.options.Width > 0 {
		return c.options.Width
	}
	return 80
}

// Print implements [turntext.Stage].
func (c *client) Print(lines ...string) {
	if len(lines) == 0 {
		return
	}
	if c.prompted {
		c.prompted = false
		c.write("\n")
	}
	c.due = true
	c.write(strings.Join(lines, "\n") + "\n")
}

// Show implements [turntext.Stage]: nothing is drawn over.
func (*client) Show([]string) {}

// Size implements [turntext.Stage].
func (c *client) Size() (cols, rows int) { return c.width(), 24 }

// Post implements [conversation.Front].
func (c *client) Post(do func()) {
	select {
	case c.posts <- do:
	case <-c.ended:
	}
}

// Ask implements [conversation.Front]. A list that the user chooses from keeps the next
// line.
func (c *client) Ask(q *turntext.Question) {
	c.decideNext()
	c.Print(append([]string{""}, q.Lines(c.options.Ink, c.width())...)...)
	c.question, c.due = q, true
}

// takeAnswer takes a line while a question waits: commands work as ever, everything else is
// the answer.
func (c *client) takeAnswer(line string) {
	q, text := c.question, strings.TrimSpace(line)
	isCommand := conversation.IsCommand(text, c.commands()) || strings.HasPrefix(text, "/") && !q.IsInput()
	switch {
	case isCommand && text != cancels && !strings.HasPrefix(text, "//"):
		c.talk.RunSlash(text, c.commands())
		return
	case strings.HasPrefix(text, "//"): // as in a prompt
		line = text[1:]
	}
	answer, wrong := q.Parse(line)
	switch {
	case wrong != "":
		if !q.IsInput() {
			wrong += "; commands such as /why and /status work meanwhile"
			c.lines.Discard() // the rest of a paste that doesn't end with its line
		}
		c.Print(wrong)
	case answer == nil: // another line belongs to it
		c.due = true
	default:
		c.question = nil
		c.talk.Answer(q, answer)
	}
}

// cancels is the line that answers a question with neither yes nor no.
const cancels = "/cancel"

func (c *client) wantLine(lead string, want func(string)) {
	c.lead, c.want, c.due = lead, want, true
}

// decideNext tells what was typed before from what is typed for what is asked now. It is
// called before anything of that is written.
func (c *client) decideNext() { c.early, c.asked = c.lines.Waiting(), time.Now() }

func (c *client) endWanting() { c.want, c.lead, c.due = nil, "", true }

// Withdraw implements [conversation.Front].
func (c *client) Withdraw(q *turntext.Question) {
	if c.question == q {
		c.question, c.due = nil, true
	}
}

// Pick implements [conversation.Front]: the list is written with numbers.
func (c *client) Pick(p *conversation.Picker) {
	p.Load(p.Query, func(list []conversation.Choice, err error) {
		switch {
		case err != nil:
			c.talk.View.Warn(c.options.Describe(err))
			return
		case len(list) == 0:
			c.talk.View.Info("nothing fits")
			return
		}
		c.decideNext()
		c.Print(p.Title + ":")
		for i, x := range list {
			mark := ""
			if x.Current {
				mark = "current"
			}
			c.Print(terminal.Clip("  "+strconv.Itoa(i+1)+" "+terminal.JoinDots(terminal.Plain(x.Label), terminal.Plain(x.Detail), mark), max(c.width()-1, 20)))
		}
		c.wantLine("number, or nothing to leave it: ", func(line string) {
			if line = strings.TrimSpace(line); line == "" {
				c.endWanting()
				return
			}
			n, err := strconv.Atoi(line)
			if err != nil || n < 1 || n > len(list) {
				c.Print("choose 1 to " + strconv.Itoa(len(list)))
				return
			}
			c.endWanting()
			p.Take(list[n-1])
		})
	})
}

// Confirm implements [conversation.Front].
func (c *client) Confirm(lead string, take func(yes bool)) {
	c.decideNext()
	c.wantLine(lead+" [y] yes  [n] no: ", func(line string) {
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			c.endWanting()
			take(true)
		case "n", "no", "":
			c.endWanting()
			take(false)
		}
	})
}

// Draft implements [conversation.Front]: the text can be copied.
func (c *client) Draft(text string) {
	for line := range strings.SplitSeq(terminal.PlainBlock(text), "\n") {
		c.Print("  " + line)
	}
}

// Remember implements [conversation.Front]: terminals have a history of their own.
func (*client) Remember(string) {}

// Leave implements [conversation.Front].
func (c *client) Leave(err error) {
	c.left = true
	if c.failure == nil {
		c.failure = err
	}
}
