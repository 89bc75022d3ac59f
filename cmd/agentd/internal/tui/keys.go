package tui

import (
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"agentd/cmd/agentd/internal/terminal"
)

// press takes a key: first the pager, then what lies over the input, then its menu, then the keys that
// mean something everywhere, then the input.
func (c *client) press(k tea.Key) {
	name := k.Keystroke()
	if c.quitting {
		return
	}
	if name == "ctrl+z" {
		c.run(tea.Suspend)
		return
	}
	if c.pager != nil {
		if c.pager.press(k) {
			c.closePager()
		}
		return
	}
	if c.over != nil && !c.isTyping() {
		if c.over.press(c, k) {
			c.closeOverlay()
		}
		return
	}
	if c.menu.press(c, name) || c.pressGlobal(name) {
		return
	}
	if c.edit.press(k) {
		c.menu.update(c)
	}
}

// isTyping reports whether the input keeps the keys although a question is there: what
// was being typed when it came is no answer to it.
func (c *client) isTyping() bool {
	a, ok := c.over.(*ask)
	return ok && !a.focused
}

// pressGlobal takes the keys that mean the same everywhere.
func (c *client) pressGlobal(name string) bool {
	switch name {
	case "ctrl+c":
		c.ctrlC()
	case "ctrl+d":
		if len(c.edit.text) > 0 {
			return false
		}
		c.talk.Leave()
	case "esc", "alt+esc":
		c.escape(name == "alt+esc")
	case "enter":
		c.enter(false)
	case "alt+enter":
		c.enter(true)
	case "shift+tab":
		c.talk.NextMode()
	case "tab":
		a, asked := c.over.(*ask)
		if !asked {
			return false
		}
		a.focused = true
	default:
		return c.pressTool(name)
	}
	return true
}

// pressTool takes the keys that open something.
func (c *client) pressTool(name string) bool {
	switch name {
	case "ctrl+l":
		c.run(tea.ClearScreen)
	case "ctrl+o":
		c.openPager()
	case "ctrl+r":
		query := c.edit.value()
		c.edit.set("")
		c.talk.SearchHistory(query)
	case "ctrl+g":
		c.openEditor()
	case "ctrl+v":
		c.pasteImage()
	default:
		return false
	}
	return true
}

// ctrlC interrupts what runs, else empties the input, else leaves.
func (c *client) ctrlC() {
	switch {
	case c.talk.Leaving():
		c.Leave(nil)
	case c.shell != nil:
		c.shell.stop()
	case c.talk.Active():
		c.talk.Interrupt("Ctrl-C")
	case len(c.edit.text) > 0:
		c.edit.takeLine()
		c.pastes = nil
	default:
		c.talk.Leave()
	}
}

// twice is how close two presses of Esc belong together.
const twice = 600 * time.Millisecond

// escape interrupts; the second one goes back to an earlier turn.
func (c *client) escape(both bool) {
	again := both || c.now().Sub(c.lastEsc) < twice
	c.lastEsc = c.now()
	switch {
	case c.shell != nil:
		c.shell.stop()
	case c.talk.Active():
		c.talk.Interrupt("Esc")
	case !again:
	case len(c.edit.text) > 0:
		c.edit.takeLine()
		c.pastes = nil
		c.lastEsc = time.Time{}
	default:
		c.lastEsc = time.Time{}
		c.talk.GoBack()
	}
}

// enter takes what was typed. A backslash at its end begins a new line instead.
func (c *client) enter(steer bool) {
	if steer && !c.talk.Active() {
		c.edit.insert("\n")
		return
	}
	if before, more := strings.CutSuffix(c.edit.value(), `\`); more && c.edit.at == len(c.edit.text) {
		c.edit.set(before + "\n")
		return
	}
	text := strings.TrimSpace(c.edit.takeLine())
	c.menu.close()
	switch {
	case text == "":
	case strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "//"):
		c.edit.remember(text)
		c.talk.RunSlash(text, c.commands())
	case strings.HasPrefix(text, "!") && len(text) > 1:
		c.edit.remember(text)
		c.runLocal(strings.TrimSpace(text[1:]))
	default:
		c.edit.remember(text)
		c.talk.Say(c.message(strings.TrimPrefix(text, "/")), steer)
	}
}

// takePaste takes pasted text: the path of an image attaches it, and what is long stands
// for itself.
func (c *client) takePaste(text string) {
	text = terminal.PlainBlock(strings.ToValidUTF8(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text), ""))
	if c.over != nil && !c.isTyping() {
		c.over.paste(c, text)
		return
	}
	if image := imagePath(c.options.Folder, text); image != "" {
		c.attachImage(image)
		return
	}
	c.edit.insert(c.keepPaste(text))
	c.menu.update(c)
}
