package main

import (
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"

	"agentd/client"
	"agentd/command"
	"agentd/event"
)

// ask carries out a command on a node; it must succeed.
func ask[R any](p *process, params command.Params) *R {
	p.t.Helper()
	r, err := client.Call[R](p.t.Context(), p.client(), params)
	if err != nil {
		p.t.Errorf("%s: %v", params.Command(), err)
		return new(R)
	}
	return r
}

// walkSessions reads the list of sessions in pages of two, each page on the next node.
func walkSessions(nodes ...*process) (total int64, seen map[string]int) {
	seen = map[string]int{}
	for i, cursor := 0, ""; i == 0 || cursor != ""; i++ {
		p := ask[command.ListSessionsResult](nodes[i%len(nodes)], &command.ListSessions{Page: command.Page{Limit: 2, Cursor: cursor}, Query: "sess_walk"})
		for _, s := range p.Sessions {
			seen[s.SessionID]++
		}
		total, cursor = p.Total, p.NextCursor
	}
	return total, seen
}

// TestReadSideOverTwoNodes asks both nodes of a database the same questions, while sessions
// move from one to the other: every answer has everything that was acknowledged, pages go
// on across nodes, and what changes many sessions reaches those of both.
func TestReadSideOverTwoNodes(t *testing.T) {
	f := newFleet(t, "1h", "answers: []\n")
	home := f.dir()
	a, b := f.quick().node(home), f.quick().node(f.dir())
	const sessions = 6
	id := func(i int) string { return fmt.Sprintf("sess_walk_%d", i) }
	for i := range sessions {
		on := []*process{a, b}[i%2]
		on.completed(ask[command.SubmitTurnResult](on, &command.SubmitTurn{SessionID: id(i), Create: true, Input: event.Raw(fmt.Sprintf("%q", "find the stork "+id(i)))}))
	}
	checkAnswers := func(turns int64, nodes ...*process) {
		t.Helper()
		for _, p := range nodes {
			if r := ask[command.ListTurnsResult](p, &command.ListTurns{Status: "completed"}); r.Total != turns {
				t.Errorf("%d of %d turns", r.Total, turns)
			}
			hits := ask[command.SearchResult](p, &command.Search{Query: "stork", Types: []string{"turn.submitted"}})
			if int64(len(hits.Hits)) != turns {
				t.Errorf("%d of %d hits", len(hits.Hits), turns)
			}
			if u := ask[command.UsageResult](p, &command.Usage{}); len(u.Rows) != 1 || u.Rows[0].Turns != turns {
				t.Errorf("%d turns are %+v", turns, u.Rows)
			}
		}
		if total, seen := walkSessions(nodes...); total != sessions || len(seen) != sessions {
			t.Errorf("%d sessions, in pages %v", total, seen)
		}
	}
	checkAnswers(sessions, a, b)
	n := ask[command.ListNodesResult](b, &command.ListNodes{})
	if len(n.Nodes) != 2 || n.Total != 2 {
		t.Fatalf("nodes: %+v", n)
	}
	// The next page may come from the other node.
	first := ask[command.ListNodesResult](a, &command.ListNodes{Page: command.Page{Limit: 1}})
	last := ask[command.ListNodesResult](b, &command.ListNodes{Page: command.Page{Limit: 1, Cursor: first.NextCursor}})
	if first.Nodes[0].NodeID != n.Nodes[0].NodeID || last.Nodes[0].NodeID != n.Nodes[1].NodeID || last.NextCursor != "" {
		t.Errorf("node by node: %+v, then %+v", first, last)
	}
	page := ask[command.ListTurnsResult](a, &command.ListTurns{Page: command.Page{Limit: 2}})

	// Sessions move while they are listed: the first node stops, and the other takes over.
	var reading sync.WaitGroup
	stop := make(chan struct{})
	reading.Go(func() {
		for {
			if total, seen := walkSessions(b); total != sessions || len(seen) != sessions {
				t.Errorf("while sessions move: %d, in pages %v", total, seen)
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	if code := a.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for i := range sessions {
		ask[command.UpdateSessionResult](b, &command.UpdateSession{SessionID: id(i), Tags: []string{"moved"}})
	}
	b.completed(ask[command.SubmitTurnResult](b, &command.SubmitTurn{SessionID: id(0), Input: event.Raw(`"another stork"`)}))
	close(stop)
	reading.Wait()
	checkAnswers(sessions+1, b)
	if next := ask[command.ListTurnsResult](b, &command.ListTurns{Page: command.Page{Limit: 100, Cursor: page.NextCursor}}); len(next.Turns) != sessions-2 {
		t.Errorf("the other node's cursor goes on with %d turns", len(next.Turns))
	}

	// The first node is back. What b owns now, it reads, replays and changes.
	a = f.quick().node(home)
	checkAnswers(sessions+1, a, b)
	replayed := ask[command.ReplayRecord](a, &command.StartReplay{SessionID: id(1)})
	for replayed.Status == "running" && !t.Failed() {
		replayed = ask[command.ReplayRecord](a, &command.GetReplay{ReplayID: replayed.ReplayID})
	}
	if replayed.Same == nil || !*replayed.Same {
		t.Errorf("replayed elsewhere: %+v", replayed)
	}
	seven := int64(7)
	ask[command.GetQuotasResult](a, &command.SetQuotas{Account: "acme", Limits: &command.QuotaChange{Sessions: &seven}})
	if list := ask[command.ListAccountsResult](b, &command.ListAccounts{}); !slices.ContainsFunc(list.Accounts, func(x command.AccountRecord) bool { return x.Account == "acme" && x.OwnQuotas }) || list.Accounts[0].Sessions != sessions {
		t.Errorf("accounts: %+v", list)
	}
	done := ask[command.ArchiveSessionsResult](a, &command.ArchiveSessions{Filter: &command.SessionFilter{Tags: []string{"moved"}}})
	if done.Done != sessions || done.Failed != 0 {
		t.Errorf("archived: %+v", done)
	}
	for _, p := range []*process{a, b} {
		if list := ask[command.ListSessionsResult](p, &command.ListSessions{Archived: true, Tags: []string{"moved"}}); list.Total != sessions {
			t.Errorf("%d archived sessions", list.Total)
		}
	}
}
