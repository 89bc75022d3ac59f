package state

import (
	"encoding/json"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"agentd/event"
	"agentd/event/eventtest"
)

// A state is a function of its facts: whether they were just decided or are read
// back makes no difference, not even when a producer was careless.
func TestReplayEqualsLive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := facts(t, rapid.IntRange(1, 120).Draw(t, "length"))
		live, replayed := New(testSession), New(testSession)
		for i, e := range list {
			a := apply(t, live, []*event.Event{loose(t, e)})
			b := apply(t, replayed, []*event.Event{decoded(t, encoded(e))})
			if x, y := fmt.Sprint(a), fmt.Sprint(b); x != y {
				t.Fatalf("fact %d (%s): what left differs:\n%s\n%s", i+1, e.Type, x, y)
			}
		}
		if a, b := stateBytes(t, live), stateBytes(t, replayed); a != b {
			t.Fatalf("the states differ at %s", difference(a, b))
		}
	})
}

// Payloads that a fold needn't see make no difference to it, and neither does reading one
// fact into the place of the one before.
func TestFoldWithoutPayloads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := facts(t, rapid.IntRange(1, 120).Draw(t, "length"))
		whole, bare := New(testSession), New(testSession)
		var e event.Event
		for _, fact := range list {
			apply(t, whole, []*event.Event{fact})
			payload, err := event.DecodeHeader(encoded(fact), &e)
			if err == nil && NeedsPayload(e.Type) {
				err = e.DecodePayload(payload)
			}
			if err != nil {
				t.Fatal(err)
			}
			apply(t, bare, []*event.Event{&e})
		}
		if a, b := stateBytes(t, whole), stateBytes(t, bare); a != b {
			t.Fatalf("the states differ at %s", difference(a, b))
		}
	})
}

// A stored state goes on exactly as the one that was stored.
func TestFoldGoesOnAfterDecode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := facts(t, rapid.IntRange(1, 120).Draw(t, "length"))
		cut := rapid.IntRange(0, len(list)).Draw(t, "cut")
		whole, before := New(testSession), New(testSession)
		apply(t, whole, list[:cut])
		apply(t, before, list[:cut])
		stored := stateBytes(t, before)
		after, err := Decode([]byte(stored))
		if err != nil {
			t.Fatal(err)
		}
		if again := stateBytes(t, after); again != stored {
			t.Fatalf("the stored state changed by decoding at %s", difference(stored, again))
		}
		a, b := apply(t, whole, list[cut:]), apply(t, after, list[cut:])
		if x, y := fmt.Sprint(a), fmt.Sprint(b); x != y {
			t.Fatalf("what left differs:\n%s\n%s", x, y)
		}
		if x, y := stateBytes(t, whole), stateBytes(t, after); x != y {
			t.Fatalf("the states differ at %s", difference(x, y))
		}
	})
}

// A fold writes only to what is its own: the facts stay as they were, and so do
// the snapshots that were taken before and what left the working set.
func TestFoldLeavesFactsAndViewsAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := facts(t, rapid.IntRange(1, 60).Draw(t, "length"))
		s := New(testSession)
		var given []shown
		for _, e := range list {
			view := shown{what: s.Snapshot(), name: "a snapshot before " + string(e.Type)}
			view.text = marshal(t, view.what)
			fact := string(encoded(e))
			evicted, err := s.Apply(e)
			if err != nil {
				t.Fatal(err)
			}
			view.check(t)
			if now := string(encoded(e)); now != fact {
				t.Fatalf("the fold changed its fact:\n%s\n%s", fact, now)
			}
			for _, x := range evicted {
				given = append(given, shown{what: x.Data, name: x.Name, text: marshal(t, x.Data)})
			}
		}
		for i := range given {
			given[i].check(t)
		}
	})
}

// shown is something that was given away and must stay as it is.
type shown struct {
	what       any
	name, text string
}

func (s *shown) check(t fataler) {
	t.Helper()
	if now := marshal(t, s.what); now != s.text {
		t.Fatalf("%s changed after it was given away, at %s", s.name, difference(s.text, now))
	}
}

// Every snapshot satisfies the standard's schemas, and taking one changes nothing.
func TestSnapshotsSatisfyTheStandard(t *testing.T) {
	schema := eventtest.StrictSnapshot(t)
	if !schema.Available() {
		t.Skip("snapshots are not held against the strict profile: ../shared/spec/schemas is absent")
	}
	rapid.Check(t, func(t *rapid.T) {
		s := New(testSession)
		apply(t, s, facts(t, rapid.IntRange(0, 80).Draw(t, "length")))
		before := stateBytes(t, s)
		snap := s.Snapshot()
		if err := schema.Validate([]byte(marshal(t, snap))); err != nil {
			t.Fatal(err)
		}
		for _, th := range s.Threads {
			alone := *snap
			alone.Threads = []*ThreadReadModel{s.ThreadRead(th.ThreadID)}
			if err := schema.Validate([]byte(marshal(t, alone))); err != nil {
				t.Fatal(err)
			}
		}
		if after := stateBytes(t, s); after != before {
			t.Fatalf("taking a snapshot changed the state at %s", difference(before, after))
		}
	})
}

func marshal(t fataler, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return string(b)
}

// difference shows where two texts part.
func difference(a, b string) string {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	from := max(0, i-80)
	return fmt.Sprintf("byte %d:\n%s\n%s", i, a[from:min(len(a), i+80)], b[from:min(len(b), i+80)])
}
