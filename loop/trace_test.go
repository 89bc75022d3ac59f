package loop_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/telemetry"
)

// TestEveryFactOfATracedTurnCarriesTheTrace: also those that others than the turn's
// caller add, who send no trace or another one, and those of subagents.
func TestEveryFactOfATracedTurnCarriesTheTrace(t *testing.T) {
	k := runtimetest.New(t,
		script.Answer{When: &script.When{Contains: "parent"}, Tools: []script.Tool{{Name: "spawn_agent", Arguments: map[string]any{"role": "r", "input": "child"}}}},
		script.Answer{When: &script.When{Contains: "parent"}, Tools: []script.Tool{{Name: "write_file", Arguments: map[string]any{"path": "a", "content": "b"}}}},
		script.Answer{When: &script.When{Contains: "parent"}, Text: "done"},
		script.Answer{When: &script.When{Contains: "child"}, Text: "child done"},
	)
	caller := command.Local()
	caller.TraceID, caller.SpanID = strings.Repeat("a1", 16), strings.Repeat("b2", 8)
	input := &command.SubmitTurn{SessionID: "sess_traced", Create: true, Input: event.Raw(`"parent"`), Options: &event.TurnOptions{PermissionMode: "default"}}
	res, err := k.Runtime.Do(context.Background(), caller, input)
	if err != nil {
		t.Fatal(err)
	}
	turnID := res.(*command.SubmitTurnResult).TurnID
	answered := map[string]bool{}
	k.WaitFor("sess_traced", func(e *event.Event) bool {
		if e.Type == event.TypeActionRequired && !answered[e.ActionID] {
			answered[e.ActionID] = true
			runtimetest.Do[command.RespondActionResult](k, &command.RespondAction{ActionID: e.ActionID, Decision: "allow"})
		}
		return e.Type == event.TypeTaskCompleted && e.TurnID == turnID
	})
	runtimetest.Do[command.CompactThreadResult](k, &command.CompactThread{SessionID: "sess_traced", ThreadID: res.(*command.SubmitTurnResult).ThreadID})
	var without []string
	children := 0
	for _, e := range k.Facts("sess_traced") {
		inTurn := e.TurnID != "" && e.TurnID != event.NotApplicable
		if inTurn && e.TurnID != turnID {
			children++
		}
		if inTurn && e.TraceID != caller.TraceID {
			without = append(without, string(e.Type))
		}
	}
	if len(without) > 0 || children == 0 || len(answered) == 0 {
		t.Errorf("%d facts of a child, %d answers; without the trace: %v", children, len(answered), slices.Compact(without))
	}
	hangTogether(t, k.Facts("sess_traced"), caller.SpanID)
	// A turn that nobody traced has no trace.
	second := k.Submit("sess_traced", "child")
	k.WaitFor("sess_traced", func(e *event.Event) bool { return e.Type == event.TypeTaskCompleted && e.TurnID == second.TurnID })
	for _, e := range k.Facts("sess_traced") {
		if e.TurnID == second.TurnID && e.TraceID != "" {
			t.Errorf("%s of another turn has the trace", e.Type)
		}
	}
}

// hangTogether fails if a span of facts hangs on nothing but the caller's.
func hangTogether(t *testing.T, facts []*event.Event, caller string) {
	t.Helper()
	p := telemetry.New("sess_traced")
	spans, roots := map[string]telemetry.Span{}, 0
	for _, e := range facts {
		for _, s := range p.Apply(e).Spans {
			spans[s.SpanID] = s
		}
	}
	for _, s := range spans {
		if s.ParentID == caller {
			roots++
		} else if s.ParentID == "" && s.Get(telemetry.AttrTurnID) == nil {
			continue // the compaction that was asked for belongs to no turn
		} else if _, ok := spans[s.ParentID]; !ok {
			t.Errorf("%s hangs on %q, which is no span", s.Name, s.ParentID)
		}
	}
	if roots != 1 {
		t.Errorf("%d of %d spans hang on the caller's", roots, len(spans))
	}
}
