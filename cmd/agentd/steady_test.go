package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"agentd/client"
	"agentd/command"
	"agentd/fault"
)

// TestCommandsBearARestart: a command for a server behind an address is sent again, with the
// same key, while the server there stops or is none; what a server refuses, and an address at
// which nothing listens, is an error at once.
func TestCommandsBearARestart(t *testing.T) {
	for name, tt := range map[string]struct {
		fail  func(http.ResponseWriter)
		tries int64
		ok    bool
	}{
		"a node that stops": {func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "1")
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"code":"unavailable","detail":"the runtime is stopping","retryAfter":1}`)
		}, 2, true},
		"a balancer without a node": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }, 2, true},
		"a node that vanishes":      {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, 2, true},
		"a bad gateway":             {func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) }, 2, true},
		"files that no node has": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"code":"unavailable","detail":"start node a again"}`)
		}, 1, false},
		"a wrong parameter": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"code":"invalid_params","detail":"input: is missing"}`)
		}, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			var tries atomic.Int64
			var bodies [2]string
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n := tries.Add(1)
				if b, err := io.ReadAll(r.Body); err == nil && n <= 2 {
					bodies[n-1] = string(b)
				}
				if n == 1 {
					tt.fail(w)
					return
				}
				_, _ = io.WriteString(w, `{"sessionId":"sess_a"}`)
			}))
			defer s.Close()
			r, err := dialServer(s.URL, "token")
			if err != nil {
				t.Fatal(err)
			}
			var res command.CreateSessionResult
			err = r.Do(t.Context(), &command.CreateSession{}, &res)
			if (err == nil) != tt.ok || tries.Load() != tt.tries {
				t.Errorf("%v after %d tries", err, tries.Load())
			}
			if tt.tries > 1 && (bodies[0] != bodies[1] || bodies[0] == "{}") {
				t.Errorf("sent %s, and then %s", bodies[0], bodies[1])
			}
		})
	}
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	r, err := dialServer(s.URL, "token")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Call[command.ListSessionsResult](t.Context(), r.client, &command.ListSessions{}); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("where nothing listens: %v", err)
	}
}
