package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"agentd/client"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/pgtest"
)

// fleet is some nodes over one database that know the same token and have the same
// configuration.
type fleet struct {
	t           *testing.T
	url, config string
	// lease is an hour, unless time itself is what ends it: whatever a busy machine does, a
	// node that lives keeps it then. That of one that doesn't is ended by [fleet.leaseEnds].
	lease string
	token []byte
	// program is what the nodes run, if not this version's.
	program string
}

// newFleet makes a database and a configuration with a lease and a script of answers.
func newFleet(t *testing.T, lease, script string, more ...string) *fleet {
	t.Helper()
	dir := t.TempDir()
	answers := writeFile(t, dir, "answers.yaml", script)
	text := "node: {lease: " + lease + "}\nproviders:\n  - {id: play, kind: script, script: " + answers + ", models: [{id: m}]}\n" + strings.Join(more, "\n")
	return &fleet{
		t: t, lease: lease, url: pgtest.Shared(t).Database(t), config: writeFile(t, dir, "node.yaml", text),
		token: []byte("shared-" + rand.Text() + "\n"),
	}
}

// dir makes the state directory of a node.
func (f *fleet) dir() string {
	f.t.Helper()
	dir := f.t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, adminTokenFile), f.token, 0o600); err != nil {
		f.t.Fatal(err)
	}
	accepted(f.t, dir)
	return dir
}

// node starts a node in a state directory.
func (f *fleet) node(dir string, args ...string) *process {
	f.t.Helper()
	return startProgram(f.t, f.program, dir, append([]string{"--data", f.url, "--state-dir", dir, "--config", f.config}, args...)...)
}

// leaseEnds has the lease of a node end after a while, which counts from now. The node is one
// that can't renew it any more, and one that the others have waited for: a node that starts then
// doesn't take it for one that the database was out of reach of.
func (f *fleet) leaseEnds(p *process, after time.Duration) {
	f.t.Helper()
	conn, err := pgx.Connect(f.t.Context(), f.url)
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(f.t.Context())) }()
	tag, err := conn.Exec(f.t.Context(), `UPDATE agentd.nodes SET lease_until = clock_timestamp() + $2::interval, about = about || '{"awaited": true}' WHERE address = $1`, p.url, after)
	if err != nil || tag.RowsAffected() != 1 {
		f.t.Fatalf("the lease of %s: %v, %v", p.url, tag, err)
	}
}

// kill kills a node, and ends its lease.
func (f *fleet) kill(p *process) {
	f.t.Helper()
	p.stop(syscall.SIGKILL)
	f.leaseEnds(p, 0)
}

// slow never answers. A turn that another node goes on with, which answers at once, comes to
// its end.
const slow = "answers:\n  - {text: never, stall: 1h}\n"

// quick returns the same fleet with answers at once.
func (f *fleet) quick() *fleet {
	f.t.Helper()
	out := *f
	text, err := os.ReadFile(f.config)
	if err != nil {
		f.t.Fatal(err)
	}
	lease, _, _ := strings.Cut(string(text), "\n")
	out.config = writeFile(f.t, f.t.TempDir(), "quick.yaml", lease+"\n")
	return &out
}

// TestTurnGoesOnElsewhere kills a node in the middle of a turn. Another node takes the turn
// up by itself: it is only followed there, which asks for nothing.
func TestTurnGoesOnElsewhere(t *testing.T) {
	f := newFleet(t, "1h", slow)
	a, b := f.node(f.dir()), f.quick().node(f.dir())
	r := a.submit("hello")
	b.until(r.SessionID, "model.requested", 1)
	f.kill(a)
	b.completed(r)
}

// TestTurnGoesOnAfterAStop stops a node in the middle of a turn: another one goes on without
// waiting for the lease, which is an hour.
func TestTurnGoesOnAfterAStop(t *testing.T) {
	f := newFleet(t, "1h", slow)
	a, b := f.node(f.dir()), f.quick().node(f.dir())
	r := a.submit("hello")
	b.until(r.SessionID, "model.requested", 1)
	a.stop(syscall.SIGTERM)
	b.completed(r)
}

// TestTurnGoesOnAfterARestart kills the only node and starts it again. It knows that the
// process of its name before is dead and doesn't wait for its lease, which is an hour.
func TestTurnGoesOnAfterARestart(t *testing.T) {
	f := newFleet(t, "1h", slow)
	dir := f.dir()
	a := f.node(dir)
	r := a.submit("hello")
	a.until(r.SessionID, "model.requested", 1)
	a.stop(syscall.SIGKILL)
	a = f.quick().node(dir)
	a.completed(r)
}

