package evidence

import (
	"fmt"
	"strings"
	"testing"

	"agentd/event"
)

// TestHooksThatWereAskedInVain: of a recording only what counts is left; a replay that
// asks twice is found.
func TestHooksThatWereAskedInVain(t *testing.T) {
	hooked := func(point, name, call string) *event.Event {
		return &event.Event{
			Type: event.TypeHookCompleted, Scope: event.Scope{TurnID: "turn_1", ToolCallID: call},
			Payload: &event.HookCompleted{Point: point, HandlerRef: name, Decision: "continue"},
		}
	}
	start := &event.Event{Type: event.TypeTurnStarted, Scope: event.Scope{TurnID: "turn_1"}, Payload: &event.TurnStarted{}}
	lost := &event.Event{Type: event.TypeToolFailed, Scope: event.Scope{TurnID: "turn_1", ToolCallID: "tool_1"}, Payload: &event.ToolFailed{ErrorCategory: categoryLost}}
	for name, c := range map[string]struct {
		facts          []*event.Event
		recorded, real string
	}{
		"asked again":            {[]*event.Event{hooked("p", "a", ""), hooked("p", "b", ""), hooked("p", "a", ""), hooked("p", "b", ""), start}, "a b turn.started", "a b a b turn.started"},
		"another point":          {[]*event.Event{hooked("p", "a", ""), hooked("q", "a", ""), start}, "a a turn.started", "a a turn.started"},
		"something came of it":   {[]*event.Event{hooked("p", "a", ""), start, hooked("p", "a", "")}, "a turn.started a", "a turn.started a"},
		"a result that was lost": {[]*event.Event{start, hooked("pre_tool_use", "a", "tool_1"), hooked("post_tool_use", "b", "tool_1"), lost}, "turn.started a tool.failed", "turn.started a b tool.failed"},
	} {
		for recorded, want := range map[bool]string{true: c.recorded, false: c.real} {
			p := Projection{recorded: recorded}
			p.Take(&event.Event{Type: event.TypeTurnSubmitted, Scope: event.Scope{TurnID: "turn_1"}, Payload: &event.TurnSubmitted{}})
			for i, e := range c.facts {
				e.ID = fmt.Sprint("event_", i)
				p.Take(e)
			}
			var got []string
			for _, f := range p.Facts() {
				if f.Says["hook"] != "" {
					got = append(got, f.Says["hook"])
				} else {
					got = append(got, string(f.Type))
				}
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s, recorded %v: %v, want %s", name, recorded, got, want)
			}
			reached := 0
			for _, n := range p.reached {
				reached += n
			}
			if reached != len(got) {
				t.Errorf("%s, recorded %v: %d facts are counted, %d are there", name, recorded, reached, len(got))
			}
		}
	}
}
