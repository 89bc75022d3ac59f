package server_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"agentd/fault"
	"agentd/server"
)

// TestWhoLeftARequestThatWasPassedOn: the node that answers a request learns that the client
// left. That the node in between stops is no leaving: the client comes back through another.
func TestWhoLeftARequestThatWasPassedOn(t *testing.T) {
	for name, leave := range map[string]func(between *running, client context.CancelFunc){
		"the client":          func(_ *running, client context.CancelFunc) { client() },
		"the node in between": func(between *running, _ context.CancelFunc) { between.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			begun, release, left := make(chan struct{}), make(chan struct{}), make(chan bool, 1)
			there := mounted(t, func(_ http.ResponseWriter, q *http.Request) {
				close(begun)
				select {
				case <-q.Context().Done():
					left <- true
				case <-release:
					left <- q.Context().Err() != nil
				}
			}, nil)
			between := mounted(t, func(_ http.ResponseWriter, q *http.Request) {
				f := fault.New(fault.Unavailable, "the session is owned by another node")
				f.Elsewhere = there.base
				server.PassOn(q.Context(), f)
			}, nil)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				res, err := between.client.Do(between.request(http.MethodPost, "/m", "{}").WithContext(ctx))
				if err == nil {
					_ = res.Body.Close()
				}
			}()
			<-begun
			leave(between, cancel)
			<-ended
			if name != "the client" {
				close(release)
			}
			if got := <-left; got != (name == "the client") {
				t.Errorf("the client left: %v", got)
			}
		})
	}
}

// TestRefusedWhileStopping: what a stopping server refuses can be tried again soon, and the
// answer says so: of the connection, which it closes, a client behind a balancer sees nothing.
func TestRefusedWhileStopping(t *testing.T) {
	r := mounted(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, nil)
	if a := r.getPath("/m"); a.header.Get("Retry-After") != "" {
		t.Errorf("a server that doesn't stop: %v", a.header)
	}
	if err := r.server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/readyz", "/v1/events", "/m"} {
		if a := r.getPath(path); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") != "1" {
			t.Errorf("%s: %d %v %s", path, a.status, a.header, a.body)
		}
	}
}

// TestAMountWaitsForASessionOnItsWay: a request for a session whose node was just stopped, or
// gave it to a third one, is handled again, with its whole body, until the session is there.
func TestAMountWaitsForASessionOnItsWay(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	at := func(address string) error {
		f := fault.New(fault.Unavailable, "the session is owned by another node")
		f.Elsewhere = address
		return f
	}
	// It says that another one has it, as it was passed on already.
	third := mounted(t, func(w http.ResponseWriter, q *http.Request) {
		if server.PassOn(q.Context(), at("http://127.0.0.1:1")) {
			t.Error("passed on twice")
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}, nil)
	places := []string{gone.URL, third.base}
	var bodies []string
	r := mounted(t, func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		bodies = append(bodies, string(body))
		if n := len(bodies); n <= len(places) {
			server.PassOn(q.Context(), at(places[n-1]))
			return
		}
		w.WriteHeader(http.StatusAccepted)
	}, nil)
	if a := r.sendRequest(r.request(http.MethodPost, "/m", "the body")); a.status != http.StatusAccepted {
		t.Errorf("%d %s", a.status, a.body)
	}
	if want := []string{"the body", "the body", "the body"}; !slices.Equal(bodies, want) {
		t.Errorf("handled with %q", bodies)
	}
}
