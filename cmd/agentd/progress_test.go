package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// TestProgress: long work shows a line at a terminal, which is gone at the end, and
// nothing in a pipe.
func TestProgress(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, file := filepath.Join(dir, "data"), filepath.Join(dir, "backup.tar")
	p := start(t, data)
	p.completed(p.submit("hello"))
	c := atTerminal(t, 80, 24, self(t, "backup", "--data", data, file))
	if code := c.end(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	if raw := c.raw.String(); !strings.Contains(raw, "\r\x1b[Kbackup: ") || strings.Contains(c.screen.Text(), "backup: ") || !strings.Contains(c.screen.Text(), " bytes") {
		t.Errorf("the backup shows %q", raw)
	}
	c = atTerminal(t, 80, 24, self(t, "restore", "--data", filepath.Join(dir, "restored"), file))
	if code := c.end(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	if raw := c.raw.String(); !strings.Contains(raw, "\r\x1b[Krestore: ") || strings.Contains(c.screen.Text(), "restore: ") {
		t.Errorf("the restoration shows %q", raw)
	}
	if out, errs, code := program(t, "verify", "--data", filepath.Join(dir, "restored")); code != 0 || errs != "" || strings.ContainsAny(out, "\r\x1b") {
		t.Errorf("in a pipe: exit code %d, %q and %q", code, out, errs)
	}
}

// TestMissingKeysAreNamed: who asks for a vendor's model is told which key it takes.
func TestMissingKeysAreNamed(t *testing.T) {
	a := &app{err: &bytes.Buffer{}, env: map[string]string{"OPENAI_API_KEY": "set"}}
	for model, want := range map[string]string{
		"anthropic/claude-x": "set ANTHROPIC_API_KEY", "claude-x": "set ANTHROPIC_API_KEY", "gemini/g": "set GEMINI_API_KEY",
		"openai/gpt-x": "", "gpt-x": "", "nobody/x": "", "x": "",
	} {
		said := a.nameKey("--model: \"" + model + "\" is not a configured model; use one of s/m")
		if (want != "") != strings.Contains(said, "set ") || !strings.Contains(said, want) {
			t.Errorf("%s: %s", model, said)
		}
	}
}
