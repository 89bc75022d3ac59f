package telemetry

import (
	"cmp"

	"agentd/event"
)

// contextResolved is one fact: the span lasts from the beginning of the run, which
// the context is chosen for, to the fact.
func (p *Projector) contextResolved(e *event.Event, x *event.ContextResolved) {
	s := p.newSpan(e, e.ID, OpResolveContext, Internal, p.placeOf(e))
	if t := p.turns[e.TurnID]; t != nil && p.open[t.run] != nil {
		s.Start = p.open[t.run].Start
	}
	s.set(Attr{AttrItems, int64(len(x.Items))}, positive(AttrOmissions, int64(len(x.Omissions))), positive(AttrTokensEst, x.EstimatedTokens))
	p.endSpan(e, s)
}

func chatName(model string) string {
	if model == "" {
		return OpChat
	}
	return OpChat + " " + model
}

func (p *Projector) modelRequested(e *event.Event, x *event.ModelRequested) {
	provider, model := providerName(x.Provider), safeName(x.Model)
	s := p.beginSpan(e, x.ModelRequestID, chatName(model), Client)
	s.set(Attr{AttrOperation, OpChat}, Attr{AttrProvider, provider}, Attr{AttrRequestModel, model}, Attr{AttrRequestStream, true},
		Attr{AttrConversation, p.session}, Attr{AttrPurpose, x.Purpose}, positive(AttrStep, x.Step), positive(AttrAttempt, x.Attempt))
	if t := p.turns[e.TurnID]; t != nil {
		t.provider, t.model = provider, model
		if t.span != nil && t.span.Get(AttrProvider) == nil {
			t.span.set(Attr{AttrProvider, provider}, Attr{AttrRequestModel, model})
		}
	}
	if x.Attempt > 1 {
		p.measure(modelRetries, 1, Attr{AttrProvider, provider}, Attr{AttrRequestModel, model})
	}
}

func (p *Projector) modelCompleted(e *event.Event, x *event.ModelCompleted) {
	model := safeName(x.Model)
	s := p.finishSpan(e, x.ModelRequestID, chatName(model), Client, x.DurationMs, "", append(usageAttrs(&x.Usage),
		Attr{AttrOperation, OpChat}, Attr{AttrResponseModel, model}, Attr{AttrResponseID, safeName(x.ResponseID)},
		Attr{AttrFinishReasons, []string{x.StopReason}}, seconds(AttrTimeToFirstChunk, x.TimeToFirstTokenMs), p.outputAttr(x))...)
	p.orProvider(s, x.Provider)
	attrs := p.modelAttrs(s)
	p.measure(modelDuration, s.End.Sub(s.Start).Seconds(), attrs...)
	if x.TimeToFirstTokenMs > 0 {
		p.measure(timeToFirstChunk, toSeconds(x.TimeToFirstTokenMs), attrs...)
	}
	if x.UsageSource == "estimated" {
		return // the conventions want counted tokens or none
	}
	p.measure(tokenUsage, float64(x.Usage.InputTokens), append(attrs, Attr{AttrTokenType, "input"})...)
	p.measure(tokenUsage, float64(x.Usage.OutputTokens), append(attrs, Attr{AttrTokenType, "output"})...)
}

func (p *Projector) modelFailed(e *event.Event, x *event.ModelFailed) {
	model := safeName(x.Model)
	s := p.finishSpan(e, x.ModelRequestID, chatName(model), Client, 0, x.ErrorCategory,
		Attr{AttrOperation, OpChat}, Attr{AttrRetryable, x.Retryable}, positive(AttrHTTPStatus, x.HTTPStatus))
	p.orProvider(s, x.Provider)
	p.measure(modelDuration, s.End.Sub(s.Start).Seconds(), append(p.modelAttrs(s), Attr{AttrErrorType, x.ErrorCategory})...)
}

// orProvider names the provider of a call whose beginning isn't known. The span was
// given out already, so it is the copy in the output that is changed.
func (p *Projector) orProvider(s *Span, provider string) {
	if s.Get(AttrProvider) == nil && provider != "" {
		s.set(Attr{AttrProvider, providerName(provider)})
		p.out.Spans[len(p.out.Spans)-1].Attrs = s.Attrs
	}
}

func (p *Projector) modelAttrs(s *Span) []Attr {
	model := s.Get(AttrRequestModel)
	if model == nil {
		model = s.Get(AttrResponseModel)
	}
	return []Attr{{AttrOperation, OpChat}, {AttrProvider, s.Get(AttrProvider)}, {AttrRequestModel, model}}
}

// toolSpanID is the span of a tool call's newest attempt.
func (p *Projector) toolSpanID(t *turn, toolCallID string) string {
	if s := p.open[toolCallID]; s != nil {
		return s.SpanID
	}
	return event.SpanIDOf(p.session, event.ToolSpanKey(toolCallID, t.tools[toolCallID]))
}

func toolName(called string) string { return OpExecuteTool + " " + cmp.Or(safeName(called), Unknown) }

