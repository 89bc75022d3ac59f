package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"agentd/cmd/agentd/internal/shortid"
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
	// cols is how wide tables are, 0 for any; seen says that a person sees them.
	cols int
	seen bool
}

func (a *app) printer() *printer {
	cols, seen := a.width()
	return &printer{Ink: a.ink(a.out), w: bufio.NewWriter(a.out), cols: cols, seen: seen}
}

func (p *printer) linef(format string, args ...any) {
	if _, err := fmt.Fprintln(p.w, terminal.Coloured(fmt.Sprintf(format, args...))); err != nil && p.err == nil {
		p.err = err
	}
}

func (p *printer) flush() error {
	if err := p.w.Flush(); err != nil && p.err == nil {
		p.err = err
	}
	return p.err
}

// defaultWidth is how wide lines are where no terminal says it.
const defaultWidth = 80

// width is how many characters a line of standard output should have at most, and
// whether a person sees it: then ids are shortened in any case.
func (a *app) width() (cols int, seen bool) {
	if cols = terminal.Width(a.out); cols > 0 {
		return cols, true
	}
	if n, err := strconv.ParseUint(a.env["COLUMNS"], 10, 15); err == nil && n > 0 {
		return int(n), terminal.IsTerminal(a.out)
	}
	return defaultWidth, terminal.IsTerminal(a.out)
}

// idTitles are the titles of columns with ids, textTitles those of columns whose cells
// may be cut where a line is too long: --json has them whole.
var (
	idTitles   = []string{"SESSION", "TURN", "TASK", "JOB", "ACTION", "SCHEDULE", "THREAD", "SUBAGENT", "CHANNEL", "EVENT", "ITEM", "TRIAL", "ID"}
	textTitles = []string{"TITLE", "INPUT", "PROMPT", "WHAT", "LAST WORD", "WHY", "SAYS", "SESSIONS", "PEER"}
)

// table writes rows in columns; the first row is the head. Where a line has no space for
// all columns, the named ones are left out, the first of them first.
func (p *printer) table(rows [][]string, drop ...string) {
	if len(rows) == 1 && p.seen { // a head alone says nothing to a person
		p.linef("%s", p.Paint(terminal.Dim, noneOf(rows[0][0])))
		return
	}
	for _, line := range p.lay(rows, drop...) {
		p.linef("%s", line)
	}
}

// noneOf says that a list is empty. The title of its first column names what it lists,
// unless that is a figure or a property.
func noneOf(title string) string {
	if title != "ID" && slices.Contains(idTitles, title) || title == "NODE" || title == "RULE" {
		return "no " + strings.ToLower(title) + "s"
	}
	return "none"
}

// lay returns the lines of a table.
func (p *printer) lay(rows [][]string, drop ...string) []string {
	columns := make([]terminal.Column, len(rows[0]))
	for j, title := range rows[0] {
		columns[j].Text = slices.Contains(textTitles, title)
		if at := slices.Index(drop, title); at >= 0 {
			columns[j].Drop = len(drop) - at
		}
		if slices.Contains(idTitles, title) {
			columns[j].Shorten = shortCells(rows[1:], j)
		}
		if p.seen && columns[j].Shorten != nil {
			for _, r := range rows[1:] {
				r[j] = columns[j].Shorten(r[j])
			}
		}
	}
	return terminal.Table(rows, columns, p.cols)
}

// wrapped is table for rows whose last cell is a text that should be read whole: for a
// person it goes on below, in a pipe a row is a line of any length.
func (p *printer) wrapped(rows [][]string) {
	last := len(rows[0]) - 1
	heads := make([][]string, len(rows))
	for i, r := range rows {
		heads[i] = append(slices.Clone(r[:last]), "|") // holds the width of what is before it
	}
	cols := p.cols
	if p.cols = 0; !p.seen {
		p.table(rows)
		p.cols = cols
		return
	}
	p.cols = cols
	for i, line := range p.lay(heads) {
		head := strings.TrimSuffix(line, "|")
		for j, part := range terminal.Wrap(rows[i][last], max(cols-len(head)+1, defaultWidth/4)) {
			if j > 0 {
				head = strings.Repeat(" ", len(head))
			}
			p.linef("%s%s", head, part)
		}
	}
}

// shortCells returns how the ids of a column are written shorter. In a tree they stand
// behind its branches.
func shortCells(rows [][]string, j int) func(string) string {
	split := func(cell string) (branch, id string) {
		at := strings.IndexFunc(cell, func(r rune) bool { return !strings.ContainsRune(" ├└│─", r) })
		return cell[:max(at, 0)], cell[max(at, 0):]
	}
	var ids []string
	for _, r := range rows {
		_, id := split(r[j])
		ids = append(ids, id)
	}
	short := shortid.Shorten(ids)
	return func(cell string) string {
		branch, id := split(cell)
		return branch + short(id)
	}
}
