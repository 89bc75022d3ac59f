package main

import (
	"testing"

	"agentd/client"
	"agentd/command"
	"agentd/fault"
)

// TestServiceAccountIsRotatedWithoutAGap: a program has one token after the other, as the
// operators' page says. What it began with the first it goes on with at every node with the
// second, which is never refused once it is known, and the first is refused everywhere.
func TestServiceAccountIsRotatedWithoutAGap(t *testing.T) {
	a, b := nodes(t)
	first := a.tokenFor("client", "ci")
	reads := func(p *process, token, sessionID string) error {
		_, err := client.Call[map[string]any](t.Context(), p.clientWith(token), &command.GetSession{SessionID: sessionID})
		return err
	}
	made, err := client.Call[command.CreateSessionResult](t.Context(), a.clientWith(first), &command.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	second := call[command.NewTokenResult](b, &command.CreateToken{Name: "ci-next", Role: "client", Account: "ci"}).Token
	for _, p := range []*process{a, b} {
		for reads(p, second, made.SessionID) != nil { // until the node knows it
			if t.Failed() {
				t.FailNow()
			}
		}
		if err := reads(p, first, made.SessionID); err != nil {
			t.Errorf("the first token is refused while the second is brought out: %v", err)
		}
	}
	call[map[string]any](b, &command.RevokeToken{TokenID: "client-ci"})
	for _, p := range []*process{b, a} {
		for err := reads(p, first, made.SessionID); fault.KindOf(err) != fault.Unauthenticated; err = reads(p, first, made.SessionID) {
			if err != nil {
				t.Fatal(err)
			}
			if err := reads(p, second, made.SessionID); err != nil {
				t.Fatalf("the second token is refused while the first is revoked: %v", err)
			}
		}
		if err := reads(p, second, made.SessionID); err != nil {
			t.Errorf("the second token is refused once the first is revoked: %v", err)
		}
	}
}
