package telemetry

import (
	"cmp"
	"strconv"

	"agentd/event"
)

// job is what later facts need to know about a job: its trace, and its span while
// it is open.
type job struct {
	span  *Span
	trace string
}

// applyJob is for the facts of jobs. A job and its items are a trace of their own:
// the turns that work on an item have theirs, which providers and tools were told
// of, and are linked to the item.
func (p *Projector) applyJob(e *event.Event) {
	switch x := e.Payload.(type) {
	case *event.JobCreated:
		p.jobCreated(e, x)
	case *event.JobStatusChanged:
		p.jobStatus(e, x)
	case *event.JobItemStarted:
		p.jobItemStarted(e, x)
	case *event.JobItemCompleted:
		p.jobItemEnded(e, x.AttemptCount, x.Status, x.DurationMs, "")
	case *event.JobItemFailed:
		s := p.jobItemEnded(e, x.AttemptCount, "failed", x.DurationMs, cmp.Or(safeName(x.Error.Category), Unknown))
		s.set(flagAttr(AttrWillRetry, x.WillRetry))
		p.out.Spans[len(p.out.Spans)-1].Attrs = s.Attrs
	}
}

func (p *Projector) jobCreated(e *event.Event, x *event.JobCreated) {
	j := &job{trace: cmp.Or(e.TraceID, event.TraceIDOf(p.session, e.JobID))}
	parent := ""
	if e.TraceID != "" {
		parent = callerSpan(e)
	}
	j.span = p.newSpan(e, e.JobID, OpJobRun, Internal, place{trace: j.trace, parent: parent})
	j.span.set(Attr{AttrJobItems, x.ItemCount}, positive(AttrConcurrency, x.Concurrency))
	p.jobs[e.JobID] = j
}

// jobStatus ends a job, or notes that it goes on. One that was stopped on purpose is
// no error.
func (p *Projector) jobStatus(e *event.Event, x *event.JobStatusChanged) {
	errorType := ""
	switch e.Type {
	case event.TypeJobCompleted, event.TypeJobCancelled:
	case event.TypeJobFailed:
		errorType = Unknown
		if x.Error != nil {
			errorType = cmp.Or(safeName(x.Error.Category), Unknown)
		}
	default:
		if j := p.jobs[e.JobID]; j != nil && j.span != nil {
			j.span.addEvent(e.Time, "agentruntime."+string(e.Type))
		}
		return
	}
	if x.Status == "cancelling" {
		return
	}
	j := p.jobs[e.JobID]
	if j == nil {
		at := place{trace: cmp.Or(e.TraceID, event.TraceIDOf(p.session, e.JobID))}
		j = &job{span: p.newSpan(e, e.JobID, OpJobRun, Internal, at)}
		j.span.set(Attr{AttrCorrelation, MissingCorrelation})
	}
	delete(p.jobs, e.JobID)
	j.span.set(Attr{AttrStatus, x.Status})
	if c := x.Progress; c != nil {
		j.span.set(Attr{AttrJobItems, c.Total}, positive(AttrJobFailed, c.Failed))
	}
	if errorType != "" {
		j.span.fail(errorType)
	}
	p.endSpan(e, j.span)
	p.measure(jobDuration, j.span.End.Sub(j.span.Start).Seconds(), Attr{AttrStatus, x.Status}, Attr{AttrErrorType, errorType})
}

// jobPlace is the place of an item: below its job, in the job's trace.
func (p *Projector) jobPlace(e *event.Event) place {
	if j := p.jobs[e.JobID]; j != nil {
		return place{trace: j.trace, parent: j.span.SpanID}
	}
	return place{trace: cmp.Or(e.TraceID, event.TraceIDOf(p.session, e.JobID)), parent: event.SpanIDOf(p.session, e.JobID)}
}

// itemKey names the span of an attempt at an item.
func itemKey(e *event.Event, attempt int64) string {
	k := e.JobID + "/" + e.JobItemID
	if attempt > 1 {
		k += "/" + strconv.FormatInt(attempt, 10)
	}
	return k
}

func (p *Projector) jobItemStarted(e *event.Event, x *event.JobItemStarted) {
	k := itemKey(e, x.AttemptCount)
	s := p.newSpan(e, k, OpJobItem, Internal, p.jobPlace(e))
	s.set(positive(AttrAttempt, x.AttemptCount))
	p.open[k] = s
	if id := cmp.Or(x.AssignedThreadID, e.ThreadID); isKnown(id) {
		t := p.threads[id]
		if t == nil {
			t = &thread{}
			p.threads[id] = t
		}
		t.link = Link{TraceID: s.TraceID, SpanID: s.SpanID}
	}
}

func (p *Projector) jobItemEnded(e *event.Event, attempt int64, status string, ms int64, errorType string) *Span {
	k := itemKey(e, attempt)
	s := p.open[k]
	if s == nil {
		s = p.newSpan(e, k, OpJobItem, Internal, p.jobPlace(e))
		s.Start = e.Time.Add(-millis(ms))
		s.set(Attr{AttrCorrelation, MissingCorrelation})
	}
	delete(p.open, k)
	s.set(Attr{AttrStatus, status}, positive(AttrAttempt, attempt))
	if errorType != "" {
		s.fail(errorType)
	}
	p.endSpan(e, s)
	p.measure(jobItemDuration, s.End.Sub(s.Start).Seconds(), Attr{AttrStatus, status}, Attr{AttrErrorType, errorType})
	return s
}
