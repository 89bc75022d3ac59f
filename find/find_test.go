package find_test

import (
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
)

func TestAnswersHaveWhatWasJustDone(t *testing.T) {
	k := runtimetest.New(t, script.Answer{Text: "Bears eat berries."}, script.Answer{Text: "Whales eat plankton."})
	bear := k.Submit("", "What do brown bears eat?")
	k.Completes(bear)
	whale := k.Submit(bear.SessionID, "And what do whales eat?")
	k.Completes(whale)

	list := runtimetest.Do[command.ListTurnsResult](k, &command.ListTurns{})
	if list.Total != 2 || len(list.Turns) != 2 || list.Turns[0].TurnID != whale.TurnID || list.Turns[1].TurnID != bear.TurnID {
		t.Fatalf("turns: %+v", list)
	}
	got := list.Turns[1]
	if got.SessionID != bear.SessionID || got.ThreadID != bear.ThreadID || got.Status != "completed" || got.Preview != "What do brown bears eat?" || got.FirstSequence != bear.Sequence || got.Model == "" {
		t.Errorf("turn: %+v", got)
	}
	if list = runtimetest.Do[command.ListTurnsResult](k, &command.ListTurns{Query: "brown BEAR*"}); list.Total != 1 || list.Turns[0].TurnID != bear.TurnID {
		t.Errorf("with a query: %+v", list)
	}

	found := runtimetest.Do[command.SearchResult](k, &command.Search{Query: "eat"})
	if len(found.Hits) != 4 {
		t.Fatalf("eat is in two questions and two answers, found %+v", found.Hits)
	}
	found = runtimetest.Do[command.SearchResult](k, &command.Search{Query: "Berries", Types: []string{"model.*"}})
	if len(found.Hits) != 1 || found.Hits[0].Snippet != "Bears eat **berries**." || found.Hits[0].TurnID != bear.TurnID || found.Hits[0].Type != string(event.TypeModelCompleted) {
		t.Errorf("found: %+v", found.Hits)
	}
	if found = runtimetest.Do[command.SearchResult](k, &command.Search{Query: "berries plankton"}); len(found.Hits) != 0 {
		t.Errorf("no fact has both words, found %+v", found.Hits)
	}
}

func TestQueriesAreBounded(t *testing.T) {
	k := runtimetest.New(t)
	for query, want := range map[string]string{
		"***":                               "has no word",
		"a*":                                "at least 2 letters",
		strings.Repeat("a b c d ", 9):       "",
		"a b c d e f g h i j k l m n o p q": "at most 16",
		"ab* cd*":                           "",
		"ab* ab* cd*":                       "",
		"ab* cd* ef*":                       "at most 2",
	} {
		_, err := k.Runtime.Do(t.Context(), command.Local(), &command.Search{Query: query})
		if want == "" && err != nil || want != "" && (fault.KindOf(err) != fault.InvalidParams || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", query, err, want)
		}
	}
}
