package main

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
)

// fullOutput is standard output on a disk that is full.
type fullOutput struct{}

// Write implements [io.Writer].
func (fullOutput) Write([]byte) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: os.Stdout.Name(), Err: syscall.ENOSPC}
}

// TestAnswersThatCantBeWritten: no command ends well whose answer couldn't be written: help,
// versions, completions, lists, records, files and turns.
func TestAnswersThatCantBeWritten(t *testing.T) {
	var lines [][]string
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		lines = append(lines, append(strings.Fields(c.CommandPath())[1:], "--help"))
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk((&app{env: map[string]string{}}).root())
	dir := t.TempDir()
	config := writeFile(t, dir, "agentd.yaml", "providers: [{id: s, kind: script, models: [{id: s, capabilities: [streaming]}]}]\n")
	here := func(args ...string) []string {
		return append(args, "--data", filepath.Join(dir, "data"), "--config", config)
	}
	lines = append(lines,
		[]string{"help"}, []string{"help", "run"}, []string{"--version"}, []string{"version"}, []string{"completion", "bash"}, []string{"__complete", "ru"},
		here("run", "hello"), here("run", "--json", "hello"), here("submit", "hello"), here("sessions"), here("sessions", "--json"), here("models"),
		here("status"), here("verify"), here("config", "show"), here("call", "list_sessions", "{}"), here("policy", "show"), here("doctor"),
	)
	env := []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	for _, args := range lines {
		var said bytes.Buffer
		if code := (&Main{}).Run(context.Background(), args, strings.NewReader(""), &said, &said, env); code != exitOK {
			continue // nothing was asked for that there is here
		}
		var out, why bytes.Buffer
		if (&Main{}).Run(context.Background(), args, strings.NewReader(""), &out, &why, env); out.Len() == 0 {
			continue
		}
		why.Reset()
		code := (&Main{}).Run(context.Background(), args, strings.NewReader(""), fullOutput{}, &why, env)
		if code != exitFailed || !strings.Contains(why.String(), "standard output") {
			t.Errorf("agentd %s: exit code %d, and it says %q", strings.Join(args, " "), code, why.String())
		}
	}
}
