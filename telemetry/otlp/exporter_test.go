package otlp

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"agentd/store/storetest"
	"agentd/telemetry"
	"agentd/telemetry/otlp/otlptest"
)

// spansOfOneTurn is how many spans the turns of these tests have: the turn, its run,
// its context and its model call.
const spansOfOneTurn = 4

func TestTelemetryIsSent(t *testing.T) {
	c := otlptest.NewCollector(t, nil)
	s := newSender(t, c.URL, func(o *Options) {
		o.Collector.Gzip = true
		o.Collector.Headers = http.Header{"X-Key": {"collector-key"}}
	})
	for i := range 3 {
		s.turn(fmt.Sprintf("sess_%d", i))
	}
	s.closeRuntime()
	if n := len(c.Spans()); n != 3*spansOfOneTurn {
		t.Errorf("%d spans arrived, want %d", n, 3*spansOfOneTurn)
	}
	if c.Metrics() != 1 {
		t.Errorf("metrics arrived %d times, want once, at the end", c.Metrics())
	}
	if c.Headers()[0].Get("X-Key") != "collector-key" {
		t.Error("the header is missing")
	}
	if figures := s.figures(); figures["agentd_telemetry_spans_exported_total"] != 3*spansOfOneTurn {
		t.Errorf("the figures are %v", figures)
	}
}

// written are figures as they were written, labels behind the name.
type written map[string]float64

func (w written) Gauge(name, _ string, value float64, labels ...string) {
	if len(labels) == 2 {
		name += "{" + labels[0] + "=" + labels[1] + "}"
	}
	w[name] = value
}

func (w written) Counter(name, help string, value float64, labels ...string) {
	w.Gauge(name, help, value, labels...)
}

// figures returns what /metrics says about the exporter.
func (s *sender) figures() written {
	w := written{}
	s.e.WriteMetrics(w)
	return w
}

// TestTelemetryCollectorNeverAnswers runs turns while the collector holds the first
// request for as long as they run: each of them ends all the same.
func TestTelemetryCollectorNeverAnswers(t *testing.T) {
	release := make(chan struct{})
	c := otlptest.NewCollector(t, func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-release:
		case <-r.Context().Done():
		}
		return false
	})
	const queue = 10
	s := newSender(t, c.URL, func(o *Options) { o.QueueSize = queue })
	s.turn("sess_first")
	<-c.Came // the request is there, and stays
	const turns = 20
	for i := range turns {
		s.turn(fmt.Sprintf("sess_%d", i))
	}
	if len(c.Spans()) != 0 {
		t.Fatal("the collector answered; the test proves nothing")
	}
	close(release)
	s.closeRuntime()
	f := s.figures()
	dropped := f[`agentd_telemetry_spans_dropped_total{reason=queue_full}`]
	if sent := f["agentd_telemetry_spans_exported_total"]; dropped == 0 || sent+dropped != (turns+1)*spansOfOneTurn {
		t.Errorf("%v spans were sent and %v dropped, of %d", sent, dropped, (turns+1)*spansOfOneTurn)
	}
}

// TestTelemetryOutage follows an outage from its beginning to its end: it is said
// once, and once when it is over.
func TestTelemetryOutage(t *testing.T) {
	var refused atomic.Int64
	c := otlptest.NewCollector(t, func(w http.ResponseWriter, _ *http.Request) bool {
		refused.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	s := newSender(t, c.URL, nil)
	s.turn("sess_a")
	s.waitForNotice("telemetry_unavailable")
	if s.figures()["agentd_telemetry_up"] != 0 || !strings.Contains(s.log.String(), "telemetry can't be sent") {
		t.Error("neither the figures nor the log know of the outage")
	}
	for i := range 5 {
		s.turn(fmt.Sprintf("sess_%d", i))
	}
	for before := refused.Load(); refused.Load() < before+5; {
		<-c.Came
	}
	c.SetAnswer(nil)
	s.waitForNotice("telemetry_recovered")
	if got := s.notices(); !slices.Equal(got, []string{"telemetry_unavailable", "telemetry_recovered"}) {
		t.Errorf("the runtime says %v", got)
	}
	s.closeRuntime()
	if f := s.figures(); f["agentd_telemetry_up"] != 1 || f["agentd_telemetry_spans_exported_total"] != 6*spansOfOneTurn {
		t.Errorf("after the outage the figures are %v", f)
	}
}

// TestTelemetryHiccup checks that a failure or two is no outage, and loses nothing.
func TestTelemetryHiccup(t *testing.T) {
	var n atomic.Int64
	c := otlptest.NewCollector(t, func(w http.ResponseWriter, _ *http.Request) bool {
		if n.Add(1) >= toleratedFailures {
			return false
		}
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	s := newSender(t, c.URL, nil)
	s.turn("sess_a")
	for len(c.Spans()) == 0 {
		<-c.Came
	}
	if got := s.notices(); len(got) != 0 {
		t.Errorf("the runtime says %v", got)
	}
	s.closeRuntime()
	if len(c.Spans()) != spansOfOneTurn {
		t.Errorf("%d spans arrived", len(c.Spans()))
	}
}

// TestTelemetryRefused checks that what a collector will never take is dropped,
// counted and said.
func TestTelemetryRefused(t *testing.T) {
	c := otlptest.NewCollector(t, func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	s := newSender(t, c.URL, nil)
	s.turn("sess_a")
	s.waitForNotice("telemetry_unavailable")
	s.closeRuntime()
	if f := s.figures(); f[`agentd_telemetry_spans_dropped_total{reason=refused}`] != spansOfOneTurn {
		t.Errorf("the figures are %v", f)
	}
}

// TestTelemetryPartly checks that a collector which takes a request but not all
// spans in it is told of.
func TestTelemetryPartly(t *testing.T) {
	c := otlptest.NewCollector(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/v1/traces" {
			return false
		}
		partial := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1)
		_, _ = w.Write(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), partial))
		return true
	})
	s := newSender(t, c.URL, nil)
	s.turn("sess_a")
	s.waitForNotice("telemetry_rejected")
	s.closeRuntime()
	if f := s.figures(); f[`agentd_telemetry_spans_dropped_total{reason=rejected}`] == 0 {
		t.Errorf("the figures are %v", f)
	}
}

