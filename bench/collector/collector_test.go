package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// The caller's trace context.
const (
	callerTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	callerSpan  = "00f067aa0ba902b7"
)

const settings = `
providers:
  - {id: fake, kind: script, script: %[1]s/script.yaml, models: [{id: m1, price: {inputPerMTok: 1, outputPerMTok: 2}}]}
permissions: {mode: bypass}
workspace: {root: %[1]s/work}
hooks:
  - {point: pre_tool_use, url: "%[2]s"}
telemetry: {otlpEndpoint: "%[3]s", compression: gzip, resource: ["deployment.environment.name=test"]}
`

const answers = `
answers:
  - error: {category: overloaded, message: busy, retryable: true}
  - tools: [{name: write_file, arguments: {path: a.txt, content: hello}}]
    usage: {inputTokens: 120, outputTokens: 7, cachedInputTokens: 100}
  - tools: [{name: spawn_agent, arguments: {role: helper, input: CHILD}}]
  - text: done
  - when: {contains: CHILD}
    text: child is done
`

// build compiles a program into a folder.
func build(t *testing.T, dir, module, pkg, name string) string {
	t.Helper()
	out := filepath.Join(dir, name)
	cmd := exec.Command("go", "build", "-o", out, pkg)
	cmd.Dir = module
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, text)
	}
	return out
}

// run starts a program and returns what ends it.
func run(t *testing.T, cmd *exec.Cmd) (stop func()) {
	t.Helper()
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	stop = func() {
		once.Do(func() {
			_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
			if err := cmd.Wait(); err != nil {
				t.Errorf("%s: %v\n%s", filepath.Base(cmd.Path), err, log.String())
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

// startCollector starts the Collector and waits until it listens.
func startCollector(t *testing.T, exe, file string) (url string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	stop = run(t, exec.Command(exe, "--config", fmt.Sprintf(`yaml:
receivers: {otlp: {protocols: {http: {endpoint: %q}}}}
exporters: {lines: {path: %q}}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    traces: {receivers: [otlp], exporters: [lines]}
    metrics: {receivers: [otlp], exporters: [lines]}
`, address, file)))
	for range 300 {
		if c, err := net.DialTimeout("tcp", address, time.Second); err == nil {
			_ = c.Close() // only to see that somebody listens
			return "http://" + address, stop
		}
		time.Sleep(50 * time.Millisecond) // another program: there is nothing to wait on
	}
	t.Fatal("the collector doesn't listen")
	return "", nil
}

// session runs a session with a retry, a tool, hooks and a subagent on a server, which
// it ends, and returns its id.
func session(t *testing.T, exe, dir, conf string) (sessionID string) {
	t.Helper()
	data := filepath.Join(dir, "data")
	cmd := exec.Command(exe, "serve", "--config", conf, "--data", data, "--listen", "127.0.0.1:0", "--json")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, cmd)
	var ready struct{ URL string }
	if err := json.NewDecoder(out).Decode(&ready); err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join(data, "token"))
	if err != nil {
		t.Fatal(err)
	}
	var turn struct{ SessionID, TurnID string }
	post(t, ready.URL+"/v1/commands/submit_turn", strings.TrimSpace(string(token)), `{"create":true,"sessionId":"sess_collected","input":"go"}`, &turn)
	follow(t, exe, data, turn.SessionID, turn.TurnID)
	stop()
	return turn.SessionID
}

func post(t *testing.T, url, token, body string, into any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Traceparent", "00-"+callerTrace+"-"+callerSpan+"-01")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v: %s", resp.Status, err, all)
	}
	if into != nil {
		if err := json.Unmarshal(all, into); err != nil {
			t.Fatal(err)
		}
	}
}

// follow waits for the end of a turn.
func follow(t *testing.T, exe, data, sessionID, turnID string) {
	t.Helper()
	cmd := exec.Command(exe, "events", "-f", sessionID, "--json", "--data", data)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }() // it was ended by a signal
	defer func() { _ = cmd.Process.Kill() }()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct{ Type, TurnID string }
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		if e.TurnID == turnID && e.Type == "task.completed" {
			return
		}
	}
	t.Fatal("the turn didn't end")
}

