package loop

import (
	"strings"

	"agentd/event"
	"agentd/internal/clip"
	"agentd/session"
	"agentd/state"
	"agentd/store"
)

const (
	// answerType is the media type of an answer behind a reference.
	answerType = "text/plain; charset=utf-8"
	// answerPreview bounds what the end of a turn shows of its answer.
	answerPreview = 200
	// shownTools bounds the tools that a report of progress names.
	shownTools = 5
)

// keptAnswer is a model's answer, kept for what follows from it: the calls that it asked for,
// or the end of its turn. The fact that has it may not be readable yet by then.
type keptAnswer struct {
	requestID, text string
	calls           []event.ToolCallRequest
}

// keepAnswer keeps a thread's newest answer.
func (l *Loop) keepAnswer(k key, a keptAnswer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.runners[k]; r != nil {
		r.answer = a
	}
}

// answerKept returns the thread's newest answer, which is empty if this runner got none.
func (l *Loop) answerKept(k key) keptAnswer {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.runners[k]; r != nil {
		return r.answer
	}
	return keptAnswer{}
}

// call returns what the model asked for with a call, if all of it is at hand: large arguments
// are stored with the fact, and can be read once that is durable.
func (a *keptAnswer) call(toolCallID string) (event.ToolCallRequest, bool) {
	for _, c := range a.calls {
		if c.ToolCallID == toolCallID {
			return c, c.ArgumentsRef == ""
		}
	}
	return event.ToolCallRequest{}, false
}

// lastAnswer returns the text of the last answer of the turn that an effect ends. One
// that this runner didn't get was there before it, and is read from its fact.
func (l *Loop) lastAnswer(k key, e Effect) (string, error) {
	var requestID string
	var at uint64
	look := l.ifNext(k, e, func(_ *state.Session, t *state.Thread) {
		if c := t.Active.Call; c != nil {
			requestID, at = c.ModelRequestID, c.EndSequence
		}
	})
	// What this runner got may still be on its way to the store: it becomes durable with
	// the end of the turn, in one commit.
	if err := l.m.Peek(l.ctx, k.session, look); err != nil || at == 0 {
		return "", err
	}
	if kept := l.answerKept(k); kept.requestID == requestID {
		return kept.text, nil
	}
	if err := l.m.View(l.ctx, k.session, look); err != nil {
		return "", err
	}
	fact, err := readFact(l.ctx, l.opt.Store, k.session, at)
	if err != nil {
		return "", err
	}
	p, ok := fact.Payload.(*event.ModelCompleted)
	if !ok {
		return "", nil
	}
	said, err := p.Whole(func(ref string) ([]byte, error) { return store.ReadContent(l.ctx, l.opt.Store, ref, maxAnswer) })
	if err != nil || said == nil {
		return "", err
	}
	return said.Text, nil
}

// outcome is what a turn came to, as the facts of its end state it.
type outcome struct {
	preview, messageRef string
	outputs             []event.OutputLink
	// ofTask says that the turn works on a task of its own.
	ofTask bool
}

// outcomeOf puts an answer where others can read it: behind a reference if it is long, or
// if it is the output of an attempt at a task of its own.
func (l *Loop) outcomeOf(tx *session.Tx, turn *state.Turn, text string) outcome {
	out := outcome{preview: clip.Text(text, answerPreview), ofTask: !implicit(tx, turn)}
	if text == "" || !out.ofTask && len(text) <= l.opt.Outputs.InlineBytes {
		return out
	}
	out.messageRef = tx.Blob([]byte(text), answerType)
	out.outputs = []event.OutputLink{{OutputRef: out.messageRef, MediaType: answerType}}
	return out
}

// emitAnswerArtifact makes the answer to a peer an artifact of its task, before the task
// is completed: what is delivered has to be there when the end is told.
func emitAnswerArtifact(tx *session.Tx, t *state.Thread, outcome, text string, structured event.Raw) {
	link := tx.State.Channels.InboundOf(t.Active)
	content, mediaType := []byte(text), answerType
	if len(structured) > 0 {
		content, mediaType = structured, "application/json"
	}
	if link == nil || outcome == "refusal" || len(content) == 0 {
		return
	}
	scope := scopeOf(t, t.Active)
	scope.ChannelID, scope.ArtifactID = link.ChannelID, state.AnswerArtifactID(t.Active.TurnID)
	tx.Emit(event.Event{Type: event.TypeArtifactChanged, Scope: scope, Payload: &event.ArtifactChanged{
		Change: "created", Title: "answer", Kind: "output", ReadRef: tx.Blob(content, mediaType), MediaType: mediaType, SizeBytes: int64(len(content)),
	}})
}

// tellProgress reports the end of the work on a task, with what it gave.
func (o outcome) tellProgress(tx *session.Tx, scope event.Scope, turn *state.Turn) {
	if !o.ofTask {
		return
	}
	tx.Emit(event.Event{Type: event.TypeTaskProgress, Scope: scope, Payload: &event.TaskProgressed{
		Progress:   event.Progress{Phase: "delivering", Summary: o.preview, Counters: turnCounters(turn)},
		OutputRefs: o.outputs,
	}})
}

// tellProgress reports a step of the work on a task: what the model is about to do.
func (c *call) tellProgress(tx *session.Tx) {
	t := tx.State.Thread(c.k.thread)
	if implicit(tx, t.Active) || len(c.tools) == 0 {
		return
	}
	var names []string
	for _, x := range c.tools {
		if len(names) == shownTools {
			names = append(names, "…")
			break
		}
		names = append(names, x.ToolName)
	}
	counters := turnCounters(t.Active)
	counters["toolCalls"] += int64(len(c.tools))
	tx.Emit(event.Event{Type: event.TypeTaskProgress, Scope: scopeOf(t, t.Active), Payload: &event.TaskProgressed{
		Progress: event.Progress{Phase: "working", CurrentStep: "calls " + strings.Join(names, ", "), Counters: counters},
	}})
}

// turnCounters count what a turn has done.
func turnCounters(turn *state.Turn) map[string]int64 {
	return map[string]int64{"modelCalls": turn.Step, "toolCalls": turn.ToolCount, "failedTools": turn.FailedTools}
}
