package main

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"agentd"
	"agentd/cmd/agentd/internal/config"
	"agentd/command"
	"agentd/event"
	"agentd/model/provider/script"
	"agentd/store"
	"agentd/store/storetest"
)

// collector is a fake OTLP receiver that answers by a function.
type collector struct {
	*httptest.Server
	mu       sync.Mutex
	answer   func(w http.ResponseWriter, r *http.Request) bool
	spans    []*tracepb.Span
	metrics  int
	headers  []http.Header
	requests int
	// came is signalled at each request.
	came chan struct{}
	// taking is called after spans were taken and before that is said.
	taking func()
}

// after says what happens between taking spans and saying so.
func (c *collector) after(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taking = f
}

// newCollector starts a collector. Answer writes a refusal and returns true, or
// returns false for the ordinary answer; nil is always ordinary.
func newCollector(t *testing.T, answer func(w http.ResponseWriter, r *http.Request) bool) *collector {
	t.Helper()
	c := &collector{answer: answer, came: make(chan struct{}, 1000)}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

// ServeHTTP implements [http.Handler].
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = z
	}
	data, err := io.ReadAll(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	c.requests++
	c.headers = append(c.headers, r.Header.Clone())
	answer := c.answer
	c.mu.Unlock()
	select {
	case c.came <- struct{}{}:
	default:
	}
	if answer != nil && answer(w, r) {
		return
	}
	c.take(w, r.URL.Path, data)
	c.mu.Lock()
	taking := c.taking
	c.mu.Unlock()
	if taking != nil && r.URL.Path == "/v1/traces" {
		taking()
	}
	select {
	case c.came <- struct{}{}: // what was taken can be seen now
	default:
	}
}

func (c *collector) take(w http.ResponseWriter, path string, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if path == "/v1/metrics" {
		c.metrics++
		return
	}
	var got tracepb.TracesData
	if err := proto.Unmarshal(data, &got); err != nil || path != "/v1/traces" {
		http.Error(w, fmt.Sprint(path, err), http.StatusBadRequest)
		return
	}
	c.spans = append(c.spans, spansOf(&got)...)
}

func spansOf(d *tracepb.TracesData) []*tracepb.Span {
	var out []*tracepb.Span
	for _, rs := range d.GetResourceSpans() {
		for _, ss := range rs.GetScopeSpans() {
			out = append(out, ss.GetSpans()...)
		}
	}
	return out
}

func (c *collector) taken() []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

func (c *collector) answers(f func(w http.ResponseWriter, r *http.Request) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = f
}

// sender is a runtime with an exporter.
type sender struct {
	*testing.T
	e       *exporter
	runtime *agentd.Runtime
	log     *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newSender opens a runtime that sends to a collector, without any wait that isn't
// needed.
func newSender(t *testing.T, url string, change func(*config.Telemetry)) *sender {
	t.Helper()
	return newSenderOver(t, storetest.NewMem(), url, change)
}

func newSenderOver(t *testing.T, over store.Store, url string, change func(*config.Telemetry)) *sender {
	t.Helper()
	s := &sender{T: t, log: &lockedBuffer{}}
	c := &config.Config{Telemetry: config.Telemetry{
		OTLPEndpoint: url, QueueSize: 1000, Timeout: config.Span(time.Minute), MetricsInterval: config.Span(time.Hour),
	}}
	if change != nil {
		change(&c.Telemetry)
	}
	a := &app{version: "test", env: map[string]string{"COLLECTOR_KEY": strings.Repeat("k", 20)}}
	s.e = a.newExporter(c, over, "runtime_test", slog.New(slog.NewTextHandler(s.log, nil)))
	s.e.linger, s.e.backoff = time.Millisecond, time.Millisecond
	opt := agentd.Options{
		Store: s.e.marks, RuntimeID: "runtime_test", Observer: s.e, Provider: script.New("script", nil), Model: "test",
	}
	var err error
	if s.runtime, err = agentd.Open(t.Context(), opt); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !t.Failed() && !t.Skipped() { // what a broken test left says nothing
			opt.Store = over
			replayed.Recorded(t, opt.Store)
		}
	})
	s.e.start(t.Context(), s.runtime.Report)
	t.Cleanup(s.end)
	return s
}

func (s *sender) end() {
	s.Helper()
	if s.runtime == nil {
		return
	}
	if err := s.runtime.Close(context.Background()); err != nil {
		s.Error(err)
	}
	s.runtime = nil
	s.e.close()
}

// turn runs one turn to its end.
func (s *sender) turn(session string) {
	s.Helper()
	res, err := s.runtime.Do(s.Context(), command.Local(), &command.SubmitTurn{SessionID: session, Create: true, Input: event.Raw(`"hello"`)})
	if err != nil {
		s.Fatal(err)
	}
	turn := res.(*command.SubmitTurnResult).TurnID
	s.until(session, func(e *event.Event) bool { return e.TurnID == turn && e.Type == event.TypeTaskCompleted })
}

// until follows a session to a fact.
func (s *sender) until(session string, ok func(*event.Event) bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 5*time.Minute) // so that a broken test ends
	defer cancel()
	sub, err := s.runtime.Subscribe(ctx, command.Local(), session, 0)
	if err != nil {
		s.Fatal(err)
	}
	defer sub.Close()
	for {
		records, err := sub.Next(ctx)
		if err != nil {
			s.Fatalf("waiting in %s: %v\n%s", session, err, s.log)
		}
		for _, r := range records {
			e, err := event.Decode(r.Data)
			if err != nil {
				s.Fatal(err)
			}
			if ok(e) {
				return
			}
		}
	}
}

// notices returns the codes of the warnings about the runtime.
func (s *sender) notices() []string {
	s.Helper()
	records, _, err := s.runtime.Events(context.Background(), command.Local(), event.RuntimeSession, 0, 1000)
	if err != nil {
		return nil // nothing was ever reported
	}
	var out []string
	for _, r := range records {
		e, err := event.Decode(r.Data)
		if err != nil {
			s.Fatal(err)
		}
		if n, ok := e.Payload.(*event.RuntimeNotice); ok {
			out = append(out, n.Code)
		}
	}
	return out
}

// told waits for a warning about the runtime. The runtime's session exists once
// something was reported.
func (s *sender) told(code string) {
	s.Helper()
	feed := s.runtime.SubscribeAll(command.Local())
	defer feed.Close()
	ctx, cancel := context.WithTimeout(s.Context(), 5*time.Minute) // so that a broken test ends
	defer cancel()
	for !slices.Contains(s.notices(), code) {
		if _, err := feed.Next(ctx); err != nil {
			s.Fatalf("waiting for %s: %v\n%s", code, err, s.log)
		}
	}
}
