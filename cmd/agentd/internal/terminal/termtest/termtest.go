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
	// Unknown is what was written that the emulator doesn't know.
	Unknown []string
}

// New returns an emulator of a size.
func New(cols, rows int) *Emulator {
	return &Emulator{Cols: cols, Rows: rows, lines: [][]string{{}}}
}

// Write takes what a program writes.
func (e *Emulator) Write(s string) {
	s, e.rest = e.rest+s, ""
	for s != "" {
		switch {
		case s[0] == 0x1b:
			n := e.escape(s)
			if n == 0 {
				e.rest = s
				return
			}
			s = s[n:]
		case s[0] == '\r':
			e.col, s = 0, s[1:]
		case s[0] == '\n':
			e.down()
			s = s[1:]
		case s[0] < ' ':
			e.Unknown = append(e.Unknown, s[:1])
			s = s[1:]
		default:
			if !utf8.FullRuneInString(s) {
				e.rest = s
				return
			}
			r, n := utf8.DecodeRuneInString(s)
			e.put(string(r))
			s = s[n:]
		}
	}
}

func (e *Emulator) down() {
	e.row++
	for e.row >= len(e.lines) {
		e.lines = append(e.lines, nil)
	}
	e.top = max(e.top, e.row-e.Rows+1)
}

// put writes one character where the cursor stands. As in a real terminal a line
// is broken only when a character follows that has no place.
func (e *Emulator) put(s string) {
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
	}
	e.lines[e.row] = line
	e.col += w
}

// escape carries out a sequence and returns its length; 0 if it isn't whole.
func (e *Emulator) escape(s string) int {
	if len(s) < 2 {
		return 0
	}
	if s[1] != '[' {
		e.Unknown = append(e.Unknown, s[:2])
		return 2
	}
	end := 2
	for end < len(s) && (s[end] < 0x40 || s[end] > 0x7e) {
		end++
	}
	if end == len(s) {
		return 0
	}
	n := 0
	for _, c := range s[2:end] {
		n = n*10 + int(c-'0')
	}
	switch s[end] {
	case 'm', 'h', 'l':
	case 'A':
		e.row = max(e.row-n, e.top)
	case 'C':
		e.col = min(e.col+n, e.Cols-1)
	case 'J':
		e.lines = e.lines[:e.row+1]
		e.lines[e.row] = e.lines[e.row][:min(e.col, len(e.lines[e.row]))]
	default:
		e.Unknown = append(e.Unknown, s[:end+1])
	}
	return end + 1
}

// Text is everything that can be seen, also by scrolling back.
func (e *Emulator) Text() string {
	var out []string
	for _, l := range e.lines {
		out = append(out, strings.TrimRight(strings.Join(l, ""), " "))
	}
	return strings.Join(out, "\n")
}

// Resize does what terminals do when they become narrower: lines are broken anew.
func (e *Emulator) Resize(cols, rows int) {
	var lines [][]string
	at, col := 0, e.col
	for i, l := range e.lines {
		if i == e.row {
			at = len(lines) + e.col/cols
			col = e.col % cols
		}
		for len(l) > cols {
			lines = append(lines, l[:cols])
			l = l[cols:]
		}
		lines = append(lines, l)
	}
	e.lines, e.row, e.col, e.Cols, e.Rows = lines, at, col, cols, rows
	e.top = max(0, len(lines)-rows)
}
