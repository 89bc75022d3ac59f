package turntext

import (
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"
)

// Stage is where a conversation is shown: lines that stay, and below them some
// that change.
type Stage interface {
	// Print adds lines for good.
	Print(lines ...string)
	// Show replaces the lines that change; none if there are none.
	Show(lines []string)
	// Size of what can be seen, in columns and rows.
	Size() (cols, rows int)
}

// LineStage only adds lines. Without a writer it shows nothing.
type LineStage struct{ W io.Writer }

// Print implements [Stage].
func (s *LineStage) Print(lines ...string) {
	if s.W != nil && len(lines) > 0 {
		// Who reads them can't be told that they can't be written.
		_, _ = io.WriteString(s.W, strings.Join(lines, "\n")+"\n")
	}
}

// Show implements [Stage]: nothing changes.
func (*LineStage) Show([]string) {}

// Size implements [Stage].
func (*LineStage) Size() (int, int) { return 80, 24 }

// Screen is a terminal with finished lines, which it never touches again, and
// below them lines that change, in which the cursor stands. What changes is cut
// to the width, so that the screen always knows how many rows it takes. One
// goroutine uses it.
type Screen struct {
	w     io.Writer
	asked func() (cols, rows int)

	// done are finished lines that are painted with the next show.
	done     []string
	live     []string
	row, col int
	cols     int
	// err is the first failure.
	err error
}

// Size implements [Stage].
func (s *Screen) Size() (cols, rows int) {
	cols, rows = s.asked()
	return max(cols, 2), max(rows, 2)
}

// Print implements [Stage]: the lines are painted with the next Show.
func (s *Screen) Print(lines ...string) { s.done = append(s.done, lines...) }

// Show implements [Stage].
func (s *Screen) Show(lines []string) {
	col := 0
	if len(lines) > 0 {
		col = ansi.StringWidth(lines[len(lines)-1])
	}
	s.Paint(lines, len(lines)-1, col)
}

// Paint adds the finished lines and replaces those that change; the cursor then
// stands at a row and a column of these. Nothing is written if nothing changed.
func (s *Screen) Paint(live []string, row, col int) {
	cols, rows := s.Size()
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

// Err returns why nothing more can be shown, or nil. A terminal that is gone stays gone.
func (s *Screen) Err() error { return s.err }

// home moves to where the changing lines begin and clears them. Terminals break
// lines anew when they become narrower, so the rows are counted at the width of
// now.
func (s *Screen) home(b *strings.Builder, cols int) {
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

// NewScreen returns the screen of a terminal.
func NewScreen(out *os.File) *Screen {
	return &Screen{w: out, asked: func() (int, int) {
		cols, rows, err := term.GetSize(out.Fd())
		if err != nil || cols == 0 {
			return 80, 24
		}
		return cols, rows
	}}
}

// move writes a cursor movement of n cells.
func move(b *strings.Builder, n int, direction byte) {
	if n > 0 {
		b.WriteString("\x1b[" + strconv.Itoa(n))
		b.WriteByte(direction)
	}
}
