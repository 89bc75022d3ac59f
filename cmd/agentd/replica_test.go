package main

import (
	"net/url"
	"strings"
	"testing"

	"agentd/command"
	"agentd/internal/pgtest"
)

// TestReadsGoToAReplica: lists, searches and figures of a node with a replica are answered
// there, have what was acknowledged, and are answered all the same when the replica is gone.
func TestReadsGoToAReplica(t *testing.T) {
	primary := pgtest.Start(t)
	standby := pgtest.Replica(t, primary)
	address := primary.Database(t)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, "1h", "answers:\n  - {text: the stork is here}\n", "replica: "+standby.URL(strings.TrimPrefix(u.Path, "/")))
	f.url = address
	p := f.node(f.dir())
	s := &storm{t: t, p: p}
	turns := int64(0)
	check := func() {
		t.Helper()
		p.completed(p.submit("hello"))
		turns++
		if r := ask[command.ListSessionsResult](p, &command.ListSessions{}); r.Total < turns {
			t.Errorf("%d of %d sessions", r.Total, turns)
		}
		if r := ask[command.ListTurnsResult](p, &command.ListTurns{}); r.Total != turns {
			t.Errorf("%d of %d turns", r.Total, turns)
		}
		if r := ask[command.SearchResult](p, &command.Search{Query: "stork", Types: []string{"model.completed"}}); int64(len(r.Hits)) != turns {
			t.Errorf("%d of %d hits", len(r.Hits), turns)
		}
		if r := ask[command.UsageResult](p, &command.Usage{}); len(r.Rows) != 1 || r.Rows[0].Turns != turns {
			t.Errorf("%d turns are %+v", turns, r.Rows)
		}
	}
	check()
	for s.figures().by["agentd_replica_reads_total"] == 0 { // it has caught up once nothing is written
		ask[command.ListTurnsResult](p, &command.ListTurns{})
	}
	check()
	standby.Promote(t) // it is a database of its own then
	check()
	if got := s.figures().by; got["agentd_replica_up"] != 0 || got["agentd_replica_failures_total"] == 0 {
		t.Errorf("a replica that is none: up %v, failures %v", got["agentd_replica_up"], got["agentd_replica_failures_total"])
	}
}
