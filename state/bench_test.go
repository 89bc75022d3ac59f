package state

import (
	"fmt"
	"testing"

	"agentd/event"
)

// typicalTurn is the facts of a turn with one tool call and two model calls.
func typicalTurn(i int) []*event.Event {
	turn := event.Scope{ThreadID: "thread_1", TurnID: fmt.Sprintf("turn_%d", i), TaskID: fmt.Sprintf("task_%d", i), RunID: fmt.Sprintf("run_%d", i), TraceID: "trace_1"}
	model := turn
	model.ModelRequestID = "req_1"
	tool := turn
	tool.StepID, tool.ToolCallID = "step_1", "tool_1"
	cost := 0.01
	var list []*event.Event
	e := func(typ event.Type, scope event.Scope, p event.Payload) {
		list = append(list, &event.Event{Type: typ, Scope: scope, Payload: p})
	}
	e(event.TypeTaskCreated, turn, &event.TaskCreated{TaskKind: TaskKindTurn, Visibility: "internal", Status: "accepted"})
	e(event.TypeTurnSubmitted, turn, &event.TurnSubmitted{Status: "accepted", Source: "user", Preview: "hello"})
	e(event.TypeTaskAttemptStarted, turn, &event.TaskAttemptStarted{Status: "running", AttemptCount: 1})
	e(event.TypeTurnStarted, turn, &event.TurnStarted{Status: "running"})
	e(event.TypeContextResolved, turn, &event.ContextResolved{Items: []event.ContextItem{{Kind: "history"}}})
	e(event.TypeRoutingDecided, turn, &event.RoutingDecision{SelectedProvider: "p", SelectedModel: "m", DecisionSource: "automatic", DecisionReason: "r", CapabilityGap: "none"})
	for step := int64(1); step <= 2; step++ {
		e(event.TypeModelRequested, model, &event.ModelRequested{Provider: "p", Model: "m", ModelRequestID: "req_1", Step: step, Attempt: 1})
		for d := range int64(10) {
			e(event.TypeModelDelta, model, &event.ModelDelta{Text: "some words", Index: d})
		}
		msg := &event.ModelMessage{Text: "answer"}
		if step == 1 {
			msg.ToolCalls = []event.ToolCallRequest{{ToolCallID: "tool_1", ToolName: "read_file"}}
		}
		e(event.TypeModelCompleted, model, &event.ModelCompleted{ModelRequestID: "req_1", StopReason: "tool_use", Usage: event.Usage{InputTokens: 100, OutputTokens: 10}, Message: msg})
		e(event.TypeCostRecorded, model, &event.CostRecorded{CostUSD: &cost, Currency: "USD", Basis: "b", ModelRequestID: "req_1"})
		if step == 1 {
			e(event.TypePermissionEvaluated, tool, &event.PermissionEvaluated{Decision: "allow", DecisionSource: "mode", DecisionReason: "r", ToolName: "read_file"})
			e(event.TypeToolStarted, tool, &event.ToolStarted{ToolName: "read_file", Policy: "allowed", IsReadOnly: true})
			e(event.TypeToolResult, tool, &event.ToolResult{ToolName: "read_file", Status: "ok"})
		}
	}
	e(event.TypeTaskAttemptCompleted, turn, &event.TaskAttemptCompleted{Status: "completed"})
	e(event.TypeTaskCompleted, turn, &event.TaskCompleted{Status: "completed"})
	e(event.TypeTurnCompleted, turn, &event.TurnCompleted{Status: "completed", Outcome: "done"})
	return list
}

// benchSession is a session after n typical turns.
func benchSession(tb testing.TB, n int) *Session {
	s := New(testSession)
	head := []*event.Event{
		{Type: event.TypeSessionCreated, Payload: &event.SessionCreated{}},
		{Type: event.TypeThreadStarted, Scope: event.Scope{ThreadID: "thread_1"}, Payload: &event.ThreadStarted{Role: "main"}},
	}
	for i := range n {
		head = append(head, typicalTurn(i)...)
	}
	for i, e := range head {
		stamp(e, uint64(i+1))
	}
	apply(tb, s, head)
	return s
}

// BenchmarkApply folds the facts of typical turns; an operation is one fact.
func BenchmarkApply(b *testing.B) {
	s := benchSession(b, 50)
	// More turns than a state keeps: when the first comes round again it is new.
	var turns []*event.Event
	for i := range 3 * keepTurns {
		turns = append(turns, typicalTurn(i)...)
	}
	for _, e := range turns {
		stamp(e, 1)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		e := turns[i%len(turns)]
		e.Sequence = s.Sequence + 1
		if _, err := s.Apply(e); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEncode encodes the state of a session with 50 typical turns.
func BenchmarkEncode(b *testing.B) {
	s := benchSession(b, 50)
	b.SetBytes(int64(len(stateBytes(b, s))))
	b.ReportAllocs()
	for b.Loop() {
		s.Encode()
	}
}

// BenchmarkSnapshot builds the wire form of a session with 50 typical turns.
func BenchmarkSnapshot(b *testing.B) {
	s := benchSession(b, 50)
	b.ReportAllocs()
	for b.Loop() {
		s.Snapshot()
	}
}