// received reads what the Collector wrote.
func received(t *testing.T, file string) (spans []ptrace.Span, metrics map[string]pmetric.Metric, resources []pcommon.Resource) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	metrics = map[string]pmetric.Metric{}
	for line := range bytes.Lines(data) {
		if bytes.Contains(line[:20], []byte("resourceMetrics")) {
			m, err := (&pmetric.JSONUnmarshaler{}).UnmarshalMetrics(line)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range m.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().All() {
				metrics[x.Name()] = x
			}
			continue
		}
		d, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(line)
		if err != nil {
			t.Fatal(err)
		}
		for _, rs := range d.ResourceSpans().All() {
			resources = append(resources, rs.Resource())
			if rs.SchemaUrl() != "https://opentelemetry.io/schemas/1.41.0" {
				t.Errorf("the schema is %q", rs.SchemaUrl())
			}
			for _, ss := range rs.ScopeSpans().All() {
				for _, s := range ss.Spans().All() {
					spans = append(spans, s)
				}
			}
		}
	}
	return spans, metrics, resources
}

// TestLongCollector sends the telemetry of a session to a real Collector and checks
// what arrived there: names, parents, attributes, metrics. Then it sends the same
// session again, rebuilt from its facts, as OTLP JSON.
func TestLongCollector(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("skipped: a real OpenTelemetry Collector, which takes minutes to compile; set AGENTD_TEST_LONG=1")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "received.jsonl")
	began := time.Now()
	exe := build(t, dir, ".", ".", "collector")
	t.Logf("the Collector compiled in %v", time.Since(began).Round(time.Second))
	agentd := build(t, dir, "../..", "./cmd/agentd", "agentd")
	url, stop := startCollector(t, exe, file)

	var told []string // by hooks, one at a time
	hooks := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		told = append(told, r.Header.Get("Traceparent"))
		_, _ = w.Write([]byte(`{}`))
	}))
	defer hooks.Close()
	conf := filepath.Join(dir, "agentd.yaml")
	for name, content := range map[string]string{conf: fmt.Sprintf(settings, dir, hooks.URL, url), filepath.Join(dir, "script.yaml"): answers} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "work"), 0o700); err != nil {
		t.Fatal(err)
	}
	id := session(t, agentd, dir, conf)
	spans, metrics, resources := received(t, file)
	checkTree(t, spans)
	checkAttributes(t, spans, told)
	checkMetrics(t, metrics)
	if v, _ := resources[0].Attributes().Get("service.name"); v.Str() != "agentd" {
		t.Errorf("the resource is %v", resources[0].Attributes().AsRaw())
	}
	sendAgain(t, agentd, filepath.Join(dir, "data"), id, url)
	again, _, _ := received(t, file)
	compare(t, spans, again[len(spans):])
	stop()
	if out, err := exec.Command(agentd, "replay", "--all", id, "--config", conf, "--data", filepath.Join(dir, "data")).CombinedOutput(); err != nil {
		t.Errorf("the session, run again: %v: %s", err, out)
	}
}

// tree draws the spans with their parents' names.
func tree(spans []ptrace.Span) map[string]int {
	names := map[pcommon.SpanID]string{}
	for _, s := range spans {
		names[s.SpanID()] = s.Name()
	}
	out := map[string]int{}
	for _, s := range spans {
		parent := names[s.ParentSpanID()]
		if parent == "" {
			parent = s.ParentSpanID().String()
		}
		out[s.Name()+" < "+parent]++
	}
	return out
}

