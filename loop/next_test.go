package loop

import (
	"testing"

	"agentd/event"
	"agentd/state"
)

// TestNext lists what a thread does next in every situation that the loop knows.
func TestNext(t *testing.T) {
	turn := func(change func(*state.Turn)) *state.Turn {
		turn := &state.Turn{TurnID: "t", Status: state.TurnRunning}
		change(turn)
		return turn
	}
	call := func(status, stop string) *state.ModelCall {
		return &state.ModelCall{ModelRequestID: "r", Status: status, StopReason: stop, Step: 2, Attempt: 1}
	}
	failed := func(category string, retryable bool, attempt int64) *state.ModelCall {
		return &state.ModelCall{Status: state.CallFailed, ErrorCategory: category, Message: "m", Retryable: retryable, Step: 2, Attempt: attempt}
	}
	tool := func(status string) []*state.ToolCall {
		return []*state.ToolCall{{ToolCallID: "c0", Status: state.ToolDone}, {ToolCallID: "c", Status: status, ActionID: "a"}}
	}
	block := &state.Block{Reason: "because"}
	interrupt := &state.Interrupt{Reason: "enough"}
	pending := state.Actions{Pending: []*state.Action{{ActionID: "a", Status: state.ActionPending}}}
	answered := state.Actions{Recent: []*state.Action{{ActionID: "a", Status: state.ActionResolved}}}

	cases := []struct {
		name    string
		thread  state.Thread
		actions state.Actions
		want    Effect
	}{
		{"idle", state.Thread{}, state.Actions{}, Nothing{}},
		{"queued", state.Thread{Queue: []*state.Turn{{TurnID: "q"}, {TurnID: "r"}}}, state.Actions{}, StartTurn{"q"}},
		{"queued but blocked", state.Thread{Queue: []*state.Turn{{TurnID: "q"}}, Block: block}, state.Actions{}, Nothing{}},
		{"accepted", state.Thread{Active: turn(func(t *state.Turn) { t.Status = state.TurnAccepted })}, state.Actions{}, StartTurn{"t"}},
		{"accepted and interrupted", state.Thread{Active: turn(func(t *state.Turn) { t.Status, t.Interrupt = state.TurnAccepted, interrupt })}, state.Actions{}, CancelTurn{"t", "enough"}},
		{"blocked", state.Thread{Active: turn(func(*state.Turn) {}), Block: block}, state.Actions{}, Nothing{}},
		{"blocked and interrupted", state.Thread{Active: turn(func(t *state.Turn) { t.Interrupt = interrupt }), Block: block}, state.Actions{}, CancelTurn{"t", "enough"}},
		{"started", state.Thread{Active: turn(func(*state.Turn) {})}, state.Actions{}, CallModel{"t", 1, 1}},
		{"calling", state.Thread{Active: turn(func(t *state.Turn) { t.Call = call(state.CallRunning, "") })}, state.Actions{}, Nothing{}},
		{"calling and interrupted", state.Thread{Active: turn(func(t *state.Turn) { t.Call, t.Interrupt = call(state.CallRunning, ""), interrupt })}, state.Actions{}, CancelTurn{"t", "enough"}},
		{"answered", state.Thread{Active: turn(func(t *state.Turn) { t.Call = call(state.CallCompleted, "end_turn") })}, state.Actions{}, CompleteTurn{"t", "end_turn"}},
		{"refused", state.Thread{Active: turn(func(t *state.Turn) { t.Call = call(state.CallCompleted, "refusal") })}, state.Actions{}, CompleteTurn{"t", "refusal"}},
		{"answered but steered", state.Thread{Active: turn(func(t *state.Turn) { t.Call, t.Steered = call(state.CallCompleted, "end_turn"), 1 })}, state.Actions{}, CallModel{"t", 3, 1}},
		{"steered before the call", state.Thread{Active: turn(func(t *state.Turn) { t.Call, t.Steered, t.SteeredSeen = call(state.CallCompleted, "end_turn"), 1, 1 })}, state.Actions{}, CompleteTurn{"t", "end_turn"}},
		{"failed, safe to repeat", state.Thread{Active: turn(func(t *state.Turn) { t.Call = failed("overloaded", true, 1) })}, state.Actions{}, CallModel{"t", 2, 2}},
		{"failed too often", state.Thread{Active: turn(func(t *state.Turn) { t.Call = failed("overloaded", true, 3) })}, state.Actions{}, FailTurn{"t", "model_failed", "overloaded: m"}},
		{"cut off often", state.Thread{Active: turn(func(t *state.Turn) { t.Call = failed("interrupted", true, 9) })}, state.Actions{}, CallModel{"t", 2, 10}},
		{"failed for good", state.Thread{Active: turn(func(t *state.Turn) { t.Call = failed("auth", false, 1) })}, state.Actions{}, FailTurn{"t", "model_failed", "auth: m"}},
		{"tool requested", state.Thread{Active: turn(func(t *state.Turn) {
			t.Call, t.Tools = call(state.CallCompleted, "tool_use"), tool(state.ToolRequested)
		})}, state.Actions{}, StartTool{"t", "c"}},
		{"tool waits", state.Thread{Active: turn(func(t *state.Turn) { t.Call, t.Tools = call(state.CallCompleted, "tool_use"), tool(state.ToolRunning) })}, pending, Nothing{}},
		{"tool answered", state.Thread{Active: turn(func(t *state.Turn) { t.Call, t.Tools = call(state.CallCompleted, "tool_use"), tool(state.ToolRunning) })}, answered, FinishTool{"t", "c", "a"}},
		{"tools done", state.Thread{Active: turn(func(t *state.Turn) { t.Call, t.Tools = call(state.CallCompleted, "tool_use"), tool(state.ToolFailed) })}, state.Actions{}, CallModel{"t", 3, 1}},
		{"no steps left", state.Thread{Active: turn(func(t *state.Turn) {
			t.Call, t.Options = call(state.CallCompleted, "tool_use"), &event.TurnOptions{MaxSteps: 2}
		})}, state.Actions{}, FailTurn{"t", "step_limit", "the turn has used its model calls"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.thread.ThreadID = "th"
			s := state.New("s")
			s.Threads, s.Actions = []*state.Thread{&c.thread}, c.actions
			if got := Next(s, "th"); got != c.want {
				t.Errorf("got %#v, want %#v", got, c.want)
			}
		})
	}
	if got := Next(state.New("s"), "none"); got != (Nothing{}) {
		t.Errorf("a thread that isn't there: %#v", got)
	}
}
