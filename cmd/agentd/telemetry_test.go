package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"agentd/client"
	"agentd/cmd/agentd/internal/config"
	"agentd/command"
	"agentd/store/storetest"
	"agentd/telemetry"
)

// spansOfOneTurn is how many spans the turns of these tests have: the turn, its run,
// its context and its model call.
const spansOfOneTurn = 4

func TestTelemetryIsSent(t *testing.T) {
	c := newCollector(t, nil)
	s := newSender(t, c.URL, func(o *config.Telemetry) {
		o.Compression = "gzip"
		o.Headers = append(o.Headers, struct {
			Name string `json:"name"`
			Env  string `json:"env"`
		}{"X-Key", "COLLECTOR_KEY"})
	})
	for i := range 3 {
		s.turn(fmt.Sprintf("sess_%d", i))
	}
	s.end()
	if n := len(c.taken()); n != 3*spansOfOneTurn {
		t.Errorf("%d spans arrived, want %d", n, 3*spansOfOneTurn)
	}
	if c.metrics != 1 {
		t.Errorf("metrics arrived %d times, want once, at the end", c.metrics)
	}
	if c.headers[0].Get("X-Key") != strings.Repeat("k", 20) {
		t.Error("the header from the environment is missing")
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
	s.e.collect(w)
	return w
}

// TestTelemetryCollectorNeverAnswers runs turns while the collector holds the first
// request for as long as they run: each of them ends all the same.
func TestTelemetryCollectorNeverAnswers(t *testing.T) {
	release := make(chan struct{})
	c := newCollector(t, func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-release:
		case <-r.Context().Done():
		}
		return false
	})
	const queue = 10
	s := newSender(t, c.URL, func(o *config.Telemetry) { o.QueueSize = queue })
	s.turn("sess_first")
	<-c.came // the request is there, and stays
	const turns = 20
	for i := range turns {
		s.turn(fmt.Sprintf("sess_%d", i))
	}
	if len(c.taken()) != 0 {
		t.Fatal("the collector answered; the test proves nothing")
	}
	close(release)
	s.end()
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
	c := newCollector(t, func(w http.ResponseWriter, _ *http.Request) bool {
		refused.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	s := newSender(t, c.URL, nil)
	s.turn("sess_a")
	s.told("telemetry_unavailable")
	if s.figures()["agentd_telemetry_up"] != 0 || !strings.Contains(s.log.String(), "telemetry can't be sent") {
		t.Error("neither the figures nor the log know of the outage")
	}
	for i := range 5 {
		s.turn(fmt.Sprintf("sess_%d", i))
	}
	for before := refused.Load(); refused.Load() < before+5; {
		<-c.came
	}
	c.answers(nil)
	s.told("telemetry_recovered")
	if got := s.notices(); !slices.Equal(got, []string{"telemetry_unavailable", "telemetry_recovered"}) {
		t.Errorf("the runtime says %v", got)
	}
	s.end()
	if f := s.figures(); f["agentd_telemetry_up"] != 1 || f["agentd_telemetry_spans_exported_total"] != 6*spansOfOneTurn {
		t.Errorf("after the outage the figures are %v", f)
	}
}

// TestTelemetryHiccup checks that a failure or two is no outage, and loses nothing.
func TestTelemetryHiccup(t *testing.T) {
	var n atomic.Int64
	c := newCollector(t, func(w http.ResponseWriter, _ *http.Request) bool {
		if n.Add(1) >= toleratedFailures {
			return false
		}
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	s := newSender(t, c.URL, nil)
	s.turn("sess_a")
	for len(c.taken()) == 0 {
		<-c.came
	}
	if got := s.notices(); len(got) != 0 {
		t.Errorf("the runtime says %v", got)
	}
	s.end()
	if len(c.taken()) != spansOfOneTurn {
		t.Errorf("%d spans arrived", len(c.taken()))
	}
}

// TestTelemetryRefused checks that what a collector will never take is dropped,
// counted and said.
func TestTelemetryRefused(t *testing.T) {
	c := newCollector(t, func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	s := newSender(t, c.URL, nil)
	s.turn("sess_a")
	s.told("telemetry_unavailable")
	s.end()
	if f := s.figures(); f[`agentd_telemetry_spans_dropped_total{reason=refused}`] != spansOfOneTurn {
		t.Errorf("the figures are %v", f)
	}
}

// TestTelemetryPartly checks that a collector which takes a request but not all
// spans in it is told of.
func TestTelemetryPartly(t *testing.T) {
	c := newCollector(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/v1/traces" {
			return false
		}
		partial := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1)
		_, _ = w.Write(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), partial))
		return true
	})
	s := newSender(t, c.URL, nil)
	s.turn("sess_a")
	s.told("telemetry_rejected")
	s.end()
	if f := s.figures(); f[`agentd_telemetry_spans_dropped_total{reason=rejected}`] == 0 {
		t.Errorf("the figures are %v", f)
	}
}

