package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/terminal"
)

// themeVariable chooses the colours; what "/theme" keeps holds without it.
const themeVariable = "AGENTD_THEME"

// themeFile is where the choice of "/theme" is kept; empty if the user has no home.
func (a *app) themeFile() string {
	if user := config.UserFile(func(name string) string { return a.env[name] }); user != "" {
		return filepath.Join(filepath.Dir(user), "theme")
	}
	return ""
}

// theme is the theme that was chosen; empty if none was, or one that isn't known.
func (a *app) theme() string {
	name := a.env[themeVariable]
	if name == "" && a.themeFile() != "" {
		kept, _ := os.ReadFile(a.themeFile()) // without one nothing was chosen
		name = strings.TrimSpace(string(kept))
	}
	if !slices.Contains(terminal.Themes(), name) {
		return ""
	}
	return name
}

// checkTheme rejects a theme that doesn't exist.
func (a *app) checkTheme() error {
	if name := a.env[themeVariable]; name != "" && !slices.Contains(terminal.Themes(), name) {
		return usagef("unknown theme %q in %s; use one of %s", name, themeVariable, strings.Join(terminal.Themes(), ", "))
	}
	return nil
}

// keepTheme keeps the choice for the next time.
func (a *app) keepTheme(name string) error {
	file := a.themeFile()
	switch {
	case file == "":
		return errors.New("there is no home folder")
	case name == terminal.ThemeAuto:
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(name+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the theme: %w", err)
	}
	return nil
}

// ink is what a writer is painted with.
func (a *app) ink(w any) terminal.Ink {
	if !terminal.IsTerminal(w) {
		return terminal.NoColour
	}
	return terminal.ThemeInk(a.theme(), a.env)
}
