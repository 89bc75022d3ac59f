package turntext

import (
	"regexp"
	"strings"

	"charm.land/glamour/v2"
	style "charm.land/glamour/v2/ansi"
	"github.com/charmbracelet/x/ansi"

	"agentd/cmd/agentd/internal/terminal"
)

// markdown cuts a text that is still coming into blocks that are finished: a
// paragraph, a list, a code block. Only those can be rendered, because what
// follows may change the meaning of what is there.
type markdown struct {
	rest string
}

// append takes a further piece and returns the blocks that it finished.
func (m *markdown) append(piece string) []string {
	m.rest += piece
	var done []string
	for {
		cut := blockEnd(m.rest)
		if cut == 0 {
			return done
		}
		if block := strings.Trim(m.rest[:cut], "\n"); block != "" {
			done = append(done, block)
		}
		m.rest = m.rest[cut:]
	}
}

// finish returns the blocks that are left.
func (m *markdown) finish() []string {
	if m.rest == "" {
		return nil
	}
	done := m.append("\n")
	block := strings.Trim(m.rest, "\n")
	m.rest = ""
	if strings.TrimSpace(block) == "" {
		return done
	}
	return append(done, block)
}

var (
	fence    = regexp.MustCompile("^ {0,3}(```+|~~~+)")
	listItem = regexp.MustCompile(`^ {0,3}([-*+]|\d{1,9}[.)])\s`)
)

// blockEnd returns the length of the first finished block, or 0. Only whole lines
// are looked at: half a line may become anything.
func blockEnd(text string) int {
	var open string // the fence of a code block
	at, list, blank, begun := 0, false, false, false
	for {
		end := strings.IndexByte(text[at:], '\n')
		if end < 0 {
			return 0
		}
		line := text[at : at+end]
		mark := fence.FindString(line)
		switch {
		case open != "":
			if closes(line, open) {
				open = ""
				if !list {
					return at + end + 1
				}
			}
		case strings.TrimSpace(line) == "":
			blank = begun
		case blank && !continues(line, list):
			return at
		case mark != "" && begun && !list:
			return at // a code block ends the paragraph before it
		default:
			list = list || (!begun && listItem.MatchString(line))
			begun, blank = true, false
			open = strings.TrimSpace(mark)
		}
		at += end + 1
	}
}

// closes reports whether a line ends the code block of a fence.
func closes(line, open string) bool {
	line = strings.TrimSpace(line)
	return len(line) >= len(open) && strings.Trim(line, open[:1]) == ""
}

// continues reports whether a line after an empty one still belongs to a list.
func continues(line string, list bool) bool {
	return list && (listItem.MatchString(line) || strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "\t"))
}

// renderBlock returns a block of markdown as lines for a terminal of that width.
func renderBlock(k terminal.Ink, block string, cols int) []string {
	cols = max(cols, 10)
	width := min(cols-1, MaxText)
	if strings.HasPrefix(block, "|") {
		width = min(width, longest(block)) // a table fills the width that it is given
	}
	r, err := glamour.NewTermRenderer(glamour.WithStyles(markdownStyle(bool(k))), glamour.WithWordWrap(width), glamour.WithChromaFormatter("terminal16"))
	if err != nil {
		return terminal.Wrap(block, cols)
	}
	out, err := r.Render(block)
	if err != nil {
		return terminal.Wrap(block, cols)
	}
	lines := strings.Split(out, "\n")
	for i := range lines {
		lines[i] = trimRight(lines[i])
	}
	return withoutEmptyEnds(lines)
}

// MaxText is the width beyond which text is hard to read.
const MaxText = 100

// longest returns the width of the longest line.
func longest(text string) int {
	most := 0
	for line := range strings.SplitSeq(text, "\n") {
		most = max(most, ansi.StringWidth(line))
	}
	return most
}

var (
	padding = regexp.MustCompile(`(?:\x1b\[[0-9;]*m| )+$`)
	// A link that a terminal opens may lead elsewhere than its text says; the address
	// itself stands behind it.
	hyperlink = regexp.MustCompile(`\x1b\]8;[^\x07\x1b]*(?:\x07|\x1b\\)`)
)

// trimRight removes what fills a line up, with the colours in it.
func trimRight(line string) string {
	line = padding.ReplaceAllString(hyperlink.ReplaceAllString(line, ""), "")
	if strings.Contains(line, "\x1b[") {
		line += "\x1b[0m"
	}
	return line
}

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

// markdownStyle uses the sixteen colours that the user has chosen for the
// terminal, so that it can be read on dark and on light ones; without colour it
// has the structure alone.
func markdownStyle(colour bool) style.StyleConfig {
	s := style.StyleConfig{
		BlockQuote:     style.StyleBlock{Indent: new(uint(1)), IndentToken: new("│ ")},
		List:           style.StyleList{LevelIndent: 2},
		Heading:        style.StyleBlock{StylePrimitive: style.StylePrimitive{BlockSuffix: "\n"}},
		HorizontalRule: style.StylePrimitive{Format: "────────"},
		Item:           style.StylePrimitive{BlockPrefix: "• "},
		Enumeration:    style.StylePrimitive{BlockPrefix: ". "},
		Task:           style.StyleTask{Ticked: "☑ ", Unticked: "☐ "},
		ImageText:      style.StylePrimitive{Format: "[image: {{.text}}]"},
		CodeBlock:      style.StyleCodeBlock{StyleBlock: style.StyleBlock{Margin: new(uint(2))}},
		Code:           style.StyleBlock{StylePrimitive: style.StylePrimitive{Prefix: "`", Suffix: "`"}},
	}
	if !colour {
		return s
	}
	on := new(true)
	s.Heading.Bold, s.Heading.Color = on, new("6")
	s.H1 = style.StyleBlock{StylePrimitive: style.StylePrimitive{Underline: on}}
	s.Strong, s.Emph = style.StylePrimitive{Bold: on}, style.StylePrimitive{Italic: on}
	s.Strikethrough = style.StylePrimitive{CrossedOut: on}
	s.Link = style.StylePrimitive{Underline: on, Color: new("4")}
	s.LinkText = style.StylePrimitive{Bold: on}
	s.Code = style.StyleBlock{StylePrimitive: style.StylePrimitive{Color: new("6")}}
	s.BlockQuote.Faint = on
	s.CodeBlock.Chroma = codeColours()
	return s
}

// codeColours are near enough to the sixteen of the terminal to become them.
func codeColours() *style.Chroma {
	colour := func(hex string) style.StylePrimitive { return style.StylePrimitive{Color: new(hex)} }
	return &style.Chroma{
		Comment: colour("#7f7f7f"), Keyword: colour("#0000ee"), KeywordType: colour("#00cdcd"), LiteralString: colour("#00cd00"),
		LiteralNumber: colour("#cd00cd"), NameFunction: colour("#00cdcd"), GenericDeleted: colour("#cd0000"), GenericInserted: colour("#00cd00"),
	}
}
