package main

import (
	"context"
	"log/slog"

	"agentd"
	"agentd/cmd/agentd/internal/config"
	"agentd/server"
	"agentd/store"
)

// wireTelemetry adds the exporter, if the configuration names a collector.
func (a *app) wireTelemetry(c *config.Config, s store.Store, w *wiring, log *slog.Logger) {
	w.exporter = a.newExporter(c, s, w.options.RuntimeID, log)
	if w.exporter == nil {
		return
	}
	w.options.Observer, w.options.Store = w.exporter, w.exporter.marks
	closeRest := w.close
	w.close = func() error {
		w.exporter.close()
		return closeRest()
	}
}

// telemetryKeys are the values of headers, which must not be told.
func (a *app) telemetryKeys(c *config.Config) []string {
	var out []string
	for _, h := range c.Telemetry.Headers {
		if v := a.env[h.Env]; v != "" {
			out = append(out, v)
		}
	}
	return out
}

// opened starts what needs the runtime. It is ended by close.
func (w *wiring) opened(ctx context.Context, r *agentd.Runtime) {
	if w.exporter != nil {
		w.exporter.start(ctx, r.Report)
	}
}

// figureWriter takes figures, as [server.MetricWriter] does.
type figureWriter interface {
	Gauge(name, help string, value float64, labels ...string)
	Counter(name, help string, value float64, labels ...string)
}

var _ figureWriter = (*server.MetricWriter)(nil)

// collect adds the exporter's figures to /metrics.
func (e *exporter) collect(w figureWriter) {
	if e == nil {
		return
	}
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
