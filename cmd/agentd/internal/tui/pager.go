package tui

import (
	"fmt"
	"io"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"agentd/cmd/agentd/internal/conversation"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/turntext"
)

// openPager shows what tools wrote on the whole screen, the newest call first, and before
// it the call that is asked about. The
// conversation goes on below it and is caught up with afterwards.
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
	p := &pager{ink: c.ink, calls: calls, texts: texts, at: len(calls) - 1, cols: c.cols, rows: c.rows}
	c.run(tea.Exec(&pagerProgram{model: p, env: environ(c.options.Env)}, func(err error) tea.Msg {
		return postMsg(func() {
			if err != nil {
				c.talk.View.Warn("the pager: " + err.Error())
			}
			c.talk.View.Refresh()
		})
	}))
}

// pagerProgram runs the pager on the terminal while the client waits.
type pagerProgram struct {
	model tea.Model
	env   []string
	in    io.Reader
	out   io.Writer
}

// SetStdin implements [tea.ExecCommand].
func (p *pagerProgram) SetStdin(r io.Reader) { p.in = r }

// SetStdout implements [tea.ExecCommand].
func (p *pagerProgram) SetStdout(w io.Writer) { p.out = w }

// SetStderr implements [tea.ExecCommand].
func (*pagerProgram) SetStderr(io.Writer) {}

// Run implements [tea.ExecCommand].
func (p *pagerProgram) Run() error {
	_, err := tea.NewProgram(p.model, tea.WithInput(p.in), tea.WithOutput(p.out), tea.WithEnvironment(p.env), tea.WithoutSignalHandler()).Run()
	return err
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
}

// Init implements [tea.Model].
func (*pager) Init() tea.Cmd { return nil }

// Update implements [tea.Model].
func (p *pager) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		p.cols, p.rows = max(msg.Width, 2), max(msg.Height, 3)
	case tea.KeyPressMsg:
		if p.press(msg.Keystroke()) {
			return p, tea.Quit
		}
	}
	p.layOut()
	p.top = min(max(p.top, 0), max(len(p.lines)-p.room(), 0))
	return p, nil
}

func (p *pager) room() int { return max(p.rows-2, 1) }

func (p *pager) press(name string) (done bool) {
	switch name {
	case "q", "esc", "ctrl+o", "ctrl+c":
		return true
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

// View implements [tea.Model].
func (p *pager) View() tea.View {
	p.layOut()
	x := p.calls[p.at]
	title := ansi.Truncate(x.Name+" "+x.Args, p.cols-1, "…")
	lines := []string{p.ink.Paint(terminal.Bold, title)}
	end := min(p.top+p.room(), len(p.lines))
	for _, line := range p.lines[min(p.top, end):end] {
		lines = append(lines, ansi.Truncate(line, p.cols-1, "…"))
	}
	for len(lines) < p.rows-1 {
		lines = append(lines, "")
	}
	foot := fmt.Sprintf("call %d of %d · lines %d-%d of %d · ←/→ other calls, q closes", p.at+1, len(p.calls), min(p.top+1, len(p.lines)), end, len(p.lines))
	v := tea.NewView(strings.Join(append(lines, p.ink.Paint(terminal.Dim, ansi.Truncate(foot, p.cols-1, "…"))), "\n"))
	v.AltScreen = true
	return v
}
