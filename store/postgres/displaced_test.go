package postgres_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"agentd/internal/pgtest"
	"agentd/store"
	"agentd/store/postgres"
	"agentd/takeover"
)

// TestNodesShareWhatIsDisplaced: of the sessions that a dead node left in a folder that three
// nodes may reach, each node tries its own part first. They look in lockstep here, each before
// any of them takes anything, which is when they would be in each other's way most.
func TestNodesShareWhatIsDisplaced(t *testing.T) {
	t.Parallel()
	const sessions = 400
	for name, working := range map[string]int{"all work": 3, "one is stuck": 2, "one works": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.Quick(t).Database(t)
			var nodes []*postgres.Store
			for _, id := range []string{"a", "b", "c"} {
				s := node(t, url, id, time.Hour)
				t.Cleanup(func() { shut(t, s) })
				nodes = append(nodes, s)
			}
			conn := connect(t, url)
			execute(t, conn, fmt.Sprintf(`
				INSERT INTO agentd.sessions (session_id, epoch, owner) SELECT 's' || i, 1, 'dead' FROM generate_series(1, %[1]d) i;
				INSERT INTO agentd.index_entries SELECT 'open', convert_to('s' || i, 'UTF8'), '' FROM generate_series(1, %[1]d) i;
				INSERT INTO agentd.index_entries SELECT 'place', convert_to('s' || i, 'UTF8'), convert_to(E'node:dead\n\n{}', 'UTF8') FROM generate_series(1, %[1]d) i`, sessions))
			// One that is drained takes nothing, and nothing is left for it.
			execute(t, conn, `INSERT INTO agentd.nodes VALUES ('aa', 'x', '', clock_timestamp() + interval '1 hour', now(), '{"state": "drained"}')`)
			taken, lost, now := make([]int, working), 0, time.Now()
			looks := make([]takeover.Displacements, working)
			which := &store.Adoption{Kind: "open", Places: "place", Reach: []string{"node:here"}}
			for left := sessions; left > 0; now = now.Add(500 * time.Millisecond) {
				tries := make([][]takeover.Try, working)
				for n := range tries {
					found, err := nodes[n].Displaced(t.Context(), which, 64)
					if err != nil {
						t.Fatal(err)
					}
					tries[n] = looks[n].Due(found, now)
				}
				for n := range tries {
					for _, try := range tries[n] {
						var owned *store.OwnedError
						switch _, err := nodes[n].Claim(t.Context(), try.SessionID); {
						case err == nil:
							taken[n]++
							left--
						case errors.As(err, &owned):
							lost++
						default:
							t.Fatal(err)
						}
					}
				}
			}
			t.Logf("taken %v, lost %d", taken, lost)
			if lost > sessions/20 {
				t.Errorf("%d tries found that another node was quicker, of %d", lost, sessions+lost)
			}
			for n := range taken {
				if taken[n] < sessions/5 {
					t.Errorf("of %d sessions the nodes take %v", sessions, taken)
				}
			}
		})
	}
}
