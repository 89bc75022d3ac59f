package turntext

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"agentd/cmd/agentd/internal/terminal"
)

// cell is a character with its style.
type cell struct {
	text, style string
	width       int
}

// wrapSpans breaks spans at the width, at spaces where there are some. Each line has its
// colours for itself.
func (r *renderer) wrapSpans(spans []span, first, hang string) []string {
	var lines []string
	var line, word []cell
	width, wordWidth := 0, 0
	lead := first
	room := func() int { return max(r.width-ansi.StringWidth(lead), 2) }
	endLine := func() {
		lines = append(lines, strings.TrimRight(lead+r.paintCells(line), " "))
		line, width, lead = nil, 0, hang
	}
	endWord := func() {
		if width > 0 && width+wordWidth > room() {
			for len(line) > 0 && line[len(line)-1].text == " " {
				line = line[:len(line)-1]
			}
			endLine()
		}
		line, width = append(line, word...), width+wordWidth
		word, wordWidth = nil, 0
	}
	for _, s := range spans {
		text, style := s.text, s.style
		if s.code && !r.ink.HasColour() {
			text = "`" + text + "`"
		}
		for _, c := range text {
			x := cell{text: string(c), style: style, width: ansi.StringWidth(string(c))}
			if c == ' ' && !s.code {
				endWord()
				if width > 0 && width < room() {
					line, width = append(line, x), width+1
				}
				continue
			}
			if wordWidth+x.width > room() {
				endWord()
				endLine()
			}
			word, wordWidth = append(word, x), wordWidth+x.width
		}
	}
	endWord()
	if len(line) > 0 || len(lines) == 0 {
		endLine()
	}
	return lines
}

// paintCells joins characters, those of one style together.
func (r *renderer) paintCells(cells []cell) string {
	for len(cells) > 0 && cells[len(cells)-1].text == " " {
		cells = cells[:len(cells)-1]
	}
	var b, run strings.Builder
	style := ""
	flush := func() {
		if run.Len() > 0 && style != "" {
			b.WriteString(r.ink.Paint(style, run.String()))
		} else {
			b.WriteString(run.String())
		}
		run.Reset()
	}
	for _, c := range cells {
		if c.style != style {
			flush()
			style = c.style
		}
		run.WriteString(c.text)
	}
	flush()
	return endColours(b.String())
}

// table lays out a table: as wide as its texts, or narrower if the terminal is.
func (r *renderer) table(out *[]string, lines []string) int {
	n := 2
	rows := [][]string{tableCells(lines[0])}
	for n < len(lines) && strings.Contains(lines[n], "|") {
		rows = append(rows, tableCells(lines[n]))
		n++
	}
	columns := len(rows[0])
	wide := make([]int, columns)
	for _, row := range rows {
		for i := range min(len(row), columns) {
			wide[i] = max(wide[i], ansi.StringWidth(plainInline(row[i])))
		}
	}
	r.narrow(wide)
	for i, row := range rows {
		r.tableRow(out, row, wide)
		if i == 0 {
			var parts []string
			for _, w := range wide {
				parts = append(parts, strings.Repeat("─", w+2))
			}
			*out = append(*out, r.ink.Paint(terminal.Dim, strings.Join(parts, "┼")))
		}
	}
	return n
}

// narrow takes width from the widest columns until the table fits.
func (r *renderer) narrow(wide []int) {
	for {
		sum, widest := 3*len(wide)-1, 0
		for i, w := range wide {
			sum += w
			if w > wide[widest] {
				widest = i
			}
		}
		if sum <= r.width || wide[widest] <= 3 {
			return
		}
		wide[widest]--
	}
}

