package transcript

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"agentd/channel/turnview"
	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/turntext"
	"agentd/event"
)

// fold makes turns of facts, one after the other. What is long is read when a turn is
// written, so a turn that isn't takes little.
type fold struct {
	out  *Transcript
	plan *plan
	read func(ref string, most int64) ([]byte, error)

	thread mainThread
	// began are turns that have begun and aren't written, waiting those that have not.
	began, waiting []*Turn
	// partial is what models said whose answer isn't whole yet, by request.
	partial map[string][]byte
}

// begin begins a session; turns of the one before that have not begun never will.
func (f *fold) begin() {
	f.thread, f.waiting, f.partial = mainThread{}, nil, map[string][]byte{}
}

// mainThread tells the facts of the conversation from those of agents that work for it.
type mainThread struct{ id string }

func (m *mainThread) owns(e *event.Event) bool {
	if p, ok := e.Payload.(*event.ThreadStarted); ok {
		if m.id == "" && (p.ParentThreadID == "" || p.Role == "fork") {
			m.id = e.ThreadID
		}
		return false
	}
	return e.ThreadID == m.id && (e.SubagentID == "" || e.SubagentID == event.NotApplicable)
}

// foldFact takes one fact.
func (f *fold) foldFact(at place, e *event.Event) {
	if !f.thread.owns(e) {
		return
	}
	if _, isRollback := e.Payload.(*event.RollbackCompleted); f.plan.removed[e.TurnID] && !isRollback {
		return
	}
	switch p := e.Payload.(type) {
	case *event.TurnSubmitted:
		t := &Turn{TurnID: e.TurnID, Status: "queued", SubmittedAt: e.Time, Messages: []*Message{}}
		f.addInput(t, e, p.Input, p.InputRef, p.Preview)
		f.waiting = append(f.waiting, t)
	case *event.TurnStarted:
		f.started(e, p)
	case *event.RollbackCompleted:
		if t := f.turn(f.plan.notes[at]); t != nil {
			t.addText(e, "note", fmt.Sprintf("taken back here: %d later", len(p.RemovedTurns)))
		}
	default:
		if t := f.turn(e.TurnID); t != nil {
			f.takeOfTurn(t, e)
		} else if facts.IsTurnEnd(e) { // it was taken out of the queue
			f.waiting = slices.DeleteFunc(f.waiting, func(t *Turn) bool { return t.TurnID == e.TurnID })
		}
	}
}

func (f *fold) started(e *event.Event, p *event.TurnStarted) {
	t := f.turn(e.TurnID)
	if t == nil {
		i := slices.IndexFunc(f.waiting, func(t *Turn) bool { return t.TurnID == e.TurnID })
		if i < 0 {
			t = &Turn{TurnID: e.TurnID, SubmittedAt: e.Time, Messages: []*Message{}}
		} else {
			t = f.waiting[i]
			f.waiting = slices.Delete(f.waiting, i, i+1)
		}
		f.began = append(f.began, t)
	}
	if t.Status = "running"; p.Policy != nil {
		t.Mode = p.Policy.Mode
	}
}

// turn is the turn that began under an id and isn't written; nil if there is none.
func (f *fold) turn(id string) *Turn {
	for _, t := range slices.Backward(f.began) {
		if t.TurnID == id {
			return t
		}
	}
	return nil
}

func (f *fold) takeOfTurn(t *Turn, e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.TurnSteered:
		f.addInput(t, e, p.Input, p.InputRef, p.Preview)
	case *event.RoutingDecision:
		t.Model = p.SelectedProvider + "/" + p.SelectedModel
	case *event.ModelDelta:
		f.partial[e.ModelRequestID] = append(f.partial[e.ModelRequestID], p.Text...)
	case *event.ModelCompleted:
		f.answered(t, e, p)
	case *event.ModelFailed:
		if text := f.partial[p.ModelRequestID]; p.ErrorCategory == "interrupted" && len(text) > 0 {
			t.addText(e, "assistant", string(text))
			t.addText(e, "note", "the answer was interrupted")
		}
		delete(f.partial, p.ModelRequestID)
	case *event.PolicyChanged:
		if p.Source == "turn" || p.Source == "session" {
			t.Mode = cmp.Or(p.Mode, t.Mode)
		}
	case *event.ActionRequired:
		t.addQuestion(e, &Question{ActionID: e.ActionID, Kind: p.ActionType, Tool: p.ToolName, Prompt: p.Prompt})
	case *event.ActionResolved:
		f.decided(t, e, p)
	case *event.CompactionCompleted:
		t.addText(e, "note", fmt.Sprintf("the context was compacted from %d to %d tokens", p.TokensBefore, p.TokensAfter))
	case *event.TurnCompleted:
		t.Status, t.EndedAt, t.CostUSD = p.Status, e.Time, p.CostUSD
	case *event.TurnFailed:
		t.Status, t.EndedAt, t.CostUSD = p.Status, e.Time, p.CostUSD
		t.Error = turntext.WhyFailed(p)
	default:
		f.takeOfTool(t, e)
	}
}

