//go:build unix

package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/tool"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// web is a server over HTTP with a switch or two in front.
type web struct {
	*httptest.Server

	mu sync.Mutex
	// forgotten sessions are answered with 404, others kept to be forgotten.
	forgotten map[string]bool
	sessions  map[string]bool
	status    int
	headers   []http.Header
	// listens end the streams of changes; quit lets tools end that wait.
	listens []context.CancelFunc
	quit    chan struct{}
}

func newWeb(t *testing.T, opts *sdk.StreamableHTTPOptions, server *sdk.ServerOptions) *web {
	t.Helper()
	w := &web{forgotten: map[string]bool{}, sessions: map[string]bool{}, quit: make(chan struct{})}
	s := newRealServer(server, w.quit)
	inner := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, opts)
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if status := w.seen(r); status != 0 {
			rw.WriteHeader(status)
			return
		}
		if r.Header.Get("Mcp-Method") == "subscriptions/listen" {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			w.mu.Lock()
			w.listens = append(w.listens, cancel)
			w.mu.Unlock()
			r = r.WithContext(ctx)
		}
		inner.ServeHTTP(rw, r)
	}))
	t.Cleanup(func() {
		w.release()
		for session := range s.Sessions() {
			_ = session.Close()
		}
		w.CloseClientConnections()
		w.Close()
	})
	return w
}

// release lets the tools end that wait.
func (w *web) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.quit:
	default:
		close(w.quit)
	}
}

func (w *web) seen(r *http.Request) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.headers = append(w.headers, r.Header.Clone())
	id := r.Header.Get("Mcp-Session-Id")
	switch {
	case id != "" && w.forgotten[id]:
		return http.StatusNotFound
	case id != "":
		w.sessions[id] = true
	}
	return w.status
}

func (w *web) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.sessions {
		w.forgotten[id] = true
	}
}

func (w *web) answer(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status = status
}

func (w *web) config(revision string) Server {
	return Server{ID: "w", URL: w.URL, Timeout: patience, StartTimeout: patience, Protocol: revision}
}

