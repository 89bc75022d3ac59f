package tui

import (
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"agentd/cmd/agentd/internal/terminal"
)

// View implements [tea.Model]: what goes on, then the input or what lies over it, then
// the status line.
func (c *client) View() tea.View {
	if c.ended {
		c.frame = nil
		return tea.View{}
	}
	if c.pager != nil {
		return c.viewPager()
	}
	all, row, col := c.drawAll()
	all, row = c.settler.settle(all, row)
	v := tea.View{Content: strings.Join(all, "\n"), ReportFocus: true, WindowTitle: c.settler.marked(c.title())}
	if row >= 0 {
		v.Cursor = tea.NewCursor(min(col, c.cols-1), row)
		v.Cursor.Blink = false
	}
	c.frame, c.frameX, c.frameY = all, min(col, c.cols-1), max(row, 0)
	return v
}

// viewPager shows the pager on a screen of its own.
func (c *client) viewPager() tea.View {
	note := ""
	if c.talk.Status().WaitsFor == "you" {
		note = "agentd waits for you"
	}
	v := tea.NewView(strings.Join(c.pager.draw(c.cols, c.rows, note), "\n"))
	v.AltScreen, v.ReportFocus, v.WindowTitle = true, true, c.settler.markedAsWritten(c.title())
	return v
}

// drawAll returns the lines, and where the cursor stands in them.
func (c *client) drawAll() (all []string, row, col int) {
	if c.quitting {
		return []string{""}, 0, 0
	}
	lines, row, col := c.drawBottom()
	live := append(append(make([]string, 0, len(c.live)+1), c.live...), "")
	if over := len(live) + len(lines) - c.mostRows(); over > 0 {
		live = live[min(over, len(live)):]
	}
	if over := len(lines) - c.mostRows(); over > 0 { // the cursor stays in sight
		cut := min(over, max(row, 0))
		lines, row = lines[cut:], row-cut
		lines = lines[:min(len(lines), c.mostRows())]
	}
	all = append(append(make([]string, 0, len(live)+len(lines)), live...), lines...)
	for i, line := range all {
		all[i] = ansi.Truncate(line, c.cols-1, "…")
	}
	if row >= 0 {
		row += len(live)
	}
	return all, row, col
}

// drawBottom draws what is below. The cursor is always shown: where a hidden one stands
// is known to the renderer alone, and [client.makeRoom] has to know it.
func (c *client) drawBottom() (lines []string, row, col int) {
	row = -1
	if c.over != nil {
		lines, row, col = c.over.draw(c, c.cols, c.mostRows()-1)
	}
	if c.over == nil || c.isTyping() {
		typed, r, x := c.edit.seen("› ", c.cols)
		row, col = len(lines)+r, x
		lines = append(lines, c.paintInput(typed)...)
		lines = append(lines, c.menu.draw(c.ink, c.cols)...)
	}
	return append(lines, c.statusLine()), max(row, 0), col
}

// paintInput marks where the input begins, and what kind it is.
func (c *client) paintInput(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		rest, first := strings.CutPrefix(line, "› ")
		if !first || i > 0 {
			out[i] = line
			continue
		}
		lead := "› "
		if strings.HasPrefix(rest, "!") {
			lead = "! "
		}
		out[i] = c.ink.Paint(terminal.Cyan, lead) + rest
		if rest == "" && len(c.edit.text) == 0 {
			out[i] += c.ink.Paint(terminal.Dim, c.placeholder())
		}
	}
	return out
}

func (c *client) placeholder() string {
	if c.talk.Active() {
		return "Enter queues, Alt-Enter steers, Esc interrupts"
	}
	return "say what to do; /help lists the commands"
}

// statusLine tells the model, the mode, how full the context is, what was spent, what
// waits, and who is waited for.
func (c *client) statusLine() string {
	s := c.talk.Status()
	mode, cost, queued, waits := "", "", "", ""
	if s.Mode != "" {
		mode = "mode " + s.Mode
	}
	if s.NextMode != "" {
		mode += ", then " + s.NextMode
	}
	name := s.Model
	if s.NextModel != "" {
		name += ", then " + s.NextModel
	}
	if s.CostUSD > 0 {
		cost = terminal.Money(s.CostUSD)
	}
	if s.Queued > 0 {
		queued = strconv.Itoa(s.Queued) + " queued"
	}
	if s.WaitsFor != "" {
		waits = "waits for " + terminal.Plain(s.WaitsFor)
	}
	if c.talk.Leaving() {
		waits = "stopping the turn; Ctrl-C again leaves at once"
	}
	line := terminal.JoinDots(terminal.Plain(name), mode, s.Context(), cost, queued)
	room := c.cols - 3
	if waits != "" {
		waits = terminal.Clip(waits, max(room, 4))
		line = terminal.Clip(line, max(room-ansi.StringWidth(waits)-3, 1))
		waits = " · " + waits
	}
	colour := terminal.Dim
	if s.WaitsFor == "you" || s.Lost {
		colour = terminal.Yellow
	}
	return c.ink.Paint(terminal.Dim, "  "+terminal.Clip(line, max(room, 4))) + c.ink.Paint(colour, waits)
}

// title is the title of the window.
func (c *client) title() string {
	switch s := c.talk.Status(); {
	case s.WaitsFor == "you":
		return "agentd waits for you"
	case c.talk.Active():
		return "agentd works"
	}
	return "agentd"
}

// filter is asked about each message before the program takes it.
func (c *client) filter(_ tea.Model, msg tea.Msg) tea.Msg {
	switch msg := msg.(type) {
	case printMsg:
		if c.covered {
			c.printer.putBack(msg)
			return nil
		}
		return tea.Println(strings.Join(msg, "\n"))()
	case tea.WindowSizeMsg:
		return c.makeRoom(msg)
	}
	return msg
}

// makeRoom moves to where the drawing begins after the terminal has become narrower:
// it breaks lines anew, and the renderer counts them as they were.
func (c *client) makeRoom(size tea.WindowSizeMsg) tea.Msg {
	if size == c.reflowed || c.covered {
		return size
	}
	c.reflowed = size
	more := 0
	for i, line := range c.frame {
		if i < c.frameY {
			more += max(ansi.StringWidth(line)-1, 0) / max(size.Width, 1)
		}
	}
	if more += c.frameX / max(size.Width, 1); more == 0 {
		return size
	}
	go c.program.Send(size)
	return tea.RawMsg{Msg: "\x1b[" + strconv.Itoa(more) + "A"}
}
