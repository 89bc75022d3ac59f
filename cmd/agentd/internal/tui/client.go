package tui

import (
	"os"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"agentd/cmd/agentd/internal/conversation"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/turntext"
)

// client is the model of the program, and the front of its conversation. The event loop
// owns it.
type client struct {
	options *Options
	ink     terminal.Ink
	theme   string
	program *tea.Program
	// out is the terminal itself, for other programs.
	out     *os.File
	talk    *conversation.Conversation
	printer *printer
	beside  sync.WaitGroup

	cols, rows int
	// live is what the conversation shows of what goes on.
	live []string
	edit editor
	menu menu
	// over takes the keys while it is there: a picker, a question, a form.
	over overlay
	// waiting are overlays that come when the one before is done.
	waiting []overlay
	// pager fills the screen while it is open; covered says that the drawing isn't on the
	// screen because of it.
	pager   *pager
	covered bool
	pastes  []paste
	files   *fileList
	ran     []string
	// shell is a command of the user that runs; stop ends it.
	shell *localCommand

	lastEsc time.Time
	// focused says that the terminal told that the user looks at it.
	focused  bool
	spinning bool
	quitting bool
	// ended says that nothing is drawn any more and only lines are left to print.
	ended   bool
	failure error
	settler settler
	// frame is what was drawn last, for the room that it takes after a resize.
	frame        []string
	frameX       int
	frameY       int
	reflowed     tea.WindowSizeMsg
	wantsCommand []tea.Cmd
	now          func() time.Time
}

// overlay is something that is shown in place of the input and takes the keys.
type overlay interface {
	// press takes a key; done says that the overlay is over.
	press(c *client, k tea.Key) (done bool)
	// paste takes pasted text.
	paste(c *client, text string)
	// draw returns the lines, and where the cursor stands in them; row -1 hides it.
	draw(c *client, cols, rows int) (lines []string, row, col int)
}

func newClient(o *Options) *client {
	return &client{options: o, ink: o.Ink, theme: o.Theme, printer: newPrinter(), cols: 80, rows: 24, now: time.Now}
}

// postMsg is a function that runs in the event loop.
type postMsg func()

// spinMsg moves the spinner.
type spinMsg struct{}

// Init implements [tea.Model].
func (c *client) Init() tea.Cmd {
	if c.asksBackground() {
		return tea.RequestBackgroundColor
	}
	return nil
}

// Update implements [tea.Model].
func (c *client) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case postMsg:
		msg()
	case tea.WindowSizeMsg:
		c.resize(msg.Width, msg.Height)
	case tea.KeyPressMsg:
		c.press(tea.Key(msg))
	case tea.PasteMsg:
		if c.pager == nil {
			c.takePaste(msg.Content)
		}
	case tea.BackgroundColorMsg:
		c.takeBackground(msg.IsDark())
	case tea.FocusMsg:
		c.focused = true
	case tea.BlurMsg:
		c.focused = false
	case spinMsg:
		c.spinning = false
		c.talk.View.Tick()
		c.talk.View.Refresh()
	}
	if len(c.live) > 0 && !c.spinning {
		c.spinning = true
		c.run(tea.Tick(turntext.SpinEvery, func(time.Time) tea.Msg { return spinMsg{} }))
	}
	if c.quitting && !c.ended && !c.covered && c.settler.isSafe(0) {
		c.ended = true
		c.printer.close()
	}
	commands := c.wantsCommand
	c.wantsCommand = nil
	return c, tea.Batch(commands...)
}

// run has the program carry out a command.
func (c *client) run(cmd tea.Cmd) { c.wantsCommand = append(c.wantsCommand, cmd) }

func (c *client) resize(cols, rows int) {
	c.cols, c.rows = max(cols, 2), max(rows, 2)
	c.printer.setRoom(c.rows - c.mostRows() - 1)
	if c.talk != nil {
		c.talk.View.Refresh()
	}
}

// mostRows is how high the drawing may be, so that finished lines have room above it.
func (c *client) mostRows() int { return max(c.rows*2/3, min(c.rows-1, 4)) }

// Print implements [turntext.Stage].
func (c *client) Print(lines ...string) {
	for _, line := range lines {
		c.printer.enqueueLines(ansi.Truncate(line, max(c.cols-1, 1), "…"))
	}
}

// Show implements [turntext.Stage].
func (c *client) Show(lines []string) { c.live = lines }

