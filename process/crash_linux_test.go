package process

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"agentd/sandbox"
)

// victimEnv makes the test binary a program that starts processes and is killed.
const victimEnv = "AGENTD_TEST_VICTIM"

// victim starts processes of every kind, prints their ledger, and waits to be
// killed.
func victim(dir string) {
	m := New(Options{Report: sandbox.Probe()})
	out := json.NewEncoder(os.Stdout)
	for i, mode := range modes {
		for j, line := range []string{
			"sleep N", "setsid nohup sleep N & sleep N", "(setsid sh -c 'trap \"\" HUP TERM; sleep N & sleep N' &); sleep N",
		} {
			line = strings.ReplaceAll(line, "sleep N", "sleep "+napOf("7790", os.Getppid()))
			spec := Spec{
				ProcessID: fmt.Sprintf("proc_%d_%d", i, j), Line: "echo up; " + line, Background: true, TTY: j == 1,
				Profile: sandbox.Profile{Mode: mode, Root: dir},
			}
			p, err := m.Start(context.Background(), spec)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			for {
				if stdout, _ := p.Output(); stdout.Total > 0 {
					break
				}
				time.Sleep(time.Millisecond)
			}
			_ = out.Encode(p.Entry())
		}
	}
	fmt.Println("ready")
	select {}
}

func TestKilledParentLeavesNothing(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), victimEnv+"="+t.TempDir())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var entries []Entry
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "ready" {
		var e Entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		entries = append(entries, e)
	}
	if len(entries) != 6 {
		t.Fatalf("started %d", len(entries))
	}
	for len(sleepers(t, nap("7790"))) < 12 { // they say that they are up before they sleep
		time.Sleep(5 * time.Millisecond)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	// The stages see the end of their sockets and end the trees; nobody helps.
	for deadline := time.Now().Add(2 * time.Minute); len(sleepers(t, nap("7790"))) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("left %v", sleepers(t, nap("7790")))
		}
	}
	for _, f := range Reap(entries) {
		if f.MayStillExist() {
			t.Errorf("%+v", f)
		}
	}
}
