package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestDamagedDataIsSaidInOneLine damages every table of a store: what is said about
// it has no line of the engine's own, and what to do next.
func TestDamagedDataIsSaidInOneLine(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	p := start(t, data)
	p.completed(p.submit("hello"))
	if code := p.stop(syscall.SIGTERM); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	if _, said, code := program(t, "sessions", "--data", data); code != 0 { // opening it makes tables of the log
		t.Fatal(said)
	}
	recorded(t).replay(t)
	tables, err := filepath.Glob(filepath.Join(data, "db", "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("no tables: %v", err)
	}
	for _, path := range tables {
		damage(t, path)
	}
	for _, args := range [][]string{{"sessions", "--data", data, "--log-level", "error"}, {"verify", "--data", data}} {
		_, said, code := program(t, args...)
		if code != exitFailed {
			t.Errorf("%s: exit code %d", args[0], code)
		}
		lines := strings.Split(strings.TrimSpace(said), "\n")
		last := lines[len(lines)-1]
		if !strings.HasPrefix(last, "agentd: ") || !strings.Contains(last, "stored data is damaged") || !strings.HasSuffix(last, `restore a backup with "agentd restore"`) {
			t.Errorf("%s says\n%s", args[0], said)
		}
	}
}

// damage changes eight bytes in the first block of a table.
func damage(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("XXXXXXXX"), 40); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestStatusWithAWrongToken says that the server runs: it answers, though not to us.
func TestStatusWithAWrongToken(t *testing.T) {
	p := start(t, filepath.Join(t.TempDir(), "data"))
	cmd := self(t, "status", "--server", p.url)
	cmd.Env = append(cmd.Env, "AGENTD_TOKEN=not-the-token")
	out, err := cmd.Output()
	if err == nil || !strings.HasPrefix(string(out), "running: the token is not known") || !strings.Contains(string(out), "set AGENTD_TOKEN") {
		t.Errorf("%v: %s", err, out)
	}
}
