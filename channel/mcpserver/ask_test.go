package mcpserver

import (
	"encoding/json"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
)

// The scope project is offered, with what it keeps, where the action has rules to keep.
func TestScopesOfAnElicitation(t *testing.T) {
	a := &command.ActionRecord{ActionID: "action_1", Decisions: []string{"allow", "deny"}}
	form := func() string {
		t.Helper()
		data, err := json.Marshal(elicitation(a).RequestedSchema)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if text := form(); strings.Contains(text, "project") {
		t.Errorf("there is nothing to keep: %s", text)
	}
	a.KeepRules = []event.PolicyRule{{Decision: "allow", Tool: "shell", Match: "make *"}}
	if text := form(); !strings.Contains(text, `["once","session","project"]`) || !strings.Contains(text, "allow shell make *") {
		t.Error(text)
	}
}