// TestNodesOfOneDirectoryHaveTwoNames: a second server from the same directory is another
// node, and doesn't take the first one's sessions.
func TestNodesOfOneDirectoryHaveTwoNames(t *testing.T) {
	f := newFleet(t, "1h", slow)
	dir := f.dir()
	a, b := f.node(dir), f.node(dir)
	res, err := client.Call[command.ListNodesResult](t.Context(), b.client(), &command.ListNodes{})
	if err != nil || len(res.Nodes) != 2 || res.Nodes[0].NodeID == res.Nodes[1].NodeID || !res.Nodes[0].Alive || !res.Nodes[1].Alive {
		t.Fatalf("%+v, %v; want two live nodes", res, err)
	}
	a.stop(syscall.SIGTERM)
}

// TestNodesWithOneAddress: two nodes that say to be reached at the same place can't both be.
func TestNodesWithOneAddress(t *testing.T) {
	f := newFleet(t, "1h", slow)
	f.node(f.dir(), "--advertise", "http://127.0.0.1:1")
	f.node(f.dir(), "--advertise", "http://127.0.0.1:1").wait("another node has this one's address")
}

// TestReadingClaimsNothing reads a session with a waiting question through another node: it
// stays where it is, also when it is out of memory there. A session without work that lost its
// node has no owner, also after it was read.
func TestReadingClaimsNothing(t *testing.T) {
	f := newFleet(t, "1h", "answers:\n  - {when: {contains: easy}, text: fine}\n  - ask: {prompt: Which colour?, schema: {type: string}}\n")
	a, b := f.node(f.dir()), f.node(f.dir())
	asks := a.submit("hello")
	b.until(asks.SessionID, "action.required", 1)
	idle := a.submit("something easy")
	b.completed(idle)
	before := f.ownerOf(asks.SessionID)
	b.reads(asks.SessionID)
	if after := f.ownerOf(asks.SessionID); after != before || before == "none" {
		t.Errorf("the session was owned by %s and is by %s after it was read", before, after)
	}
	f.kill(a)
	for owner := before; owner != "none"; owner = f.ownerOf(idle.SessionID) {
		if owner != before { // no work: no node takes it
			t.Fatalf("the session is owned by %s", owner)
		}
	}
	b.reads(idle.SessionID)
	if after := f.ownerOf(idle.SessionID); after != "none" {
		t.Errorf("the session had no owner and has %s after it was read", after)
	}
}

// reads reads a session in several ways.
func (p *process) reads(sessionID string) {
	p.t.Helper()
	for _, params := range []command.Params{
		&command.GetSession{SessionID: sessionID}, &command.ListTasks{SessionID: sessionID}, &command.ListActions{SessionID: sessionID},
	} {
		var res json.RawMessage
		if err := p.client().Do(p.t.Context(), params, &res); err != nil {
			p.t.Fatalf("%s through the other node: %v", params.Command(), err)
		}
	}
}

// TestNodesStartTogether starts three nodes at once whose leases last for an hour: none waits
// for another, also while the first writes into the session that belongs to all.
func TestNodesStartTogether(t *testing.T) {
	f := newFleet(t, "1h", slow)
	dirs := []string{f.dir(), f.dir(), f.dir()}
	nodes := make([]*process, len(dirs))
	var starting sync.WaitGroup
	for i, dir := range dirs {
		starting.Go(func() { nodes[i] = f.node(dir) })
	}
	starting.Wait()
	for i, p := range nodes {
		params := &command.SetPolicy{Rules: []event.PolicyRule{{Decision: "deny", Tool: "shell", Match: fmt.Sprintf("rm %d*", i)}}}
		var res json.RawMessage
		if err := p.client().Do(t.Context(), params, &res); err != nil {
			t.Fatalf("node %d: %v", i, err)
		}
	}
}

