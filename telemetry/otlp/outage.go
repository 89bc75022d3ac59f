package otlp

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"agentd/event"
)

// toleratedFailures is how many attempts in a row fail before it is an outage.
const toleratedFailures = 3

// figures count what became of spans.
type figures struct {
	exported, rejected, full, refused, failedRequests, unread atomic.Int64
	down                                                      atomic.Bool
}

// outage is a time in which the collector takes nothing.
type outage struct {
	failures int
	since    time.Time
	dropped  int64 // up to the last time that something was taken
	said     bool
}

// droppedSpans counts the spans that no collector has.
func (e *Exporter) droppedSpans() int64 {
	f := &e.figures
	return f.full.Load() + f.refused.Load() + f.rejected.Load()
}

// recordFailure notes a failure. Several in a row, or one that loses spans, are an outage,
// which is said once.
func (e *Exporter) recordFailure(ctx context.Context, err error, lost bool) {
	o := &e.outage
	if o.failures++; o.failures == 1 {
		o.since = time.Now()
	}
	if o.said || (o.failures < toleratedFailures && !lost && e.droppedSpans() == o.dropped) {
		return
	}
	o.said = true
	e.figures.down.Store(true)
	e.log.Warn("telemetry can't be sent", "endpoint", e.client.base, "error", err)
	e.reportNotice(ctx, &event.RuntimeNotice{
		Code: "telemetry_unavailable", Message: "Telemetry can't be sent: " + err.Error() + ".",
		Advice: "Turns go on. Look at the collector; agentd telemetry export rebuilds from the facts what was dropped.",
	})
}

// recordRecovery notes that the collector takes telemetry again.
func (e *Exporter) recordRecovery(ctx context.Context) {
	o := e.outage
	e.outage = outage{dropped: e.droppedSpans()}
	if !o.said {
		return
	}
	e.figures.down.Store(false)
	lost := e.droppedSpans() - o.dropped
	e.log.Info("telemetry is sent again", "after", time.Since(o.since).Round(time.Millisecond).String(), "droppedSpans", lost)
	details, err := json.Marshal(map[string]int64{"droppedSpans": lost, "outageMs": time.Since(o.since).Milliseconds()})
	if err != nil {
		return // numbers always encode
	}
	e.reportNotice(ctx, &event.RuntimeNotice{
		Code: "telemetry_recovered", Message: "Telemetry is sent again.", Details: details,
		Advice: "agentd telemetry export rebuilds from the facts what was dropped.",
	})
}

// reportRejected says, once, that the collector takes requests but not all spans in them.
func (e *Exporter) reportRejected(ctx context.Context, rejected int64) {
	if rejected == 0 || e.lossySaid {
		return
	}
	e.lossySaid = true
	e.log.Warn("the collector rejects spans", "endpoint", e.client.base, "rejected", rejected)
	e.reportNotice(ctx, &event.RuntimeNotice{
		Code: "telemetry_rejected", Message: "The collector takes telemetry but rejects some of its spans.",
		Advice: "Look at the collector's log; agentd_telemetry_spans_dropped_total counts them.",
	})
}

// reportNotice makes a notice a fact. Where that can't be done the log has said it.
func (e *Exporter) reportNotice(ctx context.Context, n *event.RuntimeNotice) {
	if e.reporter == nil || e.isEnding() {
		return
	}
	if err := e.reporter.Report(ctx, event.TypeRuntimeWarning, n); err != nil {
		e.log.Debug("a notice about telemetry could not be recorded", "error", err)
	}
}

// MetricWriter takes figures for a page of metrics. The one of package server is one.
type MetricWriter interface {
	Gauge(name, help string, value float64, labels ...string)
	Counter(name, help string, value float64, labels ...string)
}

// WriteMetrics writes the exporter's own figures: what it sent, dropped and has queued.
func (e *Exporter) WriteMetrics(w MetricWriter) {
	f := &e.figures
	up := 1.0
	if f.down.Load() {
		up = 0
	}
	e.mu.Lock()
	queued, behind := len(e.queue), len(e.behind)
	e.mu.Unlock()
	w.Gauge("agentd_telemetry_up", "1 while the collector takes telemetry, 0 during an outage.", up)
	w.Gauge("agentd_telemetry_queue_spans", "Spans that wait to be sent.", float64(queued))
	w.Gauge("agentd_telemetry_sessions_behind", "Sessions with facts that are not projected yet.", float64(behind))
	w.Counter("agentd_telemetry_spans_exported_total", "Spans that the collector took.", float64(f.exported.Load()))
	const dropped, help = "agentd_telemetry_spans_dropped_total", "Spans that no collector has, by why; agentd telemetry export rebuilds them."
	w.Counter(dropped, help, float64(f.full.Load()), "reason", "queue_full")
	w.Counter(dropped, help, float64(f.refused.Load()), "reason", "refused")
	w.Counter(dropped, help, float64(f.rejected.Load()), "reason", "rejected")
	w.Counter("agentd_telemetry_requests_failed_total", "Requests that failed or were refused.", float64(f.failedRequests.Load()))
	w.Counter("agentd_telemetry_facts_unread_total", "Facts that were not projected because the exporter was too far behind or could not read them.", float64(f.unread.Load()))
}
