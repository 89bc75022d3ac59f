package evidence_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/loop"
	"agentd/model/provider/script"
	"agentd/work"
)

// spawn starts a subagent from outside.
func (k *kit) spawn(sessionID, threadID, input string, iso *event.Isolation) *command.SpawnSubagentResult {
	k.Helper()
	return do[command.SpawnSubagentResult](k, &command.SpawnSubagent{SessionID: sessionID, ThreadID: threadID, Input: event.Raw(`"` + input + `"`), Isolation: iso})
}

// ends waits for the end of a subagent.
func (k *kit) ends(subagentID string) {
	k.Helper()
	do[command.WaitSubagentsResult](k, &command.WaitSubagents{SubagentIDs: []string{subagentID}, TimeoutMs: 600_000})
}

// ofAgent accepts the first fact of a type that is a subagent's.
func ofAgent(subagentID string, typ event.Type) func(*event.Event) bool {
	return func(e *event.Event) bool { return e.SubagentID == subagentID && e.Type == typ }
}

// TestReplayStopsSubagentsBetweenSteps: a child that was stopped with who it works for,
// before it started or between two of its steps, ends there again.
func TestReplayStopsSubagentsBetweenSteps(t *testing.T) {
	for before, effect := range map[string]loop.Effect{
		evidence.BeforeStart: loop.StartTurn{}, evidence.BeforeCall: loop.CallModel{}, evidence.BeforeTools: loop.RunTools{},
	} {
		t.Run(before, func(t *testing.T) {
			main := ""
			g := newGate(func(threadID string, next loop.Effect) bool {
				if main == "" {
					main = threadID
				}
				return threadID != main && reflect.TypeOf(next) == reflect.TypeOf(effect)
			})
			k := newKit(t, g.options,
				told("the parent", wants("spawn_agent", map[string]any{"role": "one", "input": "the child"})),
				told("the child", wants("write_file", map[string]any{"path": "a.txt", "content": "x"})))
			r := k.submit("sess_stop", "the parent", nil)
			<-g.reached
			do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_stop", TurnID: r.TurnID, Reason: "enough"})
			k.until("sess_stop", func(e *event.Event) bool {
				return e.Type == event.TypeTurnInterruptRequested && e.ThreadID != r.ThreadID
			})
			g.interrupted()
			k.until("sess_stop", func(e *event.Event) bool { return e.Type == event.TypeTurnFailed && e.SubagentID != "" })
			k.sees(r, event.TypeTurnFailed)
			c := caseOf(k, command.ExportScope{SessionID: "sess_stop"})
			if len(c.Acts) != 1 || len(c.Parties.Held) != 1 || c.Parties.Held[0].Before != before {
				t.Fatalf("%+v, %+v", c.Acts, c.Parties)
			}
			mutants := map[string]mutant{
				"another reason":  {func(c *evidence.Case) { c.Acts[0].Reason = "other" }, "turn 1: turn.interrupt_requested: reason was"},
				"nobody stops it": {without(evidence.ActInterrupt), "turn 1"},
			}
			if before != evidence.BeforeStart {
				mutants["it never started"] = mutant{func(c *evidence.Case) { c.Parties.Held[0].Before = evidence.BeforeStart }, "turn 1, call 1: the recording has tool.failed"}
			}
			finds(k, "sess_stop", mutants)
		})
	}
}

// TestReplayOfSubagentsThatStillWork: children that had not ended when the recording did
// are run as far as they had come.
func TestReplayOfSubagentsThatStillWork(t *testing.T) {
	k := newKit(t, nil,
		told("the child", wants("write_file", map[string]any{"path": "a.txt", "content": "x"})),
		told("the child", script.Answer{Stall: time.Hour}),
		told("the other", script.Answer{Text: "the other is done"}))
	main := do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_open"}).ThreadID
	child := k.spawn("sess_open", main, "the child", nil)
	k.until("sess_open", func(e *event.Event) bool {
		p, ok := e.Payload.(*event.ModelRequested)
		return ok && p.Step == 2
	})
	other := k.spawn("sess_open", child.ThreadID, "the other", nil)
	k.ends(other.SubagentID)
	c := caseOf(k, command.ExportScope{SessionID: "sess_open"})
	if len(c.Parties.Open) != 1 || c.Parties.Open[0].Of != "agent 1, turn 1" {
		t.Errorf("open are %+v", c.Parties.Open)
	}
	finds(k, "sess_open", map[string]mutant{
		"it wants something else":   {func(c *evidence.Case) { c.Answers[0].Message.ToolCalls[0].ToolName = "read_file" }, "agent 1, turn 1: model.completed: call 1 was"},
		"another answer":            {func(c *evidence.Case) { c.Answers[1].Message.Text = "other" }, "agent 1, agent 1, turn 1: model.completed: text was"},
		"nobody knows that it is":   {func(c *evidence.Case) { c.Parties.Open = nil }, "the replay has model.failed (category invalid_request) (agent 1, turn 1)"},
		"nobody starts the other":   {func(c *evidence.Case) { c.Parties.Agents = c.Parties.Agents[:1] }, "agent 1, agent 1, turn 1: the recording has turn.started"},
		"it never asks a next time": {func(c *evidence.Case) { c.Results = nil }, "agent 1, turn 1"},
	})
}

