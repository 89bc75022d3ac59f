//go:build !race

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"agentd/event"
)

// readAndRun reads a file, runs a command and answers late, for each turn again.
const readAndRun = `repeat: true
answers:
  - text: I look at the file first.
    tools: [{name: read_file, arguments: {path: notes.txt}}]
  - text: Then I run a command.
    tools: [{name: shell, arguments: {command: "wc -c notes.txt"}}]
  - text: Done, all of it.
    stall: 2s
`

// peakMemory is the largest resident size that a process had, in MiB.
func (p *process) peakMemory() float64 {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	var kib float64
	_, text, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscan(text, &kib); err != nil {
		p.t.Fatal(err)
	}
	return kib / 1024
}

// TestMemoryOfManyTurns has some turns in flight, TestLongMemoryOf500Turns as many as the
// figure in docs/benchmarks.md is about.
func TestMemoryOfManyTurns(t *testing.T) { memoryOfTurns(t, 50, 1) }

func TestLongMemoryOf500Turns(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("skipped: the memory of 500 turns in flight; set AGENTD_TEST_LONG")
	}
	memoryOfTurns(t, 500, 4)
}

// memoryOfTurns has so many sessions each do turns at the same time, with a file that is read
// and a command that is run, and a client that follows. The server stays within 400 MiB.
func memoryOfTurns(t *testing.T, sessions, turns int) {
	dir := t.TempDir()
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, work, "notes.txt", strings.Repeat("remember the milk\n", 500))
	answers := writeFile(t, dir, "answers.yaml", readAndRun)
	config := writeFile(t, dir, "agentd.yaml", "providers:\n  - {id: play, kind: script, script: "+answers+", models: [{id: m, capabilities: [tools, streaming]}]}\nworkspace: {root: "+work+"}\n")
	p := start(t, filepath.Join(dir, "data"), "--config", config)
	c := p.client()
	var all sync.WaitGroup
	for i := range sessions {
		all.Go(func() {
			for range turns {
				params := submitParams(t, "go on")
				params.SessionID, params.Create = fmt.Sprintf("sess_mem%d", i), true
				params.Options = &event.TurnOptions{PermissionMode: "auto"}
				if err := submitAndFollow(t.Context(), c, params); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	peak := p.peakMemory()
	t.Logf("%d sessions, %d turns each: at most %.0f MiB", sessions, turns, peak)
	if peak > 400 {
		t.Errorf("the server had %.0f MiB, want at most 400", peak)
	}
	p.stop(syscall.SIGTERM)
}
