package main

import (
	"context"
	"log/slog"

	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/server"
)

// logger returns the log of a long-running command and the level that a reload
// changes.
func (a *app) logger(c *config.Config) (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar)
	setLevel(level, c.Log.Level)
	opt := &slog.HandlerOptions{Level: level}
	if terminal.IsTerminal(a.err) && c.Log.Format != "json" && c.Log.Level == "info" {
		// A server in the background shares its terminal with other commands: their own
		// requests don't belong between their answers. --log-level debug shows them.
		return slog.New(&withoutRequests{slog.NewTextHandler(a.err, opt)}), level
	}
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

// withoutRequests leaves out the lines about requests that went well.
type withoutRequests struct{ slog.Handler }

// Handle implements [slog.Handler].
func (h *withoutRequests) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == server.RequestMessage && r.Level <= slog.LevelInfo {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h *withoutRequests) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &withoutRequests{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements [slog.Handler].
func (h *withoutRequests) WithGroup(name string) slog.Handler {
	return &withoutRequests{h.Handler.WithGroup(name)}
}
