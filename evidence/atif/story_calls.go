package atif

import (
	"bytes"
	"encoding/json"
	"fmt"

	"agentd/event"
)

// modelCall follows the calls of models: one step for each.
func (s *story) modelCall(e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.ModelRequested:
		if isAgentStep(p.Purpose) {
			s.close()
			s.steered()
		}
	case *event.ModelCompleted:
		s.count1(&p.Usage)
		if !isAgentStep(s.x.purposes[p.ModelRequestID]) {
			s.asides++
			return
		}
		s.openAnswerStep(e, p)
	case *event.ModelFailed:
		s.count1(nil)
		if !isAgentStep(s.x.purposes[p.ModelRequestID]) {
			return
		}
		s.close()
		one := int64(1)
		s.emitStep(&Step{
			Source: SourceAgent, Timestamp: eventTime(e), ModelName: modelName(p.Provider, p.Model), Message: *Text(p.PartialText), LLMCallCount: &one,
			Extra: Extra{"event_id": e.ID, "turn_id": e.TurnID, "model_request_id": p.ModelRequestID, "error": Extra{
				"category": p.ErrorCategory, "message": p.Message, "retryable": p.Retryable,
			}},
		})
	case *event.CostRecorded:
		s.cost(p)
	}
}

// isAgentStep reports whether a call is a step of the agent, and not one that made a
// summary or judged something.
func isAgentStep(purpose string) bool {
	return purpose == "" || purpose == "turn" || purpose == "repair"
}

func modelName(provider, model string) string {
	if provider == "" {
		return model
	}
	return provider + "/" + model
}

// count1 adds a call to the totals.
func (s *story) count1(u *event.Usage) {
	s.calls++
	s.x.sum.ModelCalls++
	if u == nil {
		return
	}
	s.final.PromptTokens += u.InputTokens
	s.final.CompletionTokens += u.OutputTokens
	s.final.CachedTokens += u.CachedInputTokens
	t := &s.x.sum.Usage
	t.InputTokens += u.InputTokens
	t.OutputTokens += u.OutputTokens
	t.CachedInputTokens += u.CachedInputTokens
	t.ReasoningTokens += u.ReasoningTokens
}

func (s *story) cost(p *event.CostRecorded) {
	if p.CostUSD == nil {
		s.unpriced++
		s.x.sum.Unpriced++
		return
	}
	cost := *p.CostUSD
	s.x.sum.CostUSD += cost
	s.x.sum.Priced++
	if s.final.CostUSD == nil {
		s.final.CostUSD = new(float64)
	}
	*s.final.CostUSD += cost
	if o := s.open; o != nil && o.requestID == p.ModelRequestID {
		o.Metrics.CostUSD = &cost
		return
	}
	if s.costs == nil {
		s.costs = map[string]*float64{}
	}
	s.costs[p.ModelRequestID] = &cost
}

// openAnswerStep opens the step of an answer.
func (s *story) openAnswerStep(e *event.Event, p *event.ModelCompleted) {
	s.close()
	m := s.message(p)
	one := int64(1)
	step := &Step{
		Source: SourceAgent, Timestamp: eventTime(e), ModelName: modelName(p.Provider, p.Model), Message: *Text(m.Text), ReasoningContent: m.Reasoning,
		LLMCallCount: &one,
		Metrics: &Metrics{
			PromptTokens: p.Usage.InputTokens, CompletionTokens: p.Usage.OutputTokens, CachedTokens: p.Usage.CachedInputTokens, CostUSD: s.costs[p.ModelRequestID],
		},
		Extra: Extra{"event_id": e.ID, "turn_id": e.TurnID, "model_request_id": p.ModelRequestID, "stop_reason": p.StopReason},
	}
	delete(s.costs, p.ModelRequestID)
	if p.Usage.ReasoningTokens > 0 {
		step.Metrics.Extra = Extra{"reasoning_tokens": p.Usage.ReasoningTokens}
	}
	if p.DurationMs > 0 {
		step.Extra["duration_ms"] = p.DurationMs
	}
	for _, c := range m.ToolCalls {
		step.ToolCalls = append(step.ToolCalls, s.requestedCall(c))
	}
	s.x.sum.ToolCalls += int64(len(m.ToolCalls))
	s.open = &openStep{Step: step, requestID: p.ModelRequestID, results: map[string]*Result{}, refs: map[string][]SubagentRef{}}
}

// message returns an answer, also one that is behind a reference.
func (s *story) message(p *event.ModelCompleted) *event.ModelMessage {
	if p.MessageRef == "" && p.Message != nil {
		return p.Message
	}
	raw, ok := s.x.read(p.MessageRef, 32<<20)
	m := &event.ModelMessage{}
	switch {
	case !ok && p.MessageRef != "":
		m.Text = fmt.Sprintf("[the answer is at %s]", p.MessageRef)
	case ok && json.Unmarshal(raw, m) != nil:
		*m = event.ModelMessage{Text: string(raw)}
	}
	return m
}

