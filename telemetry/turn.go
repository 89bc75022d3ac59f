package telemetry

import (
	"cmp"

	"agentd/event"
)

func (p *Projector) threadStarted(e *event.Event, x *event.ThreadStarted) {
	t := p.threads[e.ThreadID]
	if t == nil {
		t = &thread{}
		p.threads[e.ThreadID] = t
	}
	t.root = x.ParentTurnID
	if parent := p.threads[x.ParentThreadID]; parent != nil && parent.root != "" {
		t.root = parent.root
	}
	if pt := p.turns[x.ParentTurnID]; pt != nil && pt.span != nil {
		t.trace = pt.explicit
	}
	if t.parent == "" && isKnown(x.ParentTurnID) {
		t.parent = event.SpanIDOf(p.session, x.ParentTurnID)
	}
}

// subagentSpawned comes before its thread starts and knows the tool call that
// asked for it.
func (p *Projector) subagentSpawned(e *event.Event, x *event.SubagentSpawned) {
	t := &thread{agent: cmp.Or(safeName(x.Nickname), safeName(x.Role)), depth: x.Depth}
	if parent := p.turns[e.TurnID]; parent != nil && isKnown(e.ToolCallID) {
		t.parent = p.toolSpanID(parent, e.ToolCallID)
	}
	p.threads[x.ChildThreadID] = t
	p.addSpanEvent(e, Attr{AttrSubagentID, e.SubagentID}, Attr{AttrAgentName, t.agent})
}

func (p *Projector) turnSubmitted(e *event.Event, x *event.TurnSubmitted) {
	th := p.threads[e.ThreadID]
	if th == nil {
		th = &thread{}
	}
	t := &turn{id: event.SpanIDOf(p.session, e.TurnID), explicit: cmp.Or(e.TraceID, th.trace), tools: map[string]int64{}, begun: map[string]bool{}}
	t.trace = cmp.Or(t.explicit, event.TraceIDOf(p.session, cmp.Or(th.root, e.TurnID)))
	parent := th.parent
	if e.SpanID != "" && !event.DerivedSpan(e) { // the caller's; the trace alone is that of the work it belongs to
		parent = e.SpanID
	}
	called := OpInvokeAgent
	if th.agent != "" {
		called += " " + th.agent
	}
	t.span = p.newSpan(e, e.TurnID, called, Internal, place{trace: t.trace, parent: parent})
	t.span.set(Attr{AttrOperation, OpInvokeAgent}, Attr{AttrConversation, p.session}, Attr{AttrAgentName, th.agent},
		Attr{AttrAgentID, e.SubagentID}, Attr{AttrSource, x.Source}, positive(AttrDepth, th.depth), p.inputAttr(x))
	if th.link != (Link{}) {
		t.span.Links = []Link{th.link}
	}
	p.turns[e.TurnID] = t
	p.adoptRun(e, t)
}

// adoptRun joins a run that began before its turn to the turn.
func (p *Projector) adoptRun(e *event.Event, t *turn) {
	if run := p.open[e.RunID]; isKnown(e.RunID) && run != nil {
		run.TraceID, run.ParentID, t.run = t.trace, t.id, e.RunID
	}
}

func (p *Projector) turnStarted(e *event.Event, x *event.TurnStarted) {
	p.measure(queueWait, toSeconds(x.QueueWaitMs))
	if t := p.turns[e.TurnID]; t != nil && t.span != nil {
		t.span.set(seconds(AttrQueueWait, x.QueueWaitMs))
		t.span.addEvent(e.Time, "agentruntime.turn.started", positive(AttrAttempt, x.AttemptCount))
	}
}

func (p *Projector) turnCompleted(e *event.Event, x *event.TurnCompleted) {
	p.endTurn(e, "", x.Usage, Attr{AttrStatus, x.Status}, Attr{AttrOutcome, safeName(x.Outcome)}, Attr{AttrSteps, x.Steps}, usd(x.CostUSD))
}

// turnFailed ends a turn. One that was stopped on purpose is no error.
func (p *Projector) turnFailed(e *event.Event, x *event.TurnFailed) {
	errorType := x.FailureCategory
	if x.Status == "cancelled" {
		errorType = ""
	}
	p.endTurn(e, errorType, x.Usage, Attr{AttrStatus, x.Status}, Attr{AttrOutcome, safeName(x.Outcome)}, Attr{AttrSteps, x.Steps}, usd(x.CostUSD))
}

