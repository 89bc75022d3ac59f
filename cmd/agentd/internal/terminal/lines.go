package terminal

import (
	"bufio"
	"io"
	"os"
	"time"
)

// settled is how long nothing must follow a line for it to have come alone. What is pasted
// comes faster than this, and nobody types a line and sends it in so short a time.
const settled = 150 * time.Millisecond

// maxLine bounds a line.
const maxLine = 8 << 20

// Lines reads what is typed, line by line, and tells a line that was typed by itself from
// one of several that came at once. A terminal that nothing is drawn on doesn't say where
// a paste begins and ends, so time has to tell. One goroutine may use it.
type Lines struct {
	scan *bufio.Scanner
	// tty is the terminal that is read; nil for anything else.
	tty *os.File
	// buffered says that more was read than the last line.
	buffered bool
	// ahead says that a line was there when the last question was about to be shown.
	ahead bool
}

// NewLines reads lines of a terminal, or of anything else.
func NewLines(in io.Reader) *Lines {
	l := &Lines{scan: bufio.NewScanner(in)}
	if IsTerminal(in) {
		l.tty, _ = in.(*os.File)
	}
	l.scan.Buffer(nil, maxLine)
	l.scan.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		n, line, err := bufio.ScanLines(data, atEOF)
		l.buffered = n > 0 && n < len(data)
		return n, line, err
	})
	return l
}

// Next returns the next line without its end, and false behind the last.
func (l *Lines) Next() (string, bool) {
	if !l.scan.Scan() {
		return "", false
	}
	return l.scan.Text(), true
}

// Followed waits a moment and reports whether more came behind the last line. What isn't a
// terminal is never waited for: its lines come one after the other.
func (l *Lines) Followed() bool {
	if l.tty == nil {
		return false
	}
	return l.buffered || inputWithin(l.tty, settled)
}

// Ask says that a question is about to be shown: a whole line that is there by now was
// typed ahead of it.
func (l *Lines) Ask() { l.ahead = l.buffered || l.tty != nil && inputWithin(l.tty, 0) }

// Typed is a line that was read for a question.
type Typed struct {
	Line string
	// Ahead says that it was there before the question. Somebody who types or writes ahead
	// knows what will be asked, so each line answers one question.
	Ahead bool
	// Pasted says that it came behind the question, and others at once with it. Such a line
	// decides nothing.
	Pasted bool
	// Ended says that there is no line and none will follow.
	Ended bool
}

// Answer returns the next line for what was asked.
func (l *Lines) Answer() Typed {
	line, more := l.Next()
	if !more {
		return Typed{Ended: true}
	}
	return Typed{Line: line, Ahead: l.ahead, Pasted: !l.ahead && l.Followed()}
}

// Drop throws away the rest of a paste: lines that come at once, and one that was not ended.
func (l *Lines) Drop() {
	for l.Followed() {
		if _, more := l.Next(); !more {
			return
		}
	}
	l.Discard()
}

// Waiting is how many bytes of lines were typed that nobody has read yet, where that can be
// told. Another goroutine may be reading.
func (l *Lines) Waiting() int {
	if l.tty == nil {
		return 0
	}
	return waitingInput(l.tty)
}

// Discard throws away what was typed and not read yet, where that can be done. Another
// goroutine may be reading.
func (l *Lines) Discard() {
	if l.tty != nil {
		discardInput(l.tty)
	}
}

// SeveralLines is what is said to a person whose paste stood where an answer was expected.
const SeveralLines = "several lines came at once, and none of them is taken for an answer"
