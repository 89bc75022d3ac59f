package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"agentd/client"
	"agentd/cmd/agentd/internal/config"
	"agentd/command"
	"agentd/telemetry/otlp/otlptest"
)

// busy is a configuration with a retry, a tool, a hook and a subagent.
const busy = `
providers:
  - {id: fake, kind: script, script: %[1]s/script.yaml, models: [{id: m1}]}
permissions: {mode: bypass}
workspace: {root: %[1]s/work}
hooks:
  - {point: pre_tool_use, command: [/bin/true]}
telemetry: {otlpEndpoint: "%[2]s", metricsInterval: 1h, timeout: 1h, resource: ["deployment.environment.name=test"]}
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
	c := otlptest.NewCollector(t, nil)
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
	// What is sent while the server stops has a few seconds only.
	k := &killed{T: t, Collector: c, dir: data, data: data, conf: conf}
	k.arrives(k.rebuilt(r.SessionID))
	if code := p.stop(syscall.SIGTERM); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	live := sortedSpans(c.Spans())
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
	past := sortedSpans(otlptest.SpansOf(&d))
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
func exportForms(t *testing.T, c *otlptest.Collector, data, session string, spans int) {
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
	before := len(c.Spans())
	if out, errs, code := program(t, "telemetry", "export", session, "--data", data, "--to", c.URL); code != 0 || !strings.Contains(out, fmt.Sprint(spans, " spans exported")) {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	if n := len(c.Spans()) - before; n != spans {
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

func TestCollectorHeadersComeFromTheEnvironment(t *testing.T) {
	key := strings.Repeat("k", 20)
	a := &app{env: map[string]string{"COLLECTOR_KEY": key}}
	var c config.Telemetry
	if err := json.Unmarshal([]byte(`{"headers": [{"name": "X-Key", "env": "COLLECTOR_KEY"}, {"name": "X-None", "env": "NOT_SET"}]}`), &c); err != nil {
		t.Fatal(err)
	}
	to := a.collector(&c, "http://127.0.0.1:4318")
	if to.Headers.Get("X-Key") != key || len(to.Headers) != 1 {
		t.Errorf("the headers are %v", to.Headers)
	}
}
