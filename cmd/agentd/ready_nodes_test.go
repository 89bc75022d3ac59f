package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/command"
)

// awaitReady waits until /readyz answers with a status.
func (p *process) awaitReady(status int) {
	p.t.Helper()
	for p.t.Context().Err() == nil {
		res := p.getWithToken("/readyz")
		if _ = res.Body.Close(); res.StatusCode == status {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// saysOfItself checks what "agentd status" says of a node, and whether its exit code calls it ready.
func (p *process) saysOfItself(ready bool, texts ...string) {
	p.t.Helper()
	out, err := p.shell("status")
	if ready != (err == nil) {
		p.t.Errorf("agentd status: %v\n%s", err, out)
	}
	for _, text := range texts {
		if !strings.Contains(out, text) {
			p.t.Errorf("agentd status doesn't say %q:\n%s", text, out)
		}
	}
}

// TestANodeCutFromItsDatabaseIsNotReady: once its lease has ended, balancers, alerts and operators are told;
// nothing is made up about the other nodes meanwhile; and all is well again with the database.
func TestANodeCutFromItsDatabaseIsNotReady(t *testing.T) {
	f := newFleet(t, "2s", slow)
	wire, through := newWire(t, f.url)
	cut := f.placed("node-a", t.TempDir(), slow, "")
	cut.url = through
	a, b := cut.node(f.dir()), f.node(f.dir())
	a.awaitReady(http.StatusOK)
	a.shows(`agentd_nodes{state="alive"}`, 2)
	a.saysOfItself(true, "node: node-a, open")
	wire.set(wireCut)
	a.awaitReady(http.StatusServiceUnavailable)
	b.awaitReady(http.StatusOK)
	got := (&storm{t: t, p: a}).figures()
	got.has(t, map[string]float64{"agentd_store_ready": 0, "agentd_lease_held": 0})
	for name := range got.by {
		if strings.HasPrefix(name, "agentd_nodes") || strings.HasPrefix(name, "agentd_leases") {
			t.Errorf("%s is told without the database", name)
		}
	}
	if status, retry, answer := a.refusal("/v1/commands/create_session", "{}"); status != http.StatusServiceUnavailable || retry == "" {
		t.Errorf("a command: %d %s, come again after %q", status, answer, retry)
	}
	a.saysOfItself(false, "not ready: the node has no lease", "node: node-a, open", "it isn't known how many actions wait")
	wire.mend()
	a.awaitReady(http.StatusOK)
	a.shows("agentd_store_ready", 1)
	a.shows(`agentd_nodes{state="alive"}`, 2)
}

// TestNoNodeIsReadyBehindHAProxy: clients are told to come again, as by a node, and are served when
// the database is back.
func TestNoNodeIsReadyBehindHAProxy(t *testing.T) {
	f := newFleet(t, "2s", slow)
	wire, through := newWire(t, f.url)
	f.url = through
	a := f.placed("node-a", t.TempDir(), slow, "}\nallowedHosts: [127.0.0.1]\nactions: {timeout: 24h").node(f.dir())
	address := strings.TrimPrefix(a.url, "http://")
	front := &process{t: t, url: startBalancer(t, []string{address, address, address}), data: a.data}
	const path = "/v1/commands/list_sessions"
	for status := 0; status != http.StatusOK; status, _, _ = front.refusal(path, "{}") {
		time.Sleep(20 * time.Millisecond)
	}
	wire.set(wireCut)
	for answer := ""; !strings.Contains(answer, "no node is ready"); {
		var status int
		var retry string
		time.Sleep(20 * time.Millisecond)
		if status, retry, answer = front.refusal(path, "{}"); status != http.StatusServiceUnavailable || retry == "" {
			t.Fatalf("without the database: %d %s, come again after %q", status, answer, retry)
		}
	}
	wire.mend()
	for status := 0; status != http.StatusOK; status, _, _ = front.refusal(path, "{}") {
		time.Sleep(20 * time.Millisecond)
	}
}

// TestAReplacedNodeIsNotReady: of two processes with one node's name the one before takes no work,
// and says so to balancers and to clients.
func TestAReplacedNodeIsNotReady(t *testing.T) {
	f := newFleet(t, "2s", slow)
	named := f.placed("node-a", t.TempDir(), slow, "")
	before := named.node(f.dir())
	before.awaitReady(http.StatusOK)
	now := named.node(f.dir())
	before.awaitReady(http.StatusServiceUnavailable)
	now.awaitReady(http.StatusOK)
	if status, retry, answer := before.refusal("/v1/commands/create_session", "{}"); status != http.StatusServiceUnavailable || retry == "" || !strings.Contains(answer, "another process runs under the name of this node") {
		t.Errorf("a command: %d %s, come again after %q", status, answer, retry)
	}
}

// TestStatusOfNodes: "agentd status" says which node answers, and that one which starts or is drained
// isn't ready.
func TestStatusOfNodes(t *testing.T) {
	f := newFleet(t, "1h", slow)
	dir := f.dir()
	named := f.placed("node-a", t.TempDir(), slow, "")
	a, b := named.node(dir), f.node(f.dir())
	b.drains("node-a", false)
	b.awaitState("node-a", "drained")
	a.saysOfItself(false, "not ready: the node is drained", "node: node-a, drained", "0 actions wait")
	b.drains("node-a", true)
	a.saysOfItself(true, "ready", "node: node-a, open")
	f.kill(a)
	held, letGo := named.held()
	defer letGo()
	var beside sync.WaitGroup
	beside.Go(func() {
		defer letGo()
		checkStarting(t, a)
		a.saysOfItself(false, "running: this node is starting")
	})
	held.node(dir, "--listen", strings.TrimPrefix(a.url, "http://"))
	beside.Wait()
}

// TestProgramsBesideNodes: a program that opened the database is none of the nodes that are counted.
// What it has can't be done elsewhere: that is said, and when to come again. A server that others
// can't reach says so when it starts.
func TestProgramsBesideNodes(t *testing.T) {
	f := newFleet(t, "1h", slow)
	a := f.quick().node(f.dir())
	program := self(t, "run", "never answered", "--data", f.url, "--state-dir", f.dir(), "--config", f.config)
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = program.Process.Kill()
		_ = program.Wait()
	})
	var sessions []command.SessionSummary
	for len(sessions) == 0 && t.Context().Err() == nil {
		time.Sleep(20 * time.Millisecond)
		sessions = ask[command.ListSessionsResult](a, &command.ListSessions{}).Sessions
	}
	if nodes := ask[command.ListNodesResult](a, &command.ListNodes{}).Nodes; len(nodes) != 2 {
		t.Errorf("the list has %+v", nodes)
	}
	a.shows(`agentd_nodes{state="alive"}`, 1)
	status, retry, answer := a.refusal("/v1/commands/submit_turn", `{"sessionId":"`+sessions[0].SessionID+`","input":"and this"}`)
	if status != http.StatusServiceUnavailable || retry == "" || !strings.Contains(answer, "which has no address") {
		t.Errorf("a command about its session: %d %s, come again after %q", status, answer, retry)
	}
	f.node(f.dir(), "--socket", filepath.Join(t.TempDir(), "s")).wait("other nodes can't reach this one")
}
