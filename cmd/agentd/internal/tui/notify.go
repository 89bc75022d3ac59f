package tui

import (
	"strings"

	tea "charm.land/bubbletea/v2"

	"agentd/cmd/agentd/internal/terminal"
)

// notify rings the bell, and asks the terminal for a notification on the desktop unless the
// terminal told that the user looks at it.
func (c *client) notify(text string) {
	how := c.options.Env["AGENTD_NOTIFY"]
	if how == "off" {
		return
	}
	if c.focused {
		how = "bell"
	}
	c.run(tea.Raw(notification(how, c.options.Env, text)))
}

// notification is what the terminal is sent: OSC 9 is understood by most terminals that
// have notifications, OSC 777 by those that came from rxvt. Others ignore both.
func notification(how string, env map[string]string, text string) string {
	text = strings.ReplaceAll(terminal.Clip(terminal.Plain(text), 200), ";", ",")
	const bell, end = "\a", "\x1b\\"
	if how == "" || how == "auto" {
		how = "osc9"
		if term := env["TERM"]; strings.HasPrefix(term, "rxvt") || strings.HasPrefix(term, "foot") || env["TERM_PROGRAM"] == "WarpTerminal" {
			how = "osc777"
		}
		if env["TERM"] == "linux" {
			how = "bell"
		}
	}
	switch how {
	case "osc9":
		return bell + "\x1b]9;" + text + end
	case "osc777":
		return bell + "\x1b]777;notify;agentd;" + text + end
	}
	return bell
}
