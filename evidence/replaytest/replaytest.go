// Package replaytest runs the sessions that tests recorded again on their
// recordings: what came out then must come out now.
//
// # Contract
//
// [Tally.Sessions] exports each session of a runtime as a replay case, as whole and
// turn by turn, and runs it through [agentd.Replay]. A difference fails the test. A
// session for which that can't be claimed is counted with its reason and never
// passed over in silence: the case itself says what its recordings can't bring
// back, and a test may name a reason of its own.
//
// # Concurrency
//
// A [Tally] may be used by many tests at once.
package replaytest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/evidence"
	"agentd/fault"
	"agentd/store/storetest"
)

// Tally counts what was run again, and what was not and why.
type Tally struct {
	mu sync.Mutex
	// cases and facts were run again and are the same.
	cases, facts int
	sessions     int
	exempt       map[string]int
}

// Exempt counts sessions for which nothing is claimed.
func (t *Tally) Exempt(why string, sessions int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.exempt == nil {
		t.exempt = map[string]int{}
	}
	t.exempt[why] += sessions
}

func (t *Tally) same(cases, facts int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sessions++
	t.cases += cases
	t.facts += facts
}

// Replayed returns how many sessions were run again, as how many cases.
func (t *Tally) Replayed() (sessions, cases int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sessions, t.cases
}

// Report writes what was run again, and what was not and why.
func (t *Tally) Report(w io.Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := 0
	for _, n := range t.exempt {
		all += n
	}
	_, _ = fmt.Fprintf(w, "replay: %d sessions (%d cases, %d facts) gave the same facts again; %d are exempt\n", t.sessions, t.cases, t.facts, all) // a report that nobody reads is no failure
	for _, why := range slices.Sorted(maps.Keys(t.exempt)) {
		_, _ = fmt.Fprintf(w, "replay: %5d exempt: %s\n", t.exempt[why], why)
	}
}

// Recorded runs every session again that a runtime with these options recorded, in
// one that takes nothing up, and logs the tally. The runtime must be closed, its
// store not.
func Recorded(tb testing.TB, opt agentd.Options) {
	tb.Helper()
	if tb.Failed() || tb.Skipped() {
		return // what a broken test left says nothing
	}
	var t Tally
	t.Reopened(tb, opt)
	var b strings.Builder
	t.Report(&b)
	tb.Log(strings.TrimSpace(b.String()))
}

// Reopened does what [Recorded] does and counts it here.
func (t *Tally) Reopened(tb testing.TB, opt agentd.Options) {
	tb.Helper()
	opt.Recovery, opt.Observer = "none", nil
	r, err := agentd.Open(context.Background(), opt)
	if err != nil {
		tb.Errorf("the runtime whose sessions are run again: %v", err)
		return
	}
	t.Sessions(tb, r)
	if err := r.Close(context.Background()); err != nil {
		tb.Error(err)
	}
}

// Sessions runs every session of a runtime again that had turns.
func (t *Tally) Sessions(tb testing.TB, r *agentd.Runtime) {
	tb.Helper()
	for _, id := range list(tb, r) {
		t.Session(tb, r, id)
	}
}

// list returns the sessions of a runtime.
func list(tb testing.TB, r *agentd.Runtime) []string {
	tb.Helper()
	var ids []string
	for p := (&command.ListSessions{}); ; {
		res, err := r.Do(context.Background(), command.Local(), p)
		if err != nil {
			tb.Errorf("the sessions to run again: %v", err)
			return nil
		}
		page := res.(*command.ListSessionsResult)
		for i := range page.Sessions {
			ids = append(ids, page.Sessions[i].SessionID)
		}
		if page.NextCursor == "" {
			return ids
		}
		p.Cursor = page.NextCursor
	}
}

// Session runs one session again, as a whole and each of its turns alone.
func (t *Tally) Session(tb testing.TB, r *agentd.Runtime, sessionID string) {
	tb.Helper()
	whole, err := export(r, command.ExportScope{SessionID: sessionID})
	if err != nil {
		tb.Errorf("the case of %s: %v", sessionID, err)
		return
	}
	if whole == nil {
		return // it had no turns
	}
	if len(whole.Limits) > 0 {
		tb.Logf("%s is not run again: %s", sessionID, strings.Join(whole.Limits, "; "))
		t.Exempt(whole.Limits[0], 1)
		return
	}
	cases := []*evidence.Case{whole}
	for _, turn := range whole.Turns {
		c, err := export(r, command.ExportScope{SessionID: sessionID, TurnID: turn.TurnID})
		if err != nil {
			tb.Errorf("the case of %s, %s: %v", sessionID, turn.TurnID, err)
			return
		}
		if len(c.Limits) == 0 && len(whole.Turns) > 1 {
			cases = append(cases, c)
		}
	}
	facts := 0
	for _, c := range cases {
		if d := again(tb, c); d != nil {
			tb.Errorf("the replay of %+v: %s", c.Scope, d.Says)
			return
		}
		facts += len(c.Expected)
	}
	t.same(len(cases), facts)
}

// again runs a case and returns the first difference.
func again(tb testing.TB, c *evidence.Case) *evidence.Difference {
	tb.Helper()
	s := storetest.NewMem()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // so that a replay which hangs is named
	defer cancel()
	d, err := agentd.Replay(ctx, s, c)
	if err != nil {
		tb.Errorf("the replay of %+v: %v", c.Scope, err)
	}
	if err := s.Close(); err != nil {
		tb.Error(err)
	}
	return d
}

// export returns the case of a scope; nil if it has no turns.
func export(r *agentd.Runtime, scope command.ExportScope) (*evidence.Case, error) {
	res, err := r.Do(context.Background(), command.Local(), &command.ExportReplay{ExportScope: scope})
	switch {
	case fault.KindOf(err) == fault.NotFound:
		return nil, nil //nolint:nilnil // nothing to run is no error
	case err != nil:
		return nil, err
	}
	b, _, err := r.Output(context.Background(), command.Local(), res.(*command.ExportResult).Ref)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	c := &evidence.Case{}
	return c, json.NewDecoder(b).Decode(c)
}
