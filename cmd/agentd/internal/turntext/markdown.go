package turntext

import (
	"regexp"
	"strings"
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

// live renders what is there of a block that is still coming: its last rows. Only the
// end of a long one is looked at, which is all that is seen.
func (m *markdown) live(render func(block string) []string, most int) []string {
	text := strings.Trim(m.rest, "\n")
	const enough = 16 << 10
	if len(text) > enough {
		head, _, _ := strings.Cut(text, "\n")
		text = strings.ToValidUTF8(text[len(text)-enough:], "")
		if fence.MatchString(head) {
			_, text, _ = strings.Cut(text, "\n")
			text = head + "\n" + text
		}
	}
	lines := render(text)
	return lines[max(0, len(lines)-most):]
}
