package main

import (
	"fmt"
	"testing"
	"time"

	"agentd/client"
	"agentd/command"
	"agentd/event"
)

// TestNodesChangeTheHostPolicyInTurn: what one node changes of the host's policy leaves what
// another one changed just before, whether it has heard of that or not.
func TestNodesChangeTheHostPolicyInTurn(t *testing.T) {
	f := newFleet(t, "1h", slow)
	a, b := f.node(f.dir()), f.node(f.dir())
	var rules []event.PolicyRule
	mode := ""
	check := func(where string, got *command.PolicyResult) {
		t.Helper()
		if len(got.Rules) != len(rules) || (mode != "" && got.Mode != mode) {
			t.Fatalf("%s: mode %s with %d rules, want %s with %d", where, got.Mode, len(got.Rules), mode, len(rules))
		}
	}
	for round := range 6 {
		rules = append(rules, event.PolicyRule{Decision: "deny", Tool: "shell", Match: fmt.Sprintf("make %d*", round)})
		check("the node that sets rules", call[command.PolicyResult](a, &command.SetPolicy{Rules: rules}))
		mode = []string{"plan", "untrusted"}[round%2]
		check("the node that sets a mode", call[command.PolicyResult](b, &command.SetPolicy{Mode: mode}))
	}
	later := f.node(f.dir())
	check("a node that starts later", call[command.PolicyResult](later, &command.GetPolicy{}))
}

// hostMode sets the host's mode on one node and waits until another has it.
func hostMode(on, seenBy *process, mode string) {
	on.t.Helper()
	call[command.PolicyResult](on, &command.SetPolicy{Mode: mode})
	for on.t.Context().Err() == nil && call[command.PolicyResult](seenBy, &command.GetPolicy{}).Mode != mode {
		time.Sleep(5 * time.Millisecond)
	}
}

// TestHostNewsSurviveABrokenWire breaks a node's connections when it is told that another node
// forbade something, or revoked a token, and before it could read that. Once its wire is whole
// it denies that, and lets the token's holder in no more.
func TestHostNewsSurviveABrokenWire(t *testing.T) {
	f := newFleet(t, "1h", slow)
	behind := *f
	var wire *faultyWire
	wire, behind.url = newWire(t, f.url)
	a, b := f.node(f.dir()), behind.node(behind.dir())
	made := call[command.NewTokenResult](a, &command.CreateToken{Name: "laptop"})
	admitted := func() bool {
		c, err := client.New(b.url, &client.Options{Token: made.Token})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var res any
		return c.Do(t.Context(), &command.ListSessions{}, &res) == nil
	}
	for !admitted() {
		time.Sleep(5 * time.Millisecond)
	}
	// change has the wire cut when the node hears of a change, and mended when it has noticed.
	change := func(params command.Params) {
		t.Helper()
		b.logSoFar()
		heard := wire.cutAfter([]byte(event.RuntimeSession))
		call[any](a, params)
		<-heard
		b.wait("postgres: follow")
		wire.mend()
		// The second is taken over when all that came with the first was.
		hostMode(a, b, "plan")
		hostMode(a, b, "untrusted")
	}
	change(&command.SetPolicy{Rules: []event.PolicyRule{{Decision: "deny", Tool: "shell", Match: "make *"}}})
	if got := call[command.PolicyResult](b, &command.GetPolicy{}); len(got.Rules) != 1 || got.Rules[0].Match != "make *" {
		t.Errorf("the rules are %+v", got.Rules)
	}
	change(&command.RevokeToken{TokenID: made.TokenID})
	if admitted() {
		t.Error("the holder of the revoked token is let in")
	}
}