func (r *renderer) tableRow(out *[]string, row []string, wide []int) {
	cells := make([][]string, len(wide))
	high := 1
	for i := range wide {
		if i < len(row) {
			cells[i] = (&renderer{ink: r.ink, width: max(wide[i], 2)}).wrapSpans(inline(row[i]), "", "")
		}
		high = max(high, len(cells[i]))
	}
	for line := range high {
		var parts []string
		for i, w := range wide {
			text := ""
			if line < len(cells[i]) {
				text = ansi.Truncate(cells[i][line], max(w, 2), "")
			}
			parts = append(parts, " "+text+strings.Repeat(" ", max(w-ansi.StringWidth(text), 0))+" ")
		}
		*out = append(*out, endColours(strings.TrimRight(strings.Join(parts, r.ink.Paint(terminal.Dim, "│")), " ")))
	}
}

// tableCells splits a row at its bars, except for those that are escaped or in code.
func tableCells(line string) []string {
	line = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "|"), "|")
	var out []string
	var b strings.Builder
	code := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && i+1 < len(line) && line[i+1] == '|':
			b.WriteByte('|')
			i++
		case c == '|' && !code:
			out = append(out, strings.TrimSpace(b.String()))
			b.Reset()
		default:
			code = code != (c == '`')
			b.WriteByte(c)
		}
	}
	return append(out, strings.TrimSpace(b.String()))
}

func plainInline(text string) string {
	var b strings.Builder
	for _, s := range inline(text) {
		b.WriteString(s.text)
		if s.code {
			b.WriteString("``")
		}
	}
	return b.String()
}

// keywords are those that most languages share.
var keywords = map[string]bool{
	"func": true, "function": true, "def": true, "class": true, "return": true, "if": true, "else": true, "elif": true, "for": true, "while": true,
	"import": true, "from": true, "package": true, "type": true, "struct": true, "interface": true, "const": true, "let": true, "var": true, "fn": true,
	"pub": true, "use": true, "match": true, "switch": true, "case": true, "break": true, "continue": true, "async": true, "await": true, "new": true,
	"try": true, "catch": true, "except": true, "finally": true, "raise": true, "throw": true, "defer": true, "go": true, "range": true, "nil": true,
	"null": true, "None": true, "true": true, "false": true, "True": true, "False": true, "export": true, "default": true, "then": true, "fi": true, "do": true,
	"done": true, "select": true, "where": true, "SELECT": true, "FROM": true, "WHERE": true, "in": true, "not": true, "and": true, "or": true, "impl": true, "enum": true,
}

// paintCode colours what most languages have in common: texts, comments, numbers and
// the usual words. It never changes a character.
func (r *renderer) paintCode(line string) string {
	if !r.ink.HasColour() {
		return line
	}
	var b strings.Builder
	for i := 0; i < len(line); {
		n, style := codeToken(line, i)
		if style == "" {
			b.WriteString(line[i : i+n])
		} else {
			b.WriteString(r.ink.Paint(style, line[i:i+n]))
		}
		i += n
	}
	return endColours(b.String())
}

// codeToken is the length and the style of what begins at a place.
func codeToken(line string, at int) (n int, style string) {
	rest := line[at:]
	switch c := rest[0]; {
	case strings.HasPrefix(rest, "//") && (at == 0 || line[at-1] != ':'), c == '#' && (at == 0 || line[at-1] == ' '), strings.HasPrefix(rest, "-- "):
		return len(rest), terminal.Dim
	case c == '"' || c == '\'' || c == '`':
		for i := 1; i < len(rest); i++ {
			switch rest[i] {
			case '\\':
				i++
			case c:
				return i + 1, terminal.Green
			}
		}
		return 1, ""
	case c >= '0' && c <= '9':
		for n < len(rest) && (isWordByte(rest[n]) || rest[n] == '.') {
			n++
		}
		return n, terminal.Magenta
	case isWordByte(c):
		for n < len(rest) && isWordByte(rest[n]) {
			n++
		}
		if keywords[rest[:n]] {
			return n, terminal.Cyan
		}
		return n, ""
	}
	return 1, ""
}
