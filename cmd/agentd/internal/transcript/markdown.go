package transcript

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/turntext"
)

// page writes a transcript as Markdown for people.
type page struct {
	w io.Writer
	b bytes.Buffer
	// incomplete is what the beginning says that is missing.
	incomplete string
}

// begin implements [sink].
func (p *page) begin(t *Transcript) error {
	p.linef("# %s", cmp.Or(terminal.Plain(t.Title), "Conversation"))
	p.linef("")
	p.linef("- Session: `%s`", t.SessionID)
	if t.Workspace != "" {
		p.linef("- Folder: `%s`", terminal.Plain(t.Workspace))
	}
	p.linef("- Begun: %s", stamp(t.CreatedAt))
	if p.incomplete = t.Incomplete; t.Incomplete != "" {
		p.linef("- Incomplete: %s", t.Incomplete)
	}
	return p.flush()
}

// turn implements [sink].
func (p *page) turn(n int, t *Turn) error {
	mode := ""
	if t.Mode != "" {
		mode = "mode " + t.Mode
	}
	p.linef("\n## Turn %d\n", n)
	p.linef("*%s*", terminal.JoinDots(stamp(t.SubmittedAt), terminal.Plain(t.Model), mode, t.Status))
	for _, m := range t.Messages {
		if m.load() {
			p.message(m)
		}
		*m = Message{} // what was read is not kept
		if err := p.flush(); err != nil {
			return err
		}
	}
	if t.Error != "" {
		p.linef("\n**Failed:** %s", terminal.Plain(t.Error))
	}
	return p.flush()
}

// end implements [sink].
func (p *page) end(t *Transcript) error {
	if t.Incomplete != p.incomplete {
		p.linef("\n*(incomplete: %s)*", t.Incomplete)
	}
	return p.flush()
}

// flush hands over what was put together.
func (p *page) flush() error {
	_, err := p.w.Write(p.b.Bytes())
	p.b.Reset()
	return err
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func (p *page) linef(format string, args ...any) {
	fmt.Fprintf(&p.b, format, args...)
	p.b.WriteByte('\n')
}

func (p *page) message(m *Message) {
	switch {
	case m.Tool != nil:
		p.call(m.Tool)
	case m.Question != nil:
		p.question(m.Question)
	case m.Role == "user":
		p.linef("\n**You:**\n")
		p.quote(m.Text)
	case m.Role == "note":
		p.linef("\n*(%s)*", terminal.Plain(m.Text))
	default:
		p.linef("\n**Agent:**\n\n%s", strings.TrimSpace(terminal.PlainBlock(m.Text)))
	}
}

// quote writes a text as it was typed: nothing in it is taken for a part of the page.
func (p *page) quote(text string) {
	for line := range strings.SplitSeq(strings.TrimRight(terminal.PlainBlock(text), "\n"), "\n") {
		p.linef("%s", strings.TrimRight("> "+line, " "))
	}
}

// fence writes a text between fences that it doesn't have in it.
func (p *page) fence(kind, text string) {
	text = strings.TrimRight(terminal.PlainBlock(text), "\n")
	longest, run := 0, 0
	for _, r := range text {
		if run++; r != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	fence := strings.Repeat("`", max(longest+1, 3))
	p.linef("\n%s%s\n%s\n%s", fence, kind, text, fence)
}

func (p *page) call(c *Call) {
	p.linef("\n**Tool** `%s` (%s)", terminal.Plain(c.Name), terminal.JoinDots(c.Status, terminal.Took(c.DurationMs)))
	if short := turntext.ShortArgs(c.Name, c.Arguments); short != "" {
		p.fence("", short)
	}
	if c.Output != "" {
		p.fence("text", c.Output)
	}
	if c.Cut {
		p.linef("\n*(the output goes on: `agentd output %s`)*", c.OutputRef)
	}
	for _, file := range c.ChangedFiles {
		p.linef("\n- %s", terminal.Plain(file))
	}
}

func (p *page) question(q *Question) {
	what := cmp.Or(q.Prompt, q.Kind)
	if q.Tool != "" && q.Decision != "submit" && q.Kind != "structured_input" {
		what = "Allow " + q.Tool + "?"
	}
	answer := "not answered yet"
	if q.Decision != "" {
		scope, by := "", ""
		if q.Scope != "" && q.Scope != "once" {
			scope = "for this " + q.Scope
		}
		if q.By != "human" {
			by = "by " + strings.ReplaceAll(q.By, "_", " ")
		}
		answer = terminal.JoinDots(q.Decision, scope, terminal.Plain(q.Reason), by)
	}
	p.linef("\n**Asked:** %s  \n**Answer:** %s", terminal.Plain(what), answer)
	if len(q.Answer) > 0 {
		p.fence("json", string(q.Answer))
	}
}