func TestHTTPBothRevisions(t *testing.T) {
	for _, revision := range []string{revisionLegacy, revisionNewest} {
		for _, opts := range []sdk.StreamableHTTPOptions{{}, {Stateless: true}, {JSONResponse: true}, {Stateless: true, JSONResponse: true}} {
			t.Run(fmt.Sprintf("%s stateless=%v json=%v", revision, opts.Stateless, opts.JSONResponse), func(t *testing.T) {
				w := newWeb(t, &opts, nil)
				cfg := w.config(revision)
				cfg.Headers = map[string]string{"X-Test": "configured"}
				c := open(t, Options{}, cfg)
				// The SDK's handler speaks the newer revision only without sessions; with
				// them, both settle for the older one.
				want := revision
				if !opts.Stateless {
					want = revisionLegacy
				}
				if st := c.Status()[0]; st.Protocol != want {
					t.Fatalf("status %+v", st)
				}
				if out := run(t, c, "mcp__w__echo", `{"a":1}`); string(out.Output) != `{"a":1}` {
					t.Errorf("echo gave %s", out.Output)
				}
				call := callOf(`{}`)
				call.MaxOutput = 1000
				if out, err := findTool(t, c, "mcp__w__big").Run(t.Context(), call); err != nil || out.Dropped == 0 {
					t.Errorf("big gave %v", err)
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				for _, h := range w.headers {
					if h.Get("X-Test") != "configured" {
						t.Errorf("a request without the configured header: %v", h)
					}
				}
			})
		}
	}
}

// handlerFor returns options with which the SDK's handler speaks a revision.
func handlerFor(revision string) *sdk.StreamableHTTPOptions {
	newest := revision == revisionNewest
	return &sdk.StreamableHTTPOptions{Stateless: newest, PropagateRequestCancellation: newest}
}

func TestHTTPCancellation(t *testing.T) {
	for _, revision := range []string{revisionLegacy, revisionNewest} {
		t.Run(revision, func(t *testing.T) {
			w := newWeb(t, handlerFor(revision), nil)
			c := open(t, Options{}, w.config(revision))
			ctx, cancel := context.WithCancel(t.Context())
			h := newHost()
			call := callOf(`{}`)
			call.Host = h
			go func() {
				<-h.told
				cancel()
			}()
			_, err := findTool(t, c, "mcp__w__wait").Run(ctx, call)
			if e := category(t, err); e.Category != tool.Interrupted {
				t.Errorf("got %v", e)
			}
			eventually(t, "cancellation at the server", func() bool {
				return string(run(t, c, "mcp__w__cancelled", `{}`).Output) == "1"
			})
		})
	}
}

func TestHTTPListChange(t *testing.T) {
	for _, revision := range []string{revisionLegacy, revisionNewest} {
		t.Run(revision, func(t *testing.T) {
			rec := newRecorder()
			c := open(t, rec.options(), newWeb(t, handlerFor(revision), nil).config(revision))
			run(t, c, "mcp__w__grow", `{}`)
			rec.until(t, "new tool", func() bool { return slices.Contains(names(c), "mcp__w__grown") })
		})
	}
}

func TestHTTPSessionExpires(t *testing.T) {
	w := newWeb(t, nil, nil)
	rec := newRecorder()
	c := open(t, rec.options(), w.config(revisionLegacy))
	run(t, c, "mcp__w__echo", `{}`)
	w.forget()
	// The tool may change things: that it is asked again is right only because the
	// server surely did nothing.
	if out := run(t, c, "mcp__w__echo", `{"again":true}`); string(out.Output) != `{"again":true}` {
		t.Errorf("echo gave %s", out.Output)
	}
	if st := c.Status()[0]; st.Connects != 2 {
		t.Errorf("%+v", st)
	}
	wantText(t, strings.Join(rec.all(), "\n"), "ended the session")
}

// When only the stream of changes ends, a new connection is made beside the old
// one, and what runs there goes on.
func TestHTTPRenewalSparesCalls(t *testing.T) {
	w := newWeb(t, handlerFor(revisionNewest), nil)
	rec := newRecorder()
	c := open(t, rec.options(), w.config(revisionNewest))
	h := newHost()
	call := callOf(`{}`)
	call.Host = h
	type outcome struct {
		res *tool.Result
		err error
	}
	done := make(chan outcome, 1)
	wait := findTool(t, c, "mcp__w__wait")
	go func() {
		res, err := wait.Run(t.Context(), call)
		done <- outcome{res, err}
	}()
	<-h.told
	w.mu.Lock()
	w.listens[0]()
	w.mu.Unlock()
	rec.until(t, "a new connection", func() bool { st := c.Status()[0]; return st.State == Ready && st.Connects == 2 })
	run(t, c, "mcp__w__echo", `{}`)
	select {
	case o := <-done:
		t.Fatalf("the call ended: %+v", o)
	default:
	}
	w.release()
	if o := <-done; o.err != nil || string(o.res.Output) != "quit" {
		t.Errorf("the call gave %+v", o)
	}
}

func TestHTTPConnectionCutInMidCall(t *testing.T) {
	for _, revision := range []string{revisionLegacy, revisionNewest} {
		t.Run(revision, func(t *testing.T) {
			w := newWeb(t, handlerFor(revision), nil)
			c := open(t, newRecorder().options(), w.config(revision))
			h := newHost()
			call := callOf(`{}`)
			call.Host = h
			go func() {
				<-h.told
				w.CloseClientConnections()
			}()
			_, err := findTool(t, c, "mcp__w__wait").Run(t.Context(), call)
			if e := category(t, err); e.Category != tool.Lost || e.Retryable {
				t.Errorf("got %+v", e)
			}
			eventually(t, "the server to be back", func() bool {
				_, err := findTool(t, c, "mcp__w__echo").Run(t.Context(), callOf(`{}`))
				return err == nil
			})
		})
	}
}

func TestHTTPStatus(t *testing.T) {
	w := newWeb(t, &sdk.StreamableHTTPOptions{Stateless: true}, nil)
	for status, want := range map[int]string{
		http.StatusServiceUnavailable: tool.Unavailable, http.StatusTooManyRequests: tool.Unavailable,
		http.StatusUnauthorized: tool.Unavailable, http.StatusBadGateway: tool.Lost, http.StatusInternalServerError: tool.Lost,
	} {
		w.answer(0)
		c := open(t, newRecorder().options(), w.config(revisionNewest))
		w.answer(status)
		_, err := findTool(t, c, "mcp__w__echo").Run(t.Context(), callOf(`{}`))
		if e := category(t, err); e.Category != want {
			t.Errorf("HTTP status %d: got %+v, want %s", status, e, want)
		}
		c.Close()
	}
}

func TestHTTPServerComesLate(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	_ = ln.Close()
	rec := newRecorder()
	const key = "in-the-query"
	c := open(t, rec.options(), Server{ID: "w", URL: "http://" + addr + "/mcp?key=" + key, Timeout: patience, StartTimeout: patience})
	if st := c.Status()[0]; st.State == Ready || !strings.Contains(st.Reason, "refused") || strings.Contains(st.Reason, key) {
		t.Fatalf("%+v", st)
	}
	ln, err = net.Listen("tcp", addr)
	if err != nil {
		t.Skipf("skipping that a server comes late: its port was taken meanwhile: %v", err)
	}
	s := newRealServer(nil, nil)
	srv := &http.Server{Handler: sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, handlerFor(revisionNewest))}
	go func() { _ = srv.Serve(ln) }()
	rec.until(t, "the server", func() bool { return c.Status()[0].State == Ready })
	if st := c.Status()[0]; st.Protocol != revisionNewest {
		t.Errorf("refused connections made it choose %s", st.Protocol)
	}
	run(t, c, "mcp__w__echo", `{}`)

	// And it goes: the listening stream ends, so it is known without a call.
	_ = srv.Close()
	rec.until(t, "its loss", func() bool { return c.Status()[0].State == Unavailable })
	_, err = findTool(t, c, "mcp__w__echo").Run(t.Context(), callOf(`{}`))
	if e := category(t, err); e.Category != tool.Unavailable || !e.Retryable || strings.Contains(e.Message, key) {
		t.Errorf("got %+v", e)
	}
}

