package agentd

import (
	"testing"
	"time"

	"agentd/store"
)

// TestWhichNodesAreGone: those that aren't listed at once, and those whose lease is over once
// that is so for a while.
func TestWhichNodesAreGone(t *testing.T) {
	var g goneNodes
	start := time.Now()
	nodes := []store.Node{{ID: "alive", Alive: true}, {ID: "slow"}, {ID: "dead"}}
	isGone := g.lookAtNodes(nodes, start)
	for id, want := range map[string]bool{"alive": false, "slow": false, "dead": false, "stopped": true} {
		if isGone(id) != want {
			t.Errorf("%s is gone at first: %v", id, !want)
		}
	}
	nodes[1].Alive = true
	g.lookAtNodes(nodes, start.Add(goneFor/2))
	nodes[1].Alive = false
	isGone = g.lookAtNodes(nodes, start.Add(goneFor))
	for id, want := range map[string]bool{"alive": false, "slow": false, "dead": true} {
		if isGone(id) != want {
			t.Errorf("%s is gone after a while: %v", id, !want)
		}
	}
}
