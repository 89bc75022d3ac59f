package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// print writes an answer: the value with --json, else what text writes.
func (a *app) print(value any, text func(*printer)) error {
	if a.json {
		return writeJSON(a.out, value)
	}
	p := a.printer()
	text(p)
	return p.flush()
}

// writeJSON writes one value on one line.
func writeJSON(w io.Writer, value any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

// printer writes text for people, with colour where it helps. It keeps the first
// error for flush.
type printer struct {
	w      *bufio.Writer
	colour bool
	err    error
}

func (a *app) printer() *printer {
	return &printer{w: bufio.NewWriter(a.out), colour: a.env["NO_COLOR"] == "" && a.env["TERM"] != "dumb" && isTerminal(a.out)}
}

func (p *printer) linef(format string, args ...any) {
	if _, err := fmt.Fprintf(p.w, format+"\n", args...); err != nil && p.err == nil {
		p.err = err
	}
}

func (p *printer) flush() error {
	if err := p.w.Flush(); err != nil && p.err == nil {
		p.err = err
	}
	return p.err
}

// table writes rows in columns; the first row is the head.
func (p *printer) table(rows [][]string) {
	tw := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		if _, err := fmt.Fprintln(tw, strings.TrimRight(strings.Join(r, "\t"), "\t")); err != nil && p.err == nil {
			p.err = err
		}
	}
	if err := tw.Flush(); err != nil && p.err == nil {
		p.err = err
	}
}

// Colours, as SGR codes.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

// paint returns a text in a colour, or plain where there is none.
func (p *printer) paint(code, text string) string {
	if !p.colour || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// plainText makes what others wrote safe to show: it can't move the cursor,
// change colours or break a line.
func plainText(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) || (r >= 0x202a && r <= 0x202e) || (r >= 0x2066 && r <= 0x2069):
			return -1
		}
		return r
	}, s)
}

// clip shortens a text to so many characters.
func clip(s string, most int) string {
	r := []rune(s)
	if len(r) <= most {
		return s
	}
	return string(r[:most-1]) + "…"
}
