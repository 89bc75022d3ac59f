package session_test

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"

	"agentd/command"
	"agentd/fault"
	"agentd/store"
	"agentd/store/storetest"
)

// counted is a store that counts what is read of it.
type counted struct {
	store.Store
	read atomic.Int64
}

func (c *counted) Scan(ctx context.Context, s store.Scan) iter.Seq2[store.Entry, error] {
	return countReads(&c.read, c.Store.Scan(ctx, s))
}

func (c *counted) Read(ctx context.Context, id string, r store.Range) iter.Seq2[store.Record, error] {
	return countReads(&c.read, c.Store.Read(ctx, id, r))
}

func countReads[T any](n *atomic.Int64, all iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for v, err := range all {
			n.Add(1)
			if !yield(v, err) {
				return
			}
		}
	}
}

// TestWhoMayNotDeleteCostsNothing: what a stranger's delete_session reads doesn't grow with
// the store, nor does that of a session that can't be deleted yet, and it takes as much for
// a session of another account as for one that isn't there.
func TestWhoMayNotDeleteCostsNothing(t *testing.T) {
	cost := func(sessions int, caller command.Caller, id string, want fault.Kind) int64 {
		t.Helper()
		s := &counted{Store: storetest.NewMem()}
		k := newKitOn(t, s, nil)
		table := command.NewTable(command.TableOptions{Repeats: k.m})
		k.m.Register(table)
		for i := range sessions {
			if _, err := table.Do(t.Context(), callerOf("acme"), &command.CreateSession{SessionID: fmt.Sprintf("sess_%d", i)}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := table.Do(t.Context(), callerOf("acme"), &command.SubmitTurn{SessionID: "sess_1", Input: command.Text("busy")}); err != nil {
			t.Fatal(err)
		}
		s.read.Store(0)
		if _, err := table.Do(t.Context(), caller, &command.DeleteSession{SessionID: id}); fault.KindOf(err) != want {
			t.Fatalf("%v, want %s", err, want)
		}
		return s.read.Load()
	}
	for name, c := range map[string]struct {
		caller command.Caller
		id     string
		want   fault.Kind
	}{
		"another account's": {callerOf("stranger"), "sess_0", fault.NotFound},
		"an unknown one":    {callerOf("stranger"), "sess_none", fault.NotFound},
		"one that is busy":  {callerOf("acme"), "sess_1", fault.Conflict},
	} {
		few, many := cost(3, c.caller, c.id, c.want), cost(60, c.caller, c.id, c.want)
		if few != many || many > 10 {
			t.Errorf("%s: %d entries and facts are read among 3 sessions, %d among 60", name, few, many)
		}
	}
}
