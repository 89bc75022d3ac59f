package replaytest

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"agentd/command"
)

// Program has the program itself run every session again that it recorded, with
// "agentd replay --all", and logs the tally. Line makes a command line of it that opens
// the facts; no server may have them.
func Program(tb testing.TB, line func(args ...string) *exec.Cmd) {
	tb.Helper()
	if tb.Failed() || tb.Skipped() {
		return // what a broken test left says nothing
	}
	var list command.ListSessionsResult
	if out, said := saidBy(line("sessions", "--all", "--json")); json.Unmarshal(out, &list) != nil {
		tb.Fatalf("the sessions: %s%s", out, said)
	}
	var t Tally
	for i := range list.Sessions {
		id := list.Sessions[i].SessionID
		t.take(tb, id, programVerdict(saidBy(line("replay", "--all", id, "--json"))))
	}
	var b strings.Builder
	t.Report(&b)
	tb.Log(strings.TrimSpace(b.String()))
}

// programVerdict reads what the program says of a session.
func programVerdict(out, said []byte) *verdict {
	var res struct {
		Cases []struct {
			Facts      int      `json:"facts"`
			Limits     []string `json:"limits"`
			Difference *struct {
				Says string `json:"says"`
			} `json:"difference"`
		} `json:"cases"`
	}
	if len(out) == 0 && bytes.Contains(said, []byte("there is nothing to run again")) {
		return &verdict{}
	}
	if err := json.Unmarshal(out, &res); err != nil || len(res.Cases) == 0 {
		return differs("the replay says %s%s", out, said)
	}
	v := &verdict{cases: len(res.Cases)}
	for _, c := range res.Cases {
		v.facts += c.Facts
		if v.limits = append(v.limits, c.Limits...); len(c.Limits) == 0 && c.Difference != nil {
			return differs("the replay: %s", c.Difference.Says)
		}
	}
	return v
}

func saidBy(cmd *exec.Cmd) (stdout, stderr []byte) {
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	_ = cmd.Run() // what it says tells
	return out.Bytes(), said.Bytes()
}
