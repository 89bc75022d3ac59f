package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentd/command"
	"agentd/fault"
	"agentd/internal/leaktest"
	"agentd/internal/wire"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// serve returns a client for a handler.
func serve(t *testing.T, h http.HandlerFunc, opt *Options) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := New(s.URL, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func problem(w http.ResponseWriter, err error) {
	p := wire.ProblemOf(err)
	w.Header().Set("Content-Type", wire.ProblemType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

func TestDoSendsTheParametersAndReadsTheResult(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodPost || r.URL.Path != "/v1/commands/submit_turn" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s %s", r.Method, r.URL.Path, r.Header.Get("Content-Type"))
		}
		if got := r.Header.Get("Authorization"); got != "Bearer secret" {
			t.Errorf("authorization %q", got)
		}
		if string(body) != `{"idempotencyKey":"k","sessionId":"s","input":"hi"}` {
			t.Errorf("body %s", body)
		}
		_, _ = io.WriteString(w, `{"sessionId":"s","turnId":"turn_1","status":"accepted","sequence":7,"new":"unknown"}`)
	}, &Options{Token: "secret"})
	res, err := Call[command.SubmitTurnResult](t.Context(), c, &command.SubmitTurn{
		Mutation: command.Mutation{IdempotencyKey: "k"}, SessionID: "s", Input: command.Text("hi"),
	})
	if err != nil || res.TurnID != "turn_1" || res.Sequence != 7 {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestErrorsKeepTheirKind(t *testing.T) {
	for _, d := range fault.Table() {
		sent := &fault.Error{Kind: d.Kind, Detail: "what " + string(d.Kind), Param: "options.model", RetryAfter: 3 * time.Second}
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) { problem(w, sent) }, nil)
		err := c.Do(t.Context(), &command.GetSession{SessionID: "s"}, nil)
		var got *fault.Error
		if !errors.As(err, &got) {
			t.Fatalf("%s: %v is not a fault", d.Kind, err)
		}
		if got.Kind != sent.Kind || got.Detail != sent.Detail || got.Param != sent.Param || got.RetryAfter != sent.RetryAfter {
			t.Errorf("sent %+v, got %+v", sent, got)
		}
	}
}

func TestAnswersThatAreNotAgentds(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		retry  string
		want   fault.Kind
	}{
		"proxy":          {http.StatusBadGateway, "<html>bad gateway</html>", "", fault.Unavailable},
		"plain 404":      {http.StatusNotFound, "404 page not found", "", fault.NotFound},
		"plain 429":      {http.StatusTooManyRequests, "", "2", fault.RateLimited},
		"odd status":     {http.StatusTeapot, "{}", "", fault.Unavailable},
		"not JSON":       {http.StatusOK, "hello", "", fault.Unavailable},
		"half an answer": {http.StatusOK, `{"sessionId":`, "", fault.Unavailable},
		"wrong type":     {http.StatusOK, `[]`, "", fault.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			cl := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", c.retry)
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}, nil)
			_, err := Call[command.CreateSessionResult](t.Context(), cl, &command.CreateSession{})
			var f *fault.Error
			if !errors.As(err, &f) || f.Kind != c.want {
				t.Fatalf("got %v, want %s", err, c.want)
			}
			if c.retry != "" && f.RetryAfter != 2*time.Second {
				t.Errorf("retry after %v", f.RetryAfter)
			}
		})
	}
}

func TestAnAnswerOverTheBoundIsRefused(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `"`+strings.Repeat("x", 2000)+`"`)
	}, &Options{MaxAnswerBytes: 1000})
	var s string
	if err := c.Do(t.Context(), &command.ListSessions{}, &s); fault.KindOf(err) != fault.Unavailable || s != "" {
		t.Errorf("%q, %v", s, err)
	}
}

func TestNoServerIsUnavailable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	c, err := New("http://"+address, &Options{Token: "secret-token"})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Do(t.Context(), &command.ListSessions{}, nil)
	if fault.KindOf(err) != fault.Unavailable {
		t.Errorf("got %v", err)
	}
	if strings.Contains(err.Error(), "secret-token") {
		t.Errorf("the token is in the error: %v", err)
	}
}

func TestACancelledContextCanBeTold(t *testing.T) {
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Do(ctx, &command.ListSessions{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestAddresses(t *testing.T) {
	for _, base := range []string{"", "127.0.0.1:8700", "ftp://host", "http://", "://x", "http://[::1"} {
		if _, err := New(base, nil); err == nil {
			t.Errorf("%q was taken", base)
		}
	}
	if _, err := New("http://x", &Options{UnixSocket: "s", HTTPClient: http.DefaultClient}); err == nil {
		t.Error("a socket and a client were taken together")
	}
	c, err := New("https://user:pass@host/prefix/?q=1#f", nil)
	if err != nil || c.base.String() != "https://host/prefix" {
		t.Errorf("%v, %v", c.base, err)
	}
}

func TestUnixSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"sessions":[]}`)
	})}}
	s.Start()
	defer s.Close()
	c, err := New("", &Options{UnixSocket: socket})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Do(t.Context(), &command.ListSessions{}, nil); err != nil {
		t.Error(err)
	}
}

func TestOutputReadsRanges(t *testing.T) {
	const content = "0123456789"
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.EscapedPath() != "/v1/outputs/out:a%2Fb%20c" {
			problem(w, fault.New(fault.NotFound, "no such output %s", r.URL.EscapedPath()))
			return
		}
		if r.Header.Get("Range") == "bytes=50-" {
			problem(w, fault.New(fault.RangeNotSatisfiable, "there are 10 bytes"))
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("ETag", `"tag"`)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(content))
	}, nil)
	for part, want := range map[Range]struct {
		body   string
		offset int64
	}{
		{}:                     {content, 0},
		{Offset: 3}:            {"3456789", 3},
		{Length: 4}:            {"0123", 0},
		{Offset: 3, Length: 2}: {"34", 3},
		{Offset: -2}:           {"89", 8},
	} {
		out, err := c.Output(t.Context(), "out:a/b c", part)
		if err != nil {
			t.Errorf("%+v: %v", part, err)
			continue
		}
		body, err := io.ReadAll(out.Body)
		_ = out.Body.Close()
		if err != nil || string(body) != want.body || out.Offset != want.offset || out.Size != 10 || out.ETag != `"tag"` {
			t.Errorf("%+v: %q at %d of %d, %s, %v", part, body, out.Offset, out.Size, out.ETag, err)
		}
	}
	if _, err := c.Output(t.Context(), "out:a/b c", Range{Offset: 50}); fault.KindOf(err) != fault.RangeNotSatisfiable {
		t.Errorf("past the end: %v", err)
	}
	if _, err := c.Output(t.Context(), "other", Range{}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("unknown: %v", err)
	}
}
