package replay

import (
	"fmt"

	"agentd/event"
)

// places numbers turns and their calls, so that people find them.
type places struct {
	turns map[string]int
	calls map[string]int
	// count is how many calls each turn has.
	counts map[string]int
}

func newPlaces() places {
	return places{turns: map[string]int{}, calls: map[string]int{}, counts: map[string]int{}}
}

// count numbers what a fact is the first to name.
func (p *places) count(e *event.Event) {
	switch m := e.Payload.(type) {
	case *event.TurnSubmitted:
		p.turns[e.TurnID] = len(p.turns) + 1
	case *event.ModelCompleted:
		if m.Message == nil {
			return
		}
		for _, c := range m.Message.ToolCalls {
			p.counts[e.TurnID]++
			p.calls[c.ToolCallID] = p.counts[e.TurnID]
		}
	}
}

// placeOfFact says what a fact belongs to.
func (p *places) placeOfFact(e *event.Event) string {
	n := p.turns[e.TurnID]
	if n == 0 {
		return "session"
	}
	if c := p.calls[e.ToolCallID]; c > 0 {
		return fmt.Sprintf("turn %d, call %d", n, c)
	}
	return fmt.Sprintf("turn %d", n)
}
