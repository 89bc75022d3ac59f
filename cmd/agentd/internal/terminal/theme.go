package terminal

import (
	"slices"
	"strconv"
	"strings"
)

// Ink paints text in the colours of a theme. Its zero value leaves text as it is.
type Ink uint8

// The inks. Dark uses the colours that the user chose for the terminal, which are made for
// a dark background nearly everywhere; Light uses dark ones of its own.
const (
	NoColour Ink = iota
	Dark
	Light
)

// Paint returns a text in a colour, or plain where there is none.
func (k Ink) Paint(code, text string) string {
	switch {
	case k == NoColour || text == "":
		return text
	case k == Light:
		code = onLight(code)
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// HasColour reports whether anything is painted.
func (k Ink) HasColour() bool { return k != NoColour }

// Colours, as SGR codes.
const (
	Bold    = "1"
	Dim     = "2"
	Red     = "31"
	Green   = "32"
	Yellow  = "33"
	Magenta = "35"
	Cyan    = "36"
)

// lightColours are numbers in the palette of 256 colours that can be read on white.
var lightColours = map[string]int{Dim: 240, Red: 124, Green: 22, Yellow: 94, Magenta: 90, Cyan: 24}

// onLight replaces the colours in a code, such as "1;36".
func onLight(code string) string {
	fields := strings.Split(code, ";")
	for i, f := range fields {
		if n, ok := lightColours[f]; ok {
			fields[i] = "38;5;" + strconv.Itoa(n)
		}
	}
	return strings.Join(fields, ";")
}

// The themes that can be chosen: auto follows the background of the terminal.
const (
	ThemeAuto  = "auto"
	ThemeDark  = "dark"
	ThemeLight = "light"
	ThemeNone  = "none"
)

// Themes lists the themes.
func Themes() []string { return []string{ThemeAuto, ThemeDark, ThemeLight, ThemeNone} }

// ThemeInk is the ink of a theme in an environment. NO_COLOR comes before everything, and
// a terminal with sixteen colours has only its own.
func ThemeInk(theme string, env map[string]string) Ink {
	switch {
	case env["NO_COLOR"] != "", env["TERM"] == "dumb", theme == ThemeNone:
		return NoColour
	case theme == ThemeLight, theme != ThemeDark && lightBackground(env["COLORFGBG"]):
		if strings.Contains(env["TERM"], "256color") || env["COLORTERM"] != "" || slices.Contains(manyColours, env["TERM"]) {
			return Light
		}
	}
	return Dark
}

// manyColours are terminals with 256 colours whose names don't say so.
var manyColours = []string{"xterm-kitty", "xterm-ghostty", "alacritty", "foot", "wezterm", "contour"}

// lightBackground reads COLORFGBG, in which some terminals say which of their sixteen
// colours the text and the background have.
func lightBackground(colours string) bool {
	_, last, found := strings.Cut(colours, ";")
	if i := strings.LastIndexByte(last, ';'); i >= 0 {
		last = last[i+1:]
	}
	n, err := strconv.Atoi(last)
	return found && err == nil && (n == 7 || n >= 9 && n <= 15)
}
