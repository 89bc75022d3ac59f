package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"agentd/cmd/agentd/internal/config"
)

// catchSignals makes SIGHUP and SIGQUIT harmless. It comes before the server says
// that it is ready: a reader of that line may send them.
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
				s.reload(ctx)
			} else {
				s.dump()
			}
		}
	}
}

// watchStop still writes all stacks on SIGQUIT while the server stops, which may be what
// takes too long. There is nothing left to reload.
func (s *serving) watchStop(ended <-chan struct{}, got <-chan os.Signal) {
	for {
		select {
		case <-ended:
			return
		case sig := <-got:
			if sig == syscall.SIGQUIT {
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
func (s *serving) reload(ctx context.Context) {
	next, err := config.Load(s.sources)
	if err != nil {
		s.log.Error("the configuration was not reloaded", "error", err)
		return
	}
	if err := s.renewCertificate(); err != nil {
		s.log.Error("the configuration was not reloaded", "error", err)
		return
	}
	changes := config.Changes(s.loaded, next)
	if err := s.reloadPolicy(ctx, changes, next.Config); err != nil {
		s.log.Error("the configuration was not reloaded", "error", err)
		return
	}
	for _, c := range changes {
		if c.Reload {
			s.log.Info("setting reloaded", "setting", c.Name)
		} else {
			s.log.Warn("changed setting needs a restart", "setting", c.Name)
		}
	}
	setLevel(s.level, next.Config.Log.Level)
	s.runtime.SetQuotas(next.Config.Quotas.Policy())
	s.reloadPeerTokens()
	s.wired.options.Loop.Places.Renew() // folders that were replaced on purpose
	s.log.Info("configuration reloaded", "changes", len(changes))
	s.loaded.TakeOver(next)
	s.rememberSettings()
}

// renewCertificate reads the files of the certificate again, and tells the
// commands of this machine which one to expect.
func (s *serving) renewCertificate() error {
	if s.cert == nil {
		return nil
	}
	c := s.loaded.Config
	cert, key := certificateFiles(c)
	if err := s.cert.Renew(cert, key); err != nil {
		return err
	}
	if s.identity != nil {
		if err := s.identity.Renew(s.nodeFiles()); err != nil {
			return err
		}
	}
	note := *s.note
	note.CertSHA256 = certSum(s.cert.Leaf())
	if note.CertSHA256 == s.note.CertSHA256 {
		return nil
	}
	s.log.Info("certificate renewed", "file", cert)
	if err := note.write(c.Local()); err != nil {
		return err // the next signal tries again
	}
	*s.note = note
	return nil
}

// reloadPolicy makes changed permissions the host's policy, with a fact.
func (s *serving) reloadPolicy(ctx context.Context, changes []config.Change, c *config.Config) error {
	if !slices.ContainsFunc(changes, func(v config.Change) bool { return strings.HasPrefix(v.Name, "permissions.") }) {
		return nil
	}
	host, err := hostPolicy(c)
	if err != nil {
		return err
	}
	return s.runtime.Reconfigure(ctx, host)
}
