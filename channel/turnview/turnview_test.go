package turnview

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"agentd/event"
	"agentd/event/eventtest"
	"agentd/tool/toolkind"
)

// story are the types of events that a view is made of.
var story = []event.Type{
	event.TypeModelRequested, event.TypeModelDelta, event.TypeReasoningDelta, event.TypeModelCompleted, event.TypeModelFailed,
	event.TypeToolStarted, event.TypeToolProgress, event.TypeToolResult, event.TypeToolFailed, event.TypeProcessOutput,
	event.TypeActionRequired, event.TypeActionResolved, event.TypeThreadUpdated, event.TypePolicyChanged,
	event.TypeSubagentSpawned, event.TypeSubagentCompleted, event.TypeSubagentFailed, event.TypeSubagentClosed,
	event.TypeTurnCompleted, event.TypeTurnFailed,
}

// drawEvent draws an event whose ids join it to others.
func drawEvent(t *rapid.T, typ event.Type) *event.Event {
	e := eventtest.Event(t, typ)
	pick := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
	e.SubagentID = pick("agent", "", "", "sub_1", "sub_2")
	e.TurnID, e.ThreadID = pick("turn", "turn_1", "turn_1", "turn_2"), pick("thread", "thread_1", "thread_1", "thread_2")
	e.ModelRequestID = e.SubagentID + pick("call", "_a", "_b", "_c")
	e.ToolCallID, e.ActionID = e.SubagentID+pick("tool", "_x", "_y"), e.SubagentID+pick("action", "_p", "_q")
	switch p := e.Payload.(type) {
	case *event.ModelRequested:
		p.ModelRequestID = e.ModelRequestID
	case *event.ModelCompleted:
		p.ModelRequestID = e.ModelRequestID
	case *event.ModelFailed:
		p.ModelRequestID = e.ModelRequestID
	case *event.ToolResult:
		if p.ToolName = pick("name", "shell", string(toolkind.UpdatePlan)); p.ToolName == string(toolkind.UpdatePlan) {
			p.StructuredContent = event.Raw(`{"items":[{"step":"look","status":"pending"}]}`)
		}
	case *event.TurnCompleted, *event.TurnFailed:
		e.TurnID = pick("ending turn", "turn_1", "turn_2", "turn_2", "turn_2") // most stories go on
	}
	return e
}

func drawStory(t *rapid.T) []*event.Event {
	var events []*event.Event
	for range rapid.IntRange(0, 60).Draw(t, "events") {
		typ := rapid.SampledFrom(story).Draw(t, "type")
		if rapid.IntRange(0, 9).Draw(t, "other") == 0 {
			typ = eventtest.Type().Draw(t, "any type")
		}
		events = append(events, drawEvent(t, typ))
	}
	return events
}

func drawIDs(t *rapid.T) View {
	v := rapid.SampledFrom([]View{{TurnID: "turn_1"}, {TurnID: "turn_1", ThreadID: "thread_1"}, {ThreadID: "thread_1"}, {}}).Draw(t, "view")
	v.WithSubagents = rapid.Bool().Draw(t, "with subagents")
	return v
}

func TestFold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids, events := drawIDs(t), drawStory(t)
		whole, applied := ids, ids
		var check checker
		for _, e := range events {
			for _, c := range whole.Fold(e) {
				check.change(t, &whole, c)
				applied.Apply(c)
			}
		}
		applied.ThreadID = whole.ThreadID // no change tells it
		if !reflect.DeepEqual(whole, applied) {
			t.Fatalf("the changes give another view:\n%+v\n%+v", applied, whole)
		}
		// A view of stored events is the same, and one that is folded in two parts.
		stored, parts := ids, ids
		for _, e := range events {
			stored.Read(event.AppendJSON(nil, e))
		}
		at := rapid.IntRange(0, len(events)).Draw(t, "cut")
		for _, list := range [][]*event.Event{events[:at], events[at:]} {
			for _, e := range list {
				parts.Read(event.AppendJSON(nil, e))
			}
			parts.Read([]byte(`{"type":"turn.of_a_newer_release","turnId":"turn_1"}`))
			parts.Read([]byte(`nonsense`))
		}
		if !reflect.DeepEqual(stored, parts) || !reflect.DeepEqual(stored, whole) {
			t.Fatalf("views differ:\nstored %+v\nin two parts %+v\nlive %+v", stored, parts, whole)
		}
		check.end(t, &whole)
	})
}

// checker holds what a renderer may rely on.
type checker struct {
	open  map[string]PartRef
	tools map[string]bool
}

func (k *checker) change(t *rapid.T, v *View, c Change) {
	if k.open == nil {
		k.open, k.tools = map[string]PartRef{}, map[string]bool{}
	}
	known := func(agent string) {
		if s := v.Subagent(agent); agent != "" && v.WithSubagents && (s == nil || !s.Open) {
			t.Fatalf("%T of the subagent %s, which wasn't introduced", c, agent)
		}
	}
	switch c := c.(type) {
	case PartOpened:
		if open, ok := k.open[c.Agent]; ok {
			t.Fatalf("%v is opened while %v is open", c, open)
		}
		known(c.Agent)
		k.open[c.Agent] = c.PartRef
	case PartGrown:
		if k.open[c.Agent] != c.PartRef || c.Content == "" {
			t.Fatalf("%v grows, open is %v", c, k.open[c.Agent])
		}
	case PartClosed:
		if k.open[c.Agent] != c.PartRef {
			t.Fatalf("%v is closed, open is %v", c, k.open[c.Agent])
		}
		delete(k.open, c.Agent)
	case ModelAnswered:
		if k.open[c.Agent].CallID == c.ModelRequestID {
			t.Fatalf("%s is answered with an open part", c.ModelRequestID)
		}
	case ToolCalled:
		if k.tools[c.ToolCallID] {
			t.Fatalf("%s is called twice", c.ToolCallID)
		}
		known(c.Agent)
		k.tools[c.ToolCallID] = true
	case ToolEnded:
		if !k.tools[c.ToolCallID] {
			t.Fatalf("%s ends and wasn't called", c.ToolCallID)
		}
		_ = c.Preview()
	case ActionAsked:
		known(c.Agent)
	case Ended:
		if len(k.open) > 0 {
			t.Fatalf("the turn ends with open parts: %v", k.open)
		}
		_, _, _ = c.Usage(), c.Category(), c.Reason()
	}
}

func (k *checker) end(t *rapid.T, v *View) {
	_, _ = v.Last(), v.Text()
	if closed := v.CloseOpen(); len(closed) != len(k.open) || len(v.CloseOpen()) > 0 {
		t.Fatalf("closed %v, open were %v", closed, k.open)
	}
}

// TestEveryType: no type of the catalogue makes a view panic, and those that are no
// part of the story change nothing.
func TestEveryType(t *testing.T) {
	tells := map[event.Type]bool{}
	for _, typ := range story {
		tells[typ] = true
	}
	for _, d := range event.Catalog() {
		t.Run(string(d.Type), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				v := drawIDs(t)
				for _, c := range v.Fold(drawEvent(t, d.Type)) {
					if !tells[d.Type] {
						t.Fatalf("%#v", c)
					}
				}
			})
		})
	}
}
