package tui

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"agentd/cmd/agentd/internal/conversation"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/turntext"
)

// openPager shows what tools wrote on the whole screen, the newest call first, and before
// it the call that is asked about. The conversation goes on behind it.
func (c *client) openPager() {
	calls := c.talk.Calls()
	if asked := c.talk.AskedCall(); asked != nil {
		calls = append(calls, asked)
	}
	if len(calls) == 0 {
		c.talk.View.Info("no tool was called yet")
		c.talk.View.Refresh()
		return
	}
	calls = calls[max(0, len(calls)-maxPages):]
	texts := make([]string, len(calls))
	left := len(calls)
	for i, x := range calls {
		c.talk.ReadOutput(x, func(text string) {
			texts[i] = text
			if left--; left == 0 {
				c.showPages(calls, texts)
			}
		})
	}
}

// maxPages is how many calls are looked at: each is read whole.
const maxPages = 40

func (c *client) showPages(calls []*conversation.Call, texts []string) {
	if c.quitting {
		return
	}
	c.pager = &pager{ink: c.ink, calls: calls, texts: texts, at: len(calls) - 1}
	c.covered = true
	c.printer.pause()
}

// closePager shows the conversation again. Lines are printed above it only once it was
// drawn: until then they would go to the screen of the pager.
func (c *client) closePager() {
	c.pager = nil
	c.settler.await()
}

// uncover goes on printing once the conversation is on the screen again.
func (c *client) uncover() {
	if c.covered && c.pager == nil && !c.settler.waiting {
		c.covered = false
		c.printer.resume()
	}
}

// pager shows the output of one tool call after the other on the whole screen.
type pager struct {
	ink        terminal.Ink
	calls      []*conversation.Call
	texts      []string
	at, top    int
	cols, rows int
	// lines are those of the call that is shown, at the width of now.
	lines []string
	made  [2]int
	// query is what is looked for; asking says that it is being typed.
	query  editor
	asking bool
	// hit is the line that was found last.
	hit int
}

func (p *pager) room() int { return max(p.rows-2, 1) }

func (p *pager) press(k tea.Key) (done bool) {
	name := k.Keystroke()
	if p.asking {
		p.pressQuery(k, name)
		return false
	}
	if found := p.matches(); len(found) > 0 && (name == "n" || name == "N" || name == "shift+n") {
		p.hit = nextMatch(found, p.hit, name == "n")
		p.top = p.hit
		return false
	}
	switch name {
	case "q", "esc", "ctrl+o", "ctrl+c":
		return true
	case "/":
		p.query.set("")
		p.asking = true
	case "up", "k":
		p.top--
	case "down", "j", "enter":
		p.top++
	case "pgup", "b", "ctrl+b":
		p.top -= p.room()
	case "pgdown", "space", "ctrl+f":
		p.top += p.room()
	case "home", "g":
		p.top = 0
	case "end", "G", "shift+g":
		p.top = len(p.lines)
	case "left", "[", "p":
		p.at, p.top = max(p.at-1, 0), 0
	case "right", "]", "n":
		p.at, p.top = min(p.at+1, len(p.calls)-1), 0
	}
	return false
}

// pressQuery takes a key of what is looked for; the lines follow it.
func (p *pager) pressQuery(k tea.Key, name string) {
	switch name {
	case "esc", "ctrl+c":
		p.query.set("")
		p.asking = false
	case "enter":
		p.asking = false
	default:
		p.query.press(k)
		if found := p.matches(); len(found) > 0 {
			p.hit = nextMatch(found, p.top-1, true)
			p.top = p.hit
		}
	}
}

// matches are the lines that contain what is looked for, in either case.
func (p *pager) matches() (found []int) {
	want := strings.ToLower(p.query.value())
	if want == "" {
		return nil
	}
	for i, line := range p.lines {
		if strings.Contains(strings.ToLower(ansi.Strip(line)), want) {
			found = append(found, i)
		}
	}
	return found
}

// nextMatch is the match after a line, or before it; after the last one comes the first.
func nextMatch(found []int, from int, forward bool) int {
	if forward {
		for _, i := range found {
			if i > from {
				return i
			}
		}
		return found[0]
	}
	for _, i := range slices.Backward(found) {
		if i < from {
			return i
		}
	}
	return found[len(found)-1]
}

// layOut breaks the text at the width, once for each call and width.
func (p *pager) layOut() {
	if p.made == [2]int{p.at + 1, p.cols} {
		return
	}
	p.made, p.lines = [2]int{p.at + 1, p.cols}, nil
	text := p.texts[p.at]
	if d := p.calls[p.at].Diff; d != "" {
		if before, found := strings.CutSuffix(text, terminal.PlainBlock(d)); found {
			text = before
		}
	}
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		p.lines = append(p.lines, terminal.Wrap(line, p.cols)...)
	}
	if d := p.calls[p.at].Diff; d != "" {
		p.lines = append(append(p.lines, ""), turntext.DrawDiff(p.ink, d, p.cols, 0)...)
	}
}

// draw returns what fills the screen; note stands at its foot.
func (p *pager) draw(cols, rows int, note string) []string {
	p.cols, p.rows = cols, max(rows, 3)
	p.layOut()
	p.top = min(max(p.top, 0), max(len(p.lines)-p.room(), 0))
	x := p.calls[p.at]
	title := ansi.Truncate(x.Name+" "+x.Args, p.cols-1, "…")
	lines := []string{p.ink.Paint(terminal.Bold, title)}
	end := min(p.top+p.room(), len(p.lines))
	found := p.matches()
	for i, line := range p.lines[min(p.top, end):end] {
		if slices.Contains(found, p.top+i) {
			line = p.ink.Paint(terminal.Yellow, ansi.Strip(line))
		}
		lines = append(lines, ansi.Truncate(line, p.cols-1, "…"))
	}
	for len(lines) < p.rows-1 {
		lines = append(lines, "")
	}
	foot := terminal.JoinDots(note, p.searched(len(found)), fmt.Sprintf("call %d of %d", p.at+1, len(p.calls)),
		fmt.Sprintf("lines %d-%d of %d", min(p.top+1, len(p.lines)), end, len(p.lines)), p.keys(len(found)))
	return append(lines, p.ink.Paint(terminal.Dim, ansi.Truncate(foot, p.cols-1, "…")))
}

// searched says what is looked for, and how many lines have it.
func (p *pager) searched(found int) string {
	switch query := terminal.Plain(p.query.value()); {
	case query == "" && p.asking:
		return "/"
	case query == "":
		return ""
	case found == 0:
		return "/" + query + ": not found"
	default:
		return "/" + query + ": " + terminal.Plural(found, "line")
	}
}

// keys says what the keys do.
func (p *pager) keys(found int) string {
	switch {
	case p.asking:
		return "Enter keeps it, Esc forgets it"
	case found > 0:
		return "n/N next, q closes"
	}
	return "←/→ other calls, / finds, q closes"
}
