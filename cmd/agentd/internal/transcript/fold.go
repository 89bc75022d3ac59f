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

// fold makes a transcript of facts, one after the other.
type fold struct {
	out  *Transcript
	read func(ref string, most int64) ([]byte, error)

	part   part
	thread string
	// waiting are turns that have not begun.
	waiting []*Turn
	// partial is what models said whose answer isn't whole yet, by request.
	partial map[string][]byte
}

func (f *fold) begin(p part) {
	f.part, f.thread, f.waiting, f.partial = p, "", nil, map[string][]byte{}
}

// addWaitingTurns adds the turns that have not begun.
func (f *fold) addWaitingTurns() { f.out.Turns = append(f.out.Turns, f.waiting...) }

// foldFact takes one fact.
func (f *fold) foldFact(e *event.Event) {
	if f.part.through > 0 && e.Sequence > f.part.through {
		return
	}
	isLast := f.part.session == f.out.SessionID
	if isLast {
		f.out.ThroughSequence = e.Sequence
	}
	switch p := e.Payload.(type) {
	case *event.SessionCreated:
		if isLast {
			f.out.CreatedAt, f.out.Title = e.Time, p.Title
			f.setWorkspace(p.Workspace)
		}
		return
	case *event.SessionUpdated:
		if p.Title != nil {
			f.out.Title = *p.Title
		}
		f.setWorkspace(p.Workspace)
		return
	case *event.ThreadStarted:
		if f.thread == "" && (p.ParentThreadID == "" || p.Role == "fork") {
			f.thread = e.ThreadID
		}
		return
	}
	if e.ThreadID != f.thread || e.SubagentID != "" && e.SubagentID != event.NotApplicable {
		return // of an agent that works for this one
	}
	f.takeOfThread(e)
}

func (f *fold) setWorkspace(w *event.Workspace) {
	if w != nil && w.Root != "" {
		f.out.Workspace = w.Root
	}
}

func (f *fold) takeOfThread(e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.TurnSubmitted:
		t := &Turn{TurnID: e.TurnID, Status: "queued", SubmittedAt: e.Time, Messages: []*Message{}}
		t.addText(e, "user", f.inputText(p.Input, p.InputRef, p.Preview))
		f.waiting = append(f.waiting, t)
	case *event.TurnStarted:
		f.started(e, p)
	case *event.RollbackCompleted:
		f.takenBack(e, p)
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
		f.out.Turns = append(f.out.Turns, t)
	}
	if t.Status = "running"; p.Policy != nil {
		t.Mode = p.Policy.Mode
	}
}

// takenBack leaves out the turns that were taken back, and says so.
func (f *fold) takenBack(e *event.Event, p *event.RollbackCompleted) {
	f.out.Turns = slices.DeleteFunc(f.out.Turns, func(t *Turn) bool { return slices.Contains(p.RemovedTurns, t.TurnID) })
	if n := len(f.out.Turns); n > 0 {
		f.out.Turns[n-1].addText(e, "note", fmt.Sprintf("taken back here: %d later", len(p.RemovedTurns)))
	}
}

// turn is the turn that began under an id; nil if none did.
func (f *fold) turn(id string) *Turn {
	for _, t := range slices.Backward(f.out.Turns) {
		if t.TurnID == id {
			return t
		}
	}
	return nil
}

func (f *fold) takeOfTurn(t *Turn, e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.TurnSteered:
		t.addText(e, "user", f.inputText(p.Input, p.InputRef, p.Preview))
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
			f.readOutput(c, p.OutputRef)
		}
		for _, x := range p.ChangedFiles {
			c.ChangedFiles = append(c.ChangedFiles, x.Change+" "+x.Path)
		}
	case *event.ToolFailed:
		c := t.call(e, p.ToolName)
		c.Status, c.Output, c.DurationMs = "failed", p.ErrorCategory+": "+p.Message, p.DurationMs
	}
}

// inputText is what a person said.
func (f *fold) inputText(input event.Raw, ref, preview string) string {
	if ref != "" {
		if whole, err := f.read(ref, 0); err == nil {
			input = whole
		}
	}
	return cmp.Or(turntext.InputText(input), preview)
}

// answered takes what a model said for the user.
func (f *fold) answered(t *Turn, e *event.Event, p *event.ModelCompleted) {
	delete(f.partial, p.ModelRequestID)
	if !turnview.Speaks(p.Purpose) {
		return
	}
	text, err := turnview.AnswerText(p, func(ref string) ([]byte, error) { return f.read(ref, 0) })
	if err != nil {
		text = p.Preview
		f.out.Incomplete = "an answer isn't kept any more"
	}
	if strings.TrimSpace(text) != "" {
		t.addText(e, "assistant", text)
	}
}

// decided takes the answer to a question.
func (f *fold) decided(t *Turn, e *event.Event, p *event.ActionResolved) {
	for _, m := range slices.Backward(t.Messages) {
		if q := m.Question; q != nil && q.ActionID == e.ActionID {
			q.Decision, q.Scope, q.Reason, q.By, q.Answer = p.Decision, p.Scope, p.Reason, p.DecisionSource, p.Payload
			if p.PayloadRef != "" {
				if whole, err := f.read(p.PayloadRef, 0); err == nil {
					q.Answer = whole
				}
			}
			return
		}
	}
}

func (f *fold) setArguments(c *Call, args event.Raw, ref string) {
	if len(args) == 0 && ref != "" {
		if whole, err := f.read(ref, 0); err == nil {
			args = whole
		}
	}
	if len(args) > 0 {
		c.Arguments = args
	}
}

// readOutput reads an output that is kept elsewhere.
func (f *fold) readOutput(c *Call, ref string) {
	c.OutputRef = ref
	data, err := f.read(ref, MaxText+1)
	if err != nil {
		c.Cut = true // the preview is what is left of it
		return
	}
	if c.Cut = len(data) > MaxText; c.Cut {
		data = data[:MaxText]
	}
	c.Output = strings.ToValidUTF8(string(data), "\uFFFD")
}

func (t *Turn) addMessage(e *event.Event, m *Message) {
	m.At = e.Time
	t.Messages = append(t.Messages, m)
}

func (t *Turn) addText(e *event.Event, role, text string) {
	t.addMessage(e, &Message{Role: role, Text: text})
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
