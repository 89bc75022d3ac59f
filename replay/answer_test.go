package replay

import (
	"testing"

	"agentd/event"
)

func TestNoAnswerLeavesTheSandbox(t *testing.T) {
	q := &event.ActionRequired{ActionType: "sandbox_escape", ToolName: "shell", SafeArgs: event.Raw(`{}`), Decisions: []string{"allow", "deny"}}
	a := answer{q, &event.ActionResolved{Decision: "allow"}}
	if a.fits(q) {
		t.Error("a recorded approval to leave the sandbox is given again")
	}
}
