//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"agentd/cmd/agentd/internal/config"
)

// TestNodeNameOfAKilledProcess: a child that a node was about to start has the node's locks until
// its program runs. Where the node was killed at that moment, the next one has its name all the
// same; while the node lives, it has another.
func TestNodeNameOfAKilledProcess(t *testing.T) {
	c := &config.Config{Data: t.TempDir()}
	first, release, err := nodeName(c)
	if err != nil {
		t.Fatal(err)
	}
	second, releaseSecond, err := nodeName(c)
	if err != nil || second == first {
		t.Fatalf("beside %s the name is %s, %v", first, second, err)
	}
	if err := releaseSecond(); err != nil {
		t.Fatal(err)
	}
	// From here on the lock of the first name is one that was left by a process which is gone.
	ended := exec.CommandContext(t.Context(), "true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	owner := filepath.Join(c.Local(), nodesDir, "1.owner")
	if err := os.WriteFile(owner, []byte(strconv.Itoa(ended.Process.Pid)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		time.Sleep(50 * time.Millisecond) // the child's program runs now
		_ = release()
	}()
	again, releaseAgain, err := nodeName(c)
	if err != nil || again != first {
		t.Fatalf("after %s was killed the name is %s, %v", first, again, err)
	}
	if err := releaseAgain(); err != nil {
		t.Fatal(err)
	}
}
