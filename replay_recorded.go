package agentd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"agentd/event"
	"agentd/evidence"
	"agentd/model"
	"agentd/tool"
)

// recordedModel answers as the recording does.
type recordedModel struct {
	p    *replaying
	name string
}

// Name implements [model.Provider].
func (m *recordedModel) Name() string { return m.name }

// Stream implements [model.Provider].
func (m *recordedModel) Stream(ctx context.Context, r *model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		if err := m.p.others.beforeAnswer(ctx); err != nil {
			yield(model.Chunk{}, err)
			return
		}
		turn := m.p.others.turnOf(ctx, r.CacheKey)
		a, n := m.p.next(turn)
		if !m.p.acts.answer(ctx, turn, a) {
			yield(model.Chunk{}, context.Canceled)
			return
		}
		if a == nil {
			yield(model.Chunk{}, &model.Error{Category: model.InvalidRequest, Message: fmt.Sprintf("the recording has no answer to call %d", n)})
			return
		}
		if a.ErrorCategory != "" {
			yield(model.Chunk{}, &model.Error{Category: a.ErrorCategory, Message: a.ErrorMessage, Retryable: a.Retryable})
			return
		}
		m.p.others.gave(r.CacheKey, a.Message)
		for _, c := range chunks(a) {
			if !yield(c, nil) {
				return
			}
		}
	}
}

// next returns the next answer that a turn was given, in the order of the
// recording: also a call that was cut off has its place. An answer that names no
// turn fits any. The number is that of the call within its turn, from 1.
func (p *replaying) next(turn string) (*evidence.CaseAnswer, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[turn]++
	for i := range p.answers {
		if a := &p.answers[i]; a.TurnID == turn || a.TurnID == "" || p.turn == event.NotApplicable && turn == p.turn {
			found := *a
			p.answers = slices.Delete(p.answers, i, i+1)
			return &found, p.asked[turn]
		}
	}
	return nil, p.asked[turn]
}

// begin says which turn of the recording runs from now on.
func (p *replaying) begin(turnID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn = turnID
}

func chunks(a *evidence.CaseAnswer) []model.Chunk {
	var out []model.Chunk
	done := &model.Done{StopReason: a.StopReason, Usage: a.Usage}
	if m := a.Message; m != nil {
		out = append(out, model.Chunk{Text: m.Text, Reasoning: m.Reasoning})
		for _, c := range m.ToolCalls {
			out = append(out, model.Chunk{ToolCall: &model.ToolCall{
				ProviderID: c.ProviderCallID, Name: c.ToolName, Arguments: c.Arguments, Malformed: a.Malformed[c.ToolCallID],
			}})
		}
		done.Native = m.Native
	}
	return append(out, model.Chunk{Done: done})
}

// recordedTool gives what the tool gave.
type recordedTool struct {
	p    *replaying
	info event.ToolInfo
}

// Info implements [tool.Tool].
func (t *recordedTool) Info() event.ToolInfo { return t.info }

// Run implements [tool.Tool].
func (t *recordedTool) Run(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	x, ok := t.p.result(t.info.ToolName, call.Input, t.p.others.recordedCall(ctx, call.ThreadID, call.ToolCallID))
	turn := t.p.others.turnOf(ctx, call.ThreadID)
	if err := t.p.acts.result(ctx, turn, &x, ok, t.info.InterruptBehavior == "cancel"); err != nil {
		return nil, err
	}
	switch {
	case !ok:
		return nil, tool.Errorf(tool.Unavailable, "the recording has no more results of %s", t.info.ToolName)
	case x.ErrorCategory != "":
		return &tool.Result{Changed: x.Changed}, failureOf(&x)
	}
	return &tool.Result{Output: []byte(x.Output), IsError: x.IsError, ExitCode: x.ExitCode, Background: x.Background, Changed: x.Changed}, nil
}

// result takes the first recorded result of the same call, else of the tool for the
// same input, else of the tool: a case that was made by hand may not say more.
func (p *replaying) result(name string, input event.Raw, call string) (evidence.CaseResult, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.results, func(x evidence.CaseResult) bool { return x.ToolName == name && call != "" && x.ToolCallID == call })
	if i < 0 {
		i = slices.IndexFunc(p.results, func(x evidence.CaseResult) bool { return x.ToolName == name && sameJSON(x.Arguments, input) })
	}
	if i < 0 {
		i = slices.IndexFunc(p.results, func(x evidence.CaseResult) bool { return x.ToolName == name })
	}
	if i < 0 {
		return evidence.CaseResult{}, false
	}
	x := p.results[i]
	p.results = slices.Delete(p.results, i, i+1)
	return x, true
}

func sameJSON(a, b event.Raw) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}
