package turnview

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"agentd/event"
	"agentd/state"
)

// brief writes the changes of a story in a line.
func brief(list []Change) string {
	var out []string
	for _, c := range list {
		switch c := c.(type) {
		case PartOpened:
			out = append(out, "<"+c.Agent+string(c.Kind))
		case PartGrown:
			out = append(out, c.Content)
		case PartClosed:
			out = append(out, ">")
		case ToolCalled:
			out = append(out, "call "+c.Name)
		case ToolEnded:
			out = append(out, "="+c.Preview())
		case BlockChanged:
			out = append(out, fmt.Sprintf("blocked %v", c.Blocked != nil))
		default:
			out = append(out, strings.TrimPrefix(fmt.Sprintf("%T", c), "turnview."))
		}
	}
	return strings.Join(out, " ")
}

func TestStories(t *testing.T) {
	of := func(p event.Payload) *event.Event {
		e := &event.Event{Scope: event.Scope{TurnID: "turn", ThreadID: "thread", ModelRequestID: "a", ToolCallID: "x", ActionID: "q"}, Payload: p}
		if _, ok := p.(*event.ThreadUpdated); ok {
			e.TurnID = ""
		}
		return e
	}
	ofChild := func(p event.Payload) *event.Event {
		e := of(p)
		e.SubagentID, e.TurnID, e.ThreadID, e.ModelRequestID = "child", "other", "other", "b"
		return e
	}
	asked := func(purpose string) event.Payload {
		return &event.ModelRequested{ModelRequestID: "a", Purpose: purpose}
	}
	answered := &event.ModelCompleted{ModelRequestID: "a", Message: &event.ModelMessage{Text: "hello", ToolCalls: []event.ToolCallRequest{{ToolCallID: "x", ToolName: "shell"}}}}
	for name, c := range map[string]struct {
		events     []*event.Event
		want, text string
	}{
		"streamed": {
			[]*event.Event{of(asked("")), of(&event.ReasoningDelta{Text: "hm"}), of(&event.ModelDelta{Text: "hel"}), of(&event.ModelDelta{Text: "lo"}), of(answered)},
			"ModelAsked <reasoning hm > <text hel lo > call shell ModelAnswered", "hello",
		},
		"only the reasoning is streamed": {
			[]*event.Event{of(asked("")), of(&event.ReasoningDelta{Text: "hm"}), of(answered)},
			"ModelAsked <reasoning hm > <text hello > call shell ModelAnswered", "hello",
		},
		"from the middle": {
			[]*event.Event{of(&event.ModelDelta{Text: "lo"}), of(&event.ToolResult{ToolName: "shell", Preview: "ok"})},
			"<text lo call shell =ok", "lo",
		},
		"for the runtime's own use": {
			[]*event.Event{of(asked("compaction")), of(&event.ModelDelta{Text: "summary"}), of(answered)},
			"ModelAsked", "",
		},
		"asked again": {
			[]*event.Event{of(&event.ModelDelta{Text: "hel"}), of(&event.ModelFailed{ModelRequestID: "a"}), of(asked("")), of(answered)},
			"<text hel > ModelFailed ModelAsked <text hello > call shell ModelAnswered", "hello",
		},
		"a subagent speaks meanwhile": {
			[]*event.Event{of(&event.ModelDelta{Text: "hel"}), ofChild(&event.ModelDelta{Text: "mine"}), of(&event.ModelDelta{Text: "lo"}), of(&event.TurnCompleted{})},
			"<text hel SubagentStarted <childtext mine lo > > Ended", "hello",
		},
		"blocked until it is resumed": {
			[]*event.Event{
				of(&event.ThreadUpdated{Status: "blocked", ActionIDs: []string{"q"}}), of(&event.ThreadUpdated{Status: "blocked"}), of(&event.ThreadUpdated{Status: "resumed"}),
			},
			"blocked true blocked false", "",
		},
		"nothing after the end": {
			[]*event.Event{of(&event.TurnFailed{}), of(&event.ModelDelta{Text: "late"})},
			"Ended", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := View{TurnID: "turn", ThreadID: "thread", WithSubagents: true}
			var all []Change
			for _, e := range c.events {
				all = append(all, v.Fold(e)...)
			}
			if got := brief(all); got != c.want || v.Text() != c.text {
				t.Errorf("got %q with the text %q", got, v.Text())
			}
		})
	}
}

func TestActionOfARecord(t *testing.T) {
	data, err := json.Marshal(&state.Action{
		ActionID: "q", TurnID: "turn", SubagentID: "child", Status: "pending", ActionType: "tool_permission", Decisions: []string{"allow", "deny"}, OnceOnly: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	var a Action
	if err := json.Unmarshal(data, &a); err != nil {
		t.Fatal(err)
	}
	if a.ID != "q" || a.TurnID != "turn" || a.Agent != "child" || a.ActionType != "tool_permission" || !a.OnceOnly || a.WantsValue() {
		t.Errorf("got %+v %+v", a, a.ActionRequired)
	}
}

func TestAnswerText(t *testing.T) {
	read := func(content string) func(string) ([]byte, error) {
		return func(string) ([]byte, error) { return []byte(content), nil }
	}
	for name, c := range map[string]struct {
		p    event.ModelCompleted
		kept string
		want string
	}{
		"in the event":   {event.ModelCompleted{Message: &event.ModelMessage{Text: "hello"}, MessageRef: "ref"}, "no", "hello"},
		"kept elsewhere": {event.ModelCompleted{MessageRef: "ref"}, `{"text":"hello"}`, "hello"},
		"kept as a text": {event.ModelCompleted{MessageRef: "ref"}, "hello", "hello"},
		"none":           {event.ModelCompleted{}, "no", ""},
	} {
		if got, err := AnswerText(&c.p, read(c.kept)); got != c.want || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
