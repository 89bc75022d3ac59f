package find_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/find"
	"agentd/store/pebble"
	"agentd/store/storetest"
)

// Of more facts than are ranked the newest are, whatever others have said.
func TestNewestAreRanked(t *testing.T) {
	s, err := pebble.Open(filepath.Join(t.TempDir(), "data"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	h := newHistory(t, s, 1)
	h.accounts.Store("sess_acme", "acme")
	h.accounts.Store("sess_globex", "globex")
	const said = 40
	for i := range said {
		h.append("sess_acme", false, submission(2*i, fmt.Sprint("common words, number ", i)))
		h.append("sess_globex", false, submission(2*i+1, "common words"))
		if i%7 == 0 { // so that there are several segments
			if err := h.indexer.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, query := range []string{"common", "words common", "comm*", "number common"} {
		for _, most := range []int{1, 13, said - 1, said, said + 1} {
			f := find.New(find.Options{Store: s, CatchUp: h.indexer.CatchUp, MaxRanked: most, See: func(context.Context, command.Caller, string) error { return nil }})
			h.table = command.NewTable(command.TableOptions{Repeats: noRepeats{}})
			f.Register(h.table)
			found := ask[command.SearchResult](h, acme, &command.Search{Query: query, Page: command.Page{Limit: said + 1}})
			var got []uint64
			for _, hit := range found.Hits {
				got = append(got, hit.Sequence)
			}
			slices.Sort(got)
			first := uint64(max(said-most, 0) + 1)
			if len(got) != min(most, said) || got[0] != first || got[len(got)-1] != said || found.Truncated != (most < said) {
				t.Errorf("%q with at most %d: %d facts, %d to %d, truncated %v", query, most, len(got), got[0], got[len(got)-1], found.Truncated)
			}
			turns := ask[command.ListTurnsResult](h, acme, &command.ListTurns{Query: query})
			if turns.Truncated != (most < said) {
				t.Errorf("list_turns with %q and at most %d: truncated %v", query, most, turns.Truncated)
			}
		}
	}
}

func submission(n int, text string) *event.Event {
	return &event.Event{
		Type: event.TypeTurnSubmitted, Scope: event.Scope{ThreadID: "thread_1", TurnID: fmt.Sprint("turn_", n)},
		Payload: &event.TurnSubmitted{Status: "accepted", Source: "user", Input: event.Raw(fmt.Sprintf(`[{"type":"text","text":%q}]`, text))},
	}
}

// However a search is made, a star stands for the first words of what the caller may see,
// and says whether there are more.
func TestStarsAreCutAlike(t *testing.T) {
	h := newHistory(t, storetest.NewMem(), 1)
	h.accounts.Store("sess_acme", "acme")
	h.accounts.Store("sess_globex", "globex")
	many := func(from, to int) string {
		var b strings.Builder
		for i := from; i < to; i++ {
			fmt.Fprintf(&b, "okapi%04d ", i)
		}
		return b.String()
	}
	h.append("sess_acme", false, submission(1, many(0, 400)), submission(2, many(400, 800)), submission(3, "okapizz"))
	h.append("sess_globex", false, submission(4, many(700, 1200)), submission(5, "okapizz")) // 501 words
	if err := h.indexer.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.append("sess_acme", false, submission(6, many(100, 102)))
	h.indexer.Close()
	for _, c := range []struct {
		caller    command.Caller
		query     string
		sequences []uint64
		truncated bool
	}{
		{acme, "okapi*", []uint64{1, 2, 4}, true}, // okapi0512 and what follows is too much
		{acme, "okapi05* okapi06*", []uint64{2}, false},
		{acme, "okapiz*", []uint64{3}, false},
		{globex, "okapi*", []uint64{1, 2}, false},
		{globex, "okapi00*", nil, false},
		{command.Local(), "okapi0*", []uint64{1, 2, 4}, true},
	} {
		for tuning := range find.Tunings {
			h.openIndex()
			find.Tune(h.finder, tuning)
			found := ask[command.SearchResult](h, c.caller, &command.Search{Query: c.query})
			h.indexer.Close()
			var got []uint64
			for _, hit := range found.Hits {
				got = append(got, hit.Sequence)
			}
			slices.Sort(got)
			if !slices.Equal(got, c.sequences) || found.Truncated != c.truncated {
				t.Errorf("%s for %q, %s, finds %d, truncated: %v", c.caller.Account, c.query, tuning, got, found.Truncated)
			}
		}
	}
}