func checkTree(t *testing.T, spans []ptrace.Span) {
	t.Helper()
	want := map[string]int{
		"invoke_agent < " + callerSpan:                     1,
		"task_run < invoke_agent":                          1,
		"resolve_context < task_run":                       2,
		"chat m1 < task_run":                               5,
		"execute_tool write_file < task_run":               1,
		"execute_tool spawn_agent < task_run":              1,
		"hook_run pre_tool_use < execute_tool write_file":  1,
		"hook_run pre_tool_use < execute_tool spawn_agent": 1,
		"invoke_agent helper < execute_tool spawn_agent":   1,
		"task_run < invoke_agent helper":                   1,
	}
	got := tree(spans)
	for line, n := range want {
		if got[line] != n {
			t.Errorf("%q arrived %d times, want %d", line, got[line], n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("the spans are %v", got)
	}
	for _, s := range spans {
		if s.TraceID().String() != callerTrace {
			t.Errorf("%s is in trace %s", s.Name(), s.TraceID())
		}
	}
}

func checkAttributes(t *testing.T, spans []ptrace.Span, told []string) {
	t.Helper()
	failed, used, hooked := 0, 0, 0
	for _, s := range spans {
		attrs := s.Attributes().AsRaw()
		if attrs["agentruntime.session.id"] != "sess_collected" || attrs["agentruntime.turn.id"] == nil || attrs["agentruntime.event.id"] == nil {
			t.Errorf("%s can't be joined to facts: %v", s.Name(), attrs)
		}
		switch {
		case strings.HasPrefix(s.Name(), "chat"):
			if attrs["gen_ai.operation.name"] != "chat" || attrs["gen_ai.provider.name"] != "fake" || attrs["gen_ai.request.model"] != "m1" || s.Kind() != ptrace.SpanKindClient {
				t.Errorf("%s: %v", s.Name(), attrs)
			}
			if s.Status().Code() == ptrace.StatusCodeError && attrs["error.type"] == "overloaded" {
				failed++
			}
			if attrs["gen_ai.usage.input_tokens"] == int64(120) && attrs["gen_ai.usage.cache_read.input_tokens"] == int64(100) {
				used++
			}
		case strings.HasPrefix(s.Name(), "hook_run"):
			for _, tp := range told {
				if tp == "00-"+s.TraceID().String()+"-"+s.SpanID().String()+"-01" {
					hooked++
				}
			}
		case strings.HasPrefix(s.Name(), "execute_tool"):
			if attrs["gen_ai.operation.name"] != "execute_tool" || s.Name() != "execute_tool "+fmt.Sprint(attrs["gen_ai.tool.name"]) {
				t.Errorf("%s: %v", s.Name(), attrs)
			}
		}
	}
	if failed != 1 || used != 1 || hooked != 2 {
		t.Errorf("%d failed calls, %d with usage, %d hooks that were told their span; want 1, 1, 2", failed, used, hooked)
	}
}

func checkMetrics(t *testing.T, metrics map[string]pmetric.Metric) {
	t.Helper()
	for _, name := range []string{
		"gen_ai.client.operation.duration", "gen_ai.client.token.usage", "agentruntime.turn.duration", "agentruntime.task.duration",
		"agentruntime.tool.duration", "agentruntime.hook.duration", "agentruntime.queue.wait", "agentruntime.model.retries", "agentruntime.cost",
	} {
		if _, ok := metrics[name]; !ok {
			t.Errorf("%s didn't arrive", name)
		}
	}
	if m, ok := metrics["gen_ai.client.operation.duration"]; ok {
		n := uint64(0)
		for _, p := range m.Histogram().DataPoints().All() {
			n += p.Count()
		}
		if n != 5 || m.Unit() != "s" {
			t.Errorf("%d model calls were measured in %s", n, m.Unit())
		}
	}
}

// sendAgain sends the session as OTLP JSON.
func sendAgain(t *testing.T, agentd, data, id, url string) {
	t.Helper()
	out, err := exec.Command(agentd, "telemetry", "export", id, "--data", data).Output()
	if err != nil {
		t.Fatal(err)
	}
	post(t, url+"/v1/traces", "", string(out), nil)
}

// compare holds what was sent live, in protobuf, against what was rebuilt, as JSON.
func compare(t *testing.T, live, past []ptrace.Span) {
	t.Helper()
	form := func(s ptrace.Span) string {
		d := ptrace.NewTraces()
		s.CopyTo(d.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty())
		data, err := (&ptrace.JSONMarshaler{}).MarshalTraces(d)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	by := map[pcommon.SpanID]string{}
	for _, s := range live {
		by[s.SpanID()] = form(s)
	}
	if len(by) != len(live) || len(past) != len(live) {
		t.Errorf("%d spans with %d ids were sent, %d were rebuilt", len(live), len(by), len(past))
	}
	for _, s := range past {
		if got := form(s); got != by[s.SpanID()] {
			t.Errorf("%s differs:\n%s\n%s", s.Name(), by[s.SpanID()], got)
		}
	}
}
