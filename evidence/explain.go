package evidence

import (
	"fmt"
	"iter"
	"strings"

	"agentd/command"
	"agentd/event"
)

// Question is what [Explain] is asked about: one of the ids is set.
type Question struct {
	ToolCallID, ActionID, TurnID, TaskID string
}

// Explain answers why something was allowed, blocked, routed or failed: the chain
// of facts that led to it, in order, and a short answer made of them. It reports
// false if no fact is about it.
func Explain(facts iter.Seq2[*event.Event, error], q Question) (*command.ExplainResult, bool, error) {
	x := &explanation{q: q}
	for e, err := range facts {
		if err != nil {
			return nil, false, err
		}
		x.take(e)
	}
	if len(x.facts) == 0 {
		return nil, false, nil
	}
	return &command.ExplainResult{Answer: x.answer(), Facts: x.facts}, true, nil
}

// explanation collects what is said about a question.
type explanation struct {
	q     Question
	facts []command.ExplainedFact
	// key are the sentences that make the answer, in order.
	key []string
}

// take adds a fact if it is about the question.
func (x *explanation) take(e *event.Event) {
	if !x.about(e) {
		return
	}
	says, key := say(e)
	if p, ok := e.Payload.(*event.ModelCompleted); ok && x.q.ToolCallID != "" {
		says = asked(p, x.q.ToolCallID)
		key = says != ""
	}
	if says == "" {
		return
	}
	x.facts = append(x.facts, command.ExplainedFact{EventID: e.ID, Sequence: e.Sequence, Type: string(e.Type), Says: says})
	if key {
		x.key = append(x.key, says)
	}
	// An action of a tool call is explained with the call.
	if x.q.ActionID != "" && e.ActionID == x.q.ActionID && e.ToolCallID != "" && e.ToolCallID != event.NotApplicable {
		x.q.ToolCallID = e.ToolCallID
	}
}

// about reports whether a fact belongs to what is asked about.
func (x *explanation) about(e *event.Event) bool {
	switch {
	case x.q.ToolCallID != "" && e.ToolCallID == x.q.ToolCallID, x.q.ActionID != "" && e.ActionID == x.q.ActionID:
		return true
	case x.q.ToolCallID != "" && x.q.ActionID == "":
		p, ok := e.Payload.(*event.ModelCompleted)
		return ok && asked(p, x.q.ToolCallID) != ""
	case x.q.TurnID != "":
		return e.TurnID == x.q.TurnID
	case x.q.TaskID != "":
		return e.TaskID == x.q.TaskID
	}
	return false
}

// asked says that a model asked for a call, or nothing.
func asked(p *event.ModelCompleted, toolCallID string) string {
	if p.Message == nil {
		return ""
	}
	for _, c := range p.Message.ToolCalls {
		if c.ToolCallID == toolCallID {
			return fmt.Sprintf("The model %s asked for %s with %s.", p.Model, c.ToolName, clip(string(c.Arguments)))
		}
	}
	return ""
}

// answer joins what matters most. The facts say the rest.
func (x *explanation) answer() string {
	if len(x.key) == 0 {
		return x.facts[len(x.facts)-1].Says
	}
	const most = 12
	key := x.key
	if len(key) > most {
		left := fmt.Sprintf("(%d more facts in between.)", len(key)-most)
		key = append(append(append([]string{}, key[:most/2]...), left), key[len(key)-most/2:]...)
	}
	return strings.Join(key, " ")
}

func clip(s string) string {
	if len(s) <= 300 {
		return s
	}
	return strings.ToValidUTF8(s[:300], "") + "…"
}
