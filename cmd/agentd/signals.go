package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"agentd/cmd/agentd/internal/config"
)

// catchSignals makes SIGHUP and SIGQUIT harmless. It comes before the server says
// that it is ready: whoever reads that may send them.
func catchSignals() (got chan os.Signal) {
	got = make(chan os.Signal, 4)
	signal.Notify(got, syscall.SIGHUP, syscall.SIGQUIT)
	return got
}

// watchSignals reloads on SIGHUP and writes all stacks on SIGQUIT until ctx ends.
func (s *serving) watchSignals(ctx context.Context, got <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case sig := <-got:
			if sig == syscall.SIGHUP {
				s.reload()
			} else {
				s.dump()
			}
		}
	}
}

// dump writes the stacks of all goroutines to standard error.
func (s *serving) dump() {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) || len(buf) >= 64<<20 {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	s.sayf("SIGQUIT: %d goroutines\n\n%s", runtime.NumGoroutine(), buf)
}

// reload reads the configuration again. A configuration that can't be used
// changes nothing.
func (s *serving) reload() {
	next, err := config.Load(s.sources)
	if err != nil {
		s.log.Error("the configuration was not reloaded", "error", err)
		return
	}
	changes := config.Changes(s.loaded, next)
	for _, c := range changes {
		if c.Reload {
			s.log.Info("setting reloaded", "setting", c.Name)
		} else {
			s.log.Warn("setting changed, which needs a restart", "setting", c.Name)
		}
	}
	setLevel(s.level, next.Config.Log.Level)
	s.log.Info("configuration reloaded", "changes", len(changes))
	s.loaded.TakeOver(next)
}
