package session

import (
	"testing"

	"agentd/command"
	"agentd/store"
)

// TestProjectCacheKeepsNothingThatWasReadBeforeAWrite reads the rules of a project while
// they are written: what was read before isn't remembered, and what was remembered is
// forgotten.
func TestProjectCacheKeepsNothingThatWasReadBeforeAWrite(t *testing.T) {
	var c projectCache
	_, before, _ := c.get("p")
	c.put("p", []command.ProjectRule{{RuleID: "old"}}, before)
	if rules, _, ok := c.get("p"); !ok || len(rules) != 1 {
		t.Fatalf("what was read isn't remembered: %v", rules)
	}
	c.wrote(&store.Batch{Index: []store.IndexOp{putOp(kindTurn, "t", nil)}})
	if _, _, ok := c.get("p"); !ok {
		t.Error("a batch without rules made it forget")
	}
	c.wrote(&store.Batch{Index: []store.IndexOp{putOp(kindTurn, "t", nil), removeOp(kindProjectRule, "old")}})
	if _, _, ok := c.get("p"); ok {
		t.Error("it remembers rules that were removed")
	}
	c.put("p", []command.ProjectRule{{RuleID: "old"}}, before) // a reader that began before
	if _, _, ok := c.get("p"); ok {
		t.Error("it remembers what was read before the rules were removed")
	}
}
