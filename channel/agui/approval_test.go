package agui

import (
	"testing"

	"agentd/event"
)

// TestOnlyAClearYesApproves reads answers of front ends: what says both, or can't be read
// as a whole, denies.
func TestOnlyAClearYesApproves(t *testing.T) {
	for payload, want := range map[string]string{
		`true`:                                   "allow",
		`{"approved":true}`:                      "allow",
		`{"decision":"allow"}`:                   "allow",
		`{"approved":true,"decision":"allow"}`:   "allow",
		`{"decision":"allow","scope":"session"}`: "allow",
		`false`:                                  "deny",
		`null`:                                   "deny",
		`{}`:                                     "deny",
		``:                                       "deny",
		`"true"`:                                 "deny",
		`1`:                                      "deny",
		`[true]`:                                 "deny",
		`{"approved":false}`:                     "deny",
		`{"approved":"true"}`:                    "deny",
		`{"approved":true,"decision":"deny"}`:    "deny",
		`{"approved":false,"decision":"allow"}`:  "deny",
		`{"approved":true,"scope":5}`:            "deny",
		`{"decision":"allow","reason":["x"]}`:    "deny",
		`{"decision":"Allow"}`:                   "deny",
		`{"approved":true,"decision":"whatever"}`: "deny",
	} {
		x := &answer{Payload: event.Raw(payload)}
		if got, scope, _ := x.approval(); got != want || (got == "deny" && scope != "") {
			t.Errorf("%s: %s %q, want %s", payload, got, scope, want)
		}
	}
}