// toolSpan returns the open span of the fact's tool call. It begins with the first fact
// of the call, so that hooks and the wait for a permission are inside of it.
func (p *Projector) toolSpan(e *event.Event, called string) *Span {
	if !isKnown(e.ToolCallID) {
		return nil
	}
	if s := p.open[e.ToolCallID]; s != nil {
		return s
	}
	t := p.turns[e.TurnID]
	if t == nil || t.span == nil {
		return nil
	}
	at := p.placeOf(&event.Event{Scope: event.Scope{TurnID: e.TurnID}})
	t.tools[e.ToolCallID]++
	s := p.newSpan(e, event.ToolSpanKey(e.ToolCallID, t.tools[e.ToolCallID]), toolName(called), Internal, at)
	s.set(Attr{AttrOperation, OpExecuteTool}, Attr{AttrToolName, safeName(called)}, Attr{AttrToolCallID, e.ToolCallID}, Attr{AttrConversation, p.session})
	t.begun[e.ToolCallID] = true
	p.open[e.ToolCallID] = s
	return s
}

// toolType is the conventions' word for who runs a tool: the side of the agent, or
// that of the provider.
func toolType(owner string) string {
	switch owner {
	case "":
		return ""
	case "provider_native", "hosted_connector":
		return "extension"
	}
	return "function"
}

func (p *Projector) toolStarted(e *event.Event, x *event.ToolStarted) {
	s := p.toolSpan(e, x.ToolName)
	if s == nil {
		return
	}
	s.Name = toolName(x.ToolName)
	s.set(Attr{AttrToolName, safeName(x.ToolName)}, Attr{AttrToolType, toolType(x.RuntimeOwner)},
		Attr{AttrOwner, safeName(x.RuntimeOwner)}, p.contentOf(AttrToolArguments, string(x.SafeArgs)))
	if x.Runs() {
		p.toolRuns(e, s, x.Policy, x.AttemptCount)
	}
}

// toolRuns marks the moment from which on the call may have effects.
func (p *Projector) toolRuns(e *event.Event, s *Span, policy string, attempt int64) {
	s.set(Attr{AttrPolicy, policy}, positive(AttrAttempt, attempt))
	s.addEvent(e.Time, "agentruntime.tool.started")
}

// toolProgress takes the phases of a call. An attempt that was lost ends its span; the
// next one has a span of its own.
func (p *Projector) toolProgress(e *event.Event, x *event.ToolProgress) {
	switch x.Phase {
	case event.PhaseRunning:
		if s := p.toolSpan(e, x.ToolName); s != nil {
			p.toolRuns(e, s, x.Policy, x.AttemptCount)
		}
	case event.PhaseLost:
		p.toolEnded(e, x.ToolName, 0, "lost", Attr{AttrStatus, "failed"}, Attr{AttrRetryable, true})
	}
}

func (p *Projector) toolResult(e *event.Event, x *event.ToolResult) {
	errorType := ""
	if x.Status == "error" {
		errorType = "tool_error"
	}
	p.toolEnded(e, x.ToolName, x.DurationMs, errorType, Attr{AttrStatus, x.Status}, positive(AttrSizeBytes, x.SizeBytes), flagAttr(AttrTruncated, x.Truncated),
		p.contentOf(AttrToolResult, x.Preview))
}

func (p *Projector) toolFailed(e *event.Event, x *event.ToolFailed) {
	p.toolEnded(e, x.ToolName, x.DurationMs, x.ErrorCategory, Attr{AttrStatus, "failed"}, Attr{AttrRetryable, x.Retryable})
}

func (p *Projector) toolEnded(e *event.Event, called string, ms int64, errorType string, attrs ...Attr) {
	if !isKnown(e.ToolCallID) {
		return
	}
	attrs = append(attrs, Attr{AttrOperation, OpExecuteTool}, Attr{AttrToolName, safeName(called)}, Attr{AttrToolCallID, e.ToolCallID}, seconds(AttrDuration, ms))
	if t := p.turns[e.TurnID]; t != nil && t.span != nil {
		p.toolSpan(e, called) // a call that was refused has no other fact
	}
	p.finishSpan(e, e.ToolCallID, toolName(called), Internal, ms, errorType, attrs...)
	p.measure(toolDuration, toSeconds(ms), Attr{AttrToolName, safeName(called)}, Attr{AttrErrorType, errorType})
}

func hookName(point string) string { return OpHookRun + " " + safeName(point) }

func (p *Projector) hookStarted(e *event.Event, x *event.HookStarted) {
	if x.Point == "pre_tool_use" || x.Point == "permission_request" {
		p.toolSpan(e, x.Preview)
	}
	p.beginSpan(e, x.HookRunID, hookName(x.Point), Internal).set(Attr{AttrHookRunID, x.HookRunID}, Attr{AttrPoint, x.Point}, Attr{AttrHandler, handler(x.HandlerRef)})
}

func (p *Projector) hookCompleted(e *event.Event, x *event.HookCompleted) {
	p.finishSpan(e, x.HookRunID, hookName(x.Point), Internal, x.DurationMs, "", Attr{AttrDecision, x.Decision})
	p.measure(hookDuration, toSeconds(x.DurationMs), Attr{AttrPoint, x.Point}, Attr{AttrDecision, x.Decision})
}

func (p *Projector) hookFailed(e *event.Event, x *event.HookFailed) {
	p.finishSpan(e, x.HookRunID, hookName(x.Point), Internal, x.DurationMs, x.ErrorCategory, Attr{AttrFailureMode, x.FailureBehavior})
	p.measure(hookDuration, toSeconds(x.DurationMs), Attr{AttrPoint, x.Point}, Attr{AttrErrorType, x.ErrorCategory})
}

// handler is the name that the operator gave a hook, or its kind: where a hook's
// command or address is, isn't exported.
func handler(ref string) string {
	for _, made := range []string{"command", "url"} {
		if len(ref) > len(made) && ref[:len(made)+1] == made+":" {
			return made
		}
	}
	return safeName(ref)
}
