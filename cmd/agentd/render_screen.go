package main

import (
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// ink paints text where colour is wanted, and leaves it alone elsewhere.
type ink bool

// paint returns a text in a colour, or plain where there is none.
func (k ink) paint(code, text string) string {
	if !bool(k) || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// ink says whether a writer takes colour.
func (a *app) ink(w any) ink {
	return ink(a.env["NO_COLOR"] == "" && a.env["TERM"] != "dumb" && isTerminal(w))
}

// stage is where a conversation is shown: lines that stay, and below them some
// that change.
type stage interface {
	// print adds lines for good.
	print(lines ...string)
	// show replaces the lines that change; none if there are none.
	show(lines []string)
	// size of what can be seen, in columns and rows.
	size() (cols, rows int)
}

// lineStage only adds lines. Without a writer it shows nothing.
type lineStage struct{ w io.Writer }

func (s *lineStage) print(lines ...string) {
	if s.w != nil && len(lines) > 0 {
		// Who reads them can't be told that they can't be written.
		_, _ = io.WriteString(s.w, strings.Join(lines, "\n")+"\n")
	}
}

func (*lineStage) show([]string)    {}
func (*lineStage) size() (int, int) { return 80, 24 }

// screen is a terminal with finished lines, which it never touches again, and
// below them lines that change, in which the cursor stands. What changes is cut
// to the width, so that the screen always knows how many rows it takes. One
// goroutine uses it.
type screen struct {
	w     io.Writer
	asked func() (cols, rows int)

	// done are finished lines that are painted with the next show.
	done     []string
	live     []string
	row, col int
	cols     int
	// err is the first failure; a terminal that is gone stays gone.
	err error
}

func (s *screen) size() (cols, rows int) {
	cols, rows = s.asked()
	return max(cols, 2), max(rows, 2)
}

func (s *screen) print(lines ...string) { s.done = append(s.done, lines...) }

func (s *screen) show(lines []string) {
	col := 0
	if len(lines) > 0 {
		col = ansi.StringWidth(lines[len(lines)-1])
	}
	s.paint(lines, len(lines)-1, col)
}

// paint adds the finished lines and replaces those that change; the cursor then
// stands at a row and a column of these. Nothing is written if nothing changed.
func (s *screen) paint(live []string, row, col int) {
	cols, rows := s.size()
	if over := len(live) - (rows - 1); over > 0 {
		live, row = live[over:], max(row-over, 0)
	}
	shown := make([]string, len(live))
	for i, line := range live {
		shown[i] = ansi.Truncate(line, cols-1, "…")
	}
	row, col = max(row, 0), min(col, cols-1)
	if len(s.done) == 0 && cols == s.cols && row == s.row && col == s.col && slices.Equal(shown, s.live) {
		return
	}
	var b strings.Builder
	s.home(&b, cols)
	for _, line := range s.done {
		b.WriteString(line + "\r\n")
	}
	b.WriteString(strings.Join(shown, "\r\n"))
	if len(shown) > 0 {
		b.WriteByte('\r')
		move(&b, len(shown)-1-row, 'A')
		move(&b, col, 'C')
	}
	s.done, s.live, s.row, s.col, s.cols = nil, shown, row, col, cols
	if s.err == nil {
		_, s.err = io.WriteString(s.w, b.String())
	}
}

// home moves to where the changing lines begin and clears them. Terminals break
// lines anew when they become narrower, so the rows are counted at the width of
// now.
func (s *screen) home(b *strings.Builder, cols int) {
	if len(s.live) == 0 {
		return
	}
	up := 0
	for _, line := range s.live[:s.row] {
		up += max(1, (ansi.StringWidth(line)+cols-1)/cols)
	}
	up += s.col / cols
	b.WriteByte('\r')
	move(b, up, 'A')
	b.WriteString("\x1b[J")
}

// move writes a cursor movement of n cells.
func move(b *strings.Builder, n int, direction byte) {
	if n > 0 {
		b.WriteString("\x1b[" + strconv.Itoa(n))
		b.WriteByte(direction)
	}
}
