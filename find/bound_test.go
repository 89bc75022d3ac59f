package find_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/find"
	"agentd/store/pebble"
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
