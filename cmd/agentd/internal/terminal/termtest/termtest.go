// Package termtest is a terminal for tests.
//
// # Contract
//
// An [Emulator] is given what a program writes to a terminal and tells what a person
// would see. It is for one goroutine.
package termtest

import (
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Emulator is as much of a terminal as agentd needs: what was written can be read
// as a person would see it. It keeps what it doesn't know, so that tests see what
// a real one may not understand.
type Emulator struct {
	Cols, Rows int
	// lines holds everything, also what has left the screen; top is the first line
	// that is on it.
	lines    [][]string
	top      int
	row, col int
	rest     string
	last     string
	// from and to are the rows of the screen that scroll, without to; both 0 for all.
	from, to int
	// main is the screen below the alternate one; nil if that isn't shown.
	main *screen
	// Unknown is what was written that the emulator doesn't know.
	Unknown []string
	// Bells counts the bells, Notices are the texts of notifications, Title is the
	// title of the window.
	Bells   int
	Notices []string
	Title   string
}

// screen is what is kept of the main screen while the alternate one is shown.
type screen struct {
	lines         [][]string
	top, row, col int
}

// New returns an emulator of a size.
func New(cols, rows int) *Emulator {
	return &Emulator{Cols: cols, Rows: rows, lines: [][]string{{}}}
}

// Write takes what a program writes.
func (e *Emulator) Write(s string) {
	s, e.rest = e.rest+s, ""
	for s != "" {
		n := e.writeFirst(s)
		if n == 0 {
			e.rest = s
			return
		}
		s = s[n:]
	}
}

// writeFirst carries out the first thing that was written, and returns its length; 0 if it
// isn't whole.
func (e *Emulator) writeFirst(s string) int {
	switch s[0] {
	case 0x1b:
		return e.escape(s)
	case '\r':
		e.col = 0
	case '\n':
		e.down()
	case '\b':
		e.col = max(e.col-1, 0)
	case '\t':
		e.col = min((e.col/8+1)*8, e.Cols-1)
	case '\a':
		e.Bells++
	default:
		if s[0] < ' ' {
			e.Unknown = append(e.Unknown, s[:1])
			return 1
		}
		if !utf8.FullRuneInString(s) {
			return 0
		}
		r, n := utf8.DecodeRuneInString(s)
		e.putRune(string(r))
		return n
	}
	return 1
}

func (e *Emulator) down() {
	if first, end := e.region(); e.to > 0 && e.row == end-1 {
		e.shiftLines(first, end, 1)
		return
	}
	if e.main != nil && e.row == e.top+e.Rows-1 { // the alternate screen keeps nothing
		e.lines = append(e.lines[1:len(e.lines):len(e.lines)], nil)
		return
	}
	e.row++
	e.reach(e.row)
	e.top = max(e.top, e.row-e.Rows+1)
}

// reach makes the lines up to a row.
func (e *Emulator) reach(row int) {
	for row >= len(e.lines) {
		e.lines = append(e.lines, nil)
	}
}

// putRune writes one character where the cursor stands. As in a real terminal a line
// is broken only when a character follows that has no place.
func (e *Emulator) putRune(s string) {
	w := ansi.StringWidth(s)
	if e.col+w > e.Cols {
		e.down()
		e.col = 0
	}
	line := e.lines[e.row]
	for len(line) < e.col+w {
		line = append(line, " ")
	}
	if w == 0 && e.col > 0 {
		line[e.col-1] += s
	} else if w > 0 {
		line[e.col] = s
		for i := 1; i < w; i++ {
			line[e.col+i] = ""
		}
		e.last = s
	}
	e.lines[e.row] = line
	e.col += w
}

// Text is everything that can be seen, also by scrolling back.
func (e *Emulator) Text() string { return join(e.lines) }

// Screen is what is on the screen now, without what left it.
func (e *Emulator) Screen() string {
	return join(e.lines[min(e.top, len(e.lines)):min(e.top+e.Rows, len(e.lines))])
}

// Alternate reports whether the alternate screen is shown.
func (e *Emulator) Alternate() bool { return e.main != nil }

// Cursor is where the cursor stands on the screen.
func (e *Emulator) Cursor() (row, col int) { return e.row - e.top, e.col }

func join(lines [][]string) string {
	out := make([]string, 0, len(lines))
	for _, l := range lines {
		out = append(out, strings.TrimRight(strings.Join(l, ""), " "))
	}
	return strings.Join(out, "\n")
}

// Resize does what terminals do when they become narrower: lines are broken anew.
func (e *Emulator) Resize(cols, rows int) {
	if e.main != nil { // the alternate screen is drawn anew
		e.Cols, e.Rows = cols, rows
		return
	}
	var lines [][]string
	at, col := 0, e.col
	for i, l := range e.lines {
		if i == e.row {
			at = len(lines) + e.col/cols
			col = e.col % cols
		}
		for len(l) > cols {
			lines = append(lines, l[:cols:cols])
			l = l[cols:]
		}
		lines = append(lines, l)
	}
	for at >= len(lines) {
		lines = append(lines, nil)
	}
	e.lines, e.row, e.col, e.Cols, e.Rows = lines, at, col, cols, rows
	e.top = max(0, len(lines)-rows)
}
