package terminal

import (
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Column says how a column of a table may become narrower.
type Column struct {
	// Shorten returns a shorter form of a cell that still means the same; nil if there
	// is none.
	Shorten func(cell string) string
	// Text says that cells may be cut.
	Text bool
	// Drop says that the column may be left out; those with the largest number go first.
	Drop int
}

// Bounds of columns that are made narrower.
const (
	gap      = "  "
	wideText = 24 // texts are cut to this before anything is shortened,
	someText = 12 // to this before the first column is, which names the row,
	leastOf  = 6  // and to this at last
)

// Table lays out rows in columns of at most so many characters in total, 0 for any; the
// first row is the head. It cuts long texts, then shortens what can be, the last column
// first, then leaves out columns, shortens the first one and cuts again. What still
// doesn't fit is wider.
func Table(rows [][]string, columns []Column, width int) []string {
	cells := rows
	if width > 0 && len(rows) > 0 {
		cells = fit(rows, columns, width)
	}
	widths := widthsOf(cells)
	lines := make([]string, len(cells))
	for i, r := range cells {
		var b strings.Builder
		for j, cell := range r {
			if j > 0 {
				b.WriteString(gap)
			}
			b.WriteString(cell)
			b.WriteString(strings.Repeat(" ", widths[j]-ansi.StringWidth(cell)))
		}
		lines[i] = strings.TrimRight(b.String(), " ")
	}
	return lines
}

// fit returns the rows with as little lost as the width demands: each step gives up a
// little more, and cuts the texts, which are whole again, only as far as they must be.
func fit(rows [][]string, columns []Column, width int) [][]string {
	whole, columns := cloned(rows), slices.Clone(columns)
	try := func(least int) ([][]string, bool) {
		cells := cloned(whole)
		cutTexts(cells, columns, width, least)
		return cells, excess(cells, width) <= 0
	}
	if cells, ok := try(wideText); ok {
		return cells
	}
	for j := len(columns) - 1; j > 0; j-- {
		shorten(whole, columns, j)
		if cells, ok := try(wideText); ok {
			return cells
		}
	}
	for {
		if cells, ok := try(wideText); ok {
			return cells
		}
		drop := slices.IndexFunc(columns, func(c Column) bool { return c.Drop > 0 && c.Drop == mostDropped(columns) })
		if drop < 0 {
			break
		}
		columns = slices.Delete(columns, drop, drop+1)
		for i, r := range whole {
			if drop < len(r) {
				whole[i] = slices.Delete(r, drop, drop+1)
			}
		}
	}
	if cells, ok := try(someText); ok {
		return cells
	}
	shorten(whole, columns, 0)
	cells, _ := try(leastOf)
	return cells
}

// mostDropped is the rank of the column that is left out next.
func mostDropped(columns []Column) int {
	most := 0
	for _, c := range columns {
		most = max(most, c.Drop)
	}
	return most
}

func cloned(rows [][]string) [][]string {
	out := make([][]string, len(rows))
	for i, r := range rows {
		out[i] = slices.Clone(r)
	}
	return out
}

// shorten writes the cells of a column in their shorter form.
func shorten(cells [][]string, columns []Column, j int) {
	if columns[j].Shorten == nil {
		return
	}
	for _, r := range cells[1:] {
		if j < len(r) {
			r[j] = columns[j].Shorten(r[j])
		}
	}
}

// cutTexts makes the columns of text narrower, the widest first, but leaves them their
// titles and so many characters.
func cutTexts(cells [][]string, columns []Column, width, least int) {
	floor := func(j int) int { return max(least, ansi.StringWidth(cells[0][j])) }
	for over := excess(cells, width); over > 0; over = excess(cells, width) {
		widths := widthsOf(cells)
		widest, next := -1, 0
		for j := range min(len(columns), len(cells[0])) {
			switch {
			case !columns[j].Text || widths[j] <= floor(j):
			case widest < 0 || widths[j] >= widths[widest]:
				if widest >= 0 {
					next = widths[widest]
				}
				widest = j
			default:
				next = max(next, widths[j])
			}
		}
		if widest < 0 {
			return
		}
		// Not further than the next one, so that two texts share what is lost.
		to := min(max(widths[widest]-over, floor(widest), next), widths[widest]-1)
		for _, r := range cells[1:] {
			if widest < len(r) {
				r[widest] = ansi.Truncate(r[widest], to, "…")
			}
		}
	}
}

// excess is by how much the rows are too wide.
func excess(cells [][]string, width int) int {
	total := -len(gap)
	for _, w := range widthsOf(cells) {
		total += w + len(gap)
	}
	return total - width
}

func widthsOf(cells [][]string) []int {
	var widths []int
	for _, r := range cells {
		for j, cell := range r {
			if j == len(widths) {
				widths = append(widths, 0)
			}
			widths[j] = max(widths[j], ansi.StringWidth(cell))
		}
	}
	return widths
}
