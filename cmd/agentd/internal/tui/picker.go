package tui

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"agentd/cmd/agentd/internal/conversation"
	"agentd/cmd/agentd/internal/terminal"
)

// picker shows a list to choose from, with a line to search it.
type picker struct {
	*conversation.Picker

	query editor
	all   []conversation.Choice
	shown []conversation.Choice
	at    int
	// widest is how wide the labels are: details have the rest of a line.
	widest int
	// asked numbers the searches: an older answer is of no use.
	asked  int
	loaded bool
	failed string
	over   bool
}

// Pick implements [conversation.Front].
func (c *client) Pick(p *conversation.Picker) {
	x := &picker{Picker: p}
	x.query.set(p.Query)
	x.load(c)
	c.open(x)
	if p.Live {
		x.reloadLater(c)
	}
}

// liveEvery is how often a list that changes by itself is loaded.
const liveEvery = time.Second

func (p *picker) reloadLater(c *client) {
	c.run(tea.Tick(liveEvery, func(time.Time) tea.Msg {
		return postMsg(func() {
			if !p.over && !c.quitting {
				p.load(c)
				p.reloadLater(c)
			}
		})
	}))
}

func (p *picker) load(c *client) {
	p.asked++
	asked := p.asked
	p.Load(p.query.value(), func(list []conversation.Choice, err error) {
		if asked != p.asked || p.over {
			return
		}
		p.loaded, p.failed = true, ""
		if err != nil {
			p.failed = c.options.Describe(err)
			return
		}
		chosen := ""
		if p.at < len(p.shown) {
			chosen = p.shown[p.at].Value
		}
		p.all = list
		p.narrow()
		p.at = min(p.at, max(len(p.shown)-1, 0))
		for i := range p.shown { // what was chosen stays so when the list moves
			if p.shown[i].Value == chosen {
				p.at = i
			}
		}
	})
}

// narrow keeps what fits to the query, where the list doesn't do so itself.
func (p *picker) narrow() {
	p.shown, p.widest = p.all, 0
	for _, x := range p.all {
		p.widest = max(p.widest, ansi.StringWidth(terminal.Plain(x.Label)))
	}
	if !p.Filters || len(p.query.text) == 0 {
		return
	}
	p.shown = nil
	for _, x := range p.all {
		if _, ok := fuzzy(x.Label, p.query.value()); ok {
			p.shown = append(p.shown, x)
		}
	}
}

func (p *picker) press(c *client, k tea.Key) bool {
	page := max(c.mostRows()-4, 1)
	switch k.Keystroke() {
	case "esc", "ctrl+c":
		p.over = true
	case "up", "ctrl+p":
		p.at = max(p.at-1, 0)
	case "down", "ctrl+n", "ctrl+r":
		p.at = min(p.at+1, max(len(p.shown)-1, 0))
	case "pgup":
		p.at = max(p.at-page, 0)
	case "pgdown":
		p.at = min(p.at+page, max(len(p.shown)-1, 0))
	case "enter":
		if p.at < len(p.shown) {
			p.over = true
			c.closeOverlay()
			p.Take(p.shown[p.at])
			return false // it is closed already, and Take may have opened another
		}
	case "delete":
		if p.Drop != nil && p.at < len(p.shown) {
			p.Drop(p.shown[p.at])
		}
	default:
		before := p.query.value()
		p.query.press(k)
		p.searchAgain(c, before)
	}
	return p.over
}

func (p *picker) searchAgain(c *client, before string) {
	if p.query.value() == before {
		return
	}
	if p.at = 0; p.Filters {
		p.narrow()
		return
	}
	p.load(c)
}

func (p *picker) paste(_ *client, text string) {
	p.query.insert(terminal.Plain(text))
	if p.Filters {
		p.narrow()
	}
}

func (p *picker) draw(c *client, cols, rows int) (lines []string, row, col int) {
	k := c.ink
	title := k.Paint(terminal.Bold, p.Title)
	hint := terminal.JoinDots(p.Hint, "Esc closes")
	lines = append(lines, title+"  "+k.Paint(terminal.Dim, hint))
	typed, r, x := p.query.seen("› ", cols)
	row, col = len(lines)+r, x
	lines = append(lines, typed...)
	room := max(rows-len(lines)-1, 1)
	from := min(max(p.at-room/2, 0), max(len(p.shown)-room, 0))
	to := min(from+room, len(p.shown))
	for i := from; i < to; i++ {
		lines = append(lines, p.drawChoice(k, i, cols))
	}
	switch {
	case p.failed != "":
		lines = append(lines, k.Paint(terminal.Yellow, "  "+terminal.Plain(p.failed)))
	case !p.loaded:
		lines = append(lines, k.Paint(terminal.Dim, "  …"))
	case len(p.shown) == 0:
		lines = append(lines, k.Paint(terminal.Dim, "  nothing fits"))
	case len(p.shown) > to-from:
		lines = append(lines, k.Paint(terminal.Dim, fmt.Sprintf("  %d of %d", p.at+1, len(p.shown))))
	}
	return lines, row, col
}

func (p *picker) drawChoice(k terminal.Ink, i, cols int) string {
	x := p.shown[i]
	detail := terminal.Plain(x.Detail)
	label := terminal.Plain(x.Label)
	room := max(cols-6, 10)
	detail = ansi.Truncate(detail, max(room/2, room-p.widest-2), "…")
	label = ansi.Truncate(label, max(room-ansi.StringWidth(detail)-2, 8), "…")
	gap := strings.Repeat(" ", max(room-ansi.StringWidth(label)-ansi.StringWidth(detail), 2))
	mark := "  "
	if x.Current {
		mark = "• "
	}
	if i == p.at {
		mark, label = k.Paint(terminal.Cyan, "▸ "), k.Paint(terminal.Bold, label)
	}
	return "  " + mark + label + gap + k.Paint(terminal.Dim, detail)
}
