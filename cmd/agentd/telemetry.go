package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/event"
	"agentd/telemetry"
	"agentd/telemetry/otlp"
)

func (a *app) telemetryCommand() *cobra.Command {
	return parent("telemetry", "Export spans and metrics of past sessions",
		`Rebuilds telemetry from facts. A running server sends telemetry by itself, to the
collector that telemetry.otlpEndpoint names.

Exit codes: those of its commands.`,
		"  agentd telemetry export SESSION > spans.jsonl", a.telemetryExportCommand())
}

// telemetryExport is one export of a session.
type telemetryExport struct {
	session, format, signal, to, out string
}

func (a *app) telemetryExportCommand() *cobra.Command {
	x := &telemetryExport{}
	cmd := &cobra.Command{
		Use:   "export SESSION",
		Short: "Rebuild a session's spans or metrics",
		Long: `Rebuilds the OpenTelemetry spans of a session from its facts, with the ids that
they had, or would have had, while it ran. They go to standard output as OTLP
JSON, one request per line, or to a file (--out) or a collector (--to). Work that
has not ended yet has no span; how much was left out goes to standard error.
Prompts, arguments and outputs are not exported unless telemetry.content is set.

With --signal metrics, the session's metrics are exported instead, summed from its
first to its last fact.

Exit codes: 0 exported, 1 failed (also if the collector rejects something),
2 usage.`,
		Example: `  agentd telemetry export SESSION
  agentd telemetry export SESSION --to http://127.0.0.1:4318
  agentd telemetry export SESSION --signal metrics
  agentd telemetry export SESSION --format otlp --out spans.pb`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			x.session = given[0]
			if err := x.check(); err != nil {
				return err
			}
			return a.withFacts(cmd, toLook, func(f facts.Source) error { return a.exportTelemetry(cmd, f, x) })
		},
	}
	cmd.Flags().StringVar(&x.format, "format", "otlp-json", "otlp-json or otlp (protobuf)")
	cmd.Flags().StringVar(&x.signal, "signal", "traces", "traces or metrics")
	cmd.Flags().StringVar(&x.to, "to", "", "address of a collector, such as http://127.0.0.1:4318")
	cmd.Flags().StringVar(&x.out, "out", "", "file to write instead of standard output")
	return a.withDataFlags(cmd)
}

func (x *telemetryExport) check() error {
	switch {
	case x.to != "" && x.out != "":
		return usagef("--to and --out can't be used together")
	case x.to == "":
		return nil
	}
	if u, err := url.Parse(x.to); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return usagef("--to: %q isn't the address of a collector; use one such as http://127.0.0.1:4318", x.to)
	}
	return nil
}

// exportTelemetry rebuilds a session's telemetry and writes or sends it.
func (a *app) exportTelemetry(cmd *cobra.Command, f facts.Source, x *telemetryExport) error {
	loaded, err := a.load(cmd)
	if err != nil {
		return err
	}
	sink := &telemetrySink{app: a, x: x, settings: &loaded.Config.Telemetry, w: a.out}
	if x.to != "" {
		sink.client = otlp.NewClient(a.collector(sink.settings, x.to))
		defer sink.client.Close()
	}
	run := func(w io.Writer) error {
		sink.w = w
		return sink.run(cmd.Context(), f)
	}
	if x.out != "" {
		err = intoFile(x.out, run)
	} else {
		err = run(a.out)
	}
	if err != nil {
		return err
	}
	return sink.reportResult()
}

// telemetrySink gathers what a session yields and writes or sends it.
type telemetrySink struct {
	*app
	x        *telemetryExport
	settings *config.Telemetry
	client   *otlp.Client // nil if it is written
	w        io.Writer

	resource    telemetry.Resource
	spans       []telemetry.Span
	meter       telemetry.Meter
	first, last time.Time

	exported, rejected int64
	open               int
}

// exportPage is how many facts are read at once.
const exportPage = 256

