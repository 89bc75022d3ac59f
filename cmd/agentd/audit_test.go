package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentd/client"
	"agentd/command"
)

// TestAuditGoesOn: each call has what was written since the one before, over a restart of
// the server, and -f has it as it comes.
func TestAuditGoesOn(t *testing.T) {
	dir := t.TempDir()
	p := start(t, filepath.Join(dir, "data"))
	audit := func(more ...string) *exec.Cmd {
		return self(t, append([]string{"audit", "--data", p.data, "--json", "--cursor-file", filepath.Join(dir, "cursor"), "--types", "session.created"}, more...)...)
	}
	create := func(id string) {
		t.Helper()
		if _, err := client.Call[command.CreateSessionResult](t.Context(), p.client(), &command.CreateSession{SessionID: id}); err != nil {
			t.Fatal(err)
		}
	}
	lines := func() string {
		t.Helper()
		out, err := audit().Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	create("sess_one")
	if got := lines(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"sessionId":"sess_one"`) {
		t.Errorf("the first call: %s", got)
	}
	if got := lines(); got != "" {
		t.Errorf("nothing was written since: %s", got)
	}
	create("sess_two")
	p.stop(os.Interrupt)
	if got := lines(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"sessionId":"sess_two"`) { // no server holds the data
		t.Errorf("after a restart: %s", got)
	}
	p = start(t, filepath.Join(dir, "data"))
	following := audit("-f")
	out, err := following.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := following.Start(); err != nil {
		t.Fatal(err)
	}
	create("sess_three")
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.Contains(line, "sess_three") {
		t.Errorf("%q, %v", line, err)
	}
	if err := following.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := following.Wait(); err != nil {
		t.Errorf("stopped: %v", err)
	}
	writeFile(t, dir, "cursor", "damaged\n")
	if out, err := audit().CombinedOutput(); err == nil || !strings.Contains(string(out), "not a cursor") {
		t.Errorf("a damaged cursor: %v, %s", err, out)
	}
	text, err := self(t, "audit", "--data", p.data).Output()
	if err != nil || !strings.Contains(string(text), "sess_two") || !strings.Contains(string(text), string("session.created")) {
		t.Errorf("%v: %s", err, text)
	}
}
