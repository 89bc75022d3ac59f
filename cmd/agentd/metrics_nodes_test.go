package main

import (
	"strings"
	"testing"
	"time"

	"agentd/command"
)

// figureOf adds up the figures of a node whose names begin like this.
func (p *process) figureOf(name string) (sum float64) {
	p.t.Helper()
	for full, value := range (&storm{t: p.t, p: p}).figures().by {
		if strings.HasPrefix(full, name) {
			sum += value
		}
	}
	return sum
}

// shows waits until a node's figure has a value.
func (p *process) shows(name string, want float64) {
	p.t.Helper()
	for last := -1.0; p.t.Context().Err() == nil; time.Sleep(20 * time.Millisecond) {
		got := p.figureOf(name)
		if got == want {
			return
		}
		if got != last {
			p.t.Logf("%s is %v, and is to be %v", name, got, want)
			last = got
		}
	}
}

// TestMetricsOfNodes: what autoscalers and alerts go by follows what nodes do: sessions that are
// owned, turns that wait, a drain, and a node that died.
func TestMetricsOfNodes(t *testing.T) {
	f := newFleet(t, "1h", slow)
	work := t.TempDir()
	a := f.placed("node-a", work, slow, "").node(f.dir())
	b := f.placed("node-b", work, slow, "").node(f.dir())
	first := a.submit("never answered")
	a.until(first.SessionID, "model.requested", 1)
	owned := func(p *process, name string) float64 {
		for _, n := range call[command.ListNodesResult](p, &command.ListNodes{}).Nodes {
			if n.NodeID == name {
				return float64(n.Sessions)
			}
		}
		return 0
	}
	if owned(a, "node-a") < 1 {
		t.Errorf("node-a owns no session, and runs a turn of one")
	}
	a.shows("agentd_leases", owned(a, "node-a"))
	a.shows("agentd_turns_queued", 0)
	for range 2 {
		a.in(first.SessionID, "", "after that one")
	}
	a.shows("agentd_turns_queued", 2)
	b.shows(`agentd_nodes{state="alive"}`, 2)
	b.shows(`agentd_nodes{state="gone"}`, 0)
	b.shows("agentd_draining", 0)
	call[command.DrainNodeResult](a, &command.DrainNode{NodeID: "node-b"})
	b.shows("agentd_draining", 1)
	a.shows("agentd_draining", 0)
	call[command.DrainNodeResult](a, &command.DrainNode{NodeID: "node-b", End: true})
	b.shows("agentd_draining", 0)
	f.kill(a)
	b.shows(`agentd_nodes{state="alive"}`, 1)
	b.shows(`agentd_nodes{state="gone"}`, 1)
}
