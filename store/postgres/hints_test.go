package postgres

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"agentd/store"
)

// TestPayloads: whatever sessions are called and however many there are, every range
// comes out of the notifications, or whoever gets them is told to look.
func TestPayloads(t *testing.T) {
	t.Parallel()
	many := map[string]hintRange{}
	for i := range 1000 {
		many[fmt.Sprintf("sess_%026d", i)] = hintRange{uint64(i + 1), 1<<63 - 1}
	}
	for name, c := range map[string]struct {
		ranges   map[string]hintRange
		overflow bool
		looks    bool
	}{
		"nothing":         {},
		"one":             {ranges: map[string]hintRange{"s": {1, 2}}},
		"many":            {ranges: many},
		"odd":             {ranges: map[string]hintRange{"a\"b\\c\n{}": {3, 3}, "ü☃\x01": {4, 9}}},
		"too long":        {ranges: map[string]hintRange{strings.Repeat("s", 9000): {1, 1}}, looks: true},
		"escapes":         {ranges: map[string]hintRange{strings.Repeat("\x01", 3000): {1, 1}}, looks: true},
		"overflow":        {ranges: map[string]hintRange{"s": {1, 2}}, overflow: true, looks: true},
		"overflow, empty": {overflow: true, looks: true},
	} {
		got := map[string]hintRange{}
		looks := false
		for _, text := range payloads("node", c.ranges, c.overflow) {
			if len(text) >= 8000 {
				t.Errorf("%s: a notification of %d bytes", name, len(text))
			}
			p, hints, ranged := parsePayload(text)
			if p.Node != "node" {
				t.Errorf("%s: from %q", name, p.Node)
			}
			looks = looks || !ranged
			for _, h := range hints {
				got[h.SessionID] = hintRange{h.First, h.Sequence}
			}
		}
		if looks != c.looks {
			t.Errorf("%s: looks %v, want %v", name, looks, c.looks)
		}
		if !looks && !maps.Equal(got, c.ranges) && len(c.ranges) > 0 {
			t.Errorf("%s: %d ranges, want %d", name, len(got), len(c.ranges))
		}
	}
}

// TestStrangePayloads: what no node of this version sends makes a follower look.
func TestStrangePayloads(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "node_1", "{", "{}x", `{"node":"n","s":["a"],"f":[],"l":[1]}`, `{"node":1}`, "[]"} {
		if p, hints, ranged := parsePayload(text); ranged || len(hints) > 0 || p.Node != text {
			t.Errorf("%q: %+v %v %v", text, p, hints, ranged)
		}
	}
}

// TestHintQueue: ranges of a session are joined, what was not sent is kept, and what is
// too much becomes a request to look.
func TestHintQueue(t *testing.T) {
	t.Parallel()
	var q hintQueue
	unitOf := func(session string, before int64, head uint64) *unit {
		return &unit{session: session, expected: before, head: head}
	}
	if q.noteAppended([]*unit{unitOf("s", 0, 3)}, 0) {
		t.Error("there is something to tell without another node")
	}
	if q.noteAppended([]*unit{unitOf("s", anyHead, 0)}, 1) {
		t.Error("there is something to tell without records")
	}
	q.noteAppended([]*unit{unitOf("s", 3, 5), unitOf("t", 0, 1)}, 2)
	ranges, _ := q.takeRanges()
	q.noteAppended([]*unit{unitOf("s", 5, 9)}, 2)
	q.giveBack(ranges, false)
	ranges, overflow := q.takeRanges()
	if want := map[string]hintRange{"s": {4, 9}, "t": {1, 1}}; !maps.Equal(ranges, want) || overflow {
		t.Errorf("%v, %v, want %v", ranges, overflow, want)
	}
	for i := range maxHinted + 1 {
		q.noteAppended([]*unit{unitOf(fmt.Sprint(i), 0, 1)}, 2)
	}
	if ranges, overflow = q.takeRanges(); len(ranges) != maxHinted || !overflow {
		t.Errorf("%d ranges, overflow %v", len(ranges), overflow)
	}
}

// TestTold: only what was passed on as a whole is left out.
func TestTold(t *testing.T) {
	t.Parallel()
	passed := told{}
	for _, h := range []store.Appended{{SessionID: "s", First: 2, Sequence: 3}, {SessionID: "s", First: 4, Sequence: 4}, {SessionID: "gap", First: 1, Sequence: 1}, {SessionID: "gap", First: 5, Sequence: 6}} {
		passed.add(h)
	}
	for h, want := range map[store.Appended]bool{
		{SessionID: "s", First: 2, Sequence: 4}: true, {SessionID: "s", First: 3, Sequence: 3}: true,
		{SessionID: "s", First: 1, Sequence: 4}: false, {SessionID: "s", First: 2, Sequence: 5}: false, {SessionID: "s", Sequence: 4}: false,
		{SessionID: "gap", First: 1, Sequence: 6}: false, {SessionID: "gap", First: 5, Sequence: 6}: true, {SessionID: "other", First: 1, Sequence: 1}: false,
	} {
		if got := passed.covers(h); got != want {
			t.Errorf("covers(%+v) = %v", h, got)
		}
	}
}
