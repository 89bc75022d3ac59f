package main

import (
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"agentd/client"
	"agentd/command"
	"agentd/internal/pgtest"
	"agentd/internal/wire"
)

// TestReadsGoToAReplica: lists, searches and figures of a node with a replica are answered
// there, have what was acknowledged, and are answered all the same when the replica is gone.
func TestReadsGoToAReplica(t *testing.T) {
	p, standby := startWithReplica(t)
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

// startWithReplica starts a node whose database has a replica.
func startWithReplica(t *testing.T) (p *process, standby *pgtest.Cluster) {
	t.Helper()
	primary := pgtest.Start(t)
	standby = pgtest.Replica(t, primary)
	address := primary.Database(t)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, "1h", "answers:\n  - {text: the stork is here}\n", "replica: "+standby.URL(strings.TrimPrefix(u.Path, "/")))
	f.url = address
	return f.node(f.dir()), standby
}

// TestStreamOverAReplicaThatEnds: a stream that began with the history of the replica goes on
// with that of the database when the replica becomes a database of its own in the middle, with
// every fact once and in order.
func TestStreamOverAReplicaThatEnds(t *testing.T) {
	p, standby := startWithReplica(t)
	s := &storm{t: t, p: p}
	const id = "sess_long"
	call[command.CreateSessionResult](p, &command.CreateSession{SessionID: id})
	// More than is read at a time, and much more than is on its way to a client that waits.
	var writers sync.WaitGroup
	for w := range 8 {
		c := p.client()
		writers.Go(func() {
			for i := range 300 {
				title := fmt.Sprintf("%d of %d %s", i, w, strings.Repeat("x", 400))
				if _, err := client.Call[command.UpdateSessionResult](t.Context(), c, &command.UpdateSession{SessionID: id, Title: &title}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	page, err := p.client().Events(t.Context(), id, 0, 1)
	if err != nil || t.Failed() {
		t.Fatal(err)
	}
	for s.figures().by["agentd_replica_reads_total"] == 0 { // it has caught up once nothing is written
		ask[command.ListTurnsResult](p, &command.ListTurns{})
	}
	before := s.figures().by["agentd_replica_reads_total"]
	_, body := p.stream(t.Context(), id, "")
	r, frames := newReader("SSE"), wire.NewSSEReader(body, 0)
	for r.last() < page.LastSequence {
		frame, err := frames.Next()
		if err != nil {
			t.Fatalf("after %d of %d: %v", r.last(), page.LastSequence, err)
		}
		if !r.receiveEvent(id, frame.Data, nil) {
			t.Fatal(r.err)
		}
		if r.last() == 10 {
			if s.figures().by["agentd_replica_reads_total"] == before {
				t.Error("the stream doesn't begin with what the replica has")
			}
			standby.Promote(t)
		}
	}
	if r.first != 1 {
		t.Errorf("the stream begins with %d", r.first)
	}
	if got := s.figures().by; got["agentd_replica_up"] != 0 {
		t.Error("a replica that is none was not noticed")
	}
	r.same(t, p.logOf(id, page.LastSequence))
}
