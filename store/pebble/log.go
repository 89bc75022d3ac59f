package pebble

import (
	"context"
	"fmt"
	"log/slog"

	pdb "github.com/cockroachdb/pebble/v2"
)

// logger hands Pebble's messages to slog.
type logger struct{ *slog.Logger }

// Infof is for Pebble's account of its own work.
func (l logger) Infof(format string, args ...any) {
	if l.Enabled(context.Background(), slog.LevelDebug) {
		l.Debug("pebble: " + fmt.Sprintf(format, args...))
	}
}

// Errorf is for what went wrong and Pebble goes on after.
func (l logger) Errorf(format string, args ...any) {
	l.Error("pebble: " + fmt.Sprintf(format, args...))
}

// Fatalf must not end the process: the runtime decides what a broken store
// means. The writes that Pebble calls it for can't fail in its eyes, because the
// guard keeps their failures; what is left are broken invariants, after which
// every caller in Pebble returns an error by itself.
func (l logger) Fatalf(format string, args ...any) {
	l.Error("pebble: fatal: " + fmt.Sprintf(format, args...))
}

// listener returns the events that are worth a line. Without a listener of ours
// Pebble answers damage in a table with Fatalf.
func (l logger) listener() *pdb.EventListener {
	return &pdb.EventListener{
		BackgroundError: func(err error) { l.Error("pebble: background work failed", "err", err) },
		DataCorruption: func(info pdb.DataCorruptionInfo) {
			l.Error("pebble: damaged data", "path", info.Path, "err", info.Details)
		},
	}
}
