package turntext

import (
	"html"
	"regexp"
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"agentd/cmd/agentd/internal/terminal"
)

// MaxText is the width beyond which text is hard to read.
const MaxText = 100

// renderBlock returns a block of markdown as lines for a terminal of that width. What
// isn't markdown, or isn't whole yet, is shown as it stands. Without colour it has the
// structure alone.
func renderBlock(k terminal.Ink, block string, cols int) []string {
	r := renderer{ink: k, width: max(min(max(cols, 10)-1, MaxText), 4)}
	return withoutEmptyEnds(r.blocks(strings.Split(block, "\n")))
}

// endColours makes sure that no colour goes on after a line.
func endColours(line string) string {
	if strings.Contains(line, "\x1b[") && !strings.HasSuffix(line, "\x1b[0m") {
		line += "\x1b[0m"
	}
	return line
}

// withoutEmptyEnds removes empty lines at the beginning and the end.
func withoutEmptyEnds(lines []string) []string {
	empty := func(s string) bool { return strings.TrimSpace(ansi.Strip(s)) == "" }
	for len(lines) > 0 && empty(lines[0]) {
		lines = lines[1:]
	}
	for len(lines) > 0 && empty(lines[len(lines)-1]) {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// renderer lays out markdown at a width.
type renderer struct {
	ink   terminal.Ink
	width int
	depth int
}

var (
	heading    = regexp.MustCompile(`^ {0,3}(#{1,6})\s+(.*?)\s*#*$`)
	ruleLine   = regexp.MustCompile(`^ {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$`)
	quoteLine  = regexp.MustCompile(`^ {0,3}> ?`)
	itemLine   = regexp.MustCompile(`^(\s*)([-*+]|\d{1,9}[.)])(\s+|$)(.*)$`)
	tableRule  = regexp.MustCompile(`^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$`)
	taskMarker = regexp.MustCompile(`^\[([ xX])\]\s+`)
)

// maxNesting bounds lists and quotes within each other.
const maxNesting = 8

// blocks renders lines, one construct after the other.
func (r *renderer) blocks(lines []string) []string {
	var out []string
	for i := 0; i < len(lines); {
		line := lines[i]
		n := 1
		switch mark := fence.FindString(line); {
		case strings.TrimSpace(line) == "":
			out = append(out, "")
		case mark != "":
			n = r.code(&out, lines[i:], strings.TrimSpace(mark))
		case heading.MatchString(line):
			r.heading(&out, heading.FindStringSubmatch(line))
		case ruleLine.MatchString(line):
			out = append(out, r.ink.Paint(terminal.Dim, "────────"))
		case quoteLine.MatchString(line) && r.depth < maxNesting:
			n = r.quote(&out, lines[i:])
		case itemLine.MatchString(line) && r.depth < maxNesting:
			n = r.list(&out, lines[i:])
		case i+1 < len(lines) && strings.Contains(line, "|") && tableRule.MatchString(lines[i+1]) && strings.Contains(lines[i+1], "-"):
			n = r.table(&out, lines[i:])
		default:
			n = r.paragraph(&out, lines[i:])
		}
		i += n
	}
	return out
}

func (r *renderer) heading(out *[]string, m []string) {
	style := terminal.Bold + ";" + terminal.Cyan
	if len(m[1]) == 1 {
		style += ";4"
	}
	spans := inline(m[2])
	for i := range spans {
		spans[i].style = style
	}
	*out = append(*out, r.wrapSpans(spans, "", "")...)
}

// code shows a code block, and returns how many lines it takes. One without an end goes
// on to the last line.
func (r *renderer) code(out *[]string, lines []string, open string) int {
	n := 1
	for n < len(lines) && !closes(lines[n], open) {
		text := strings.ReplaceAll(lines[n], "\t", "    ")
		for _, piece := range hardWrap(text, max(r.width-2, 4)) {
			*out = append(*out, strings.TrimRight("  "+r.paintCode(piece), " "))
		}
		n++
	}
	return min(n+1, len(lines))
}

// hardWrap breaks a line at a width, wherever that is.
func hardWrap(line string, width int) []string {
	if ansi.StringWidth(line) <= width {
		return []string{line}
	}
	return strings.Split(ansi.Hardwrap(line, width, true), "\n")
}

func (r *renderer) quote(out *[]string, lines []string) int {
	var inner []string
	n := 0
	for n < len(lines) && quoteLine.MatchString(lines[n]) {
		inner = append(inner, quoteLine.ReplaceAllString(lines[n], ""))
		n++
	}
	below := renderer{ink: r.ink, width: max(r.width-2, 4), depth: r.depth + 1}
	for _, line := range below.blocks(inner) {
		*out = append(*out, endColours(strings.TrimRight(r.ink.Paint(terminal.Dim, "│")+" "+line, " ")))
	}
	return n
}

// list renders the items at one depth. What is indented below an item belongs to it.
func (r *renderer) list(out *[]string, lines []string) int {
	first := itemLine.FindStringSubmatch(lines[0])
	indent := len(first[1])
	n := 0
	for n < len(lines) {
		m := itemLine.FindStringSubmatch(lines[n])
		if len(m) == 0 || len(m[1]) > indent+1 || len(m[1]) < indent {
			break
		}
		body := []string{m[4]}
		n++
		inside := indent + len(m[2]) + 1
		for n < len(lines) {
			line := lines[n]
			lead := len(line) - len(strings.TrimLeft(line, " \t"))
			next := itemLine.FindStringSubmatch(line)
			blank := strings.TrimSpace(line) == ""
			if !blank && (lead < inside && (len(next) > 0 && len(next[1]) <= indent+1 || endsItem(lines, n))) {
				break
			}
			body = append(body, line[min(lead, inside):])
			n++
		}
		r.item(out, m[2], body)
	}
	return max(n, 1)
}

// endsItem reports whether a line that isn't indented begins something new: after an
// empty line, or with a mark of its own.
func endsItem(lines []string, n int) bool {
	line := lines[n]
	return strings.TrimSpace(lines[n-1]) == "" || fence.MatchString(line) || heading.MatchString(line) || quoteLine.MatchString(line)
}

func (r *renderer) item(out *[]string, mark string, body []string) {
	if mark == "-" || mark == "*" || mark == "+" {
		mark = "•"
	}
	if m := taskMarker.FindStringSubmatch(body[0]); m != nil {
		mark = "☐"
		if m[1] != " " {
			mark = "☑"
		}
		body[0] = body[0][len(m[0]):]
	}
	lead := mark + " "
	hang := strings.Repeat(" ", ansi.StringWidth(lead))
	below := renderer{ink: r.ink, width: max(r.width-len(hang), 4), depth: r.depth + 1}
	lines := below.blocks(body)
	if len(lines) == 0 {
		lines = []string{""}
	}
	for i, line := range lines {
		if i > 0 {
			lead = hang
		}
		*out = append(*out, strings.TrimRight(lead+line, " "))
	}
}

// paragraph joins lines until something else begins.
func (r *renderer) paragraph(out *[]string, lines []string) int {
	n := 1
	for n < len(lines) {
		line := lines[n]
		if strings.TrimSpace(line) == "" || fence.MatchString(line) || heading.MatchString(line) || quoteLine.MatchString(line) ||
			(listItem.MatchString(line) && r.depth < maxNesting) || (ruleLine.MatchString(line) && !strings.Contains(line, "=")) {
			break
		}
		n++
	}
	var text []string
	flush := func() {
		*out = append(*out, r.wrapSpans(inline(strings.Join(text, " ")), "", "")...)
		text = nil
	}
	for _, line := range lines[:n] {
		hard := strings.HasSuffix(line, "  ") || strings.HasSuffix(line, `\`)
		text = append(text, strings.TrimSpace(strings.TrimSuffix(line, `\`)))
		if hard {
			flush()
		}
	}
	if len(text) > 0 {
		flush()
	}
	return n
}

// span is a piece of text in one style.
type span struct {
	text, style string
	code        bool
}

// inline finds emphasis, code and links. What has no end is text.
func inline(text string) []span { return inlineAt(text, 0) }

func inlineAt(text string, depth int) []span {
	var out []span
	endless := map[string]bool{}
	var plain strings.Builder
	add := func(s span) {
		if plain.Len() > 0 {
			out = append(out, span{text: terminal.Plain(html.UnescapeString(plain.String()))})
			plain.Reset()
		}
		if s.text != "" {
			out = append(out, s)
		}
	}
	for i := 0; i < len(text); {
		rest := text[i:]
		if rest[0] == '\\' && len(rest) > 1 && unicode.IsPunct(rune(rest[1])) {
			plain.WriteByte(rest[1])
			i += 2
			continue
		}
		inner, style, n := "", "", 0
		if depth < maxNesting {
			inner, style, n = inlineMark(text, i, endless)
		}
		if n == 0 {
			n = 1
			if rest[0] == '`' { // the others of its run begin nothing either
				n = len(rest) - len(strings.TrimLeft(rest, "`"))
			}
			plain.WriteString(rest[:n])
			i += n
			continue
		}
		add(span{})
		switch style {
		case styleCode:
			add(span{text: inner, style: terminal.Cyan, code: true})
		case styleVerbatim:
			add(span{text: terminal.Plain(inner), style: "4"})
		default:
			for _, s := range inlineAt(inner, depth+1) {
				if s.style == "" {
					s.style = style
				} else if style != "" {
					s.style = style + ";" + s.style
				}
				add(s)
			}
		}
		i += n
	}
	add(span{})
	return out
}

// Styles that stand for more than a colour.
const (
	styleCode     = "code"
	styleVerbatim = "verbatim"
)

var (
	link     = regexp.MustCompile(`^(!?)\[([^\[\]]*)\]\(\s*<?([^\s<>()]*(?:\([^\s()]*\))?)>?(?:\s+"[^"]*")?\s*\)`)
	autoLink = regexp.MustCompile(`^<((?:https?|mailto):[^\s<>]+)>`)
)

// inlineMark reads what begins at a place: its content, its style and its length; 0 if
// nothing does. Endless are the marks that have no end behind an earlier place, so that
// none is looked for again: a text of many such marks would be read once for each.
func inlineMark(text string, at int, endless map[string]bool) (inner, style string, n int) {
	rest := text[at:]
	switch rest[0] {
	case '`':
		run := len(rest) - len(strings.TrimLeft(rest, "`"))
		if endless[rest[:run]] {
			return "", "", 0
		}
		if end := strings.Index(rest[run:], rest[:run]); end > 0 {
			return strings.TrimSpace(rest[run : run+end]), styleCode, end + 2*run
		}
		endless[rest[:run]] = true
		return "", "", 0
	case '*', '_', '~':
		return emphasis(text, at, endless)
	case '[', '!':
		m := link.FindStringSubmatch(rest)
		switch {
		case m == nil:
			return "", "", 0
		case m[1] != "":
			return "[image: " + m[2] + "]", "", len(m[0])
		case m[2] == m[3] || m[3] == "":
			return m[2], styleVerbatim, len(m[0])
		}
		return "**" + m[2] + "** (" + m[3] + ")", "", len(m[0])
	case '<':
		if m := autoLink.FindStringSubmatch(rest); m != nil {
			return m[1], styleVerbatim, len(m[0])
		}
	}
	return "", "", 0
}

// emphasis reads **bold**, *italic*, ~~gone~~ and their forms with underscores, which
// don't count inside of words.
func emphasis(text string, at int, endless map[string]bool) (inner, style string, n int) {
	rest := text[at:]
	for _, x := range []struct{ mark, style string }{{"**", terminal.Bold}, {"__", terminal.Bold}, {"~~", "9"}, {"*", "3"}, {"_", "3"}} {
		body, found := strings.CutPrefix(rest, x.mark)
		if !found || endless[x.mark] {
			continue
		}
		if len(x.mark) == 1 && at > 0 && isWordByte(text[at-1]) {
			return "", "", 0
		}
		end := closing(body, x.mark)
		if endless[x.mark] = end < 0; end <= 0 {
			continue
		}
		return body[:end], x.style, end + 2*len(x.mark)
	}
	return "", "", 0
}

// closing is where a mark ends that began before a text; 0 if it can't have begun there,
// -1 if there is no end.
func closing(body, mark string) int {
	if body == "" || body[0] == ' ' || body[0] == mark[0] && len(mark) == 1 {
		return 0
	}
	for from := 1; from < len(body); {
		i := strings.Index(body[from:], mark)
		if i < 0 {
			return -1
		}
		at, after := from+i, from+i+len(mark)
		fits := body[at-1] != ' ' && (mark[0] != '_' || after == len(body) || !isWordByte(body[after]))
		if len(mark) == 1 && after < len(body) && body[after] == mark[0] {
			fits = false // it is a longer mark
			after++
		}
		if fits {
			return at
		}
		from = after
	}
	return -1
}

func isWordByte(b byte) bool {
	return b >= 0x80 || b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}
