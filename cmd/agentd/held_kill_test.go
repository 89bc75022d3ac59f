package main

import (
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"agentd/client"
	"agentd/command"
	"agentd/event"
	"agentd/sandbox"
)

// TestAKilledServersReadsAreRunAgain kills servers in the middle of commands: CONTRACT,
// after a crash: what is safe to repeat goes on by itself, the rest blocks with a reason.
// A command that the kernel held to reading is safe; one that could write isn't, whatever
// it did.
func TestAKilledServersReadsAreRunAgain(t *testing.T) {
	plan, err := sandbox.Prepare(sandbox.Profile{Root: t.TempDir(), Mode: sandbox.ReadOnly, Network: sandbox.NetworkDeny}, sandbox.Probe())
	if err != nil || slices.ContainsFunc(plan.NotEnforced, func(lack string) bool { return !strings.HasPrefix(lack, "limits: ") }) {
		t.Skipf("skipped: commands that are held to reading: %v %+v", err, plan)
	}
	dir := t.TempDir()
	const waits = "until [ -e go ]; do sleep 0.05; done; cat go"
	answers := writeFile(t, dir, "answers.yaml", `answers:
  - {tools: [{name: shell, arguments: {command: "`+waits+`"}}]}
  - text: done
`)
	config := writeFile(t, dir, "agentd.yaml", "workspace: {root: "+dir+"}\nproviders:\n  - {id: play, kind: script, script: "+answers+", models: [{id: m, capabilities: [tools, streaming]}]}\n")
	data := filepath.Join(t.TempDir(), "data")
	p := start(t, data, "--config", config)
	modes := map[string]string{"sess_reads": "default", "sess_writes": "auto"}
	for id, mode := range modes {
		submit := submitParams(t, "hello")
		submit.SessionID, submit.Create, submit.Options = id, true, &event.TurnOptions{PermissionMode: mode}
		if _, err := client.Call[command.SubmitTurnResult](t.Context(), p.client(), submit); err != nil {
			t.Fatal(err)
		}
		p.until(id, event.TypeProcessStarted, 1)
	}
	p.stop(syscall.SIGKILL)
	writeFile(t, dir, "go", "went on\n")
	p = start(t, data, "--config", config)
	result, ok := p.until("sess_reads", event.TypeToolResult, 1).Payload.(*event.ToolResult)
	if !ok || !strings.Contains(result.Preview, "went on") {
		t.Errorf("the read: %+v", result)
	}
	p.until("sess_reads", event.TypeTurnCompleted, 1)
	if blocked, ok := p.until("sess_writes", event.TypeThreadUpdated, 1).Payload.(*event.ThreadUpdated); !ok || blocked.Code != "tool_lost" || blocked.Status != "blocked" {
		t.Errorf("the command that could write: %+v", blocked)
	}
	p.stop(syscall.SIGTERM)
	says(t, self(t, "verify", "--data", data))
}