func (p *Projector) endTurn(e *event.Event, errorType string, u *event.Usage, attrs ...Attr) {
	t := p.turns[e.TurnID]
	if t == nil || t.span == nil {
		t = &turn{span: p.newSpan(e, e.TurnID, OpInvokeAgent, Internal, p.orphanPlace(e))}
		t.span.set(Attr{AttrOperation, OpInvokeAgent}, Attr{AttrCorrelation, MissingCorrelation})
	}
	p.endAbandoned(e, t)
	s := t.span
	s.set(attrs...)
	s.set(usageAttrs(u)...)
	if errorType != "" {
		s.fail(errorType)
	}
	p.endSpan(e, s)
	status, _ := s.Get(AttrStatus).(string)
	p.measure(turnDuration, s.End.Sub(s.Start).Seconds(), Attr{AttrStatus, status}, Attr{AttrErrorType, errorType}, Attr{AttrAgentName, s.Get(AttrAgentName)})
	t.span, t.begun, t.tools = nil, nil, nil
	if p.ended = append(p.ended, e.TurnID); len(p.ended) > keepEnded {
		delete(p.turns, p.ended[0])
		p.ended = p.ended[1:]
	}
}

// orphanPlace is the place of a turn whose submission isn't known.
func (p *Projector) orphanPlace(e *event.Event) place {
	if e.TraceID != "" {
		return place{trace: e.TraceID}
	}
	return place{trace: event.TraceIDOf(p.session, e.TurnID)}
}

// endAbandoned ends what a turn leaves open: nothing says how it ended.
func (p *Projector) endAbandoned(e *event.Event, t *turn) {
	for _, id := range sortedKeys(t.begun) {
		if s := p.open[id]; s != nil {
			delete(p.open, id)
			left := *e
			left.Scope = event.Scope{}
			s.fail(Unknown)
			p.endSpan(&left, s)
		}
	}
}

func (p *Projector) taskStatus(e *event.Event) {
	if e.Type.EndsTask() || e.Type == event.TypeTaskArchived {
		delete(p.kinds, e.TaskID)
	}
}

// attemptStarted opens the span of a run. An attempt may be announced again: when
// its turn starts, or when a worker takes it over.
func (p *Projector) attemptStarted(e *event.Event, x *event.TaskAttemptStarted) {
	s := p.open[e.RunID]
	t := p.turns[e.TurnID]
	if s == nil {
		at := p.rootPlace(e)
		if t != nil {
			at = place{trace: t.trace, parent: t.id}
		}
		s = p.newSpan(e, e.RunID, OpTaskRun, Internal, at)
		p.open[e.RunID] = s
		if x.AttemptCount > 1 {
			p.measure(taskRetries, 1, Attr{AttrTaskKind, p.kinds[e.TaskID]}, Attr{AttrReason, x.Reason})
		}
	}
	s.set(Attr{AttrTaskKind, p.kinds[e.TaskID]}, Attr{AttrAttempt, max(x.AttemptCount, 1)}, Attr{AttrReason, x.Reason})
	p.setIDs(s, e)
	if t != nil {
		s.TraceID, s.ParentID, t.run = t.trace, t.id, e.RunID
	}
}

func (p *Projector) attemptEnded(e *event.Event, status, failure string, ms int64) {
	errorType := failure
	if status == "cancelled" {
		errorType = ""
	}
	s := p.finishSpan(e, e.RunID, OpTaskRun, Internal, ms, errorType, Attr{AttrStatus, status})
	p.measure(taskDuration, s.End.Sub(s.Start).Seconds(), Attr{AttrTaskKind, s.Get(AttrTaskKind)}, Attr{AttrStatus, status}, Attr{AttrErrorType, errorType})
}

func usageAttrs(u *event.Usage) []Attr {
	if u == nil {
		return nil
	}
	return []Attr{
		{AttrInputTokens, u.InputTokens},
		{AttrOutputTokens, u.OutputTokens},
		positive(AttrCacheReadTokens, u.CachedInputTokens),
		positive(AttrCacheWriteTokens, u.CacheWriteInputTokens),
		positive(AttrReasoningTokens, u.ReasoningTokens),
	}
}

func usd(v float64) Attr {
	if v == 0 {
		return Attr{}
	}
	return Attr{AttrCostUSD, v}
}
