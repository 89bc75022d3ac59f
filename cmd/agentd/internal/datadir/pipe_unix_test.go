//go:build unix

package datadir_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"agentd/cmd/agentd/internal/datadir"
)

// A pipe in the place of a directory, of its mark or of another file is refused, and
// nothing waits for someone to write to it.
func TestPipesAreRefused(t *testing.T) {
	k := user(t)
	for _, name := range []string{datadir.MarkFile, "token", "database"} {
		dir := made(t, k)
		path := filepath.Join(dir, name)
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, k.Check(dir), false, "neither a file nor a folder")
		refused(t, k.Claim(dir), false, "neither a file nor a folder")
		refused(t, k.Accept(dir), false, "neither a file nor a folder")
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := k.Check(pipe); err == nil {
		t.Error("a pipe can be used")
	}
}
