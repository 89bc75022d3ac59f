package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"agentd/cmd/agentd/internal/terminal"
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
	terminal.Ink
	w   *bufio.Writer
	err error
}

func (a *app) printer() *printer {
	return &printer{Ink: a.ink(a.out), w: bufio.NewWriter(a.out)}
}

// ink says whether a writer takes colour.
func (a *app) ink(w any) terminal.Ink {
	return terminal.Ink(a.env["NO_COLOR"] == "" && a.env["TERM"] != "dumb" && terminal.IsTerminal(w))
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
