package evidence_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/model"
	"agentd/model/provider/script"
)

// told is an answer to whoever was told something.
func told(contains string, a script.Answer) script.Answer {
	a.When = &script.When{Contains: contains}
	return a
}

// TestReplayRunsSubagents: the work of children is done again by the same scheduler,
// whether their parents wait for it or not, and a child has children.
func TestReplayRunsSubagents(t *testing.T) {
	spawn := func(role, input string, wait bool) script.Answer {
		return wants("spawn_agent", map[string]any{"role": role, "input": input, "wait": wait})
	}
	k := newKit(t, nil,
		told("the parent", script.Answer{Tools: []script.Tool{
			{Name: "spawn_agent", Arguments: map[string]any{"role": "one", "input": "child the first", "wait": false}},
			{Name: "spawn_agent", Arguments: map[string]any{"role": "two", "input": "child the second"}},
		}}),
		told("the parent", script.Answer{Text: "all done"}),
		told("child the first", wants("write_file", map[string]any{"path": "first.txt", "content": "x"})),
		told("child the first", script.Answer{Text: "first done"}),
		told("child the second", spawn("three", "grandchild", true)),
		told("child the second", script.Answer{Text: "second done"}),
		told("grandchild", script.Answer{Text: "third done"}))
	k.turn("sess_agents", "the parent", nil)
	ended := 0
	k.until("sess_agents", func(e *event.Event) bool {
		if e.Type == event.TypeSubagentCompleted {
			ended++
		}
		return ended == 3
	})
	c := caseOf(k, command.ExportScope{SessionID: "sess_agents"})
	if len(c.Parties.Agents) != 3 || len(c.Turns) != 1 || len(c.Answers) != 7 {
		t.Errorf("%d turns, %d answers, %+v", len(c.Turns), len(c.Answers), c.Parties)
	}
	answer := func(c *evidence.Case, text string) *evidence.CaseAnswer {
		for i := range c.Answers {
			if c.Answers[i].Message.Text == text {
				return &c.Answers[i]
			}
		}
		t.Fatalf("nobody said %q", text)
		return nil
	}
	finds(k, "sess_agents", map[string]mutant{
		"a child says something else":      {func(c *evidence.Case) { answer(c, "first done").Message.Text = "other" }, `turn 1, call 1, agent, turn 1: model.completed: text was "first done" and is "other"`},
		"a grandchild says something else": {func(c *evidence.Case) { answer(c, "third done").Message.Text = "other" }, `turn 1, call 2, agent, turn 1, call 1, agent, turn 1: model.completed: text was`},
		"a child fails": {func(c *evidence.Case) {
			a := answer(c, "second done")
			a.Message, a.ErrorCategory, a.ErrorMessage = nil, "auth", "no"
		}, "turn 1, call 2"},
		"a rule denies": {func(c *evidence.Case) {
			c.Environment.Rules = append(c.Environment.Rules, event.PolicyRule{RuleID: "r1", Decision: "deny", Tool: "write_file", Source: "host"})
		}, `turn 1, call 1, agent, turn 1, call 1: permission.evaluated: decision was "allow" and is "deny"`},
	})
	// One that was started from outside is started again.
	sub := do[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: "sess_outside", Create: true, Input: event.Raw(`"a plain turn"`)})
	k.until("sess_outside", func(e *event.Event) bool { return e.Type == event.TypeTurnCompleted })
	spawned := do[command.SpawnSubagentResult](k, &command.SpawnSubagent{SessionID: "sess_outside", ThreadID: sub.ThreadID, Role: "four", Input: event.Raw(`"a plain child"`)})
	do[command.WaitSubagentsResult](k, &command.WaitSubagents{SubagentIDs: []string{spawned.SubagentID}})
	finds(k, "sess_outside", map[string]mutant{
		"it says something else": {func(c *evidence.Case) { c.Answers[len(c.Answers)-1].Message.Text = "other" }, "agent 1, turn 1: model.completed: text was"},
		"nobody starts it":       {func(c *evidence.Case) { c.Parties.Agents = nil }, "agent 1, turn 1: the recording has turn.started"},
	})
	// What a child did is not in the case of its parent's turn alone.
	one := caseOf(k, command.ExportScope{SessionID: "sess_agents", TurnID: c.Turns[0].TurnID})
	if one.Determinism != "approximate" || len(one.Limits) == 0 {
		t.Errorf("%s: %v", one.Determinism, one.Limits)
	}
}

