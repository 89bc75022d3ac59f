// Package providertest tests providers: servers that play recorded streams in
// awkward pieces, and the conformance suite that every provider over HTTP passes.
package providertest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"agentd/event"
	"agentd/model"
)

// Result is an answer, or what came of it.
type Result struct {
	Text, Reasoning string
	// Pieces is how many chunks held text.
	Pieces int
	Calls  []model.ToolCall
	Done   *model.Done
	Err    *model.Error
}

// Collect plays a request and holds the provider to its contract: chunks with
// something in them, then exactly one end.
func Collect(ctx context.Context, t testing.TB, p model.Provider, r *model.Request) Result {
	t.Helper()
	var out Result
	ended := false
	for c, err := range p.Stream(ctx, r) {
		if ended {
			t.Fatalf("something comes after the end: %+v, %v", c, err)
		}
		if err != nil {
			if !errors.As(err, &out.Err) {
				t.Fatalf("the error is a %T, not a *model.Error: %v", err, err)
			}
			ended = true
			continue
		}
		if c.Text == "" && c.Reasoning == "" && c.ToolCall == nil && c.Done == nil {
			t.Fatal("an empty chunk")
		}
		out.Text += c.Text
		out.Reasoning += c.Reasoning
		if c.Text != "" {
			out.Pieces++
		}
		if c.ToolCall != nil {
			out.Calls = append(out.Calls, *c.ToolCall)
		}
		if c.Done != nil {
			out.Done, ended = c.Done, true
		}
	}
	if !ended {
		t.Fatal("the answer has no end")
	}
	checkResult(t, &out)
	return out
}

func checkResult(t testing.TB, out *Result) {
	t.Helper()
	for _, c := range out.Calls {
		var object map[string]any
		if c.Malformed == "" && (json.Unmarshal(c.Arguments, &object) != nil || object == nil) {
			t.Fatalf("the arguments of %s are no object: %s", c.Name, c.Arguments)
		}
		if c.Malformed != "" && c.Arguments != nil {
			t.Fatalf("a call with arguments that are malformed too: %+v", c)
		}
	}
	if d := out.Done; d != nil {
		if !slices.Contains(event.EnumValues("@modelStop"), d.StopReason) {
			t.Fatalf("unknown stop reason %q", d.StopReason)
		}
		if d.Native != nil && !json.Valid(d.Native) {
			t.Fatalf("Native is no JSON: %s", d.Native)
		}
	}
}

// Server answers every request in the same way and remembers the last one.
type Server struct {
	URL string

	mu     sync.Mutex
	header http.Header
	path   string
	body   []byte
	count  int
	from   map[string]bool
}

// Serve starts a server that answers with write, until the test ends.
func Serve(t testing.TB, write http.HandlerFunc) *Server {
	t.Helper()
	s := &Server{from: map[string]bool{}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, "the body can't be read", http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		s.header, s.path, s.body = r.Header.Clone(), r.URL.RequestURI(), body
		s.count++
		s.from[r.RemoteAddr] = true
		s.mu.Unlock()
		write(w, r)
	}))
	t.Cleanup(srv.Close)
	s.URL = srv.URL
	return s
}

// Play starts a server that sends a stream in pieces of n bytes; 0 sends it whole.
func Play(t testing.TB, stream string, n int) *Server {
	t.Helper()
	return Serve(t, func(w http.ResponseWriter, _ *http.Request) { Write(w, stream, n) })
}

// Write sends a stream in pieces of n bytes; 0 sends it whole.
func Write(w http.ResponseWriter, stream string, n int) {
	w.Header().Set("Content-Type", "text/event-stream")
	if n <= 0 {
		n = len(stream)
	}
	for stream != "" {
		k := min(n, len(stream))
		if _, err := io.WriteString(w, stream[:k]); err != nil {
			return
		}
		w.(http.Flusher).Flush()
		stream = stream[k:]
	}
}

// Last returns the last request: its path with the query, its headers, its body.
func (s *Server) Last() (path string, header http.Header, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.path, s.header, s.body
}

// Count is how many requests came.
func (s *Server) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// Connections is over how many connections they came.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.from)
}

// Body returns the last request's body, decoded.
func (s *Server) Body(t testing.TB) map[string]any {
	t.Helper()
	_, _, body := s.Last()
	var v map[string]any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("the body is no JSON: %v\n%s", err, body)
	}
	return v
}

// At walks into decoded JSON: "messages.0.content". It fails the test where the
// path ends early.
func At(t testing.TB, v any, path string) any {
	t.Helper()
	for step := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			next, ok := x[step]
			if !ok {
				t.Fatalf("no %q of %q in %v", step, path, x)
			}
			v = next
		case []any:
			i := 0
			for _, c := range step {
				i = i*10 + int(c-'0')
			}
			if i < 0 || i >= len(x) {
				t.Fatalf("no %q of %q in a list of %d", step, path, len(x))
			}
			v = x[i]
		default:
			t.Fatalf("nothing below %q of %q: %v", step, path, v)
		}
	}
	return v
}

// Events writes data lines with an empty line after each: a stream as most
// vendors send it.
func Events(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		b.WriteString("data: " + d + "\n\n")
	}
	return b.String()
}

// Named writes events that have their type as name.
func Named(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		var v struct {
			Type string `json:"type"`
		}
		_ = json.Unmarshal([]byte(d), &v) // a broken event has no name
		b.WriteString("event: " + v.Type + "\ndata: " + d + "\n\n")
	}
	return b.String()
}

// Key returns something that looks like a key and is none.
func Key() string { return strings.Join([]string{"key", "for", "tests", "0123456789abcdef"}, "-") }
