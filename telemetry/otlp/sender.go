package otlp

import (
	"context"
	"time"

	"agentd/telemetry"
)

// nextBatch returns the next spans to send. They stay in the queue until they are sent,
// so that its bound holds for them too.
func (e *Exporter) nextBatch() []telemetry.Span {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]telemetry.Span, 0, min(len(e.queue), MaxBatch))
	for i := range cap(out) {
		out = append(out, e.queue[i].Span)
	}
	return out
}

// dequeueSent removes the first n spans, which were sent or will never be.
func (e *Exporter) dequeueSent(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range n {
		for _, m := range e.queue[i].marks {
			e.reached.advance(m)
		}
	}
	if e.queue = e.queue[n:]; len(e.queue) == 0 {
		e.queue = nil
	}
	wake(e.sent)
}

// runSender sends spans as they come and metrics from time to time, until following has
// ended and everything is sent, or ctx ends.
func (e *Exporter) runSender(ctx context.Context) {
	tick := time.NewTicker(e.interval)
	defer tick.Stop()
	for {
		select {
		case <-e.ready:
			e.pause(ctx, e.linger)
			e.drain(ctx)
		case <-tick.C:
			e.sendMetrics(ctx)
		case <-e.ended:
			e.drain(ctx)
			e.sendMetrics(ctx)
			e.countUnsent()
			return
		}
	}
}

// pause waits, unless the program ends.
func (e *Exporter) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.ended:
	case <-ctx.Done():
	}
}

// drain sends what is queued. After a failure it waits and tries again; at the end
// of the program there is one attempt.
func (e *Exporter) drain(ctx context.Context) {
	wait := e.backoff
	for ctx.Err() == nil {
		spans := e.nextBatch()
		if len(spans) == 0 {
			e.savePositions(ctx)
			return
		}
		again, after := e.sendBatch(ctx, spans)
		if !again {
			wait = e.backoff
			e.savePositions(ctx)
			continue
		}
		if e.isEnding() {
			return
		}
		e.pause(ctx, max(wait, after))
		wait = min(2*wait, lastBackoff)
	}
}

func (e *Exporter) isEnding() bool {
	select {
	case <-e.ended:
		return true
	default:
		return false
	}
}

// sendBatch sends a batch once. It reports whether it should be tried again.
func (e *Exporter) sendBatch(ctx context.Context, spans []telemetry.Span) (again bool, after time.Duration) {
	rejected, err := e.client.SendTraces(ctx, e.resource, spans)
	if err == nil {
		e.figures.exported.Add(int64(len(spans)) - rejected)
		e.figures.rejected.Add(rejected)
		e.dequeueSent(len(spans))
		e.recordRecovery(ctx)
		e.reportRejected(ctx, rejected)
		return false, 0
	}
	e.figures.failedRequests.Add(1)
	refused, ok := err.(*sendError) //nolint:errorlint // it is returned as it is
	again = ok && refused.retry
	if !again {
		e.figures.refused.Add(int64(len(spans)))
		e.dequeueSent(len(spans))
	} else {
		after = refused.after
	}
	e.recordFailure(ctx, err, !again)
	return again, after
}

// sendMetrics sends the sums. They are cumulative: what fails now is in the next.
func (e *Exporter) sendMetrics(ctx context.Context) {
	if !e.sends("metrics") || ctx.Err() != nil {
		return
	}
	e.mu.Lock()
	s := e.meter.Snapshot(e.began, time.Now())
	e.mu.Unlock()
	if len(s.Metrics) == 0 {
		return
	}
	if _, err := e.client.SendMetrics(ctx, e.resource, s); err != nil {
		e.figures.failedRequests.Add(1)
		e.recordFailure(ctx, err, false)
		return
	}
	e.recordRecovery(ctx)
}

// countUnsent counts what could not be sent before the end.
func (e *Exporter) countUnsent() {
	e.mu.Lock()
	left := len(e.queue)
	e.queue = nil
	e.mu.Unlock()
	if left > 0 {
		e.log.Warn("telemetry was not sent before the end", "spans", left, "advice", "agentd telemetry export rebuilds it from the facts")
	}
}
