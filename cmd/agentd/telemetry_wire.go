package main

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"agentd"
	"agentd/cmd/agentd/internal/config"
	"agentd/store"
	"agentd/telemetry"
	"agentd/telemetry/otlp"
)

// wireTelemetry adds the exporter, if the configuration names a collector.
func (a *app) wireTelemetry(c *config.Config, s store.Store, w *wiring, log *slog.Logger) {
	t := &c.Telemetry
	if t.OTLPEndpoint == "" {
		return
	}
	w.exporter = otlp.New(s, otlp.Options{
		Collector: a.collector(t, t.OTLPEndpoint), Resource: a.resource(t, w.options.RuntimeID), Projector: telemetryOptions(t), Signals: t.Signals,
		QueueSize: int(t.QueueSize), MetricsInterval: time.Duration(t.MetricsInterval), Logger: log,
	})
	w.options.Observer, w.options.Store, w.options.Session.TraceFacts = w.exporter, w.exporter.Store(), true
	closeRest := w.close
	w.close = func() error {
		w.exporter.Close()
		return closeRest()
	}
}

// collector is how the collector at an address is reached.
func (a *app) collector(t *config.Telemetry, endpoint string) otlp.Collector {
	to := otlp.Collector{Endpoint: endpoint, Headers: http.Header{}, Gzip: t.Compression == "gzip", Timeout: time.Duration(t.Timeout)}
	for _, h := range t.Headers {
		if v := a.env[h.Env]; v != "" {
			to.Headers.Set(h.Name, v)
		}
	}
	return to
}

// telemetryOptions are what the configuration asks of projectors.
func telemetryOptions(t *config.Telemetry) []telemetry.Option {
	if t.Content {
		return []telemetry.Option{telemetry.Content()}
	}
	return nil
}

// resource says who the telemetry is from.
func (a *app) resource(t *config.Telemetry, runtimeID string) telemetry.Resource {
	r := telemetry.Resource{Version: a.version}
	r.Attrs = []telemetry.Attr{
		{Key: "service.name", Value: "agentd"},
		{Key: "service.version", Value: a.version},
		{Key: "service.instance.id", Value: runtimeID},
		{Key: telemetry.AttrRuntimeID, Value: runtimeID},
	}
	for _, kv := range t.Resource {
		name, value, _ := strings.Cut(kv, "=")
		i := slices.IndexFunc(r.Attrs, func(x telemetry.Attr) bool { return x.Key == name })
		if i < 0 {
			r.Attrs = append(r.Attrs, telemetry.Attr{Key: name, Value: value})
		} else {
			r.Attrs[i].Value = value
		}
	}
	return r
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
		w.exporter.Start(ctx, r)
	}
}
