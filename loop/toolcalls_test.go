package loop_test

import (
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/state"
)

// events.md, ordering: a later snapshot may correct earlier events, but must not silently
// erase a failed tool call.
func TestSnapshotKeepsFailedToolCalls(t *testing.T) {
	ask := script.Answer{Tools: []script.Tool{{Name: "request_input", Arguments: map[string]any{"prompt": "what now?"}}}}
	k := runtimetest.New(t,
		runtimetest.CallsTool("read_file", map[string]any{"path": "is/not/there"}),
		runtimetest.CallsTool("list_files", map[string]any{"path": "."}),
		ask, runtimetest.Says("done"), runtimetest.Says("again"),
	)
	r := k.Submit("sess_a", "go")
	action, _ := k.WaitForAction("sess_a", 1)
	check := func(when string, calls int) {
		t.Helper()
		read := k.Thread(r)
		failed := read.Diagnostics.FailedTools
		if len(failed) != 1 || failed[0].ToolName != "read_file" || failed[0].Status != state.ToolFailed || failed[0].ErrorCategory == "" {
			t.Errorf("%s: failed tools %+v", when, failed)
		}
		if len(read.ToolCalls) != calls {
			t.Errorf("%s: %d tool calls: %+v", when, len(read.ToolCalls), read.ToolCalls)
		}
	}
	check("while the turn goes on", 3)
	k.Close()
	k.Open()
	check("after a restart", 3)
	runtimetest.Do[command.RespondActionResult](k, &command.RespondAction{ActionID: action, Decision: "submit", Payload: runtimetest.Quoted("go on")})
	k.Completes(r)
	check("after the turn", 0)
	if failed := k.Thread(r).Diagnostics.FailedTools; failed[0].TurnID != r.TurnID {
		t.Errorf("it isn't told whose call failed: %+v", failed)
	}
	k.Completes(k.Submit("sess_a", "more"))
	check("after another turn", 0)
	if k.CountFacts("sess_a", event.TypeToolFailed) < 1 {
		t.Error("no call failed")
	}
}