// TestHostPolicyReachesAllNodes: what an admin forbids on one node is forbidden on the
// others.
func TestHostPolicyReachesAllNodes(t *testing.T) {
	f := newFleet(t, "1h", slow)
	a, b := f.node(f.dir()), f.node(f.dir())
	var res json.RawMessage
	if err := a.client().Do(t.Context(), &command.SetPolicy{Rules: []event.PolicyRule{{Decision: "deny", Tool: "shell", Match: "make *"}}}, &res); err != nil {
		t.Fatal(err)
	}
	c := b.client()
	for t.Context().Err() == nil {
		var got struct{ Rules []event.PolicyRule }
		if err := c.Do(t.Context(), &command.GetPolicy{}, &got); err != nil {
			t.Fatal(err)
		}
		if len(got.Rules) == 1 && got.Rules[0].Match == "make *" {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestCommandsEndNoSharedMode: a mode that an admin gave all nodes isn't ended by a command whose
// own configuration allows less. That of a node is.
func TestCommandsEndNoSharedMode(t *testing.T) {
	f := newFleet(t, "1h", slow)
	a := f.node(f.dir())
	mode := func() string { return call[command.PolicyResult](a, &command.GetPolicy{}).Mode }
	call[command.PolicyResult](a, &command.SetPolicy{Mode: "bypass"})
	narrow := *f
	narrow.config = writeFile(t, t.TempDir(), "narrow.yaml", "node: {lease: 1h}\npermissions: {mode: plan}\n")
	out, errs, code := program(t, "policy", "show", "--data", f.url, "--state-dir", f.dir(), "--config", narrow.config)
	if code != 0 || !strings.Contains(out, "plan") || strings.Contains(out, "bypass") {
		t.Errorf("policy show: %d\n%s%s", code, out, errs)
	}
	changes := func() int {
		n := 0
		for _, e := range a.eventsOf(event.RuntimeSession) {
			if e.Type == event.TypePolicyChanged {
				n++
			}
		}
		return n
	}
	if n := changes(); n != 1 || mode() != "bypass" {
		t.Errorf("after a command the mode is %s, by %d facts", mode(), n)
	}
	narrow.node(narrow.dir())
	for mode() == "bypass" && t.Context().Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
}

// TestTokensReachAllNodes: a token that one node makes lets its holder in on the others, also
// on one that starts later, and one that is revoked doesn't.
func TestTokensReachAllNodes(t *testing.T) {
	f := newFleet(t, "1h", slow)
	a, b := f.node(f.dir()), f.node(f.dir())
	made, err := client.Call[command.NewTokenResult](t.Context(), a.client(), &command.CreateToken{Name: "laptop"})
	if err != nil {
		t.Fatal(err)
	}
	admits := func(p *process, want bool) {
		t.Helper()
		c, err := client.New(p.url, &client.Options{Token: made.Token})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for t.Context().Err() == nil {
			var res json.RawMessage
			if err := c.Do(t.Context(), &command.ListSessions{}, &res); (err == nil) == want {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	admits(b, true)
	later := f.node(f.dir())
	admits(later, true)
	if _, err := client.Call[command.TokenRecord](t.Context(), b.client(), &command.RevokeToken{TokenID: made.TokenID}); err != nil {
		t.Fatal(err)
	}
	admits(a, false)
	admits(later, false)
}

// TestAddressOfTheMachine: a node that listens on all addresses and advertises none is reached by
// the name of its machine, and knows itself by it.
func TestAddressOfTheMachine(t *testing.T) {
	name, err := os.Hostname()
	if err == nil {
		_, err = net.DefaultResolver.LookupHost(t.Context(), name)
	}
	if err != nil {
		t.Skipf("skipped: this machine's name leads nowhere: %v", err)
	}
	f := newFleet(t, "1h", slow).quick()
	a := f.node(f.dir(), "--listen", "0.0.0.0:0", "--insecure")
	b := f.node(f.dir(), "--listen", "0.0.0.0:0", "--insecure")
	for _, p := range []*process{a, b} {
		at, err := url.Parse(p.url)
		if err != nil {
			t.Fatal(err)
		}
		p.url = "http://127.0.0.1:" + at.Port()
	}
	r := a.submit("hello")
	a.completed(r)
	var second command.SubmitTurnResult
	if err := b.client().Do(t.Context(), &command.SubmitTurn{SessionID: r.SessionID, Input: event.Raw(`"again"`)}, &second); err != nil {
		t.Fatalf("through the other node: %v", err)
	}
	b.completed(&second)
}

// TestFrozenOwner: a command for a session whose node is frozen fails when that node's lease
// ends, and not when the client loses patience; tried again it is carried out here.
func TestFrozenOwner(t *testing.T) {
	f := newFleet(t, "1h", slow).quick()
	a, b := f.node(f.dir()), f.node(f.dir())
	r := a.submit("hello")
	a.completed(r)
	a.signal(syscall.SIGSTOP)
	defer a.signal(syscall.SIGCONT)
	f.leaseEnds(a, time.Second)
	var next command.SubmitTurnResult
	params := &command.SubmitTurn{SessionID: r.SessionID, TurnID: "turn_again", Input: event.Raw(`"again"`)}
	for {
		err := b.client().Do(t.Context(), params, &next)
		if err == nil {
			break
		}
		if fault.KindOf(err) != fault.Unavailable {
			t.Fatal(err)
		}
	}
	b.completed(&next)
}

// TestCommandBringsWork: a command that needs a session is quicker than the takeover of what
// its dead node was doing. The node that carries it out goes on with the work.
func TestCommandBringsWork(t *testing.T) {
	f := newFleet(t, "1h", slow)
	a := f.node(f.dir())
	b := f.quick().node(f.dir())
	r := a.submit("hello")
	a.until(r.SessionID, "model.requested", 1)
	f.kill(a)
	c, title := b.client(), "a new title"
	for {
		var res command.UpdateSessionResult
		err := c.Do(t.Context(), &command.UpdateSession{SessionID: r.SessionID, Title: &title}, &res)
		if err == nil {
			break
		}
		if fault.KindOf(err) != fault.Unavailable {
			t.Fatal(err)
		}
	}
	b.completed(r)
}