func TestHTTPHangs(t *testing.T) {
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer srv.Close()
	defer close(release)
	c := open(t, newRecorder().options(), Server{ID: "w", URL: srv.URL, StartTimeout: 200 * time.Millisecond})
	wantText(t, c.Status()[0].Reason, "didn't answer within 200ms")
}

func TestHTTPRedirectKeepsHeadersHome(t *testing.T) {
	var mu sync.Mutex
	stolen := 0
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		stolen++
	}))
	defer thief.Close()
	srv := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	defer srv.Close()
	c := open(t, newRecorder().options(), Server{ID: "w", URL: srv.URL, StartTimeout: patience, Headers: map[string]string{"X-Key": "k"}})
	wantText(t, c.Status()[0].Reason, "redirects to another origin")
	mu.Lock()
	defer mu.Unlock()
	if stolen != 0 {
		t.Errorf("the other origin got %d requests", stolen)
	}
}

// A server by hand: its answers are streams with what the SDK would not read.
func TestHTTPOddContent(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
			rw.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		results := map[string]string{
			"initialize": `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"0"}}`,
			"tools/list": `{"tools":` + oneTool + `}`,
			"tools/call": answers["odd-content"],
		}
		switch result, ok := results[m.Method]; {
		case len(m.ID) == 0:
			rw.WriteHeader(http.StatusAccepted)
		case !ok:
			rw.WriteHeader(http.StatusBadRequest)
		default:
			rw.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprintf(rw, ": a comment\r\nevent: message\r\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\r\ndata: \"result\":%s}\r\n\r\n", m.ID, result)
		}
	}))
	defer srv.Close()
	c := open(t, Options{}, Server{ID: "w", URL: srv.URL, StartTimeout: patience, Timeout: patience})
	wantText(t, string(run(t, c, "mcp__w__t", `{}`).Output), `{"type":"hologram","beam":7}`, "fine")
}

func TestBodiesAreBounded(t *testing.T) {
	endless := bufio.NewReader(endlessReader{})
	if _, err := nextAll(endless); err == nil {
		t.Error("an endless answer was read")
	}
	if _, err := nextEvent(endless); err == nil {
		t.Error("an endless event was read")
	}
}

type endlessReader struct{}

func (endlessReader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}