// TestTelemetryNobodyThere checks an endpoint where nobody listens.
func TestTelemetryNobodyThere(t *testing.T) {
	c := otlptest.NewCollector(t, nil)
	c.Close()
	s := newSender(t, c.URL, nil)
	s.turn("sess_a")
	s.waitForNotice("telemetry_unavailable")
	s.closeRuntime()
	if log := s.log.String(); !strings.Contains(log, "telemetry was not sent before the end") {
		t.Errorf("the log says nothing of what was left:\n%s", log)
	}
}

// TestTelemetryTakesUp reads a session from each of its facts on, as a process does
// that was started in the middle: it sends what ends from there on, the same spans.
func TestTelemetryTakesUp(t *testing.T) {
	c := otlptest.NewCollector(t, nil)
	s := newSender(t, c.URL, nil)
	s.turn("sess_a")
	s.turn("sess_a")
	mem := s.e.follower.store
	s.closeRuntime()
	from := func(first, last uint64) []telemetry.Span {
		p := projection{store: mem, sessions: map[string]*followed{}}
		var out []telemetry.Span
		if _, err := p.read(t.Context(), "sess_a", stretch{first: first, last: last}, func(o telemetry.Output, _ bool) { out = append(out, o.Spans...) }); err != nil {
			t.Fatal(err)
		}
		return out
	}
	head, err := mem.Head(t.Context(), "sess_a")
	if err != nil {
		t.Fatal(err)
	}
	all := from(1, head.Sequence)
	if len(all) != 2*spansOfOneTurn {
		t.Fatalf("%d spans", len(all))
	}
	for cut := uint64(1); cut < head.Sequence; cut++ {
		both := append(from(1, cut), from(cut+1, head.Sequence)...)
		a, err := telemetry.TracesJSON(telemetry.Resource{}, all)
		if err != nil {
			t.Fatal(err)
		}
		b, err := telemetry.TracesJSON(telemetry.Resource{}, both)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Fatalf("cut after %d the spans differ:\n%s\n%s", cut, a, b)
		}
	}
}

// TestTelemetryForgetsIdleSessions bounds what is kept in memory.
func TestTelemetryForgetsIdleSessions(t *testing.T) {
	p := projection{store: storetest.NewMem(), sessions: map[string]*followed{}}
	for i := range maxFollowed + 100 {
		if _, err := p.session(t.Context(), fmt.Sprint("sess_", i), 1); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.sessions) != maxFollowed || p.sessions["sess_0"] != nil || p.sessions[fmt.Sprint("sess_", maxFollowed+99)] == nil {
		t.Errorf("%d sessions are kept", len(p.sessions))
	}
	if _, err := p.read(t.Context(), "sess_absent", stretch{first: 1, last: 3}, func(telemetry.Output, bool) {}); err != nil {
		t.Errorf("a session whose facts are gone: %v", err)
	}
}

// TestACollectorDoesNotSilenceTelemetry: it may ask for patience, within bounds.
func TestACollectorDoesNotSilenceTelemetry(t *testing.T) {
	for header, want := range map[string]time.Duration{"7": 7 * time.Second, "999999999999": 5 * time.Minute, "-1": 0, "soon": 0} {
		err := refusal(&http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {header}}})
		if e, ok := errors.AsType[*sendError](err); !ok || !e.retry || e.after != want {
			t.Errorf("Retry-After %s: %+v, want %s", header, err, want)
		}
	}
}
