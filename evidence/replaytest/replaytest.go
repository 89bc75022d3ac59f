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
	"errors"
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
	"agentd/store"
	"agentd/store/storetest"
)

// Tally counts what was run again, and what was not and why.
type Tally struct {
	mu sync.Mutex
	// cases and facts were run again and are the same.
	cases, facts int
	sessions     int
	exempt       map[string]int
	// idle are the sessions that had no turns: there is nothing to run.
	idle int
	// known are the last facts of sessions that were run again, or are exempt.
	known map[string]bool
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
	_, _ = fmt.Fprintf(w, "replay: %d sessions (%d cases, %d facts) gave the same facts again; %d are exempt, %d had no turns\n", t.sessions, t.cases, t.facts, all, t.idle) // a report that nobody reads is no failure
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

// Reopened does what [Recorded] does and counts it here. Where runtimes with several
// options recorded in one store, a session has to give the same facts again with the
// options of one of them: a case is made with what holds when it is made.
func (t *Tally) Reopened(tb testing.TB, opts ...agentd.Options) {
	tb.Helper()
	found, copies := map[string]*verdict{}, map[string]string{}
	var order []string
	for _, opt := range opts {
		opt.Recovery, opt.Observer = "none", nil
		r, err := agentd.Open(context.Background(), opt)
		if err != nil {
			tb.Errorf("the runtime whose sessions are run again: %v", err)
			return
		}
		for _, id := range list(tb, r) {
			v := found[id]
			if v == nil { // an export adds to what the session is now
				order, copies[id] = append(order, id), lastFact(r, id)
			}
			if v != nil && v.same() || t.knows(copies[id]) {
				continue
			}
			if now := runAgain(r, id); v == nil || now.same() {
				found[id] = now
			}
		}
		if err := r.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	}
	for _, id := range order {
		if v := found[id]; v != nil {
			t.take(tb, id, v)
			t.remember(copies[id], v)
		}
	}
}

// lastFact tells a session from all that are no copies of it.
func lastFact(r *agentd.Runtime, sessionID string) string {
	ctx, caller := context.Background(), command.Local()
	_, last, err := r.Events(ctx, caller, sessionID, 0, 1)
	if removed, ok := errors.AsType[*store.TrimmedError](err); ok {
		_, last, err = r.Events(ctx, caller, sessionID, removed.Through, 1)
	}
	if err != nil || last == 0 {
		return ""
	}
	records, _, err := r.Events(ctx, caller, sessionID, last-1, 1)
	if err != nil || len(records) != 1 {
		return ""
	}
	return string(records[0].Data)
}

// knows reports whether a session was run again already, in another store that holds a
// copy of it.
func (t *Tally) knows(lastFact string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return lastFact != "" && t.known[lastFact]
}

func (t *Tally) remember(lastFact string, v *verdict) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil {
		t.known = map[string]bool{}
	}
	if v.problem == "" && lastFact != "" {
		t.known[lastFact] = true
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

// Session runs one session again, as a whole and, unless they are many, each of its turns
// alone.
func (t *Tally) Session(tb testing.TB, r *agentd.Runtime, sessionID string) {
	tb.Helper()
	t.take(tb, sessionID, runAgain(r, sessionID))
}

// verdict is what came of a session that was run again.
type verdict struct {
	// cases and facts are how much was run; none if there was nothing to run.
	cases, facts int
	// limits say why it is not run, problem why it is not the same.
	limits  []string
	problem string
}

func (v *verdict) same() bool { return v.problem == "" && len(v.limits) == 0 }

func differs(format string, args ...any) *verdict {
	return &verdict{problem: fmt.Sprintf(format, args...)}
}

// take counts what came of a session, or fails the test.
func (t *Tally) take(tb testing.TB, sessionID string, v *verdict) {
	tb.Helper()
	switch {
	case v.problem != "":
		tb.Error(v.problem)
	case len(v.limits) > 0:
		tb.Logf("%s is not run again: %s", sessionID, strings.Join(v.limits, "; "))
		t.Exempt(v.limits[0], 1)
	case v.cases > 0:
		t.same(v.cases, v.facts)
	default:
		t.mu.Lock()
		t.idle++
		t.mu.Unlock()
	}
}

// maxAlone is how many turns a session may have that are also run again one by one: to
// find each of them takes as long as the session is.
const maxAlone = 200

// runAgain runs a session again, as a whole and each of its turns alone.
func runAgain(r *agentd.Runtime, sessionID string) *verdict {
	whole, err := export(r, command.ExportScope{SessionID: sessionID})
	switch {
	case err != nil:
		return differs("the case of %s: %v", sessionID, err)
	case whole == nil:
		return &verdict{} // it had no turns
	case len(whole.Limits) > 0:
		return &verdict{limits: whole.Limits}
	}
	cases, alone := []*evidence.Case{whole}, whole.Turns
	if len(alone) == 1 || len(alone) > maxAlone || raceDetector {
		alone = nil
	}
	for _, turn := range alone {
		c, err := export(r, command.ExportScope{SessionID: sessionID, TurnID: turn.TurnID})
		if err != nil {
			return differs("the case of %s, %s: %v", sessionID, turn.TurnID, err)
		}
		if len(c.Limits) == 0 {
			cases = append(cases, c)
		}
	}
	v := &verdict{cases: len(cases)}
	for _, c := range cases {
		d, err := again(c)
		if err != nil {
			return differs("the replay of %+v: %v", c.Scope, err)
		}
		if d != nil {
			return differs("the replay of %+v: %s", c.Scope, d.Says)
		}
		v.facts += len(c.Expected)
	}
	return v
}

// again runs a case and returns the first difference.
func again(c *evidence.Case) (*evidence.Difference, error) {
	s := storetest.NewMem()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // so that a replay which hangs is named
	defer cancel()
	d, err := agentd.Replay(ctx, s, c)
	return d, errors.Join(err, s.Close())
}

// free does something once the session is free: a node that was killed owns it until
// its lease is over. One that renews its lease lives, and is not waited for.
func free(do func() (any, error)) (res any, err error) {
	for until := (time.Time{}); ; {
		res, err = do()
		owned, ok := errors.AsType[*store.OwnedError](err)
		if !ok || !until.IsZero() && owned.Until.After(until) {
			return res, err
		}
		until = owned.Until
		time.Sleep(max(time.Until(until), 10*time.Millisecond))
	}
}

// export returns the case of a scope; nil if it has no turns.
func export(r *agentd.Runtime, scope command.ExportScope) (*evidence.Case, error) {
	res, err := free(func() (any, error) {
		return r.Do(context.Background(), command.Local(), &command.ExportReplay{ExportScope: scope})
	})
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
