package chat

import (
	"strconv"
	"strings"

	"agentd/cmd/agentd/internal/terminal"
)

// paintLive shows what changes: what goes on, the line that is typed, and a line
// about the session.
func (c *conversation) paintLive() {
	cols, _ := c.Size()
	k := c.view.Ink
	lines := append([]string(nil), c.live...)
	if len(lines) > 0 {
		lines = append(lines, "")
	}
	lead := "› "
	if c.ask != nil {
		lead = c.ask.lead
	}
	if len(lead) > cols*2/3 {
		lines, lead = append(lines, terminal.Wrap(lead, cols)...), "› "
	}
	typed, row, col := c.edit.seen(lead, cols)
	row += len(lines)
	lines = append(lines, typed...)
	c.screen.Paint(append(lines, k.Paint(terminal.Dim, c.statusLine())), row, col)
}

func (c *conversation) statusLine() string {
	mode := c.options.PermissionMode
	if mode != "" {
		mode = "mode " + mode
	}
	model := c.options.Model
	if model == "" {
		model = c.model
	}
	cost, waits, hint := "", "", ""
	if c.cost > 0 {
		cost = terminal.Money(c.cost)
	}
	if n := len(c.queue); n > 0 {
		waits = strconv.Itoa(n) + " queued"
	}
	switch {
	case c.leaving:
		hint = "stopping the turn; Ctrl-C again leaves at once"
	case c.ask != nil:
	case c.active != "":
		hint = "Enter queues, Alt-Enter steers, Ctrl-C interrupts"
	}
	return strings.TrimSpace("  " + terminal.JoinDots(model, mode, cost, waits, hint))
}
