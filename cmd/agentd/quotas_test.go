package main

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agentd/client"
	"agentd/command"
	"agentd/fault"
)

// TestQuotasOnSIGHUP: a quota that is reached refuses, one that was raised and
// reloaded lets through, and the command line shows both numbers.
func TestQuotasOnSIGHUP(t *testing.T) {
	dir := t.TempDir()
	config := writeFile(t, dir, "c.yaml", "quotas: {operator: {sessions: 2}}\n")
	p := start(t, filepath.Join(dir, "data"), "--config", config)
	create := func() error {
		_, err := client.Call[command.CreateSessionResult](t.Context(), p.client(), &command.CreateSession{})
		return err
	}
	for range 2 {
		if err := create(); err != nil {
			t.Fatal(err)
		}
	}
	var refused *fault.Error
	if err := create(); !errors.As(err, &refused) || refused.Kind != fault.RateLimited || !strings.Contains(err.Error(), "sessions") {
		t.Fatalf("a third session: %v", err)
	}
	writeFile(t, dir, "c.yaml", "quotas: {operator: {sessions: 3}}\n")
	p.signal(syscall.SIGHUP)
	p.wait("configuration reloaded")
	if err := create(); err != nil {
		t.Errorf("after the quota was raised: %v", err)
	}
	if err := create(); err == nil {
		t.Error("the raised quota doesn't hold")
	}
	out, err := self(t, "quotas", "--data", filepath.Join(dir, "data")).CombinedOutput()
	_, row, _ := strings.Cut(string(out), "sessions")
	row, _, _ = strings.Cut(row, "\n")
	if err != nil || strings.Join(strings.Fields(row), " ") != "3 3" {
		t.Errorf("agentd quotas: %v\n%s", err, out)
	}
	p.stop(syscall.SIGTERM)
}
