package find_test

import (
	"encoding/json"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/model"
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

// TestListsKnowWhatTheyDontKnow: a cost without a price is null in lists, as in
// get_session, and what was written to a provider's cache is there.
func TestListsKnowWhatTheyDontKnow(t *testing.T) {
	usage := event.Usage{InputTokens: 12, OutputTokens: 3, CachedInputTokens: 4, CacheWriteInputTokens: 6, ReasoningTokens: 2}
	for price, want := range map[*model.Price]string{nil: "null", {}: "0", {Rates: model.Rates{InputPerMTok: 1e6, OutputPerMTok: 1e6, CachedInputPerMTok: 1e6}}: "15"} {
		k := runtimetest.NewWith(t, func(o *agentd.Options) {
			o.Loop.Models = []model.Info{{Provider: o.Provider.Name(), Model: o.Model, HasCredential: true, Capabilities: []string{model.CapStreaming}, Price: price}}
			o.Loop.Providers, o.Loop.DefaultModel = []model.Provider{o.Provider}, o.Loop.Models[0].ID()
			o.Provider, o.Model = nil, ""
		}, script.Answer{Text: "hello", Usage: &script.Usage{InputTokens: 12, OutputTokens: 3, CachedInputTokens: 4, CacheWriteInputTokens: 6, ReasoningTokens: 2}})
		r := k.Submit("", "hi")
		k.Completes(r)
		turns := runtimetest.Do[command.ListTurnsResult](k, &command.ListTurns{}).Turns
		sessions := runtimetest.Do[command.ListSessionsResult](k, &command.ListSessions{}).Sessions
		if len(turns) != 1 || len(sessions) != 1 {
			t.Fatalf("%+v, %+v", turns, sessions)
		}
		for name, got := range map[string]*float64{"list_turns": turns[0].CostUSD, "list_sessions": sessions[0].CostUSD, "get_session": k.Thread(r).Turns[0].CostState.CostUSD} {
			if text, err := json.Marshal(got); err != nil || string(text) != want {
				t.Errorf("%s: %s, want %s", name, text, want)
			}
		}
		if unpriced := int64(len(want) / 4); turns[0].Unpriced != unpriced || sessions[0].Unpriced != unpriced || turns[0].Usage != usage {
			t.Errorf("price %v: %+v, %+v", price, turns[0], sessions[0])
		}
	}
}
