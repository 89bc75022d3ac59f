package loop

import (
	"testing"

	"agentd/event"
	"agentd/model"
	"agentd/permission"
	"agentd/state"
)

// TestAnEarlierPolicyComesLate: facts of other nodes may be followed in any order, and read
// again. What the newest says is in force.
func TestAnEarlierPolicyComesLate(t *testing.T) {
	fact := func(sequence uint64, p *event.PolicyChanged) event.Event {
		return event.Event{Type: event.TypePolicyChanged, Sequence: sequence, Payload: p}
	}
	deny := []event.PolicyRule{{Decision: permission.Deny, Tool: "shell", Match: "make *"}}
	host := func(rules []event.PolicyRule) *event.PolicyChanged {
		return &event.PolicyChanged{Source: "host", Mode: permission.ModeDefault, ModeOrigin: originStored, Rules: rules}
	}
	folder := func(rules []event.PolicyRule) *event.PolicyChanged {
		return &event.PolicyChanged{Source: "workspace", Workspace: "/w", Rules: rules}
	}
	l, err := New(Options{Models: []model.Info{{Provider: "p", Model: "m"}}})
	if err != nil {
		t.Fatal(err)
	}
	before := state.New(event.RuntimeSession)
	before.Permission.Policies = []state.Policy{{Source: "host", Mode: permission.ModePlan, Sequence: 3}, {Source: "workspace", Workspace: "/w", Sequence: 4}}
	l.FollowState(before)
	l.Follow([]event.Event{fact(7, host(deny)), fact(8, folder(deny))})
	l.Follow([]event.Event{fact(5, host(nil)), fact(6, folder(nil))})
	l.FollowState(before)
	if c := l.Configuration(); len(c.Rules) != 1 || c.Mode != permission.ModeDefault {
		t.Errorf("after an earlier fact the rules are %+v and the mode is %s", c.Rules, c.Mode)
	}
	if rules, known := l.pins.get("/w"); !known || len(rules) != 1 {
		t.Errorf("after an earlier fact the rules of the folder are %+v", rules)
	}
	l.Follow([]event.Event{fact(9, host(nil))})
	if c := l.Configuration(); len(c.Rules) != 0 {
		t.Errorf("after a later fact the rules are %+v", c.Rules)
	}
}
