package main

import (
	"sync"
	"testing"

	"agentd/internal/pgtest"
)

// TestTurnsThroughAPooler has two nodes whose connections to the database go through
// PgBouncer in transaction mode: 40 turns of 40 end, and followers on the node that doesn't
// run them see each end.
func TestTurnsThroughAPooler(t *testing.T) {
	f := newFleet(t, "10s", "answers:\n  - {text: done}\n")
	f.url = pgtest.Shared(t).Pooled(t, f.url)
	a, b := f.node(f.dir()), f.node(f.dir())
	const sessions, turns = 8, 5
	var wg sync.WaitGroup
	for range sessions {
		wg.Go(func() {
			r := a.submit("hello")
			b.completed(r)
			for range turns - 1 {
				b.completed(a.submitTo(r.SessionID))
			}
		})
	}
	wg.Wait()
}
