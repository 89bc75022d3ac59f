package main

import (
	"strings"
	"syscall"
	"testing"

	"agentd/internal/pgtest"
)

// TestServePostgres runs over a database, with the files of this machine in a
// state directory.
func TestServePostgres(t *testing.T) {
	url, dir := pgtest.Shared(t).Database(t), t.TempDir()
	p := start(t, dir, "--data", url, "--state-dir", dir)
	r := p.submit("hello")
	p.completed(r)
	if out, errs, code := program(t, "sessions", "--data", url, "--state-dir", dir); code != 0 || !strings.Contains(out, r.SessionID) {
		t.Errorf("sessions: %d\n%s%s", code, out, errs)
	}
	if _, errs, code := program(t, "backup", "--data", url, "--state-dir", dir, "b.tar"); code != exitUsage || !strings.Contains(errs, "pg_dump") {
		t.Errorf("backup: %d\n%s", code, errs)
	}
	if code := p.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if out, errs, code := program(t, "verify", "--data", url); code != 0 {
		t.Errorf("verify: %d\n%s%s", code, out, errs)
	}
}
