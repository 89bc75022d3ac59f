package tui

import (
	"fmt"
	"slices"
	"strings"

	"agentd/cmd/agentd/internal/terminal"
)

// menu offers what the word at the cursor could become: a command, its argument, or a
// file. Its zero value is closed.
type menu struct {
	entries []entry
	at      int
	// from is where the word begins that is completed.
	from int
	// dismissed is the input that the menu was closed for.
	dismissed string
}

// entry is one line of a menu: what it stands for, and what is said about it.
type entry struct{ text, help string }

// maxMenu is how many entries are seen at once.
const maxMenu = 8

func (m *menu) close() { m.entries, m.at = nil, 0 }

func (m *menu) isOpen() bool { return len(m.entries) > 0 }

// update finds what can be completed now.
func (m *menu) update(c *client) {
	m.close()
	text := c.edit.value()
	if text == m.dismissed && text != "" {
		return
	}
	m.dismissed = ""
	word, from := c.edit.wordAtCursor()
	switch {
	case strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "//") && !strings.Contains(text, "\n"):
		m.offerCommand(c, text)
	case strings.HasPrefix(word, "@"):
		m.from = from
		m.offerFiles(c, word[1:])
	}
}

// offerCommand offers the commands that fit, and behind a command its values.
func (m *menu) offerCommand(c *client, text string) {
	name, rest, argument := strings.Cut(text, " ")
	m.from = 0
	for _, x := range c.commands() {
		switch {
		case !argument && fits(x.Name, name):
			e := entry{x.Name, strings.TrimSpace(x.Args + "  " + x.Help)}
			if x.Name == name { // what is written out comes first
				m.entries = slices.Insert(m.entries, 0, e)
				continue
			}
			m.entries = append(m.entries, e)
		case argument && x.Name == name && x.Complete != nil:
			m.from = len(name) + 1
			for _, value := range x.Complete() {
				if strings.Contains(strings.ToLower(value), strings.ToLower(strings.TrimSpace(rest))) && value != rest {
					m.entries = append(m.entries, entry{text: value})
				}
			}
		}
	}
}

// fits reports whether a name begins with what was typed, or has its letters in order.
func fits(name, typed string) bool {
	if strings.HasPrefix(name, typed) {
		return true
	}
	score, ok := fuzzy(name, strings.TrimPrefix(typed, "/"))
	return ok && score > 0 && len(typed) > 3
}

func (m *menu) offerFiles(c *client, typed string) {
	for _, f := range c.matchFiles(typed, 50) {
		m.entries = append(m.entries, entry{text: "@" + f})
	}
}

// press takes the keys of an open menu, and reports whether it did.
func (m *menu) press(c *client, name string) bool {
	if !m.isOpen() {
		return false
	}
	switch name {
	case "up", "ctrl+p":
		m.at = (m.at + len(m.entries) - 1) % len(m.entries)
	case "down", "ctrl+n":
		m.at = (m.at + 1) % len(m.entries)
	case "tab":
		m.accept(c)
	case "enter":
		if m.entries[m.at].text == c.edit.value() {
			m.close()
			return false
		}
		run := strings.HasPrefix(m.entries[m.at].text, "/") || m.from > 0 && strings.HasPrefix(c.edit.value(), "/")
		m.accept(c)
		if run {
			m.close()
			c.enter(false)
		}
	case "esc":
		m.dismissed = c.edit.value()
		m.close()
	default:
		return false
	}
	return true
}

// accept puts the chosen entry into the input.
func (m *menu) accept(c *client) {
	chosen := m.entries[m.at].text
	if strings.HasPrefix(c.edit.value(), "/") {
		c.edit.at = len(c.edit.text)
	}
	c.edit.replace(m.from, chosen+" ")
	m.close()
	m.update(c)
}

func (m *menu) draw(k terminal.Ink, cols int) []string {
	if !m.isOpen() {
		return nil
	}
	from := min(max(m.at-maxMenu/2, 0), max(len(m.entries)-maxMenu, 0))
	to := min(from+maxMenu, len(m.entries))
	wide := 0
	for _, e := range m.entries[from:to] {
		wide = max(wide, len([]rune(e.text)))
	}
	wide = min(wide, max(cols-6, 10))
	var out []string
	for i := from; i < to; i++ {
		e := m.entries[i]
		text := fmt.Sprintf("%-*s", wide, terminal.Clip(terminal.Plain(e.text), wide))
		mark := "  "
		if i == m.at {
			mark, text = k.Paint(terminal.Cyan, "▸ "), k.Paint(terminal.Bold, text)
		}
		out = append(out, "  "+mark+text+"  "+k.Paint(terminal.Dim, e.help))
	}
	if left := len(m.entries) - (to - from); left > 0 {
		out = append(out, k.Paint(terminal.Dim, fmt.Sprintf("    %d of %d", m.at+1, len(m.entries))))
	}
	return out
}