// TestTelemetryNobodyThere checks an endpoint where nobody listens.
func TestTelemetryNobodyThere(t *testing.T) {
	c := newCollector(t, nil)
	c.Close()
	s := newSender(t, c.URL, nil)
	s.turn("sess_a")
	s.told("telemetry_unavailable")
	s.end()
	if log := s.log.String(); !strings.Contains(log, "telemetry was not sent before the end") {
		t.Errorf("the log says nothing of what was left:\n%s", log)
	}
}

// TestTelemetryTakesUp reads a session from each of its facts on, as a process does
// that was started in the middle: it sends what ends from there on, the same spans.
func TestTelemetryTakesUp(t *testing.T) {
	c := newCollector(t, nil)
	s := newSender(t, c.URL, nil)
	s.turn("sess_a")
	s.turn("sess_a")
	mem := s.e.follower.store
	s.end()
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

// busy is a configuration with a retry, a tool, a hook and a subagent.
const busy = `
providers:
  - {id: fake, kind: script, script: %[1]s/script.yaml, models: [{id: m1}]}
permissions: {mode: bypass}
workspace: {root: %[1]s/work}
hooks:
  - {point: pre_tool_use, command: [/bin/true]}
telemetry: {otlpEndpoint: "%[2]s", metricsInterval: 1h, resource: ["deployment.environment.name=test"]}
`

const busyScript = `
answers:
  - error: {category: overloaded, message: busy, retryable: true}
  - tools: [{name: write_file, arguments: {path: a.txt, content: hello}}]
  - tools: [{name: spawn_agent, arguments: {role: helper, input: CHILD}}]
  - text: done
  - when: {contains: CHILD}
    text: child is done
`

// TestTelemetryExportEqualsLive runs a server as a process, with a caller's trace, and
// compares what the collector got with what is rebuilt from the facts afterwards.
func TestTelemetryExportEqualsLive(t *testing.T) {
	c := newCollector(t, nil)
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(filepath.Join(dir, "work"), 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir, "script.yaml", busyScript)
	conf := writeFile(t, dir, "c.yaml", fmt.Sprintf(busy, dir, c.URL))
	p := start(t, data, "--config", conf)
	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	r := p.turnWith(t, data, withHeaders{"Traceparent": "00-" + trace + "-" + parent + "-01"})
	if code := p.stop(syscall.SIGTERM); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	live := sortedSpans(c.taken())
	if len(live) < 15 {
		t.Fatalf("only %d spans arrived", len(live))
	}
	for _, s := range live {
		if hex.EncodeToString(s.GetTraceId()) != trace {
			t.Errorf("%s is in another trace", s.GetName())
		}
		if s.GetName() == "invoke_agent" && hex.EncodeToString(s.GetParentSpanId()) != parent {
			t.Error("the turn doesn't hang below its caller's span")
		}
	}
	file := filepath.Join(dir, "spans.pb")
	if out, errs, code := program(t, "telemetry", "export", r.SessionID, "--data", data, "--format", "otlp", "--out", file, "--json"); code != 0 || !strings.Contains(out, `"open":0`) {
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	encoded, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var d tracepb.TracesData
	if err := proto.Unmarshal(encoded, &d); err != nil {
		t.Fatal(err)
	}
	past := sortedSpans(spansOf(&d))
	if len(past) != len(live) {
		t.Fatalf("%d spans were sent and %d are rebuilt", len(live), len(past))
	}
	for i := range live {
		if !proto.Equal(live[i], past[i]) {
			t.Errorf("%s differs:\n%v\n%v", live[i].GetName(), live[i], past[i])
		}
	}
	exportForms(t, c, data, r.SessionID, len(live))
}

// exportForms checks the other ways to export.
func exportForms(t *testing.T, c *collector, data, session string, spans int) {
	t.Helper()
	out, errs, code := program(t, "telemetry", "export", session, "--data", data)
	var got struct {
		ResourceSpans []struct {
			ScopeSpans []struct {
				Spans []struct{ TraceID, SpanID, Name string }
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || errs != "" {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, errs)
	}
	if n := len(got.ResourceSpans[0].ScopeSpans[0].Spans); n != spans {
		t.Errorf("%d spans as JSON, want %d", n, spans)
	}
	before := len(c.taken())
	if out, errs, code := program(t, "telemetry", "export", session, "--data", data, "--to", c.URL); code != 0 || !strings.Contains(out, fmt.Sprint(spans, " spans exported")) {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	if n := len(c.taken()) - before; n != spans {
		t.Errorf("%d spans were sent again", n)
	}
	if out, errs, code := program(t, "telemetry", "export", session, "--data", data, "--signal", "metrics"); code != 0 ||
		!strings.Contains(out, `"name":"agentruntime.model.retries"`) || !strings.Contains(out, `"agentruntime.session.id"`) {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	for _, bad := range [][]string{{"--format", "xml"}, {"--signal", "logs"}, {"--to", "http://127.0.0.1:1", "--out", "x"}, {"--to", "ftp://127.0.0.1"}, {"--to", "collector"}} {
		if _, _, code := program(t, append([]string{"telemetry", "export", session, "--data", data}, bad...)...); code != exitUsage {
			t.Errorf("%v: exit code %d", bad, code)
		}
	}
	if _, errs, code := program(t, "telemetry", "export", "sess_absent", "--data", data); code != exitFailed || !strings.Contains(errs, "sess_absent") {
		t.Errorf("an absent session: exit code %d: %s", code, errs)
	}
	c.Close()
	if _, errs, code := program(t, "telemetry", "export", session, "--data", data, "--to", c.URL); code != exitFailed || !strings.Contains(errs, "no collector listens there") || strings.Contains(errs, "agentd serve") {
		t.Errorf("a collector that isn't there: exit code %d: %s", code, errs)
	}
}

func sortedSpans(spans []*tracepb.Span) []*tracepb.Span {
	slices.SortFunc(spans, func(a, b *tracepb.Span) int { return bytes.Compare(a.GetSpanId(), b.GetSpanId()) })
	return spans
}

// turnWith has the server do a turn that was submitted with headers, to the end of its
// task.
func (p *process) turnWith(t *testing.T, data string, h withHeaders) *command.SubmitTurnResult {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(data, adminTokenFile))
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(p.url, &client.Options{Token: strings.TrimSpace(string(token)), HTTPClient: &http.Client{Transport: h}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, err := client.Call[command.SubmitTurnResult](t.Context(), c, submitParams(t, "go"))
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range c.Follow(t.Context(), r.SessionID, r.Sequence, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == "task.completed" && bytes.Contains(e.Data, []byte(r.TurnID)) {
			break // not that of the subagent
		}
	}
	return r
}

// withHeaders sends headers with every request.
type withHeaders map[string]string

func (h withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range h {
		r.Header.Set(name, value)
	}
	return http.DefaultTransport.RoundTrip(r)
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
