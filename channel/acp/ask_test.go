package acp

import (
	"testing"

	"agentd/channel/turnview"
	"agentd/event"
)

// TestOnlyWhatWasOfferedIsAYes answers every kind of question with every option that
// there is anywhere: one that this question didn't offer denies.
func TestOnlyWhatWasOfferedIsAYes(t *testing.T) {
	action := func(kind, schema string, once bool) *turnview.Action {
		return &turnview.Action{ID: "action_1", ActionRequired: &event.ActionRequired{
			ActionType: kind, Schema: event.Raw(schema), OnceOnly: once, Decisions: []string{"allow", "deny", "cancel"},
		}}
	}
	const withAuto = `{"properties":{"permissionMode":{"enum":["default","auto"]}}}`
	options := []string{optionOnce, optionAlways, optionProject, optionAuto, optionReject, "", "allow", "ALLOW_ONCE", "allow_once ", "approve"}
	kept := action("tool_permission", "", false)
	kept.KeepRules = []event.PolicyRule{{Decision: "allow", Tool: "shell", Match: "make *"}}
	if offered := optionsFor(kept); len(offered) != 4 || offered[2].Name != "Always allow in this project: allow shell make *" {
		t.Errorf("%+v", offered)
	}
	for name, c := range map[string]struct {
		act *turnview.Action
		yes map[string]string
	}{
		"what is kept":      {kept, map[string]string{optionOnce: "once", optionAlways: "session", optionProject: "project"}},
		"a permission":      {action("tool_permission", "", false), map[string]string{optionOnce: "once", optionAlways: "session"}},
		"a permission once": {action("tool_permission", "", true), map[string]string{optionOnce: "once"}},
		"leaving the box":   {action("sandbox_escape", "", true), map[string]string{optionOnce: "once"}},
		"a plan":            {action("plan_approval", withAuto, false), map[string]string{optionOnce: "", optionAuto: ""}},
		"a plan by default": {action("plan_approval", `{}`, false), map[string]string{optionOnce: ""}},
	} {
		for _, option := range options {
			for _, outcome := range []string{"selected", "cancelled", "Selected", ""} {
				got := decisionOf(c.act, outcome, option)
				scope, offered := c.yes[option]
				want := "deny"
				switch {
				case outcome == "cancelled":
					want = "cancel"
				case outcome == "selected" && offered:
					want = "allow"
				}
				if got.Decision != want || (want == "allow" && got.Scope != scope) || (want != "allow" && (got.Scope != "" || got.Payload != nil)) {
					t.Errorf("%s: %q with option %q: %s %q %s, want %s %q", name, outcome, option, got.Decision, got.Scope, got.Payload, want, scope)
				}
			}
		}
	}
}
