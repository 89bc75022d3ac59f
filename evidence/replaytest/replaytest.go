// Package replaytest decides again what the sessions that tests recorded say was
// decided.
//
// # Contract
//
// [Recorded] walks every session of a runtime's store with [replay.Walk]. A decision
// that is another one now fails the test. What decisions depended on and can't be read
// any more is logged.
//
// # Concurrency
//
// A [Tally] may be used by many tests at once.
package replaytest

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"agentd/replay"
	"agentd/store"
)

// Tally counts what was decided again.
type Tally struct {
	mu                         sync.Mutex
	sessions, decisions, facts int
}

// Report writes what was decided again.
func (t *Tally) Report(w io.Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = fmt.Fprintf(w, "replay: %d sessions, %d decisions of %d facts are the same\n", t.sessions, t.decisions, t.facts) // failing to report is not a failure of the test
}

// Recorded decides again in every session of a store, and logs the tally.
func Recorded(tb testing.TB, s store.Store) {
	tb.Helper()
	var t Tally
	t.Recorded(tb, s)
	var b strings.Builder
	t.Report(&b)
	tb.Log(strings.TrimSpace(b.String()))
}

// Recorded decides again in every session of a store. What a broken test left says
// nothing.
func (t *Tally) Recorded(tb testing.TB, s store.Store) {
	tb.Helper()
	if tb.Failed() || tb.Skipped() {
		return
	}
	ctx := context.Background()
	for id, err := range s.Sessions(ctx, "") {
		if err != nil {
			tb.Errorf("the sessions to decide again: %v", err)
			return
		}
		t.session(ctx, tb, s, id)
	}
}

func (t *Tally) session(ctx context.Context, tb testing.TB, s store.Store, id string) {
	tb.Helper()
	rec, err := replay.Stored(ctx, s, id)
	if err != nil {
		tb.Errorf("session %s: %v", id, err)
		return
	}
	report, err := replay.Walk(rec, replay.Options{})
	if err != nil {
		tb.Errorf("session %s: %v", id, err)
		return
	}
	for i := range report.Differences {
		tb.Errorf("session %s: %s", id, report.Differences[i].Says)
	}
	for _, m := range report.Missing {
		tb.Logf("session %s: not every decision could be made again: %s", id, m)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sessions, t.decisions, t.facts = t.sessions+1, t.decisions+report.Decisions, t.facts+report.Facts
}
