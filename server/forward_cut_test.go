package server_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"agentd/fault"
	"agentd/server"
)

// TestAnAnswerThatBreaksOff: the owner of a session dies in the middle of its answer. The
// client gets what there is and learns that it isn't all, whatever kind of answer it is.
func TestAnAnswerThatBreaksOff(t *testing.T) {
	for name, c := range map[string]struct{ mediaType, length, part string }{
		"a plain answer":        {"application/json", "", `{"events":[{"sequence":1}`},
		"one of a known length": {"application/json", "1000", `{"events":[]}`},
		"a stream of events":    {"text/event-stream", "", "id: 1\ndata: {}\n\n"},
		"a stream of lines":     {"application/x-ndjson", "", "{\"sequence\":1}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, dies := range []bool{true, false} {
				owner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", c.mediaType)
					if dies && c.length != "" {
						w.Header().Set("Content-Length", c.length)
					}
					_, _ = io.WriteString(w, c.part)
					_ = http.NewResponseController(w).Flush()
					if dies {
						panic(http.ErrAbortHandler)
					}
				}))
				t.Cleanup(owner.Close)
				read := runOn(t, &elsewhere{newFake(), owner.URL}, nil)
				mount := mounted(t, func(w http.ResponseWriter, q *http.Request) {
					f := fault.New(fault.Unavailable, "the session is owned by node b")
					f.Elsewhere = owner.URL
					if !server.PassOn(q.Context(), f) {
						w.WriteHeader(http.StatusTeapot)
					}
				}, nil)
				for r, path := range map[*running]string{read: "/v1/sessions/s/events", mount: "/m/x"} {
					res, err := r.client.Do(r.request(http.MethodGet, path, ""))
					if err != nil {
						t.Fatal(err)
					}
					body, err := io.ReadAll(res.Body)
					if res.StatusCode != http.StatusOK || string(body) != c.part || errors.Is(err, io.ErrUnexpectedEOF) != dies {
						t.Errorf("%s: %d, %q, %v; the owner dies: %v", path, res.StatusCode, body, err, dies)
					}
					_ = res.Body.Close()
					r.stop()
					if got := strings.Contains(r.log.String(), "broke off"); got != dies {
						t.Errorf("%s: the log says so: %v; the owner dies: %v:\n%s", path, got, dies, r.log.String())
					}
				}
			}
		})
	}
}

// TestAMountRefusesInItsOwnWords: that a request can't be passed on is said as the handler's
// protocol says it, if that has a form of its own.
func TestAMountRefusesInItsOwnWords(t *testing.T) {
	f := fault.New(fault.Unavailable, "the session is owned by node b")
	f.Elsewhere = "http://127.0.0.1:1"
	handler := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.CopyN(io.Discard, q.Body, 3)
		if !server.PassOn(q.Context(), f) {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	refuse := func(w http.ResponseWriter, q *http.Request, err error) {
		body, _ := io.ReadAll(q.Body)
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "own words about "+string(body)+": "+err.Error())
	}
	r := run(t, func(o *server.Options) {
		o.MoveWait = time.Millisecond
		o.Mounts = []server.Mount{{Prefix: "/own", Handler: handler, Refuse: refuse}, {Prefix: "/plain", Handler: handler}}
	})
	if a := r.sendRequest(r.request(http.MethodPost, "/own", "call 7")); a.status != http.StatusServiceUnavailable || !strings.HasPrefix(string(a.body), "own words about call 7: ") || !strings.Contains(string(a.body), "node b") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if p := r.getPath("/plain").problem(t); p.Status != http.StatusServiceUnavailable || !strings.Contains(p.Detail, "node b") {
		t.Errorf("%+v", p)
	}
}
