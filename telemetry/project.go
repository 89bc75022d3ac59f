package telemetry

import (
	"cmp"

	"agentd/event"
)

// Output is what a fact yields.
type Output struct {
	// Spans that the fact ended.
	Spans []Span
	// Measures that it took.
	Measures []Measure
}

// Projector projects the facts of one session. It holds what is open and a few
// words about threads and turns, so its size depends on the work in progress.
type Projector struct {
	session string
	// sequence is that of the newest fact.
	sequence uint64

	threads map[string]*thread
	turns   map[string]*turn
	// ended lists the turns that are over but still known, oldest first.
	ended []string
	// open holds what has begun, by the id that its end will carry.
	open map[string]*Span
	// kinds are those of unfinished tasks.
	kinds map[string]string
	// jobs are those that have not ended.
	jobs map[string]*job
	// content says that content is exported as well.
	content bool

	out Output
}

// thread is what later facts need to know about a thread.
type thread struct {
	// agent is the name of a subagent.
	agent string
	// root is the turn that a subagent's work hangs on, trace the one that its
	// caller sent, parent the span that it was spawned under.
	root, trace, parent string
	depth               int64
	// link is the item of a job that the thread works on.
	link Link
}

// turn is what later facts need to know about a turn.
type turn struct {
	span *Span // nil once it has ended
	// trace and id stay known when the span has ended.
	trace, id string
	// explicit is the trace that the caller sent.
	explicit string
	run      string
	// provider and model are those of the newest call.
	provider, model string
	// tools counts the spans of each tool call.
	tools map[string]int64
	// begun are the keys of what is open and ends with the turn at the latest.
	begun map[string]bool
}

// keepEnded bounds the ended turns that are remembered.
const keepEnded = 32

// Option changes what a projector exports.
type Option func(*Projector)

// Content also exports content, in the attributes that the conventions have for it:
// inputs, answers, arguments and results, each up to 8 KiB. Content is what facts
// hold, so what was redacted there is redacted here.
func Content() Option { return func(p *Projector) { p.content = true } }

// New returns a projector for a session, before its first fact.
func New(sessionID string, options ...Option) *Projector {
	p := &Projector{
		session: sessionID, threads: map[string]*thread{}, turns: map[string]*turn{}, open: map[string]*Span{}, kinds: map[string]string{}, jobs: map[string]*job{},
	}
	for _, o := range options {
		o(p)
	}
	return p
}

// Sequence returns the sequence of the newest fact.
func (p *Projector) Sequence() uint64 { return p.sequence }

// Open returns how many spans have begun and not ended.
func (p *Projector) Open() int {
	n := len(p.open) + len(p.jobs)
	for _, t := range p.turns {
		if t.span != nil {
			n++
		}
	}
	return n
}

// Idle reports whether a projector that begins after the newest fact would show the
// same of what follows, but for late facts of turns that have ended: nothing is open,
// and no thread has a place under another.
func (p *Projector) Idle() bool {
	if p.Open() > 0 || len(p.kinds) > 0 {
		return false
	}
	for _, t := range p.threads {
		if *t != (thread{}) {
			return false
		}
	}
	return true
}

// Apply projects the next fact. A fact that was applied already yields nothing.
func (p *Projector) Apply(e *event.Event) Output {
	if e.Sequence != 0 && e.Sequence <= p.sequence {
		return Output{}
	}
	p.sequence = e.Sequence
	p.out = Output{}
	p.projectFact(e)
	out := p.out
	p.out = Output{}
	return out
}

// ApplyEncoded decodes and projects the next fact. Those that telemetry shows nothing of,
// which are most of them, are not decoded.
func (p *Projector) ApplyEncoded(data []byte) (Output, error) {
	var head event.Event
	if _, err := event.DecodeHeader(data, &head); err != nil {
		return Output{}, err
	}
	if !Shows(head.Type) {
		return Output{}, nil
	}
	e, err := event.Decode(data)
	if err != nil {
		return Output{}, err
	}
	return p.Apply(e), nil
}

// projectFact finds what to do. Most types say nothing that telemetry shows.
func (p *Projector) projectFact(e *event.Event) { //nolint:cyclop // a table
	switch x := e.Payload.(type) {
	case *event.ThreadStarted:
		p.threadStarted(e, x)
	case *event.ThreadUpdated:
		if x.Status == "archived" {
			delete(p.threads, e.ThreadID)
		}
	case *event.SubagentSpawned:
		p.subagentSpawned(e, x)
	case *event.TurnSubmitted:
		p.turnSubmitted(e, x)
	case *event.TurnStarted:
		p.turnStarted(e, x)
	case *event.TurnCompleted:
		p.turnCompleted(e, x)
	case *event.TurnFailed:
		p.turnFailed(e, x)
	case *event.TaskCreated:
		p.kinds[e.TaskID] = safeName(x.TaskKind)
	case *event.TaskCompleted:
		delete(p.kinds, e.TaskID)
	case *event.TaskStatusChanged:
		p.taskStatus(e)
	case *event.TaskAttemptStarted:
		p.attemptStarted(e, x)
	case *event.TaskAttemptCompleted:
		p.attemptEnded(e, "completed", "", x.DurationMs)
	case *event.TaskAttemptFailed:
		p.attemptEnded(e, x.Status, safeName(x.FailureCategory), x.DurationMs)
	default:
		p.applyStep(e)
	}
}