// TestReplayClosesSubagents: children are closed one by one, or with the one that they
// work for, as they were.
func TestReplayClosesSubagents(t *testing.T) {
	k := newKit(t, nil, told("stall", script.Answer{Stall: time.Hour}))
	main := do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_close"}).ThreadID
	var ids [3]string
	for i, thread := 0, main; i < len(ids); i++ {
		res := k.spawn("sess_close", thread, "stall", nil)
		k.until("sess_close", ofAgent(res.SubagentID, event.TypeModelRequested))
		ids[i], thread = res.SubagentID, res.ThreadID
	}
	other := k.spawn("sess_close", main, "stall", nil)
	k.until("sess_close", ofAgent(other.SubagentID, event.TypeModelRequested))
	for _, id := range []string{ids[2], ids[0], other.SubagentID} {
		do[command.SubagentResult](k, &command.CloseSubagent{SubagentID: id, Reason: "enough"})
		k.until("sess_close", ofAgent(id, event.TypeTurnFailed))
	}
	k.until("sess_close", ofAgent(ids[1], event.TypeTurnFailed))
	c := caseOf(k, command.ExportScope{SessionID: "sess_close"})
	if len(c.Acts) != 3 || c.Acts[0].SubagentID != ids[2] || c.Acts[1].SubagentID != ids[0] {
		t.Errorf("the acts are %+v", c.Acts)
	}
	finds(k, "sess_close", map[string]mutant{
		"nobody closes the first": {func(c *evidence.Case) { undone(c, 1) }, "agent 1, turn 1: the recording has model.failed"},
		"nobody closes the other": {func(c *evidence.Case) { undone(c, 2) }, "agent 2, turn 1: the recording has model.failed"},
		"it ended before it did":  {func(c *evidence.Case) { c.Acts[0].After["agent 1, agent 1, agent 1, ended"] = 1 }, "the recording has model.failed"},
	})
}

// TestReplayGivesMoreToSubagents: input that wakes a child which had ended, and a
// compaction of what it said, come again when it has ended.
func TestReplayGivesMoreToSubagents(t *testing.T) {
	k := newKit(t, nil)
	main := do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_more"}).ThreadID
	a := k.spawn("sess_more", main, "first", nil)
	k.ends(a.SubagentID)
	do[command.SubagentResult](k, &command.SendSubagentInput{SubagentID: a.SubagentID, Input: event.Raw(`"second"`)})
	k.ends(a.SubagentID)
	do[command.CompactThreadResult](k, &command.CompactThread{SessionID: "sess_more", ThreadID: a.ThreadID})
	do[command.SubagentResult](k, &command.SendSubagentInput{SubagentID: a.SubagentID, Input: event.Raw(`"third"`)})
	k.ends(a.SubagentID)
	finds(k, "sess_more", map[string]mutant{
		"nobody gives it more":  {without(evidence.ActInput), "agent 1, turn 2: the recording has"},
		"nobody compacts it":    {without(evidence.ActCompact), "agent 1, turn 2: the recording has model.requested"},
		"it is something else":  {func(c *evidence.Case) { c.Answers[1].Message.Text = "other" }, "agent 1, turn 2: model.completed: text was"},
		"the summary isn't had": {func(c *evidence.Case) { c.Answers = slices.Delete(c.Answers, 2, 3) }, "agent 1, turn 2: the recording has model.completed"},
	})
}

