package telemetry

import (
	"maps"
	"path"
	"slices"
	"time"

	"agentd/event"
)

func sortedKeys(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }

// permissions are the actions that ask whether something may be done.
var permissions = map[string]bool{"tool_permission": true, "sandbox_escape": true, "plan_approval": true, "host_policy": true}

func waitName(actionType string) string { return OpWait + " " + safeName(actionType) }

func (p *Projector) actionRequired(e *event.Event, x *event.ActionRequired) {
	p.toolSpan(e, x.ToolName)
	p.beginSpan(e, e.ActionID, waitName(x.ActionType), Internal).set(Attr{AttrActionType, x.ActionType}, Attr{AttrToolName, safeName(x.ToolName)})
}

func (p *Projector) actionResolved(e *event.Event, x *event.ActionResolved) {
	s := p.finishSpan(e, e.ActionID, waitName(x.ActionType), Internal, 0, "",
		Attr{AttrDecision, x.Decision}, Attr{AttrDecidedBy, x.DecisionSource}, Attr{AttrStatus, x.Status})
	if kind, _ := s.Get(AttrActionType).(string); permissions[kind] {
		p.measure(permissionWait, s.End.Sub(s.Start).Seconds(), Attr{AttrDecision, x.Decision}, Attr{AttrDecidedBy, x.DecisionSource})
	}
}

func (p *Projector) permissionEvaluated(e *event.Event, x *event.PermissionEvaluated) {
	p.toolSpan(e, x.ToolName)
	p.addSpanEvent(e, Attr{AttrDecision, x.Decision}, Attr{AttrDecidedBy, x.DecisionSource}, Attr{AttrToolName, safeName(x.ToolName)})
}

// processStarted begins a process. Of its command only the program is exported.
func (p *Projector) processStarted(e *event.Event, x *event.ProcessStarted) {
	program := ""
	if len(x.Command) > 0 {
		program = safeName(path.Base(x.Command[0]))
	}
	s := p.beginSpan(e, x.ProcessID, OpProcessExec, Internal)
	if program != "" {
		s.Name += " " + program
	}
	if t := p.turns[e.TurnID]; t != nil && x.Background {
		delete(t.begun, x.ProcessID) // it may outlive the turn
	}
	s.set(Attr{AttrProcessExecutable, program}, flagAttr(AttrBackground, x.Background), flagAttr(AttrTTY, x.TTY))
}

func (p *Projector) processCompleted(e *event.Event, x *event.ProcessCompleted) {
	errorType := ""
	if x.ExitCode != 0 {
		errorType = "nonzero_exit"
	}
	p.processEnded(e, x.ProcessID, x.DurationMs, errorType, Attr{AttrProcessExitCode, x.ExitCode}, Attr{AttrSignal, safeName(x.Signal)}, seconds(AttrCPUTime, x.CPUMs))
}

func (p *Projector) processTerminated(e *event.Event, x *event.ProcessTerminated) {
	p.processEnded(e, x.ProcessID, x.DurationMs, "terminated", Attr{AttrReason, x.Reason}, Attr{AttrSignal, safeName(x.Signal)})
}

func (p *Projector) processEnded(e *event.Event, id string, ms int64, errorType string, attrs ...Attr) {
	s := p.finishSpan(e, id, OpProcessExec, Internal, ms, errorType, attrs...)
	p.measure(processRuntime, s.End.Sub(s.Start).Seconds(), Attr{AttrErrorType, errorType})
}

// artifactChanged is one fact and takes no time that is known.
func (p *Projector) artifactChanged(e *event.Event, x *event.ArtifactChanged) {
	s := p.newSpan(e, e.ID, OpArtifactWrite, Internal, p.placeOf(e))
	s.set(Attr{AttrChange, x.Change}, Attr{AttrKind, safeName(x.Kind)}, Attr{AttrMediaType, safeName(x.MediaType)}, positive(AttrSizeBytes, x.SizeBytes))
	p.endSpan(e, s)
}

func (p *Projector) evidenceChanged(e *event.Event, x *event.EvidenceChanged) {
	s := p.newSpan(e, e.ID, OpEvidenceExport+" "+x.Kind, Internal, p.placeOf(e))
	s.Start = e.Time.Add(-time.Duration(x.DurationMs) * time.Millisecond)
	s.set(Attr{AttrKind, x.Kind})
	p.endSpan(e, s)
	p.measure(exports, 1, Attr{AttrKind, x.Kind})
	if x.DurationMs > 0 {
		p.measure(exportDuration, toSeconds(x.DurationMs), Attr{AttrKind, x.Kind})
	}
}

// projectAccounting is for facts that are counted, and events of the turn's span.
func (p *Projector) projectAccounting(e *event.Event) {
	switch x := e.Payload.(type) {
	case *event.CostRecorded:
		p.costRecorded(e, x)
	case *event.RateLimitHit:
		attrs := []Attr{{AttrProvider, providerName(x.Provider)}, {AttrRequestModel, safeName(x.Model)}, {AttrSource, x.Source}}
		p.measure(rateLimits, 1, attrs...)
		if x.RetryAfterMs != nil {
			attrs = append(attrs, seconds(AttrRetryAfter, *x.RetryAfterMs))
		}
		p.addSpanEvent(e, append(attrs, Attr{AttrLimitName, safeName(x.LimitName)})...)
	case *event.QuotaState:
		status := "low"
		if e.Type == event.TypeQuotaBlocked {
			status = "blocked"
		}
		attrs := []Attr{{AttrStatus, status}, {AttrLimitName, safeName(x.QuotaName)}, {AttrProvider, providerName(x.Provider)}}
		p.measure(quotaEvents, 1, attrs...)
		p.addSpanEvent(e, attrs...)
	case *event.RoutingDecision:
		p.addSpanEvent(e, Attr{AttrProvider, providerName(x.SelectedProvider)}, Attr{AttrRequestModel, safeName(x.SelectedModel)}, Attr{AttrDecidedBy, x.DecisionSource})
	case *event.RuntimeNotice:
		p.addSpanEvent(e, Attr{AttrCode, safeName(x.Code)})
	}
}

// costRecorded counts what a call cost, or that it is unknown. The model is the one
// of the routing, which the call's facts name; the fact itself names none.
func (p *Projector) costRecorded(e *event.Event, x *event.CostRecorded) {
	var attrs []Attr
	if t := p.turns[e.TurnID]; t != nil && t.model != "" {
		attrs = []Attr{{AttrProvider, t.provider}, {AttrRequestModel, t.model}}
	}
	if x.CostUSD == nil {
		p.measure(unpriced, 1, attrs...)
		return
	}
	p.measure(cost, *x.CostUSD, attrs...)
}
