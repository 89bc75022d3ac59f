// Package otlptest is a collector of telemetry for tests.
//
// # Contract
//
// A [Collector] takes OTLP over HTTP, as protobuf, and keeps the spans. Tests decide how
// it answers. Any goroutine may use it.
package otlptest

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Collector is a fake OTLP receiver that answers by a function.
type Collector struct {
	*httptest.Server
	// Came is signalled at each request, and when what it brought can be seen.
	Came chan struct{}

	mu      sync.Mutex
	answer  func(w http.ResponseWriter, r *http.Request) bool
	spans   []*tracepb.Span
	metrics int
	headers []http.Header
	// taking is called after spans were taken and before that is said.
	taking func()
}

// AfterTaking says what happens between taking spans and saying so.
func (c *Collector) AfterTaking(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taking = f
}

// NewCollector starts a collector. Answer writes a refusal and returns true, or
// returns false for the ordinary answer; nil is always ordinary.
func NewCollector(tb testing.TB, answer func(w http.ResponseWriter, r *http.Request) bool) *Collector {
	tb.Helper()
	c := &Collector{answer: answer, Came: make(chan struct{}, 1000)}
	c.Server = httptest.NewServer(c)
	tb.Cleanup(c.Close)
	return c
}

// ServeHTTP implements [http.Handler].
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	c.headers = append(c.headers, r.Header.Clone())
	answer := c.answer
	c.mu.Unlock()
	select {
	case c.Came <- struct{}{}:
	default:
	}
	if answer != nil && answer(w, r) {
		return
	}
	c.record(w, r.URL.Path, data)
	c.mu.Lock()
	taking := c.taking
	c.mu.Unlock()
	if taking != nil && r.URL.Path == "/v1/traces" {
		taking()
	}
	select {
	case c.Came <- struct{}{}: // what was taken can be seen now
	default:
	}
}

func (c *Collector) record(w http.ResponseWriter, path string, data []byte) {
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
	c.spans = append(c.spans, SpansOf(&got)...)
}

// SpansOf returns the spans of a request.
func SpansOf(d *tracepb.TracesData) []*tracepb.Span {
	var out []*tracepb.Span
	for _, rs := range d.GetResourceSpans() {
		for _, ss := range rs.GetScopeSpans() {
			out = append(out, ss.GetSpans()...)
		}
	}
	return out
}

// Spans returns the spans that were taken.
func (c *Collector) Spans() []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// SetAnswer replaces the function that answers; see [NewCollector].
func (c *Collector) SetAnswer(f func(w http.ResponseWriter, r *http.Request) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = f
}

// Metrics returns how many requests brought metrics.
func (c *Collector) Metrics() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.metrics
}

// Headers returns the headers of the requests.
func (c *Collector) Headers() []http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.headers)
}
