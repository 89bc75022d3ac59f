package main

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"agentd/client"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// withLease returns the fleet with another lease.
func (f *fleet) withLease(lease string) *fleet {
	f.t.Helper()
	text, err := os.ReadFile(f.config)
	if err != nil {
		f.t.Fatal(err)
	}
	out := *f
	out.lease = lease
	out.config = writeFile(f.t, f.t.TempDir(), "lease.yaml", strings.Replace(string(text), "lease: "+f.lease, "lease: "+lease, 1))
	return &out
}

// TestNodesCutFromEachOther: a node is reached where it advertises. When it can't be reached
// there any more, but goes on renewing its lease, a command that was passed on to it is given
// up after a lease of silence; when it is back, the same command is carried out.
func TestNodesCutFromEachOther(t *testing.T) {
	for name, scheme := range map[string]string{"plain": "http", "node.tls": "https"} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, "1h", slow).quick()
			dirs := []string{f.dir(), f.dir()}
			// The owner's lease is an hour: what is given up sooner isn't given up with it.
			owner, other := f, f.withLease("1s")
			if scheme == "https" {
				ca := newAuthority(t)
				owner, other = owner.withCertificate(ca, dirs[0]), other.withCertificate(ca, dirs[1])
			}
			wire, address := newWire(t, scheme+"://127.0.0.1:1")
			a, b := owner.node(dirs[0], "--advertise", address), other.node(dirs[1])
			wire.leadTo(t, a.url)
			made, err := client.Call[command.CreateSessionResult](t.Context(), a.trusting(), &command.CreateSession{})
			if err != nil {
				t.Fatal(err)
			}
			if err := b.again(made.SessionID); err != nil {
				t.Fatalf("through the address that the owner advertises: %v", err)
			}
			if wire.carried() == 0 {
				t.Error("the node was reached elsewhere than where it advertises")
			}
			wire.set(wireMute)
			submit := func() error {
				_, err := client.Call[command.SubmitTurnResult](t.Context(), b.trusting(), &command.SubmitTurn{SessionID: made.SessionID, TurnID: "turn_cut", Input: event.Raw(`"again"`)})
				return err
			}
			// A node that a busy machine kept from its own lease of a second says so meanwhile.
			for {
				err = submit()
				if fault.KindOf(err) != fault.Unavailable || strings.Contains(err.Error(), "owned by") {
					t.Fatalf("from a node that is cut off from the owner: %v", err)
				}
				if strings.Contains(err.Error(), "didn't answer") {
					break
				}
			}
			if x, ok := errors.AsType[*fault.Error](err); !ok || x.RetryAfter <= 0 {
				t.Errorf("it isn't said when to come again: %v", err)
			}
			nodes, err := client.Call[command.ListNodesResult](t.Context(), b.trusting(), &command.ListNodes{})
			if err != nil || !slices.ContainsFunc(nodes.Nodes, func(n command.NodeRecord) bool { return n.Alive && n.Address == address }) {
				t.Fatalf("%+v, %v: the owner should have kept its lease", nodes, err)
			}
			wire.mend()
			for err = submit(); err != nil; err = submit() {
				if fault.KindOf(err) != fault.Unavailable {
					t.Fatalf("when the owner can be reached again: %v", err)
				}
			}
		})
	}
}
