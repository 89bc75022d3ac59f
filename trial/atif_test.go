package trial_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/evidence/atif"
	"agentd/internal/runtimetest"
	"agentd/model"
	"agentd/model/provider/script"
)

// trajectoryText is a trajectory in short: who, what, calls and results.
func trajectoryText(t *atif.Trajectory) string {
	var b strings.Builder
	for _, s := range t.Steps {
		b.WriteString(s.Source + ": " + s.Message.Text)
		for _, c := range s.ToolCalls {
			b.WriteString(" <" + c.FunctionName + ">")
		}
		if s.Observation != nil {
			for _, r := range s.Observation.Results {
				b.WriteString(" [")
				if r.Content != nil {
					text, _, _ := strings.Cut(r.Content.Text, "\n")
					b.WriteString(text)
				}
				b.WriteString("]")
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestTrajectoryOfToolsDecisionsAndARetry(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.QuickBackoff, func(o *agentd.Options) {
		o.Loop.Host.Mode = "default"
		o.Loop.Host.Rules = []event.PolicyRule{{RuleID: "no-b", Decision: "deny", Tool: "write_file", Match: "b.txt", Reason: "b is not ours"}}
	}),
		script.Answer{Error: &script.Error{Category: "overloaded", Message: "later", Retryable: true}},
		script.Answer{Text: "I write.", Reasoning: "hm", Usage: &script.Usage{InputTokens: 100, CachedInputTokens: 60, OutputTokens: 7, ReasoningTokens: 3}, Tools: []script.Tool{
			{Name: "write_file", ID: "p1", Arguments: map[string]any{"path": "a.txt", "content": "x"}},
			{Name: "write_file", ID: "p2", Arguments: map[string]any{"path": "b.txt", "content": "x"}},
			{Name: "read_file", ID: "p3", Malformed: "{nonsense"},
		}},
		runtimetest.Says("Done."))
	r := k.Submit("sess_a", "Write.")
	id, _ := k.WaitForAction("sess_a", 1)
	k.Respond(id, "allow")
	k.Completes(r)
	tr, raw := k.Trajectory("sess_a", r.ThreadID, r.TurnID, "")
	lines := strings.Split(trajectoryText(tr), "\n")
	if len(tr.Steps) != 4 || lines[0] != "user: Write." || lines[1] != "agent: " || !strings.HasPrefix(lines[2], "agent: I write. <write_file> <write_file> <read_file> [") || lines[3] != "agent: Done." {
		t.Fatalf("told as\n%s", trajectoryText(tr))
	}
	if e := tr.Steps[1].Extra["error"].(map[string]any); e["category"] != "overloaded" || *tr.Steps[1].LLMCallCount != 1 {
		t.Errorf("the failed call: %v", tr.Steps[1].Extra)
	}
	s := tr.Steps[2]
	if m := s.Metrics; m.PromptTokens != 100 || m.CachedTokens != 60 || m.CompletionTokens != 7 || s.ReasoningContent != "hm" || tr.FinalMetrics.CachedTokens != 60 {
		t.Errorf("metrics %+v, in all %+v", s.Metrics, tr.FinalMetrics)
	}
	allowed, denied := s.ToolCalls[0].Extra, s.ToolCalls[1].Extra
	if p := allowed["approval"].(map[string]any); p["decision"] != "allow" || p["decision_source"] != "human" || p["action_id"] != id {
		t.Errorf("the approval: %v", allowed)
	}
	if p := denied["permission"].(map[string]any); p["decision"] != "deny" || p["decision_reason"] == "" || p["rule_refs"].([]any)[0] != "host:no-b" {
		t.Errorf("the denial: %v", denied)
	}
	if res := s.Observation.Results; len(res) != 3 || !strings.HasPrefix(res[1].Content.Text, "denied: ") || res[0].Extra["status"] != "ok" {
		t.Errorf("results %s", raw)
	}
	if string(s.ToolCalls[2].Arguments) == "" || s.ToolCalls[2].Arguments[0] != '{' || !strings.Contains(string(s.ToolCalls[2].Arguments), "nonsense") {
		t.Errorf("arguments that are no object: %s", s.ToolCalls[2].Arguments)
	}
	if len(tr.Agent.ToolDefinitions) == 0 || tr.Agent.ModelName != "script/test" || tr.SessionID != "sess_a" || tr.TrajectoryID != r.TurnID {
		t.Errorf("head %+v", tr.Agent)
	}
	for _, d := range tr.Agent.ToolDefinitions {
		if d.Type != "function" || d.Function.Description == "" || len(d.Function.Parameters) == 0 {
			t.Errorf("the model was told more of %+v", d)
		}
	}
	if k.ReadFile("b.txt") != "-" {
		t.Error("the denied write happened")
	}
	old, oldRaw := k.Trajectory("sess_a", r.ThreadID, r.TurnID, atif.Level14)
	if down, err := atif.Downlevel(raw); err != nil || !sameJSON(t, down, oldRaw) {
		t.Errorf("brought down to version 1.4 it is another document: %v\n%s\n%s", err, down, oldRaw)
	}
	if old.SchemaVersion != "ATIF-v1.4" || old.TrajectoryID != "" || old.Steps[2].ToolCalls[0].Extra != nil || old.Steps[2].Extra["tool_calls"] == nil {
		t.Errorf("version 1.4: %+v", old.Steps[2])
	}
}

func TestTrajectoryEmbedsSubagents(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.InMode("bypass"),
		script.Answer{When: &script.When{Contains: "Look"}, Text: "It is fine."},
		runtimetest.CallsTool("spawn_agent", map[string]any{"role": "reviewer", "input": "Look."}), runtimetest.Says("Reviewed."))
	r := k.Submit("sess_a", "Review.")
	k.Completes(r)
	tr, raw := k.Trajectory("sess_a", r.ThreadID, r.TurnID, "")
	if len(tr.Subagents) != 1 {
		t.Fatalf("%s", raw)
	}
	child := tr.Subagents[0]
	refs := tr.Steps[1].Observation.Results[0].SubagentRefs
	if len(refs) != 1 || refs[0].TrajectoryID != child.TrajectoryID || refs[0].SessionID != "sess_a" {
		t.Errorf("references %+v to %s", refs, child.TrajectoryID)
	}
	if trajectoryText(child) != "user: Look.\nagent: It is fine.\n" || child.Agent.Extra["role"] != "reviewer" || child.FinalMetrics.Steps != 2 {
		t.Errorf("the child's: %s %+v", trajectoryText(child), child.Agent)
	}
	old, _ := k.Trajectory("sess_a", r.ThreadID, r.TurnID, atif.Level14)
	if len(old.Subagents) != 0 || !strings.Contains(old.Notes, child.TrajectoryID) {
		t.Errorf("version 1.4 says %q of its subagents", old.Notes)
	}
}

func TestTrajectoryShowsACompaction(t *testing.T) {
	talk := &runtimetest.TalkingModel{Tokens: 850}
	k := runtimetest.NewWith(t, talk.Use)
	k.Completes(k.Submit("sess_a", "one"))
	talk.Tokens = 100
	r := k.Submit("sess_a", "two")
	k.Completes(r)
	tr, raw := k.Trajectory("sess_a", r.ThreadID, "", "")
	var found *atif.Step
	for _, s := range tr.Steps {
		if s.Extra["context_management"] != nil {
			found = s
		}
	}
	if found == nil {
		t.Fatalf("%s", raw)
	}
	c := found.Extra["context_management"].(map[string]any)
	if found.Source != "system" || c["type"] != "compaction" || c["boundary"] != "replace" || !strings.HasPrefix(found.Observation.Results[0].Content.Text, "in short") {
		t.Errorf("%+v", found)
	}
	// The summary's own call is in the totals and in no step.
	if sum := tr.FinalMetrics; sum.PromptTokens != 850+100+50 || tr.Notes == "" {
		t.Errorf("totals %+v, notes %q", sum, tr.Notes)
	}
}

// TestTrajectoryShowsWhatWasStored reads large outputs and inputs from behind
// their references.
func TestTrajectoryShowsWhatWasStored(t *testing.T) {
	k := runtimetest.New(t, runtimetest.CallsTool("read_file", map[string]any{"path": "big"}), runtimetest.Says("Read."))
	big := strings.Repeat("0123456789abcde\n", 2000)
	k.WriteFile("big", big)
	long := strings.Repeat("please ", 2000)
	r := runtimetest.Do[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: "sess_a", Create: true, Input: runtimetest.Quoted(long)})
	k.Completes(r)
	tr, _ := k.Trajectory("sess_a", r.ThreadID, r.TurnID, "")
	if tr.Steps[0].Message.Text != long {
		t.Errorf("the input has %d bytes", len(tr.Steps[0].Message.Text))
	}
	res := tr.Steps[1].Observation.Results[0]
	if !strings.Contains(res.Content.Text, strings.Repeat("0123456789abcde\n", 1000)) || res.Extra["output_ref"] == nil {
		t.Errorf("the output has %d bytes, %v", len(res.Content.Text), res.Extra)
	}
}

