package shortid_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"agentd/cmd/agentd/internal/shortid"
	"agentd/event"
)

func TestPlace(t *testing.T) {
	for text, want := range map[string]int{"last": 0, "last~0": 0, "last~1": 1, "last~12": 12} {
		if got, ok := shortid.Place(text); !ok || got != want {
			t.Errorf("Place(%q) = %d, %v; want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "las", "lasts", "last~", "last~-1", "last~+1", "last~x", "last~1.5", "last~99999999999", "LAST", "last ~1", "sess_last"} {
		if _, ok := shortid.Place(text); ok {
			t.Errorf("Place(%q) is ok", text)
		}
	}
}

func TestFind(t *testing.T) {
	const a, b = "sess_01m7n3ah0tea78pwv807d797t1", "sess_01m7n3bh0tea78pwv807d797t1"
	all := []string{a, b, "demo", "demo_2", "sess_1", "sess_10"}
	for text, want := range map[string][]string{
		a: {a}, "sess_01m7n3a": {a}, "01m7n3b": {b}, "sess_01m7n3": {a, b}, "sess_": {a, b, "sess_1", "sess_10"},
		"demo": {"demo"}, "dem": {"demo", "demo_2"}, "sess_1": {"sess_1"}, "10": {"sess_10"}, "nothing": nil,
	} {
		if got := shortid.Find(all, text); !slices.Equal(got, want) {
			t.Errorf("Find(%q) = %v, want %v", text, got, want)
		}
	}
}

func TestMade(t *testing.T) {
	if id := event.NewIDs(nil, nil).New(event.PrefixTurn); !shortid.Made(id) {
		t.Errorf("%s is not taken for an id that agentd makes", id)
	}
	for _, id := range []string{"", "demo", "sess_01", "sess_01m7n3ah0tea78pwv807d797t", "sess_01m7n3ah0tea78pwv807d797t1x", "sess_01m7n3ah0tea78pwv807d797tu", "_01m7n3ah0tea78pwv807d797t1"} {
		if shortid.Made(id) {
			t.Errorf("%s is taken for an id that agentd makes", id)
		}
	}
}

// TestSinceIsNeverTooLate: the time that the beginning of an id tells is not after the
// one at which the id was made, so a list from then on has it.
func TestSinceIsNeverTooLate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.UnixMilli(rapid.Int64Range(1_600_000_000_000, 3_000_000_000_000).Draw(t, "at"))
		id := event.NewIDs(func() time.Time { return at }, nil).New(event.PrefixTurn)
		begun := id[:rapid.IntRange(1, len(id)).Draw(t, "length")]
		since, ok := shortid.Since(begun)
		if ok && since.After(at) {
			t.Fatalf("%s: %s is after %s", begun, since, at)
		}
		if len(begun) >= len("turn_")+10 && (!ok || !since.Equal(at.UTC())) {
			t.Fatalf("%s: %s, want %s", begun, since, at)
		}
	})
	for _, name := range []string{"turn_01", "turn_9", "demo", "", "turn_zzzzzzzzzz"} {
		if at, ok := shortid.Since(name); ok {
			t.Errorf("%s is taken for a time: %s", name, at)
		}
	}
}

// TestShortenedIDsAreFound: what Shorten makes of an id means this id and no other.
func TestShortenedIDsAreFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.UnixMilli(1_800_000_000_000)
		made := event.NewIDs(func() time.Time { return now }, nil)
		var ids []string
		for range rapid.IntRange(1, 40).Draw(t, "ids") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "ms")) * time.Millisecond)
			ids = append(ids, made.New(event.PrefixSession))
		}
		ids = append(ids, "demo", "sess_01")
		short := shortid.Shorten(ids)
		for _, id := range ids {
			if got := shortid.Find(ids, short(id)); !slices.Equal(got, []string{id}) {
				t.Fatalf("%s is written %s, which is found as %v", id, short(id), got)
			}
		}
	})
}