func (f *fold) takeOfTool(t *Turn, e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.ToolStarted:
		f.setArguments(t.call(e, p.ToolName), p.SafeArgs, p.InputRef)
	case *event.ToolArgs:
		f.setArguments(t.call(e, p.ToolName), p.SafeArgs, p.InputRef)
	case *event.ToolResult:
		c := t.call(e, p.ToolName)
		c.Status, c.Output, c.DurationMs = p.Status, p.Preview, p.DurationMs
		if p.Truncated {
			c.OutputRef = p.OutputRef
			c.later = append(c.later, func() { f.readOutput(c) })
		}
		for _, x := range p.ChangedFiles {
			c.ChangedFiles = append(c.ChangedFiles, x.Change+" "+x.Path)
		}
	case *event.ToolFailed:
		c := t.call(e, p.ToolName)
		c.Status, c.Output, c.DurationMs = "failed", p.ErrorCategory+": "+p.Message, p.DurationMs
	}
}

// addInput adds what a person said.
func (f *fold) addInput(t *Turn, e *event.Event, input event.Raw, ref, preview string) {
	m := t.addText(e, "user", cmp.Or(turntext.InputText(input), preview))
	if ref == "" {
		return
	}
	m.later = func() {
		if whole, err := f.read(ref, 0); err == nil {
			m.Text = cmp.Or(turntext.InputText(whole), preview)
		}
	}
}

// answered takes what a model said for the user.
func (f *fold) answered(t *Turn, e *event.Event, p *event.ModelCompleted) {
	delete(f.partial, p.ModelRequestID)
	if !turnview.Speaks(p.Purpose) {
		return
	}
	m := t.addText(e, "assistant", p.Preview)
	m.later = func() {
		text, err := turnview.AnswerText(p, func(ref string) ([]byte, error) { return f.read(ref, 0) })
		if err != nil {
			text = p.Preview
			f.out.Incomplete = "an answer isn't kept any more"
		}
		m.Text = text
	}
}

// decided takes the answer to a question.
func (f *fold) decided(t *Turn, e *event.Event, p *event.ActionResolved) {
	for _, m := range slices.Backward(t.Messages) {
		if q := m.Question; q != nil && q.ActionID == e.ActionID {
			q.Decision, q.Scope, q.Reason, q.By, q.Answer = p.Decision, p.Scope, p.Reason, p.DecisionSource, p.Payload
			if p.PayloadRef != "" {
				m.later = func() {
					if whole, err := f.read(p.PayloadRef, 0); err == nil {
						q.Answer = whole
					}
				}
			}
			return
		}
	}
}

func (f *fold) setArguments(c *Call, args event.Raw, ref string) {
	if len(args) > 0 {
		c.Arguments = args
	} else if ref != "" {
		c.later = append(c.later, func() {
			if whole, err := f.read(ref, 0); err == nil && len(whole) > 0 {
				c.Arguments = whole
			}
		})
	}
}

// readOutput reads an output that is kept elsewhere.
func (f *fold) readOutput(c *Call) {
	data, err := f.read(c.OutputRef, MaxText+1)
	if err != nil {
		c.Cut = true // the preview is what is left of it
		return
	}
	if c.Cut = len(data) > MaxText; c.Cut {
		data = data[:MaxText]
	}
	c.Output = strings.ToValidUTF8(string(data), "\uFFFD")
}

func (t *Turn) addMessage(e *event.Event, m *Message) *Message {
	m.At = e.Time
	t.Messages = append(t.Messages, m)
	return m
}

func (t *Turn) addText(e *event.Event, role, text string) *Message {
	return t.addMessage(e, &Message{Role: role, Text: text})
}

// load reads what a message left for when it is written. It reports whether something is
// in it.
func (m *Message) load() bool {
	if m.later != nil {
		m.later()
	}
	if m.Tool != nil {
		for _, read := range m.Tool.later {
			read()
		}
	}
	return m.Role != "assistant" || strings.TrimSpace(m.Text) != ""
}

// addQuestion adds a question, in front of the call that waits for its answer.
func (t *Turn) addQuestion(e *event.Event, q *Question) {
	t.addMessage(e, &Message{Role: "question", Question: q})
	at := slices.IndexFunc(t.Messages, func(m *Message) bool { return m.Tool != nil && m.Tool.ToolCallID == e.ToolCallID })
	if last := len(t.Messages) - 1; at >= 0 {
		t.Messages = slices.Insert(t.Messages[:last], at, t.Messages[last])
	}
}

// call is the call that a fact is of.
func (t *Turn) call(e *event.Event, name string) *Call {
	for _, m := range slices.Backward(t.Messages) {
		if m.Tool != nil && m.Tool.ToolCallID == e.ToolCallID {
			return m.Tool
		}
	}
	c := &Call{ToolCallID: e.ToolCallID, Name: name, Status: "running"}
	t.addMessage(e, &Message{Role: "tool", Tool: c})
	return c
}
