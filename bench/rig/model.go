package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Model is a fake provider that speaks chat completions and responses. Each of
// its scenarios has a base URL of its own, so it needs no memory of who asks.
type Model struct {
	url       string
	scenarios map[string]*answers
	buffers   sync.Pool

	calls    atomic.Int64
	received atomic.Int64
	keep     string // a folder for requests, or empty

	mu   sync.Mutex
	late []time.Duration
}

// ModelName is the only model of the provider.
const ModelName = "bench"

// NewModel starts a provider, which ends with the test. If the environment has
// AGENTD_BENCH_REQUESTS, the requests are kept in that folder.
func NewModel(tb testing.TB, scenarios map[string]Scenario) *Model {
	tb.Helper()
	m := &Model{scenarios: map[string]*answers{}, keep: os.Getenv("AGENTD_BENCH_REQUESTS")}
	m.buffers.New = func() any { return new(bytes.Buffer) }
	for name, s := range scenarios {
		m.scenarios[name] = prepare(s)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	m.url = "http://" + l.Addr().String()
	server := &http.Server{Handler: m, ReadHeaderTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	tb.Cleanup(func() {
		_ = server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			tb.Error(err)
		}
	})
	return m
}

// URL is where a scenario is asked for.
func (m *Model) URL(scenario string) string { return m.url + "/" + scenario + "/v1" }

// Root is the same without the version, which some programs add themselves.
func (m *Model) Root(scenario string) string { return m.url + "/" + scenario }

// Calls is how many answers were asked for.
func (m *Model) Calls() int64 { return m.calls.Load() }

// Received is how many bytes of requests came.
func (m *Model) Received() int64 { return m.received.Load() }

// ServeHTTP implements [http.Handler].
func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	a := m.scenarios[name]
	switch {
	case a == nil:
		http.NotFound(w, r)
	case strings.HasSuffix(path, "/models"):
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"object":"list","data":[{"id":%q,"object":"model"}],"models":[]}`, ModelName)
	case r.Method == http.MethodPost:
		m.answer(w, r, a, strings.HasSuffix(path, "/responses"))
	default:
		http.NotFound(w, r)
	}
}

func (m *Model) answer(w http.ResponseWriter, r *http.Request, a *answers, responses bool) {
	n := m.calls.Add(1)
	body := m.buffers.Get().(*bytes.Buffer) // New makes nothing else
	defer m.buffers.Put(body)
	body.Reset()
	if _, err := io.Copy(body, r.Body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	m.received.Add(int64(body.Len()))
	if m.keep != "" {
		_ = os.WriteFile(filepath.Join(m.keep, fmt.Sprintf("%06d.json", n)), body.Bytes(), 0o600)
	}
	if !sleep(r.Context(), a.Delay) {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	call := a.Tool != "" && !returned(body.Bytes())
	switch {
	case call && responses:
		send(w, a.responsesCall)
	case call:
		send(w, a.chatCall)
	case a.Tokens > 0:
		m.stream(r.Context(), w, a)
	case responses:
		send(w, a.responsesText)
	default:
		send(w, a.chatText)
	}
}

func send(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
}

var (
	userSaid = []byte(`"role":"user"`)
	// What a tool gave back, in either protocol.
	toolGave = [][]byte{[]byte(`"role":"tool"`), []byte(`"type":"function_call_output"`), []byte(`"type":"custom_tool_call_output"`)}
)

// returned reports whether the last thing in a request is what a tool gave back.
func returned(body []byte) bool {
	user := lastIndex(body, userSaid)
	for _, t := range toolGave {
		if bytes.Contains(body[user+1:], t) {
			return true
		}
	}
	return false
}

// lastIndex is [bytes.LastIndex], which compares byte by byte from the end and took a third of
// this provider's time. This looks forward, in ends of the body that double until one has it:
// a long conversation costs no more than a short one.
func lastIndex(body, sep []byte) int {
	for size := 1 << 10; ; size *= 2 {
		from, found := max(0, len(body)-size), -1
		for at := from; ; {
			i := bytes.Index(body[at:], sep)
			if i < 0 {
				break
			}
			found = at + i
			at = found + 1
		}
		if found >= 0 || from == 0 {
			return found
		}
	}
}

// stream writes a token when it is due, and remembers how late it was itself.
func (m *Model) stream(ctx context.Context, w http.ResponseWriter, a *answers) {
	flush := http.NewResponseController(w)
	began := time.Now()
	late := make([]time.Duration, 0, a.Tokens)
	var frame bytes.Buffer
	for n := range a.Tokens {
		due := began.Add(time.Duration(n) * a.Every)
		if !sleep(ctx, time.Until(due)) {
			return
		}
		frame.Reset()
		fmt.Fprintf(&frame, "data: %s\n\n", chatChunk(`{"content":"`+token(n, began)+`"}`, "null"))
		late = append(late, time.Since(due))
		if _, err := w.Write(frame.Bytes()); err != nil || flush.Flush() != nil {
			return
		}
	}
	_, _ = w.Write(frames(chatChunk(`{}`, `"stop"`), chatUsage, "[DONE]"))
	m.mu.Lock()
	m.late = append(m.late, late...)
	m.mu.Unlock()
}

func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Late is how much later than due the provider itself wrote the tokens of the
// answers that have ended.
func (m *Model) Late() Times {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append(Times(nil), m.late...)
}
