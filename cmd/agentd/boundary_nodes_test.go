package main

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"agentd/client"
	"agentd/command"
)

// TestNodesTellNothingOfOthers: what another account has is not there at a node that doesn't
// own it either: not while its node answers, and not while that is frozen, when those who may
// see it are told that it doesn't answer.
func TestNodesTellNothingOfOthers(t *testing.T) {
	// Whether the lease ends while it is asked makes no difference: the other node has the
	// sessions then. With an hour a command that is passed on would be waited for that long.
	f := newFleet(t, "10s", slow).quick()
	text, err := os.ReadFile(f.config)
	if err != nil {
		t.Fatal(err)
	}
	f.config = writeFile(t, t.TempDir(), "config.yaml", string(text)+"a2a: {enabled: true}\n")
	a, b := f.node(f.dir()), f.node(f.dir())
	acme, stranger := a.tokenFor("client", "acme"), b.tokenFor("client", "stranger")
	turn, err := client.Call[command.SubmitTurnResult](t.Context(), a.clientWith(acme), &command.SubmitTurn{
		SessionID: "sess_acme", TurnID: "turn_acme", Create: true, Input: command.Text(strings.Repeat("what acme knows ", 4000)),
	})
	if err != nil {
		t.Fatal(err)
	}
	a.completed(turn)
	theirs := a.heldBy(t, acme)
	b.tellsNothingOf(stranger, theirs)
	a.signal(syscall.SIGSTOP)
	defer a.signal(syscall.SIGCONT)
	b.tellsNothingOf(stranger, theirs)
}