// catalog gives a runtime two models with prices and one without a key.
func catalog(scripts ...*script.Script) func(*agentd.Options) {
	return func(o *agentd.Options) {
		tools := []string{model.CapTools, model.CapStreaming}
		o.Loop.Models = []model.Info{
			{Provider: "locked", Model: "m", NeedsCredential: true, Capabilities: tools},
			{Provider: "one", Model: "m", HasCredential: true, Capabilities: tools, Price: &model.Price{InputPerMTok: 1, OutputPerMTok: 1}},
			{Provider: "two", Model: "m", HasCredential: true, Capabilities: tools, Price: &model.Price{InputPerMTok: 1, OutputPerMTok: 1}},
		}
		o.Provider, o.Model = nil, ""
		o.Loop.Providers = []model.Provider{script.New("locked", &script.Script{}), script.New("one", scripts[0]), script.New("two", scripts[1])}
		o.Loop.DefaultModel, o.Loop.Fallback = "locked/m", []string{"one/m", "two/m"}
		o.Loop.Budget = model.Budget{SessionCostUSD: 1}
		o.Loop.Backoff = model.Backoff{Base: time.Millisecond, Max: time.Millisecond}
	}
}

// priced gives the kit's model a price, and the session a budget.
func priced(o *agentd.Options) {
	o.Loop.Models = []model.Info{{
		Provider: "script", Model: "test", HasCredential: true, Capabilities: []string{model.CapTools, model.CapStreaming},
		Price: &model.Price{InputPerMTok: 1, OutputPerMTok: 1},
	}}
	o.Loop.Providers, o.Loop.DefaultModel, o.Loop.Budget = []model.Provider{o.Provider}, "script/test", model.Budget{SessionCostUSD: 1}
	o.Provider, o.Model = nil, ""
}

// TestReplayPlaysModelsAndMoney: which models could be asked, in which order, and what
// they cost are those of the recording.
func TestReplayPlaysModelsAndMoney(t *testing.T) {
	dear := &script.Usage{InputTokens: 600_000}
	down := &script.Script{Repeat: true, Answers: []script.Answer{{Error: &script.Error{Category: "overloaded", Message: "busy", Retryable: true}}}}
	k := newKit(t, catalog(down, &script.Script{Repeat: true, Answers: []script.Answer{{Text: "here", Usage: dear}}}))
	k.turn("sess_money", "one", nil)
	k.turn("sess_money", "two", &event.TurnOptions{Model: "two/m"})
	k.turn("sess_money", "three", &event.TurnOptions{Model: "two/m"})
	c := caseOf(k, command.ExportScope{SessionID: "sess_money"})
	if last := c.Expected[len(c.Expected)-1]; last.Says["category"] != "quota_blocked" {
		t.Fatalf("the last turn came to %+v", last)
	}
	finds(k, "sess_money", map[string]mutant{
		"a key is there": {func(c *evidence.Case) { c.Environment.Catalog.Models[0].HasCredential = true }, "selected was"},
		"a model is cheaper": {func(c *evidence.Case) {
			c.Environment.Catalog.Models[2].Price = event.Raw(`{"InputPerMTok":0.1}`)
		}, "turn 3"},
		"a model is dearer": {func(c *evidence.Case) {
			c.Environment.Catalog.Models[2].Price = event.Raw(`{"InputPerMTok":10}`)
		}, "turn 2"},
		"there is no budget":   {func(c *evidence.Case) { c.Environment.Catalog.BudgetUSD = 0 }, "turn 3"},
		"nobody is asked next": {func(c *evidence.Case) { c.Environment.Catalog.Fallback = nil }, "turn 1"},
	})
	last := c.Turns[len(c.Turns)-1].TurnID
	if one := caseOf(k, command.ExportScope{SessionID: "sess_money", TurnID: last}); one.Determinism != "approximate" {
		t.Error("the case of one turn claims to know what the others spent")
	}
}

// TestReplayOfACaseFromBefore: a case without what later ones have is run as ever.
func TestReplayOfACaseFromBefore(t *testing.T) {
	k, _ := busy(t, nil)
	c := caseOf(k, command.ExportScope{SessionID: "sess_busy"})
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var plain map[string]any
	if err := json.Unmarshal(data, &plain); err != nil {
		t.Fatal(err)
	}
	delete(plain, "parties")
	delete(plain["environment"].(map[string]any), "catalog")
	for _, list := range []string{"results", "decisions"} {
		for _, x := range plain[list].([]any) {
			delete(x.(map[string]any), "toolCallId")
		}
	}
	if data, err = json.Marshal(plain); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "hasCredential") {
		t.Fatal("the case is not like one from before")
	}
	old := &evidence.Case{}
	if err := json.Unmarshal(data, old); err != nil {
		t.Fatal(err)
	}
	if d := replayed(t, old); d != nil {
		t.Error(d.Says)
	}
}
