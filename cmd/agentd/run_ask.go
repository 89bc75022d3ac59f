package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"agentd/cmd/agentd/internal/terminal"
)

// dialogue is where a person answers, line by line. Nil is no one.
type dialogue struct {
	out io.Writer
	in  *bufio.Reader
	tty *os.File
	// lines delivers what was typed; reading says that a line is awaited. A read of
	// a terminal can't be ended, so the goroutine that reads is left to the end of
	// the process when the line isn't wanted any more.
	lines   chan typed
	reading bool
}

// typed is a line, or the end of the terminal.
type typed struct {
	line string
	err  error
}

// dialogue returns where questions are put, or nil if no one is there to answer:
// the terminal that the program was started from, or its controlling terminal
// where standard input is a pipe.
func (a *app) dialogue(inputUsed bool) *dialogue {
	if a.json {
		return nil
	}
	d := &dialogue{lines: make(chan typed, 1)}
	seen := terminal.IsTerminal(a.err) || terminal.IsTerminal(a.out)
	if terminal.IsTerminal(a.in) && !inputUsed {
		d.in, d.out = bufio.NewReader(a.in), a.err
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
		d.in = bufio.NewReader(tty)
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
func (d *dialogue) read(prompt string) {
	_, _ = fmt.Fprint(d.out, prompt) // if it can't be written, reading fails too
	if d.reading {
		return
	}
	d.reading = true
	go func() {
		line, err := d.in.ReadString('\n')
		if line != "" {
			err = nil
		}
		d.lines <- typed{strings.TrimRight(line, "\r\n"), err}
	}()
}
