package main

import (
	"bufio"
	"io"
	"strings"
	"syscall"
	"testing"

	"agentd/event"
)

// TestDrainThatIsTakenBack: who waits until a node is drained learns that it takes work again,
// because it was undrained or restarted.
func TestDrainThatIsTakenBack(t *testing.T) {
	f := newFleet(t, "1h", slow)
	dir := f.dir()
	a, b := f.node(dir, "--node-name", "node-a"), f.node(f.dir(), "--node-name", "node-b")
	r := a.submit("hello")
	a.until(r.SessionID, event.TypeModelRequested, 1) // what a drain waits for
	for name, takeBack := range map[string]func(){
		"undrained": func() { b.drains("node-a", true) },
		"restarted": func() {
			a.stop(syscall.SIGKILL)
			a = f.node(dir, "--node-name", "node-a")
			a.until(r.SessionID, event.TypeModelRequested, 2)
		},
	} {
		cmd := self(t, "nodes", "drain", "node-a", "--server", b.url)
		cmd.Env = append(cmd.Env, "AGENTD_TOKEN="+b.token())
		said, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(said)
		if line, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, "node-a is draining") {
			t.Fatalf("%s: agentd nodes drain says %q, %v", name, line, err)
		}
		takeBack()
		rest, err := io.ReadAll(lines)
		_ = cmd.Wait() // how it ended is in the state
		if err != nil || cmd.ProcessState.ExitCode() != exitFailed || !strings.Contains(string(rest), "node node-a takes work again") {
			t.Errorf("%s: exit code %d, %v\n%s", name, cmd.ProcessState.ExitCode(), err, rest)
		}
	}
}
