package tui

import (
	"slices"
	"strings"
	"unicode"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"agentd/cmd/agentd/internal/terminal"
)

// editor is the line that is being typed. Its zero value is empty.
type editor struct {
	text []rune
	at   int
	// past are earlier lines, oldest first; back counts from the newest one, 0 is
	// the line that is being typed, which draft keeps meanwhile.
	past  []string
	back  int
	draft string
}

func (e *editor) value() string { return string(e.text) }

func (e *editor) set(s string) {
	e.text = []rune(s)
	e.at = len(e.text)
}

// takeLine empties the line and returns it.
func (e *editor) takeLine() string {
	s := e.value()
	e.set("")
	e.back, e.draft = 0, ""
	return s
}

// remember adds a line to the past, if it isn't the newest already.
func (e *editor) remember(line string) {
	if line = strings.TrimSpace(line); line != "" && (len(e.past) == 0 || e.past[len(e.past)-1] != line) {
		e.past = append(e.past, line)
	}
}

func (e *editor) insert(s string) {
	r := []rune(s)
	e.text = slices.Insert(e.text, e.at, r...)
	e.at += len(r)
}

// press changes the line, and reports whether the key means something here.
func (e *editor) press(k tea.Key) bool {
	name := k.Keystroke()
	switch name {
	case "ctrl+j", "shift+enter":
		e.insert("\n")
	case "backspace", "ctrl+h", "shift+backspace":
		e.cut(e.at-1, e.at)
	case "delete", "ctrl+d":
		e.cut(e.at, e.at+1)
	case "ctrl+u":
		e.cut(e.lineStart(), e.at)
	case "ctrl+k":
		e.cut(e.at, e.lineEnd())
	case "ctrl+w", "alt+backspace", "ctrl+backspace":
		e.cut(e.wordLeft(), e.at)
	case "alt+d":
		e.cut(e.at, e.wordRight())
	case "up", "ctrl+p":
		e.upOrRecall(1)
	case "down", "ctrl+n":
		e.upOrRecall(-1)
	case "tab":
		e.insert("    ")
	default:
		if k.Text != "" && k.Mod&^(tea.ModShift|tea.ModCapsLock|tea.ModNumLock) == 0 {
			e.insert(terminal.PlainBlock(k.Text))
			return true
		}
		return e.moves(name)
	}
	return true
}

// lineStart and lineEnd bound the line that the cursor is in.
func (e *editor) lineStart() int {
	i := e.at
	for i > 0 && e.text[i-1] != '\n' {
		i--
	}
	return i
}

func (e *editor) lineEnd() int {
	i := e.at
	for i < len(e.text) && e.text[i] != '\n' {
		i++
	}
	return i
}

// upOrRecall moves to the line above or below; at the first and the last it goes
// through what was said before.
func (e *editor) upOrRecall(by int) {
	start, end := e.lineStart(), e.lineEnd()
	switch {
	case by > 0 && start > 0:
		column := e.at - start
		e.at = start - 1
		e.at = min(e.lineStart()+column, start-1)
	case by < 0 && end < len(e.text):
		column := e.at - start
		e.at = end + 1
		e.at = min(end+1+column, e.lineEnd())
	default:
		e.recall(by)
	}
}

// moves puts the cursor elsewhere, and reports whether the key does.
func (e *editor) moves(name string) bool {
	switch name {
	case "left", "ctrl+b":
		e.at = max(e.at-1, 0)
	case "right", "ctrl+f":
		e.at = min(e.at+1, len(e.text))
	case "home", "ctrl+a":
		e.at = e.lineStart()
	case "end", "ctrl+e":
		e.at = e.lineEnd()
	case "ctrl+left", "alt+left", "alt+b":
		e.at = e.wordLeft()
	case "ctrl+right", "alt+right", "alt+f":
		e.at = e.wordRight()
	default:
		return false
	}
	return true
}

func (e *editor) cut(from, to int) {
	from, to = max(from, 0), min(to, len(e.text))
	if from < to {
		e.text = slices.Delete(e.text, from, to)
		e.at = from
	}
}

func (e *editor) wordLeft() int {
	i := e.at
	for i > 0 && unicode.IsSpace(e.text[i-1]) {
		i--
	}
	for i > 0 && !unicode.IsSpace(e.text[i-1]) {
		i--
	}
	return i
}

func (e *editor) wordRight() int {
	i := e.at
	for i < len(e.text) && unicode.IsSpace(e.text[i]) {
		i++
	}
	for i < len(e.text) && !unicode.IsSpace(e.text[i]) {
		i++
	}
	return i
}

// recall goes back in the past, or forth.
func (e *editor) recall(by int) {
	to := e.back + by
	if to < 0 || to > len(e.past) {
		return
	}
	if e.back == 0 {
		e.draft = e.value()
	}
	e.back = to
	if to == 0 {
		e.set(e.draft)
		return
	}
	e.set(e.past[len(e.past)-to])
}

// rows breaks the line at a width, behind a lead, and says where the cursor is.
func (e *editor) rows(lead string, cols int) (lines []string, row, col int) {
	indent := strings.Repeat(" ", min(ansi.StringWidth(lead), cols/2))
	line, width := []rune(lead), ansi.StringWidth(lead)
	next := func() {
		lines = append(lines, string(line))
		line, width = []rune(indent), len(indent)
	}
	for i, r := range e.text {
		w := ansi.StringWidth(string(r))
		if r != '\n' && width+w > cols-1 {
			next()
		}
		if i == e.at {
			row, col = len(lines), width
		}
		if r == '\n' {
			next()
			continue
		}
		line = append(line, r)
		width += w
	}
	if e.at == len(e.text) {
		if width > cols-1 {
			next()
		}
		row, col = len(lines), width
	}
	return append(lines, string(line)), row, col
}

// maxRows is how much of a long line is seen while it is typed.
const maxRows = 8

// seen is rows, cut to what is seen around the cursor.
func (e *editor) seen(lead string, cols int) (lines []string, row, col int) {
	lines, row, col = e.rows(lead, cols)
	if len(lines) <= maxRows {
		return lines, row, col
	}
	from := min(max(row-maxRows/2, 0), len(lines)-maxRows)
	return lines[from : from+maxRows], row - from, col
}

// wordAtCursor is what stands before the cursor since the last space, and where it begins.
func (e *editor) wordAtCursor() (string, int) {
	i := e.at
	for i > 0 && !unicode.IsSpace(e.text[i-1]) {
		i--
	}
	return string(e.text[i:e.at]), i
}

// replace puts a text in place of what stands between a place and the cursor.
func (e *editor) replace(from int, text string) {
	e.cut(from, e.at)
	e.insert(text)
}
