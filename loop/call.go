package loop

import (
	"context"
	"errors"
	"io"
	"time"

	"agentd/event"
	"agentd/model"
	"agentd/session"
	"agentd/state"
)

// call is a model call under way.
type call struct {
	l     *Loop
	k     key
	scope event.Scope
	req   *model.Request
	began time.Time
	first time.Time

	text, reasoning         []byte // gathered, not recorded yet
	allText, allReasoning   []byte
	textIndex, reasonsIndex int64
	tools                   []event.ToolCallRequest
}

// callModel asks the model and records the answer as it comes.
func (l *Loop) callModel(k key, e CallModel) error {
	c := &call{l: l, k: k, began: time.Now()}
	requestID := l.m.NewID(event.PrefixRequest)
	l.ours(requestID, true)
	defer l.ours(requestID, false)
	var turn state.Turn
	if err := l.emit(k, e, func(tx *session.Tx, t *state.Thread) error {
		turn = *t.Active
		c.scope = scopeOf(t, &turn)
		c.scope.ModelRequestID = requestID
		c.req = &model.Request{Model: l.opt.Model, RequestID: requestID, Call: t.ModelCalls}
		tx.Emit(event.Event{Type: event.TypeModelRequested, Scope: c.scope, Payload: &event.ModelRequested{
			Provider: l.opt.Provider.Name(), Model: l.opt.Model, ModelRequestID: requestID,
			Step: e.Step, Attempt: e.Attempt, Purpose: "turn",
		}})
		return nil
	}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(l.ctx)
	defer cancel(nil)
	l.setInterrupt(k, cancel)
	defer l.setInterrupt(k, nil)
	messages, err := l.messages(ctx, k, &turn)
	if err != nil {
		return c.fail(ctx, err)
	}
	c.req.Messages = messages
	return c.stream(ctx)
}

// ours remembers which calls this process makes, so that recovery doesn't take
// one of them for a call that was cut off.
func (l *Loop) ours(requestID string, on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if on {
		l.calls[requestID] = struct{}{}
	} else {
		delete(l.calls, requestID)
	}
}

func (l *Loop) isOurs(requestID string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.calls[requestID]
	return ok
}

// setInterrupt says how to stop what the thread's runner does now. An interrupt
// that was requested before is seen by the runner's next look at the state, so
// it is checked here too.
func (l *Loop) setInterrupt(k key, cancel context.CancelCauseFunc) {
	l.mu.Lock()
	l.runners[k].interrupt = cancel
	again := l.runners[k].again
	l.mu.Unlock()
	if cancel == nil || !again {
		return
	}
	_ = l.m.View(l.ctx, k.session, func(s *state.Session) error {
		if t := s.Thread(k.thread); t != nil && t.Active != nil && t.Active.Interrupt != nil {
			cancel(errInterrupted)
		}
		return nil
	})
}

// messages is the conversation of the turn.
func (l *Loop) messages(ctx context.Context, k key, turn *state.Turn) ([]model.Message, error) {
	facts, err := conversation(ctx, l.opt.Store, k.session, turn)
	if err != nil {
		return nil, err
	}
	var out []model.Message
	for i := range facts {
		switch p := facts[i].Payload.(type) {
		case *event.TurnSubmitted:
			text, err := l.input(ctx, p.Input, p.InputRef)
			if err != nil {
				return nil, err
			}
			out = append(out, model.Message{Role: "user", Text: text})
		case *event.TurnSteered:
			text, err := l.input(ctx, p.Input, p.InputRef)
			if err != nil {
				return nil, err
			}
			out = append(out, model.Message{Role: "user", Text: text})
		case *event.ModelCompleted:
			if p.Message != nil {
				out = append(out, model.Message{Role: "assistant", Text: p.Message.Text})
			}
		case *event.ToolResult:
			out = append(out, model.Message{Role: "tool", Text: p.Preview, ToolCallID: facts[i].ToolCallID})
		case *event.ToolFailed:
			out = append(out, model.Message{Role: "tool", Text: p.Message, ToolCallID: facts[i].ToolCallID})
		}
	}
	return out, nil
}

// input returns the text of an input, which may be behind a reference.
func (l *Loop) input(ctx context.Context, parts event.Raw, ref string) (string, error) {
	if ref == "" {
		return inputText(parts), nil
	}
	b, err := l.opt.Store.OpenBlob(ctx, ref)
	if err != nil {
		return "", err
	}
	defer b.Close()
	content, err := io.ReadAll(b)
	if err != nil {
		return "", err
	}
	return inputText(content), nil
}

// stream records the answer. Pieces are gathered for a moment and recorded as
// one fact; the first goes out at once.
func (c *call) stream(ctx context.Context) error {
	chunks, stop := pull(ctx, c.l.opt.Provider, c.req)
	defer stop()
	tick := time.NewTimer(c.l.opt.FlushEvery)
	defer tick.Stop()
	for {
		select {
		case r := <-chunks:
			if r.err != nil {
				return c.fail(ctx, r.err)
			}
			if done := c.take(r.chunk); done != nil {
				return c.complete(done)
			}
			if c.textIndex == 0 && c.reasonsIndex == 0 {
				if err := c.flush(); err != nil {
					return err
				}
				tick.Reset(c.l.opt.FlushEvery)
			}
		case <-tick.C:
			if err := c.flush(); err != nil {
				return err
			}
			tick.Reset(c.l.opt.FlushEvery)
		case <-ctx.Done():
			return c.fail(ctx, context.Cause(ctx))
		}
	}
}

type pulled struct {
	chunk model.Chunk
	err   error
}

// pull runs the provider's stream beside the caller, so that a provider which
// stalls doesn't hold up what it sent before. stop ends it and waits.
func pull(ctx context.Context, p model.Provider, r *model.Request) (<-chan pulled, func()) {
	ctx, cancel := context.WithCancel(ctx)
	out := make(chan pulled, 16)
	done := make(chan struct{})
	go func() {
		defer close(done)
		send := func(v pulled) bool {
			select {
			case out <- v:
				return true
			case <-ctx.Done():
				return false
			}
		}
		ended := false
		for chunk, err := range p.Stream(ctx, r) {
			if !send(pulled{chunk, err}) {
				return
			}
			ended = ended || err != nil || chunk.Done != nil
		}
		if !ended {
			send(pulled{err: &model.Error{Category: "malformed", Message: "the answer ended without an end", Retryable: true}})
		}
	}()
	return out, func() {
		cancel()
		<-done
	}
}

// take adds a piece to what is gathered; it returns the answer's end.
func (c *call) take(chunk model.Chunk) *model.Done {
	if c.first.IsZero() && (chunk.Text != "" || chunk.Reasoning != "" || chunk.ToolCall != nil) {
		c.first = time.Now()
	}
	c.text = append(c.text, chunk.Text...)
	c.reasoning = append(c.reasoning, chunk.Reasoning...)
	if t := chunk.ToolCall; t != nil {
		c.tools = append(c.tools, event.ToolCallRequest{
			ToolCallID: c.l.m.NewID(event.PrefixToolCall), ProviderCallID: t.ProviderID, ToolName: t.Name, Arguments: t.Arguments,
		})
	}
	return chunk.Done
}

// deltas emits what is gathered.
func (c *call) deltas(tx *session.Tx) {
	if len(c.reasoning) > 0 {
		tx.Emit(event.Event{Type: event.TypeReasoningDelta, Scope: c.scope, Payload: &event.ReasoningDelta{Text: string(c.reasoning), Index: c.reasonsIndex}})
	}
	if len(c.text) > 0 {
		tx.Emit(event.Event{Type: event.TypeModelDelta, Scope: c.scope, Payload: &event.ModelDelta{Text: string(c.text), Index: c.textIndex}})
	}
}

// flushed moves what was gathered to what is recorded.
func (c *call) flushed() {
	if len(c.reasoning) > 0 {
		c.reasonsIndex++
	}
	if len(c.text) > 0 {
		c.textIndex++
	}
	c.allText, c.allReasoning = append(c.allText, c.text...), append(c.allReasoning, c.reasoning...)
	c.text, c.reasoning = c.text[:0], c.reasoning[:0]
}

func (c *call) flush() error {
	if len(c.text) == 0 && len(c.reasoning) == 0 {
		return nil
	}
	if err := c.emit(func(tx *session.Tx) { c.deltas(tx) }); err != nil {
		return err
	}
	c.flushed()
	return nil
}

// emit records facts of the call, which ends with the turn at the latest. It is
// not tied to the call's own context: what happened is recorded even when the
// runtime stops.
func (c *call) emit(facts func(*session.Tx)) error {
	return c.l.m.Emit(context.WithoutCancel(c.l.ctx), c.k.session, event.ByLoop, func(tx *session.Tx) error {
		t := tx.State.Thread(c.k.thread)
		if t == nil || t.Active == nil || t.Active.Call == nil || t.Active.Call.ModelRequestID != c.req.RequestID || t.Active.Call.Status != state.CallRunning {
			return errMoved
		}
		facts(tx)
		return nil
	})
}

func (c *call) complete(done *model.Done) error {
	return c.emit(func(tx *session.Tx) {
		c.deltas(tx)
		c.flushed()
		p := &event.ModelCompleted{
			ModelRequestID: c.req.RequestID, Provider: c.l.opt.Provider.Name(), Model: c.req.Model,
			StopReason: done.StopReason, Usage: done.Usage, UsageSource: "provider",
			Message:    &event.ModelMessage{Text: string(c.allText), Reasoning: string(c.allReasoning), ToolCalls: c.tools},
			DurationMs: time.Since(c.began).Milliseconds(),
		}
		if !c.first.IsZero() {
			p.TimeToFirstTokenMs = c.first.Sub(c.began).Milliseconds()
		}
		tx.Emit(event.Event{Type: event.TypeModelCompleted, Scope: c.scope, Payload: p})
	})
}

// fail records why there is no answer.
func (c *call) fail(ctx context.Context, err error) error {
	p := &event.ModelFailed{
		ModelRequestID: c.req.RequestID, Provider: c.l.opt.Provider.Name(), Model: c.req.Model,
		ErrorCategory: "server_error", Message: err.Error(), Retryable: false,
	}
	var failed *model.Error
	switch {
	case ctx.Err() != nil:
		p.ErrorCategory, p.Message, p.Retryable = "interrupted", context.Cause(ctx).Error(), true
	case errors.As(err, &failed):
		p.ErrorCategory, p.Message, p.Retryable = failed.Category, failed.Message, failed.Retryable
		if failed.RetryAfter > 0 {
			ms := failed.RetryAfter.Milliseconds()
			p.RetryAfterMs = &ms
		}
	}
	return c.emit(func(tx *session.Tx) {
		c.deltas(tx)
		c.flushed()
		p.PartialText = string(c.allText)
		tx.Emit(event.Event{Type: event.TypeModelFailed, Scope: c.scope, Payload: p})
	})
}

// interrupted is the end of a model call that nobody waits for any more.
func interrupted(c *state.ModelCall, reason string) *event.ModelFailed {
	return &event.ModelFailed{
		ModelRequestID: c.ModelRequestID, Provider: c.Provider, Model: c.Model,
		ErrorCategory: "interrupted", Message: reason, Retryable: true,
	}
}
