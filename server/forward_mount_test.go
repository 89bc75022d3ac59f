package server_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"agentd/fault"
	"agentd/server"
)

// TestAMountPassesOn: what a mounted handler can't do here goes to the node that
// can, as it came, and once.
func TestAMountPassesOn(t *testing.T) {
	type seen struct{ method, uri, token, version, body string }
	var got []seen
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if r.Header.Get("Origin") != "" {
			t.Error("another node is asked about the origin once more")
		}
		got = append(got, seen{r.Method, r.URL.RequestURI(), r.Header.Get("Authorization"), r.Header.Get("A2a-Version"), string(b)})
		if r.URL.Path == "/m/stranger" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "data: from there\n\n")
	}))
	t.Cleanup(other.Close)
	passed := true
	r := mounted(t, func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.CopyN(io.Discard, q.Body, 3) // a handler need not read all
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("X-Own", "1")
		f := fault.New(fault.Unavailable, "the session is owned by node b")
		f.Elsewhere = other.URL
		if q.URL.Path == "/m/large" {
			_, _ = io.Copy(io.Discard, q.Body)
		}
		if passed = server.PassOn(q.Context(), f); !passed {
			w.WriteHeader(http.StatusTeapot)
		}
	}, func(o *server.Options) { o.MoveWait = time.Millisecond })
	req := r.request(http.MethodPost, "/m/x?a=b", "the body")
	req.Header.Set("A2a-Version", "1.0")
	req.Header.Set("Origin", r.base)
	token := req.Header.Get("Authorization")
	a := r.sendRequest(req)
	if a.status != http.StatusAccepted || string(a.body) != "data: from there\n\n" || a.header.Get("Content-Type") != "text/event-stream" || a.header.Get("X-Own") != "" || a.header.Get("X-Request-ID") == "" {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	if want := (seen{http.MethodPost, "/m/x?a=b", token, "1.0", "the body"}); len(got) != 1 || got[0] != want {
		t.Errorf("the other node got %+v", got)
	}
	// One that came from another node isn't sent back, and one that is too large stays.
	req = r.request(http.MethodPost, "/m/x", "x")
	req.Header.Set("Agentd-Forwarded", "1")
	if a := r.sendRequest(req); a.status != http.StatusTeapot || passed {
		t.Errorf("passed on a second time: %d", a.status)
	}
	if a := r.sendRequest(r.request(http.MethodPost, "/m/large", strings.Repeat("x", 5<<20))); a.status != http.StatusTeapot || passed || len(got) != 1 {
		t.Errorf("a large one: %d, %d requests", a.status, len(got))
	}
	// A node that doesn't know the token, and one that is gone: a clear answer.
	if p := r.sendRequest(r.request(http.MethodGet, "/m/stranger", "")).problem(t); p.Status != http.StatusServiceUnavailable || !strings.Contains(p.Detail, "node b") {
		t.Errorf("%+v", p)
	}
	other.Close()
	if p := r.sendRequest(r.request(http.MethodGet, "/m/x", "")).problem(t); p.Status != http.StatusServiceUnavailable || !strings.Contains(p.Detail, "node b") {
		t.Errorf("%+v", p)
	}
}

// TestPassingOnNeedsAReason: other errors, and requests without a token, stay.
func TestPassingOnNeedsAReason(t *testing.T) {
	for name, err := range map[string]error{"none": nil, "another": fault.New(fault.Unavailable, "later"), "plain": io.EOF} {
		r := mounted(t, func(w http.ResponseWriter, q *http.Request) {
			if server.PassOn(q.Context(), err) {
				t.Errorf("%s: passed on", name)
			}
			w.WriteHeader(http.StatusTeapot)
		}, nil)
		if a := r.getPath("/m"); a.status != http.StatusTeapot {
			t.Errorf("%s: %d", name, a.status)
		}
	}
	f := fault.New(fault.Unavailable, "there")
	f.Elsewhere = "http://127.0.0.1:1"
	if server.PassOn(t.Context(), f) {
		t.Error("what is no request was passed on")
	}
}

// TestAPublicMountPassesOn: what needs no token is passed on without one, and with what its
// handler knows callers by.
func TestAPublicMountPassesOn(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if _, sent := r.Header["Authorization"]; err != nil || sent || r.Header.Get("X-Secret") != "of the task" || string(b) != "news" {
			t.Errorf("the other node got %q, %v, %v", b, r.Header, err)
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(other.Close)
	r := run(t, func(o *server.Options) {
		o.Mounts = []server.Mount{{Prefix: "/told/", Public: true, Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			_, _ = io.Copy(io.Discard, q.Body)
			f := fault.New(fault.Unavailable, "the session is owned by node b")
			f.Elsewhere = other.URL
			if _, err := server.Elsewhere(q.Context(), q.Context(), nil, f, nil); err == nil {
				t.Error("a command was carried out without a token")
			}
			if !server.PassOn(q.Context(), f) {
				w.WriteHeader(http.StatusTeapot)
			}
		})}}
	})
	req := r.request(http.MethodPost, "/told/x", "news")
	req.Header.Del("Authorization")
	req.Header.Set("X-Secret", "of the task")
	if a := r.sendRequest(req); a.status != http.StatusAccepted {
		t.Errorf("%d %s", a.status, a.body)
	}
}
