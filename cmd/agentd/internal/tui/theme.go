package tui

import (
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"agentd/cmd/agentd/internal/conversation"
	"agentd/cmd/agentd/internal/terminal"
)

// asksBackground reports whether the terminal is to be asked for its background: nothing
// else says which colours fit.
func (c *client) asksBackground() bool {
	return (c.theme == "" || c.theme == terminal.ThemeAuto) && c.ink.HasColour() && c.options.Env["COLORFGBG"] == ""
}

// takeBackground takes what the terminal answered.
func (c *client) takeBackground(isDark bool) {
	if !c.asksBackground() {
		return
	}
	theme := terminal.ThemeLight
	if isDark {
		theme = terminal.ThemeDark
	}
	c.setInk(terminal.ThemeInk(theme, c.options.Env))
}

// setInk changes the colours of what is written from now on.
func (c *client) setInk(k terminal.Ink) {
	c.ink, c.options.Ink, c.talk.View.Ink = k, k, k
	c.talk.View.Refresh()
}

// themeHelp says what each theme is for.
var themeHelp = map[string]string{
	terminal.ThemeAuto: "what the terminal's background asks for", terminal.ThemeDark: "the sixteen colours of the terminal",
	terminal.ThemeLight: "dark colours for a light background", terminal.ThemeNone: "no colours",
}

// chooseTheme chooses the colours, and keeps the choice.
func (c *client) chooseTheme(name string) {
	if name == "" {
		c.Pick(&conversation.Picker{
			Title: "Theme", Hint: "Enter chooses", Filters: true, Take: func(x conversation.Choice) { c.chooseTheme(x.Value) },
			Load: func(_ string, then func([]conversation.Choice, error)) {
				var list []conversation.Choice
				for _, t := range terminal.Themes() {
					list = append(list, conversation.Choice{Label: t, Value: t, Detail: themeHelp[t], Current: t == c.theme || c.theme == "" && t == terminal.ThemeAuto})
				}
				then(list, nil)
			},
		})
		return
	}
	if !slices.Contains(terminal.Themes(), name) {
		c.talk.View.Warn("unknown theme " + name + "; use one of " + strings.Join(terminal.Themes(), ", "))
		return
	}
	c.theme = name
	c.setInk(terminal.ThemeInk(name, c.options.Env))
	if c.asksBackground() {
		c.run(tea.RequestBackgroundColor)
	}
	switch err := c.options.KeepTheme(name); {
	case err != nil:
		c.talk.View.Warn("theme " + name + " for now: it can't be kept: " + err.Error())
	case c.options.Env["NO_COLOR"] != "":
		c.talk.View.Info("theme " + name + ", once NO_COLOR isn't set")
	case c.options.Env["AGENTD_THEME"] != "" && c.options.Env["AGENTD_THEME"] != name:
		c.talk.View.Info("theme " + name + " for now; AGENTD_THEME says " + terminal.Plain(c.options.Env["AGENTD_THEME"]))
	default:
		c.talk.View.Info("theme " + name)
	}
	c.talk.View.Refresh()
}
