package main

import (
	"fmt"
	"sync"
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

// TestATokenRevokedWhileItIsRotated: of two admins one rotates a token at one node while the
// other one revokes it at another. Whoever is first, it is refused at both, with either
// secret.
func TestATokenRevokedWhileItIsRotated(t *testing.T) {
	a, b := nodes(t)
	reads := func(p *process, token string) error {
		_, err := client.Call[command.ListSessionsResult](t.Context(), p.clientWith(token), &command.ListSessions{})
		return err
	}
	// heard waits until each node knows what the other one did before.
	heard := func(name string) {
		for at, other := range map[*process]*process{a: b, b: a} {
			made := call[command.NewTokenResult](at, &command.CreateToken{Name: name + at.url, Role: "client"})
			for reads(other, made.Token) != nil && !t.Failed() {
			}
		}
	}
	for i := range 4 {
		name := fmt.Sprint("ci-", i)
		made := call[command.NewTokenResult](a, &command.CreateToken{Name: name, Role: "client"})
		heard(name + "-before")
		var rotated *command.NewTokenResult
		var rotating sync.WaitGroup
		begin := make(chan struct{})
		rotating.Go(func() {
			<-begin
			rotated, _ = client.Call[command.NewTokenResult](t.Context(), a.client(), &command.RotateToken{TokenID: made.TokenID}) // refused if it was revoked before
		})
		close(begin)
		call[command.TokenRecord](b, &command.RevokeToken{TokenID: made.TokenID})
		rotating.Wait()
		heard(name + "-after")
		for _, p := range []*process{a, b} {
			if err := reads(p, made.Token); fault.KindOf(err) != fault.Unauthenticated {
				t.Errorf("the first secret: %v", err)
			}
			if rotated == nil {
				continue
			}
			if err := reads(p, rotated.Token); fault.KindOf(err) != fault.Unauthenticated {
				t.Errorf("the second secret: %v", err)
			}
		}
	}
}
