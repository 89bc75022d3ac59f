package evidence_test

import (
	"encoding/json"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/model/provider/script"
	"agentd/store/storetest"
)

func caseOf(k *kit, s command.ExportScope) *evidence.Case {
	k.Helper()
	res := do[command.ExportResult](k, &command.ExportReplay{ExportScope: s})
	c := &evidence.Case{}
	if err := json.Unmarshal(k.output(res.Ref), c); err != nil {
		k.Fatal(err)
	}
	return c
}

func replayed(t testing.TB, c *evidence.Case) *evidence.Difference {
	t.Helper()
	s := storetest.NewMem()
	d, err := agentd.Replay(t.Context(), s, c)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return d
}

func TestReplayGivesTheSameFacts(t *testing.T) {
	k, turns := busy(t, nil)
	for _, scope := range []command.ExportScope{{SessionID: "sess_busy"}, {SessionID: "sess_busy", TurnID: turns[0]}, {SessionID: "sess_busy", TurnID: turns[1]}} {
		c := caseOf(k, scope)
		if c.Determinism != "deterministic" || len(c.Expected) < 8 || len(c.Answers) == 0 {
			t.Errorf("%+v: %s, %d facts, limits %v", scope, c.Determinism, len(c.Expected), c.Limits)
		}
		if d := replayed(t, c); d != nil {
			t.Errorf("%+v: %s", scope, d.Says)
		}
	}
}

// TestReplayFindsWhatChanged: another answer, result, policy or decision shows.
func TestReplayFindsWhatChanged(t *testing.T) {
	k, _ := busy(t, nil)
	for name, test := range map[string]struct {
		change func(*evidence.Case)
		says   string
	}{
		"a model says something else": {func(c *evidence.Case) { c.Answers[3].Message.Text = "other" }, "text was"},
		"a model fails": {func(c *evidence.Case) {
			c.Answers[3] = evidence.CaseAnswer{Provider: "script", Model: "test", ErrorCategory: "auth", ErrorMessage: "no"}
		}, "model.failed"},
		"an answer is missing": {func(c *evidence.Case) { c.Answers = c.Answers[:3] }, "model.failed"},
		"a tool fails": {func(c *evidence.Case) {
			c.Results[1] = evidence.CaseResult{ToolName: "read_file", ErrorCategory: "execution", ErrorMessage: "broken"}
		}, "tool.failed"},
		"a rule denies": {func(c *evidence.Case) {
			c.Environment.Rules = []event.PolicyRule{{RuleID: "r1", Decision: "deny", Tool: "write_file", Reason: "no"}}
		}, "decision was \"allow\" and is \"deny\""},
		"the mode asks": {func(c *evidence.Case) {
			for _, turn := range c.Turns {
				turn.Options = &event.TurnOptions{PermissionMode: "default"}
			}
		}, "decision was \"allow\" and is \"ask\""},
		"the turn is bounded": {func(c *evidence.Case) {
			o := *c.Turns[0].Options
			o.MaxSteps = 1
			c.Turns[0].Options = &o
		}, "turn.failed"},
	} {
		c := caseOf(k, command.ExportScope{SessionID: "sess_busy"})
		test.change(c)
		d := replayed(t, c)
		if d == nil {
			t.Errorf("%s: nothing was found", name)
		} else if !strings.Contains(d.Says, test.says) {
			t.Errorf("%s: %s", name, d.Says)
		}
	}
}

// TestReplayAnswersAsPeopleDid: approvals and inputs come from the recording.
func TestReplayAnswersAsPeopleDid(t *testing.T) {
	k := newKit(t, nil,
		wants("write_file", map[string]any{"path": "a.txt", "content": "b"}),
		wants("write_file", map[string]any{"path": "c.txt", "content": "d"}),
		wants("request_input", map[string]any{"prompt": "which?"}),
		script.Answer{Text: "done"})
	sub := do[command.SubmitTurnResult](k, &command.SubmitTurn{
		SessionID: "sess_ask", Create: true, Input: event.Raw(`"write"`), Options: &event.TurnOptions{PermissionMode: "default"},
	})
	answers := []*command.RespondAction{{Decision: "allow"}, {Decision: "deny"}, {Decision: "submit", Payload: event.Raw(`"blue"`)}}
	n := 0
	k.until("sess_ask", func(e *event.Event) bool {
		if e.Type == event.TypeActionRequired {
			answers[n].ActionID = e.ActionID
			do[command.RespondActionResult](k, answers[n])
			n++
		}
		return e.TurnID == sub.TurnID && e.Type == event.TypeTurnCompleted
	})
	c := caseOf(k, command.ExportScope{SessionID: "sess_ask"})
	if len(c.Decisions) != 3 {
		t.Fatalf("decisions: %+v", c.Decisions)
	}
	if d := replayed(t, c); d != nil {
		t.Error(d.Says)
	}
	c.Decisions[0].Decision = "deny"
	if d := replayed(t, c); d == nil || !strings.Contains(d.Says, "deny") {
		t.Errorf("%+v", d)
	}
	c = caseOf(k, command.ExportScope{SessionID: "sess_ask"})
	c.Decisions = c.Decisions[:1]
	if d := replayed(t, c); d == nil {
		t.Error("a missing answer was not found")
	}
}

func TestReplayTriesAgainAsItDid(t *testing.T) {
	k := newKit(t, nil, script.Answer{Error: &script.Error{Category: "overloaded", Message: "busy", Retryable: true}}, script.Answer{Text: "now"})
	k.turn("sess_retry", "go", nil)
	c := caseOf(k, command.ExportScope{SessionID: "sess_retry"})
	if len(c.Answers) != 2 {
		t.Fatalf("answers: %+v", c.Answers)
	}
	if d := replayed(t, c); d != nil {
		t.Error(d.Says)
	}
}
