package main

import (
	"fmt"
	"io"
	"os"

	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/turntext"
	"agentd/command"
)

// dialogue is where a person answers, line by line. Nil is no one.
type dialogue struct {
	out io.Writer
	in  *terminal.Lines
	tty *os.File
	// lines delivers what was typed; reading says that a line is awaited. A read of
	// a terminal can't be ended, so the goroutine that reads is left to the end of
	// the process when the line isn't wanted any more.
	lines   chan terminal.Typed
	reading bool
	// pasted says that the last value was the beginning of a paste. The rest may fill in
	// further values, and decides nothing.
	pasted bool
}

// dialogue returns where questions are put, or nil if no one is there to answer:
// the terminal that the program was started from, or its controlling terminal
// where standard input is a pipe.
func (a *app) dialogue(inputUsed bool) *dialogue {
	if a.json {
		return nil
	}
	d := &dialogue{lines: make(chan terminal.Typed, 1)}
	seen := terminal.IsTerminal(a.err) || terminal.IsTerminal(a.out)
	if terminal.IsTerminal(a.in) && !inputUsed {
		d.in, d.out = terminal.NewLines(a.in), a.err
		if terminal.IsTerminal(a.out) {
			d.out = a.out
		}
		if seen {
			return d
		}
	} else if !seen {
		return nil
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	d.tty, d.out = tty, tty
	if d.in == nil {
		d.in = terminal.NewLines(tty)
	}
	return d
}

func (d *dialogue) close() error {
	if d == nil || d.tty == nil {
		return nil
	}
	return d.tty.Close()
}

// read asks for a line, which comes over lines.
func (d *dialogue) read(prompt string, decides bool) {
	if !d.reading {
		if decides && d.pasted {
			d.in.Drop()
			d.pasted = false
		}
		d.in.Ask()
	}
	_, _ = fmt.Fprint(d.out, prompt) // if it can't be written, reading fails too
	if d.reading {
		return
	}
	d.reading = true
	go func() { d.lines <- d.in.Answer() }()
}

// decides reports whether a line chooses one of several answers.
func decides(q *turntext.Question) bool { return len(q.Answers()) > 0 }

// parse takes a line for a question: it returns the answer, nil if another line belongs to
// it, or what is wrong with it.
func (d *dialogue) parse(q *turntext.Question, t terminal.Typed) (answer *command.RespondAction, wrong string) {
	d.pasted = t.Pasted || t.Ahead && d.pasted
	if t.Pasted && decides(q) {
		d.in.Drop()
		d.pasted = false
		return nil, terminal.SeveralLines
	}
	answer, wrong = q.Parse(t.Line)
	if wrong != "" && decides(q) && !t.Ahead {
		d.in.Discard() // the rest of a paste that doesn't end with its line
	}
	return answer, wrong
}