func (s *story) requestedCall(c event.ToolCallRequest) *ToolCall {
	out := &ToolCall{ToolCallID: c.ToolCallID, FunctionName: c.ToolName, Arguments: c.Arguments, Extra: Extra{}}
	if c.ProviderCallID != "" {
		out.Extra["provider_call_id"] = c.ProviderCallID
	}
	if len(out.Arguments) == 0 && c.ArgumentsRef != "" {
		out.Extra["arguments_ref"] = c.ArgumentsRef
		out.Arguments, _ = s.x.read(c.ArgumentsRef, 32<<20)
	}
	if trimmed := bytes.TrimSpace(out.Arguments); len(trimmed) == 0 || trimmed[0] != '{' || !json.Valid(trimmed) {
		// The format wants an object; what the model sent instead is kept as a text.
		raw, _ := json.Marshal(map[string]string{}) //nolint:errchkjson // a map of texts always encodes
		if len(trimmed) > 0 {
			raw, _ = json.Marshal(map[string]string{"malformed": string(trimmed)}) //nolint:errchkjson // a map of texts always encodes
		}
		out.Arguments = raw
	}
	return out
}

// called returns a call of the open step, or nil.
func (s *story) called(id string) *ToolCall {
	if s.open == nil || id == "" || id == event.NotApplicable {
		return nil
	}
	for _, c := range s.open.ToolCalls {
		if c.ToolCallID == id {
			return c
		}
	}
	return nil
}

// toolEnd puts what came of a call into the step of the call.
func (s *story) toolEnd(e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.ToolResult:
		s.files(e, p.ChangedFiles)
		if s.x.denied[e.ToolCallID] && p.Status != "error" {
			s.x.sum.DeniedEffects++
		}
		s.result(e, s.output(p), p.DurationMs, resultExtra(p))
	case *event.ToolFailed:
		s.files(e, p.ChangedFiles)
		text := p.ErrorCategory + ": " + p.Message
		if p.Advice != "" {
			text += "\n" + p.Advice
		}
		extra := Extra{"status": "failed", "error_category": p.ErrorCategory, "retryable": p.Retryable}
		if p.OutputRef != "" {
			extra["output_ref"] = p.OutputRef
		}
		s.result(e, text, p.DurationMs, extra)
	case *event.OutputStored:
		s.x.sum.Outputs = append(s.x.sum.Outputs, Output{
			Ref: p.OutputRef, MediaType: p.MediaType, ToolCallID: e.ToolCallID, SizeBytes: p.SizeBytes, Redacted: s.x.redacted[p.OutputRef],
		})
	}
}

func resultExtra(p *event.ToolResult) Extra {
	x := Extra{"status": p.Status}
	if p.ExitCode.Present {
		x["exit_code"] = nil
		if !p.ExitCode.Null {
			x["exit_code"] = p.ExitCode.Value
		}
	}
	if p.OutputRef != "" {
		x["output_ref"], x["size_bytes"] = p.OutputRef, p.SizeBytes
	}
	if p.ProcessID != "" {
		x["process_id"] = p.ProcessID
	}
	if len(p.ChangedFiles) > 0 {
		list := []Extra{}
		for _, f := range p.ChangedFiles {
			list = append(list, Extra{"path": f.Path, "change": f.Change})
		}
		x["changed_files"] = list
	}
	return x
}

func (s *story) files(e *event.Event, files []event.FileChange) {
	for _, f := range files {
		s.x.sum.Files = append(s.x.sum.Files, File{Path: f.Path, Change: f.Change, ToolCallID: e.ToolCallID, Hash: f.AfterHash})
	}
	if len(files) > 0 && s.x.denied[e.ToolCallID] {
		if _, failed := e.Payload.(*event.ToolFailed); failed {
			s.x.sum.DeniedEffects++
		}
	}
}

// output is what a tool gave, as far as it is shown.
func (s *story) output(p *event.ToolResult) string {
	if p.OutputRef == "" {
		return p.Preview
	}
	b, ok := s.x.read(p.OutputRef, inlineBytes)
	if !ok {
		return p.Preview
	}
	text := string(bytes.ToValidUTF8(b, []byte("\uFFFD")))
	if p.SizeBytes > int64(len(b)) || p.Truncated {
		text += fmt.Sprintf("\n[%d bytes in all; the rest is at %s]", p.SizeBytes, p.OutputRef)
	}
	return text
}

func (s *story) result(e *event.Event, text string, durationMs int64, extra Extra) {
	if s.called(e.ToolCallID) == nil {
		return
	}
	extra["event_id"], extra["timestamp"] = e.ID, eventTime(e)
	if durationMs > 0 {
		extra["duration_ms"] = durationMs
	}
	if have := s.open.results[e.ToolCallID]; have != nil {
		// A call that was lost and run again has two ends; the first one is kept too.
		extra["earlier"] = []Extra{{"content": have.Content.Text, "extra": have.Extra}}
	}
	s.open.results[e.ToolCallID] = &Result{SourceCallID: e.ToolCallID, Content: Text(text), Extra: extra}
}
