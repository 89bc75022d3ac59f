package replaytest

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"testing"

	"agentd/command"
)

// Program has the program itself decide again in every session that it recorded, with
// "agentd replay --all". Line makes a command line of it that opens the facts; no
// server may have them.
func Program(tb testing.TB, line func(args ...string) *exec.Cmd) {
	tb.Helper()
	if tb.Failed() || tb.Skipped() {
		return // what a broken test left says nothing
	}
	var list command.ListSessionsResult
	if out, said := saidBy(line("sessions", "--all", "--json")); json.Unmarshal(out, &list) != nil {
		tb.Fatalf("the sessions: %s%s", out, said)
	}
	for i := range list.Sessions {
		id := list.Sessions[i].SessionID
		out, said := saidBy(line("replay", "--all", id, "--json"))
		var res struct {
			Same bool `json:"same"`
		}
		if len(out) == 0 && bytes.Contains(said, []byte("there is nothing to decide again")) {
			continue
		}
		if json.Unmarshal(out, &res) != nil || !res.Same {
			tb.Errorf("the replay of %s says %s%s", id, out, said)
		}
	}
}

func saidBy(cmd *exec.Cmd) (stdout, stderr []byte) {
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	_ = cmd.Run() // what it says tells
	return out.Bytes(), said.Bytes()
}
