package main

import (
	"encoding/json"
	"fmt"
	"testing"

	"agentd/command"
)

// TestCallBesideNodes: a command on the database itself, beside nodes that run, leaves a turn
// that one of them takes up without being asked. The lease of the program that left it is
// an hour, and not waited for.
func TestCallBesideNodes(t *testing.T) {
	f := newFleet(t, "1h", slow).quick()
	a := f.node(f.dir())
	submit := func(params string) *command.SubmitTurnResult {
		t.Helper()
		out, errs, code := program(t, "call", "submit_turn", params, "--data", f.url, "--state-dir", f.dir(), "--config", f.config)
		var res command.SubmitTurnResult
		if err := json.Unmarshal([]byte(out), &res); code != 0 || err != nil {
			t.Fatalf("call: %d, %v\n%s%s", code, err, out, errs)
		}
		return &res
	}
	first := submit(`{"input":"hello"}`)
	a.completed(first)
	// Now the node has the session in memory.
	a.completed(submit(fmt.Sprintf(`{"sessionId":%q,"input":"and again"}`, first.SessionID)))
}
