package runtimetest_test

import (
	"strings"
	"testing"

	"agentd/event"
	"agentd/internal/runtimetest"
)

// TestCallProblems: a life that isn't as it should be is found.
func TestCallProblems(t *testing.T) {
	start := &event.ToolStarted{ToolName: "look", Policy: event.PolicyPending}
	allow := &event.PermissionEvaluated{Decision: "allow", ToolName: "look"}
	run := func(n int64) event.Payload {
		return &event.ToolProgress{ToolName: "look", Phase: event.PhaseRunning, AttemptCount: n}
	}
	lost := &event.ToolProgress{ToolName: "look", Phase: event.PhaseLost}
	confined, result, failed, over := &event.SandboxApplied{}, &event.ToolResult{}, &event.ToolFailed{}, &event.TurnCompleted{}
	for _, c := range []struct {
		name  string
		facts []event.Payload
		want  string
	}{
		{"whole", []event.Payload{start, allow, confined, run(1), result, over}, ""},
		{"refused", []event.Payload{start, allow, failed, over}, ""},
		{"lost and run again", []event.Payload{start, allow, run(1), lost, allow, run(2), result, over}, ""},
		{"of an older version", []event.Payload{&event.ToolStarted{ToolName: "look", Policy: "allowed"}, failed, &event.ToolStarted{ToolName: "look", Policy: "allowed"}, result, over}, ""},
		{"still open", []event.Payload{start, allow}, ""},
		{"without an end", []event.Payload{start, allow, run(1), over}, "0 ends"},
		{"two ends", []event.Payload{start, allow, run(1), failed, result, over}, "another end"},
		{"two starts", []event.Payload{start, start, failed, over}, "asked for again"},
		{"no start", []event.Payload{allow, run(1), result, over}, "nothing asked for the call"},
		{"a result out of nothing", []event.Payload{start, allow, result, over}, "never ran"},
		{"runs undecided", []event.Payload{start, run(1), result, over}, "nothing was decided"},
		{"runs again undecided", []event.Payload{start, allow, run(1), lost, run(2), result, over}, "nothing was decided"},
		{"confined while it runs", []event.Payload{start, allow, run(1), confined, result, over}, "comes after the call runs"},
		{"decided after the end", []event.Payload{start, failed, allow, over}, "after the end"},
		{"attempts miscounted", []event.Payload{start, allow, run(3), result, over}, "attempt 1 is called 3"},
	} {
		var facts []*event.Event
		for i, p := range c.facts {
			e := &event.Event{Sequence: uint64(i + 1), Payload: p, Scope: event.Scope{TurnID: "turn_1"}}
			if p != event.Payload(over) {
				e.ToolCallID, e.StepID = "tool_1", "step_1"
			}
			facts = append(facts, e)
		}
		got := strings.Join(runtimetest.CallProblems(facts), "; ")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	apart := []*event.Event{
		{Sequence: 1, Payload: start, Scope: event.Scope{ToolCallID: "tool_1", StepID: "step_1"}},
		{Sequence: 2, Payload: allow, Scope: event.Scope{ToolCallID: "tool_1", StepID: "step_2"}},
	}
	if got := runtimetest.CallProblems(apart); len(got) != 1 || !strings.Contains(got[0], "step_2") {
		t.Errorf("%q", got)
	}
}