// applyStep is for the facts of a turn's steps.
func (p *Projector) applyStep(e *event.Event) { //nolint:cyclop // a table
	switch x := e.Payload.(type) {
	case *event.ContextResolved:
		p.contextResolved(e, x)
	case *event.CompactionStarted:
		p.beginSpan(e, x.CompactionID, OpCompactContext, Internal).set(Attr{AttrReason, x.Trigger}, positive(AttrAttempt, x.Attempt))
	case *event.CompactionCompleted:
		p.finishSpan(e, x.CompactionID, OpCompactContext, Internal, 0, "")
	case *event.CompactionFailed:
		p.finishSpan(e, x.CompactionID, OpCompactContext, Internal, 0, cmp.Or(safeName(x.Error.Category), Unknown))
	case *event.ModelRequested:
		p.modelRequested(e, x)
	case *event.ModelCompleted:
		p.modelCompleted(e, x)
	case *event.ModelFailed:
		p.modelFailed(e, x)
	case *event.ToolArgs:
		p.toolSpan(e, x.ToolName)
	case *event.ToolStarted:
		p.toolStarted(e, x)
	case *event.ToolProgress:
		p.toolProgress(e, x)
	case *event.ToolResult:
		p.toolResult(e, x)
	case *event.ToolFailed:
		p.toolFailed(e, x)
	case *event.HookStarted:
		p.hookStarted(e, x)
	case *event.HookCompleted:
		p.hookCompleted(e, x)
	case *event.HookFailed:
		p.hookFailed(e, x)
	default:
		p.applyBeside(e)
	}
}

// applyBeside is for what runs beside the steps, and for decisions.
func (p *Projector) applyBeside(e *event.Event) { //nolint:cyclop // a table
	switch x := e.Payload.(type) {
	case *event.ActionRequired:
		p.actionRequired(e, x)
	case *event.ActionResolved:
		p.actionResolved(e, x)
	case *event.PermissionEvaluated:
		p.permissionEvaluated(e, x)
	case *event.SandboxViolation:
		p.addSpanEvent(e, Attr{AttrBoundary, x.Boundary}, Attr{AttrToolName, safeName(x.ToolName)})
	case *event.ProcessStarted:
		p.processStarted(e, x)
	case *event.ProcessCompleted:
		p.processCompleted(e, x)
	case *event.ProcessFailed:
		p.processEnded(e, x.ProcessID, 0, x.ErrorCategory)
	case *event.ProcessTerminated:
		p.processTerminated(e, x)
	case *event.ArtifactChanged:
		p.artifactChanged(e, x)
	case *event.EvidenceChanged:
		p.evidenceChanged(e, x)
	case *event.JobCreated, *event.JobStatusChanged, *event.JobItemStarted, *event.JobItemCompleted, *event.JobItemFailed:
		p.applyJob(e)
	case *event.CostRecorded, *event.RateLimitHit, *event.QuotaState, *event.RoutingDecision, *event.RuntimeNotice:
		p.projectAccounting(e)
	}
}

// silent are the types that nothing is projected from and that there are many of.
var silent = map[event.Type]bool{
	event.TypeModelDelta: true, event.TypeReasoningDelta: true, event.TypeReasoningSummary: true,
	event.TypeProcessOutput: true, event.TypeProcessInput: true, event.TypeRunStatus: true, event.TypeCostEstimated: true,
	event.TypeToolCatalogResolved: true, event.TypeTaskProfileResolved: true, event.TypeRoutingCandidatesResolved: true,
	event.TypeQueueChanged: true, event.TypeSnapshotUpdated: true, event.TypeTaskProgress: true, event.TypeJobProgress: true,
	event.TypeSandboxApplied: true, event.TypeOutputSpilled: true, event.TypeOutputTruncated: true, event.TypeOutputRedacted: true,
}

// Shows reports whether a fact of a type can yield anything; one that can't needn't
// be decoded nor applied.
func Shows(t event.Type) bool { return !silent[t] }

// isKnown reports whether a fact carries an id.
func isKnown(id string) bool { return id != "" && id != event.NotApplicable }

// place is where a new span belongs.
type place struct{ trace, parent string }

// placeOf finds the trace and the parent of what a fact begins: the tool call, else
// the run, else the turn that the fact names.
func (p *Projector) placeOf(e *event.Event) place {
	t := p.turns[e.TurnID]
	if !isKnown(e.TurnID) || t == nil {
		return p.rootPlace(e)
	}
	at := place{trace: t.trace, parent: t.id}
	if run := p.open[t.run]; t.run != "" && run != nil {
		at.parent = run.SpanID
	}
	if isKnown(e.ToolCallID) {
		if _, seen := t.tools[e.ToolCallID]; seen {
			at.parent = p.toolSpanID(t, e.ToolCallID)
		}
	}
	return at
}

