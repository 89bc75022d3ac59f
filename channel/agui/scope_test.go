package agui

import (
	"strings"
	"testing"

	"agentd/channel/turnview"
	"agentd/event"
)

// The answer to a permission offers what the action does: nothing beyond once where it
// can't, and the project where there are rules to keep.
func TestScopesOfAPermission(t *testing.T) {
	for _, tt := range []struct {
		act  event.ActionRequired
		want string
	}{
		{event.ActionRequired{}, `"enum":["once","session"]`},
		{event.ActionRequired{OnceOnly: true}, `"enum":["once"]`},
		{event.ActionRequired{KeepRules: []event.PolicyRule{{Decision: "allow", Tool: "shell", Match: "make *"}}}, `"description":"project: always in this project: allow shell make *","enum":["once","session","project"]`},
	} {
		got := string(permissionSchema(&turnview.Action{ActionRequired: &tt.act}))
		if !strings.Contains(got, tt.want) || strings.Contains(got, "project") != strings.Contains(tt.want, "project") {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
}
