package state

import (
	"testing"

	"agentd/event"
)

// TestAChainThatLeadsBackEnds folds facts of children and tasks that are their own
// ancestors: no runtime writes such facts, but an imported session can hold them.
func TestAChainThatLeadsBackEnds(t *testing.T) {
	one := 1.0
	s := New(testSession)
	s.Subagents.Open = []*Subagent{{SubagentID: "a", ParentSubagentID: "b"}, {SubagentID: "b", ParentSubagentID: "a"}}
	s.Tasks.Open = []*Task{{TaskID: "x", ParentTaskID: "y"}, {TaskID: "y", ParentTaskID: "x"}}
	f := &fold{s: s, e: &event.Event{
		Type: event.TypeCostRecorded, Scope: event.Scope{SubagentID: "a", TaskID: "x", ParentTaskID: "y"}, Payload: &event.CostRecorded{CostUSD: &one},
	}}
	f.subagentSpent()
	f.delegatedCost(one)
	if s.taskIsWithin("x", "elsewhere") || !s.taskIsWithin("x", "y") {
		t.Error("x lies within y and nowhere else")
	}
	if got := s.BudgetedTasks(&Thread{SubagentID: "a", Active: &Turn{TaskID: "x"}}); len(got) != 0 {
		t.Errorf("%d tasks have a budget", len(got))
	}
	n := 0
	for range s.Subagents.From("a") {
		n++
	}
	if n != maxAncestors {
		t.Errorf("%d steps were made along a circle, not %d", n, maxAncestors)
	}
}