// TestTrajectoryOfATurnThatIsSteered tells what was added where the model heard it.
func TestTrajectoryOfATurnThatIsSteered(t *testing.T) {
	asked, steered := make(chan struct{}), make(chan struct{})
	n := 0
	k := runtimetest.NewWith(t, func(o *agentd.Options) {
		o.Provider = &runtimetest.FakeModel{ProviderName: "script", Answer: func(_ context.Context, _ *model.Request, send func(model.Chunk) bool) error {
			if n++; n == 1 {
				asked <- struct{}{}
				<-steered
				send(model.Chunk{Text: "first", ToolCall: &model.ToolCall{Name: "list_files", Arguments: event.Raw(`{"path":"."}`)}})
				send(runtimetest.AnswerEnd("tool_use", 1, 1))
				return nil
			}
			send(model.Chunk{Text: "second"})
			send(runtimetest.AnswerEnd("end_turn", 1, 1))
			return nil
		}}
	})
	r := k.Submit("sess_a", "Go.")
	<-asked
	runtimetest.Do[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: "sess_a", Input: runtimetest.Quoted("Faster."), Options: &event.TurnOptions{QueuePolicy: "steer"}})
	close(steered)
	k.Completes(r)
	tr, _ := k.Trajectory("sess_a", r.ThreadID, r.TurnID, "")
	var order []string
	for _, s := range tr.Steps {
		order = append(order, s.Source+" "+s.Message.Text)
	}
	if got := strings.Join(order, ", "); got != "user Go., agent first, user Faster., agent second" {
		t.Errorf("told as %s", got)
	}
}

// sameJSON compares documents whatever the order of their members is.
func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := errors.Join(json.Unmarshal(a, &x), json.Unmarshal(b, &y)); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(x, y)
}