// rootPlace is the place of a span that no turn holds: in the trace of the caller,
// or in one that the fact begins.
func (p *Projector) rootPlace(e *event.Event) place {
	if isKnown(e.TurnID) {
		return place{
			trace:  cmp.Or(e.TraceID, event.TraceIDOf(p.session, e.TurnID)),
			parent: cmp.Or(callerSpan(e), event.SpanIDOf(p.session, e.TurnID)),
		}
	}
	if e.TraceID != "" {
		return place{trace: e.TraceID, parent: callerSpan(e)}
	}
	begins := e.ID
	if isKnown(e.RunID) {
		begins = e.RunID
	}
	return place{trace: event.TraceIDOf(p.session, begins)}
}

// callerSpan is the span of the caller that a fact names, if it names one: the span of
// the fact itself is no parent.
func callerSpan(e *event.Event) string {
	if event.DerivedSpan(e) {
		return ""
	}
	return e.SpanID
}

// newSpan makes a span that begins with a fact.
func (p *Projector) newSpan(e *event.Event, id, name string, kind Kind, at place) *Span {
	s := &Span{TraceID: at.trace, SpanID: event.SpanIDOf(p.session, id), ParentID: at.parent, Name: name, Kind: kind, Start: e.Time}
	p.setIDs(s, e)
	return s
}

// setIDs writes the ids of a fact into a span.
func (p *Projector) setIDs(s *Span, e *event.Event) {
	ids := [...]struct{ key, id string }{
		{AttrRuntimeID, e.RuntimeID},
		{AttrSessionID, p.session},
		{AttrThreadID, e.ThreadID},
		{AttrTurnID, e.TurnID},
		{AttrTaskID, e.TaskID},
		{AttrRunID, e.RunID},
		{AttrAttemptID, e.AttemptID},
		{AttrStepID, e.StepID},
		{AttrToolCall, e.ToolCallID},
		{AttrActionID, e.ActionID},
		{AttrSubagentID, e.SubagentID},
		{AttrArtifactID, e.ArtifactID},
		{AttrEvidenceID, e.EvidenceID},
		{AttrProcessID, e.ProcessID},
		{AttrChannelID, e.ChannelID},
		{AttrJobID, e.JobID},
		{AttrJobItemID, e.JobItemID},
		{AttrModelCallID, e.ModelRequestID},
		{AttrRequestID, e.RequestID},
	}
	for _, x := range &ids {
		if isKnown(x.id) && s.Get(x.key) == nil {
			s.Attrs = append(s.Attrs, Attr{x.key, x.id})
		}
	}
}

// beginSpan opens a span under an id.
func (p *Projector) beginSpan(e *event.Event, id, name string, kind Kind) *Span {
	s := p.newSpan(e, id, name, kind, p.placeOf(e))
	p.open[id] = s
	if t := p.turns[e.TurnID]; t != nil && t.span != nil {
		t.begun[id] = true
	}
	return s
}

// closeSpan removes an open span. One that no fact began is made of its end, marked as
// such, and as long as the fact says that it took.
func (p *Projector) closeSpan(e *event.Event, id, name string, kind Kind, ms int64) *Span {
	s := p.open[id]
	if s == nil {
		s = p.newSpan(e, id, name, kind, p.placeOf(e))
		s.Start = e.Time.Add(-millis(ms))
		s.set(Attr{AttrCorrelation, MissingCorrelation})
	}
	delete(p.open, id)
	if t := p.turns[e.TurnID]; t != nil {
		delete(t.begun, id)
	}
	return s
}

// endSpan gives out a span that a fact ends.
func (p *Projector) endSpan(e *event.Event, s *Span) {
	p.setIDs(s, e)
	s.set(Attr{AttrEventID, e.ID})
	s.End = e.Time
	if s.End.Before(s.Start) {
		s.End = s.Start
	}
	p.out.Spans = append(p.out.Spans, *s)
}

// finishSpan ends the span of an id, with an error if errorType says one.
func (p *Projector) finishSpan(e *event.Event, id, name string, kind Kind, ms int64, errorType string, attrs ...Attr) *Span {
	s := p.closeSpan(e, id, name, kind, ms)
	s.set(attrs...)
	if errorType != "" {
		s.fail(errorType)
	}
	p.endSpan(e, s)
	return s
}

// measure takes a measurement.
func (p *Projector) measure(i *Instrument, value float64, attrs ...Attr) {
	p.out.Measures = append(p.out.Measures, Measure{Instrument: i, Value: value, Attrs: presentAttrs(attrs)})
}

// addSpanEvent adds a fact as an event to the span that it belongs to: the tool call, else
// the turn. What belongs to neither is not shown.
func (p *Projector) addSpanEvent(e *event.Event, attrs ...Attr) {
	t := p.turns[e.TurnID]
	if t == nil || t.span == nil {
		return
	}
	s := t.span
	if isKnown(e.ToolCallID) {
		if tool := p.open[e.ToolCallID]; tool != nil {
			s = tool
		}
	}
	s.addEvent(e.Time, "agentruntime."+string(e.Type), attrs...)
}
