package main

import (
	"log/slog"

	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/terminal"
)

// logger returns the log of a long-running command and the level that a reload
// changes.
func (a *app) logger(c *config.Config) (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar)
	setLevel(level, c.Log.Level)
	opt := &slog.HandlerOptions{Level: level}
	if c.Log.Format == "text" || (c.Log.Format == "auto" && terminal.IsTerminal(a.err)) {
		return slog.New(slog.NewTextHandler(a.err, opt)), level
	}
	return slog.New(slog.NewJSONHandler(a.err, opt)), level
}

// setLevel sets a level by its name, which the configuration has checked.
func setLevel(level *slog.LevelVar, name string) {
	var l slog.Level
	if l.UnmarshalText([]byte(name)) == nil {
		level.Set(l)
	}
}

// quiet is the log of short commands: what may need attention.
func (a *app) quiet(c *config.Config, explicit bool) *slog.Logger {
	log, level := a.logger(c)
	if !explicit {
		level.Set(slog.LevelWarn)
	}
	return log
}
