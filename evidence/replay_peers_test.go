package evidence_test

import (
	"slices"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/model/provider/script"
)

// peer opens a channel whose peer carries out the named tools.
func (k *kit) peer(sessionID, channelID string, change func(*event.ChannelTool), names ...string) {
	k.Helper()
	p := &command.ConnectChannel{ChannelID: channelID, Transport: "websocket", PeerRole: "client", SessionID: sessionID}
	for _, n := range names {
		t := event.ChannelTool{ToolName: n, InputSchema: event.Raw(`{"type":"object"}`), IsReadOnly: true, IsConcurrencySafe: true}
		if change != nil {
			change(&t)
		}
		p.Tools = append(p.Tools, t)
	}
	do[command.ConnectChannelResult](k, p)
}

// asked runs a turn and does something about each call that a peer is given.
func (k *kit) asked(sessionID, text string, with func(e *event.Event, p *event.ActionRequired)) {
	k.Helper()
	sub := do[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: sessionID, Create: true, Input: event.Raw(`"` + text + `"`)})
	k.until(sessionID, func(e *event.Event) bool {
		if p, ok := e.Payload.(*event.ActionRequired); ok && e.TurnID == sub.TurnID {
			with(e, p)
		}
		return e.TurnID == sub.TurnID && (e.Type == event.TypeTurnCompleted || e.Type == event.TypeTurnFailed)
	})
}

func (k *kit) gives(e *event.Event, result string) {
	k.Helper()
	do[command.RespondActionResult](k, &command.RespondAction{ActionID: e.ActionID, Decision: "submit", Payload: event.Raw(result)})
}

// TestReplayPlaysPeers: results, a large one, an error and a refusal are given at their
// place.
func TestReplayPlaysPeers(t *testing.T) {
	both := script.Answer{Tools: []script.Tool{{Name: "look", Arguments: map[string]any{"at": 1}}, {Name: "look", Arguments: map[string]any{"at": 2}}}}
	k := newKit(t, func(o *agentd.Options) { o.Loop.Host.Mode = "bypass" },
		script.Answer{Text: "hello"}, both, wants("open", nil), script.Answer{Text: "done"})
	k.turn("sess_peers", "hello", nil)
	k.peer("sess_peers", "chan_look", nil, "look")
	k.peer("sess_peers", "chan_open", nil, "open")
	var first *event.Event
	k.asked("sess_peers", "go", func(e *event.Event, p *event.ActionRequired) {
		switch {
		case p.ToolName == "look" && first == nil:
			first = e
		case p.ToolName == "look": // the second is answered first
			k.gives(e, `{"output":"no such thing","isError":true}`)
			k.gives(first, `{"output":"`+strings.Repeat("a long line ", 20_000)+`"}`)
		case p.ToolName == "open":
			do[command.RespondActionResult](k, &command.RespondAction{ActionID: e.ActionID, Decision: "cancel", Reason: "the user closed it"})
		}
	})
	c := caseOf(k, command.ExportScope{SessionID: "sess_peers"})
	if len(c.Parties.Peers) != 2 || len(c.Decisions) != 3 {
		t.Errorf("%+v", c.Parties)
	}
	look := func(c *evidence.Case, call int) *evidence.CaseDecision {
		ids := c.Answers[1].Message.ToolCalls
		i := slices.IndexFunc(c.Decisions, func(d evidence.CaseDecision) bool { return d.ToolCallID == ids[call-1].ToolCallID })
		return &c.Decisions[i]
	}
	finds(k, "sess_peers", map[string]mutant{
		"a peer tells of an error": {func(c *evidence.Case) {
			look(c, 1).Payload = event.Raw(`{"output":"broken","isError":true}`)
		}, `turn 2, call 1: tool.result: status was "ok" and is "error"`},
		"it refuses": {func(c *evidence.Case) {
			look(c, 2).Decision, look(c, 2).Payload = "cancel", nil
		}, `turn 2, call 2: action.resolved: decision was "submit" and is "cancel"`},
		"an answer is missing": {func(c *evidence.Case) {
			c.Decisions = slices.DeleteFunc(c.Decisions, func(d evidence.CaseDecision) bool { return d.ToolName == "look" })
		}, "action.resolved (decision submit"},
		"nobody was there": {func(c *evidence.Case) {
			c.Parties.Peers = slices.DeleteFunc(c.Parties.Peers, func(p evidence.CasePeer) bool { return p.ChannelID == "chan_look" })
		}, "turn 2, call 1"},
		"a rule denies": {func(c *evidence.Case) {
			c.Environment.Rules = append(c.Environment.Rules, event.PolicyRule{RuleID: "r1", Decision: "deny", Tool: "open", Source: "host"})
		}, `turn 2, call 3: permission.evaluated: decision was "allow" and is "deny"`},
	})
}

// TestReplayOfATurnWithPeers: the case of one turn knows who was there when it began.
func TestReplayOfATurnWithPeers(t *testing.T) {
	k := newKit(t, func(o *agentd.Options) { o.Loop.Host.Mode = "bypass" },
		wants("open", nil), script.Answer{Text: "done"}, wants("open", nil), script.Answer{Text: "done"})
	do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_one"})
	k.peer("sess_one", "chan_one", nil, "open")
	result := func(e *event.Event, _ *event.ActionRequired) { k.gives(e, `{"output":"x"}`) }
	k.asked("sess_one", "one", result)
	k.asked("sess_one", "two", result)
	whole := caseOf(k, command.ExportScope{SessionID: "sess_one"})
	for _, turn := range whole.Turns {
		c := caseOf(k, command.ExportScope{SessionID: "sess_one", TurnID: turn.TurnID})
		if len(c.Limits) > 0 || len(c.Parties.Peers) != 1 || len(c.Decisions) != 1 {
			t.Errorf("limits %v, %+v", c.Limits, c.Parties)
		}
		if d := replayed(t, c); d != nil {
			t.Error(d.Says)
		}
	}
}

// TestReplayOfALateAnswer: nobody answers again, and the time passes when it is told to.
func TestReplayOfALateAnswer(t *testing.T) {
	k := newKit(t, func(o *agentd.Options) { o.Loop.Host.Mode = "bypass" }, script.Answer{Text: "hello"}, wants("slow", nil), script.Answer{Text: "done"})
	k.turn("sess_late", "hello", nil)
	k.peer("sess_late", "chan_a", func(t *event.ChannelTool) { t.TimeoutMs = 1 }, "slow")
	k.asked("sess_late", "one", func(*event.Event, *event.ActionRequired) {})
	c := caseOf(k, command.ExportScope{SessionID: "sess_late"})
	if len(c.Limits) > 0 || len(c.Parties.Unanswered) != 1 {
		t.Errorf("%v: %+v", c.Limits, c.Parties)
	}
	if d := replayed(t, c); d != nil {
		t.Error(d.Says)
	}
}