// run projects the session page by page.
func (s *telemetrySink) run(ctx context.Context, f facts.Source) error {
	p := telemetry.New(s.x.session, telemetryOptions(s.settings)...)
	for after := uint64(0); ; {
		page, last, err := f.Page(ctx, s.x.session, after, exportPage)
		if err != nil {
			return err
		}
		for _, fact := range page {
			if err := s.projectFact(ctx, p, fact.Data); err != nil {
				return err
			}
			after = fact.Sequence
		}
		if len(page) == 0 || after >= last {
			break
		}
	}
	s.open = p.Open()
	if s.x.signal == "metrics" {
		return s.emitMetrics(ctx)
	}
	return s.emitSpans(ctx)
}

// projectFact projects one fact.
func (s *telemetrySink) projectFact(ctx context.Context, p *telemetry.Projector, data []byte) error {
	var head event.Event
	if _, err := event.DecodeHeader(data, &head); err != nil {
		return fmt.Errorf("fact of session %s: %w", s.x.session, err)
	}
	if s.first.IsZero() {
		s.first, s.resource = head.Time, s.app.resource(s.settings, head.RuntimeID)
	}
	s.last = head.Time
	out, err := p.ApplyEncoded(data)
	if err != nil {
		return nil //nolint:nilerr // a fact of a type that this version doesn't know shows nothing
	}
	s.meter.Add(out.Measures)
	if s.x.signal == "traces" {
		s.spans = append(s.spans, out.Spans...)
	}
	if len(s.spans) < otlp.MaxBatch {
		return nil
	}
	return s.emitSpans(ctx)
}

// emitSpans writes or sends the spans that were gathered.
func (s *telemetrySink) emitSpans(ctx context.Context) error {
	spans := s.spans
	s.spans = nil
	if len(spans) == 0 {
		return nil
	}
	s.exported += int64(len(spans))
	if s.client != nil {
		rejected, err := s.client.SendTraces(ctx, s.resource, spans)
		s.rejected += rejected
		return sentTo(s.x.to, err)
	}
	if s.x.format == "otlp" {
		return s.write(otlp.EncodeTraces(s.resource, spans))
	}
	return s.writeLine(telemetry.TracesJSON(s.resource, spans))
}

func (s *telemetrySink) emitMetrics(ctx context.Context) error {
	r := s.resource
	// A session's sums are a stream of their own beside those of the running server.
	r.Attrs = append(r.Attrs, telemetry.Attr{Key: telemetry.AttrSessionID, Value: s.x.session})
	snapshot := s.meter.Snapshot(s.first, s.last)
	s.exported = int64(len(snapshot.Metrics))
	switch {
	case len(snapshot.Metrics) == 0:
		return nil
	case s.client != nil:
		rejected, err := s.client.SendMetrics(ctx, r, snapshot)
		s.rejected = rejected
		return sentTo(s.x.to, err)
	case s.x.format == "otlp":
		return s.write(otlp.EncodeMetrics(r, snapshot))
	}
	return s.writeLine(telemetry.MetricsJSON(r, snapshot))
}

func sentTo(to string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ECONNREFUSED): // the advice for it is about servers of ours
		return fmt.Errorf("send to %s: no collector listens there: %s", to, cause(err))
	}
	return fmt.Errorf("send to %s: %w", to, err)
}

func (s *telemetrySink) write(data []byte, err error) error {
	if err != nil {
		return err
	}
	_, err = s.w.Write(data)
	return err
}

func (s *telemetrySink) writeLine(data []byte, err error) error {
	return s.write(append(data, '\n'), err)
}

// reportResult says what came of it: with --json and a place to send to on standard output,
// otherwise on standard error.
func (s *telemetrySink) reportResult() error {
	if s.client != nil || s.x.out != "" {
		err := s.print(map[string]any{
			"sessionId": s.x.session, "signal": s.x.signal, "exported": s.exported, "rejected": s.rejected, "open": s.open,
		}, func(p *printer) {
			p.linef("%d %s exported, %d rejected, %d still open", s.exported, map[string]string{"traces": "spans", "metrics": "metrics"}[s.x.signal], s.rejected, s.open)
		})
		if err != nil {
			return err
		}
	} else if s.open > 0 {
		s.sayf("agentd: left out, because not ended yet: %s", terminal.Plural(s.open, "span"))
	}
	if s.rejected > 0 {
		return fmt.Errorf("the collector rejected %d of them; its log says why", s.rejected)
	}
	return nil
}