// Size implements [turntext.Stage].
func (c *client) Size() (cols, rows int) { return c.cols, c.rows }

// Post implements [conversation.Front].
func (c *client) Post(do func()) { c.program.Send(postMsg(do)) }

// Draft implements [conversation.Front].
func (c *client) Draft(text string) {
	if len(c.edit.text) == 0 {
		c.edit.set(text)
	}
}

// Remember implements [conversation.Front].
func (c *client) Remember(text string) { c.edit.remember(text) }

// Leave implements [conversation.Front]. The drawing is taken away, and what is finished is
// printed first.
func (c *client) Leave(err error) {
	c.quitting = true
	if c.failure == nil {
		c.failure = err
	}
	c.over, c.waiting, c.live = nil, nil, nil
	if c.pager != nil {
		c.closePager()
	}
}

// open shows an overlay, or lets it wait for the one that is there.
func (c *client) open(o overlay) {
	if c.over != nil {
		c.waiting = append(c.waiting, o)
		return
	}
	c.over = o
	c.menu.close()
}

// closeOverlay goes on with what waits.
func (c *client) closeOverlay() {
	c.over = nil
	if len(c.waiting) > 0 {
		c.over, c.waiting = c.waiting[0], c.waiting[1:]
	}
	if a, asked := c.over.(*ask); asked && len(c.edit.text) == 0 {
		a.focused = true // it waited for what was closed
	}
}

func (c *client) greet() {
	what := "new session"
	if s := c.talk.Session(); s != "" {
		what = "session " + s
	}
	for i, line := range terminal.Wrap("agentd "+terminal.JoinDots(c.options.Version, what, "/ for commands, @ for files, ! for a shell"), c.cols) {
		if rest, first := strings.CutPrefix(line, "agentd"); first && i == 0 {
			c.Print(c.ink.Paint(terminal.Bold, "agentd") + c.ink.Paint(terminal.Dim, rest))
			continue
		}
		c.Print(c.ink.Paint(terminal.Dim, line))
	}
	c.Print("")
}

// commands are the slash commands, with those that only a drawn client has.
func (c *client) commands() []conversation.Command {
	all := c.talk.Commands()
	return append(all[:len(all)-1:len(all)-1],
		conversation.Command{Name: "/image", Args: "PATH", Help: "attach an image (also paste its path, or Ctrl-V)", Run: c.attachImage},
		conversation.Command{Name: "/editor", Help: "write the prompt in $EDITOR (also Ctrl-G)", Run: func(string) { c.openEditor() }},
		conversation.Command{Name: "/history", Args: "[TEXT]", Help: "find an earlier prompt (also Ctrl-R)", Run: c.talk.SearchHistory},
		conversation.Command{Name: "/theme", Args: "[THEME]", Help: "choose the colours: auto, dark, light or none", Run: c.chooseTheme, Complete: terminal.Themes},
		conversation.Command{Name: "/help", Help: "show this, and the keys", Run: func(string) { c.showHelp() }},
		all[len(all)-1],
	)
}

// keyHelp lists the keys.
var keyHelp = []conversation.Command{
	{Name: "Enter", Help: "send; while a turn runs: put into the queue"},
	{Name: "Alt-Enter", Help: "give to the running turn; else a new line (also Ctrl-J, Shift-Enter, \\ Enter)"},
	{Name: "Esc", Help: "interrupt the running turn; twice: go back to an earlier turn"},
	{Name: "Shift-Tab", Help: "next permission mode"},
	{Name: "Ctrl-O", Help: "look at all that tools wrote"},
	{Name: "Ctrl-R", Help: "find an earlier prompt"},
	{Name: "Ctrl-G", Help: "write in $EDITOR"},
	{Name: "Ctrl-V", Help: "attach the image in the clipboard"},
	{Name: "Ctrl-C", Help: "interrupt, empty the input, leave"},
	{Name: "!COMMAND", Help: "run a command here; the agent sees its output with the next prompt"},
	{Name: "@FILE", Help: "mention a file; an image is attached"},
}

func (c *client) showHelp() {
	lines := append([]string{""}, conversation.HelpLines(c.ink, c.commands(), c.cols)...)
	c.talk.View.Insert(append(append(lines, ""), conversation.HelpLines(c.ink, keyHelp, c.cols)...)...)
}
