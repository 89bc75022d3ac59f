package main

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/client"
	"agentd/command"
	"agentd/internal/s3test"
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

// awaitFigures has a server do something until its figures are as they should be, and returns them.
func (p *process) awaitFigures(do func(), grown ...string) *figures {
	p.t.Helper()
	for s := (&storm{t: p.t, p: p}); ; {
		f := s.figures()
		if !slices.ContainsFunc(grown, func(name string) bool { return f.by[name] == 0 }) {
			return f
		}
		if do(); p.t.Failed() {
			p.t.FailNow()
		}
	}
}

// has checks figures of a server.
func (f *figures) has(t *testing.T, figures map[string]float64) {
	t.Helper()
	for name, want := range figures {
		if got, ok := f.by[name]; !ok || got != want {
			t.Errorf("%s is %v, %v; want %v", name, got, ok, want)
		}
	}
}

// unused are families that a server over PostgreSQL doesn't tell, or not before a tool was used
// and a bound was met.
var unused = []string{"agentd_store_", "agentd_usage_tool_", "agentd_usage_approval", "agentd_bounds_"}

// TestMetricsOverPostgreSQL: a server over a database with a replica tells how it stands with
// both, and the operators' page names all that.
func TestMetricsOverPostgreSQL(t *testing.T) {
	p, _ := startWithReplica(t)
	p.completed(p.submit("hello"))
	most := p.figureOf("agentd_database_connections_max")
	f := p.awaitFigures(func() {
		var asking sync.WaitGroup
		for range 16 * int(most) { // more than the pool has connections for
			asking.Go(func() {
				if _, err := client.Call[command.GetQuotasResult](t.Context(), p.client(), &command.GetQuotas{}); err != nil {
					t.Error(err)
				}
			})
		}
		asking.Wait()
		ask[command.ListTurnsResult](p, &command.ListTurns{})
	}, "agentd_database_connections_opened_total", "agentd_database_acquires_total", "agentd_database_acquires_waited_total",
		"agentd_database_wait_seconds_total", "agentd_replica_reads_total", `agentd_usage_turns_total{model="play/m"}`)
	f.has(t, map[string]float64{"agentd_store_ready": 1, "agentd_database_month_table": 1, "agentd_replica_up": 1})
	used, usedThere := f.by[`agentd_database_connections{state="used"}`]
	idle, idleThere := f.by[`agentd_database_connections{state="idle"}`]
	if !usedThere || !idleThere || used+idle == 0 || used+idle > most {
		t.Errorf("%v connections are used and %v idle of %v", used, idle, most)
	}
	if waited, all := f.by["agentd_database_acquires_waited_total"], f.by["agentd_database_acquires_total"]; waited > all {
		t.Errorf("%v of %v waited", waited, all)
	}
	documented(t, f, append(unused, "agentd_blob_")...)
}

// TestMetricsOfABucket: a server tells what it moved to its object storage.
func TestMetricsOfABucket(t *testing.T) {
	storage := s3test.Shared(t)
	f := newFleet(t, "1h", "answers: [{text: done}]\n", bucketSettings(t, storage.URL, storage.Bucket(t), s3test.SecretKey))
	p := f.node(f.dir())
	p.completed(p.submit(strings.Repeat("a long question ", 1000)))
	got := p.awaitFigures(func() { time.Sleep(10 * time.Millisecond) }, "agentd_blob_objects_moved_total", `agentd_usage_turns_total{model="play/m"}`) // nothing tells when it is moved
	got.has(t, map[string]float64{"agentd_blob_storage_up": 1, "agentd_blob_objects_deleted_total": 0, "agentd_blob_storage_failures_total": 0})
	documented(t, got, append(unused, "agentd_replica_")...)
}