// TestReplayStartsSubagentsAfterWhatCameBefore: a child that was started from outside when
// another had ended, and under other rules, is started then.
func TestReplayStartsSubagentsAfterWhatCameBefore(t *testing.T) {
	write := wants("write_file", map[string]any{"path": "a.txt", "content": "x"})
	k := newKit(t, nil, told("child", write), told("child", script.Answer{Text: "done"}), told("later", write), told("later", script.Answer{Text: "not done"}))
	main := do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_after"}).ThreadID
	a := k.spawn("sess_after", main, "child", nil)
	k.ends(a.SubagentID)
	do[command.PolicyResult](k, &command.SetPolicy{SessionID: "sess_after", Rules: []event.PolicyRule{{RuleID: "r1", Decision: "deny", Tool: "write_file"}}})
	b := k.spawn("sess_after", main, "later", nil)
	k.ends(b.SubagentID)
	spawn := func(c *evidence.Case, i int) *evidence.CaseSpawn { return c.Parties.Agents[i].Spawn }
	c := caseOf(k, command.ExportScope{SessionID: "sess_after"})
	if w := spawn(c, 1); w.Acts != 1 || w.After["agent 1, ended"] != 1 || len(spawn(c, 0).After) != 0 {
		t.Errorf("the second was started after %+v", w)
	}
	finds(k, "sess_after", map[string]mutant{
		"the rules are as before":      {without(evidence.ActPolicy), "session: the recording has policy.changed"},
		"the first waits for them":     {func(c *evidence.Case) { spawn(c, 0).Acts = 1 }, "session: the recording has policy.changed"},
		"they wait for the second":     {func(c *evidence.Case) { c.Acts[0].Agents["agent 2, spawned"] = 1 }, "session: the recording has policy.changed"},
		"it waits for what never ends": {func(c *evidence.Case) { spawn(c, 1).After["agent 1, ended"] = 2 }, "agent 2, turn 1: the recording has turn.started"},
	})
}

// TestReplayBoundsSubagents: a child that spent its part of the budget, and one that would
// be too deep, are refused again. That there were too many at a moment is said to be no
// fact that both runs share.
func TestReplayBoundsSubagents(t *testing.T) {
	dear := &script.Usage{InputTokens: 600_000}
	k := newKit(t, func(o *agentd.Options) { priced(o); o.Work = work.Limits{Depth: 1, Width: 2} },
		told("spend", script.Answer{Text: "spent", Usage: dear}),
		told("deep", wants("spawn_agent", map[string]any{"role": "leaf", "input": "x"})), told("deep", script.Answer{Text: "alone"}),
		told("wide", script.Answer{Tools: []script.Tool{
			{Name: "spawn_agent", Arguments: map[string]any{"role": "one", "input": "stall", "wait": false}},
			{Name: "spawn_agent", Arguments: map[string]any{"role": "two", "input": "stall", "wait": false}},
			{Name: "spawn_agent", Arguments: map[string]any{"role": "three", "input": "stall", "wait": false}},
		}}),
		told("wide", script.Answer{Text: "two are enough"}),
		told("stall", script.Answer{Stall: time.Hour}))
	main := do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_bound"}).ThreadID
	a := k.spawn("sess_bound", main, "spend", &event.Isolation{BudgetUSD: 0.5})
	k.ends(a.SubagentID)
	do[command.SubagentResult](k, &command.SendSubagentInput{SubagentID: a.SubagentID, Input: event.Raw(`"more"`)})
	k.until("sess_bound", ofAgent(a.SubagentID, event.TypeSubagentFailed))
	k.ends(k.spawn("sess_bound", main, "deep", nil).SubagentID)
	finds(k, "sess_bound", map[string]mutant{
		"its part is larger":  {func(c *evidence.Case) { c.Parties.Agents[0].Spawn.Isolation.BudgetUSD = 0.9 }, "agent 1, turn 2: the recording has turn.failed"},
		"they may be deeper":  {func(c *evidence.Case) { c.Parties.Generations = 2 }, "agent 2, turn 1, call 1"},
		"it costs less there": {func(c *evidence.Case) { c.Environment.Catalog.Models[0].Price = event.Raw(`{"InputPerMTok":0.1}`) }, "agent 1, turn 2"},
	})
	k.turn("sess_wide", "wide", nil)
	if c := caseOf(k, command.ExportScope{SessionID: "sess_wide"}); !slices.Equal(c.Limits, []string{"there were too many subagents to start another"}) {
		t.Errorf("limits: %v", c.Limits)
	}
}
