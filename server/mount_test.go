package server_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"agentd/fault"
	"agentd/server"
)

// mounted runs a server with one handler at /m.
func mounted(t *testing.T, h http.HandlerFunc, change func(*server.Options)) *running {
	return run(t, func(o *server.Options) {
		o.Mounts = []server.Mount{{Prefix: "/m", Handler: h}}
		if change != nil {
			change(o)
		}
	})
}

// TestMountEndsWithItsToken: a token that is revoked ends what its holder has open
// behind a mount, too.
func TestMountEndsWithItsToken(t *testing.T) {
	began, ended := make(chan struct{}), make(chan error, 1)
	r := mounted(t, func(_ http.ResponseWriter, q *http.Request) {
		close(began)
		<-q.Context().Done()
		ended <- context.Cause(q.Context())
	}, nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-began
		r.tokens.revoke("client-token")
		select {
		case <-ended:
		case <-time.After(2 * time.Minute): // only a defect takes that long
			cancel()
		}
	}()
	res, err := r.client.Do(r.request(http.MethodGet, "/m", "").WithContext(ctx))
	if err != nil {
		t.Fatalf("the request went on although its token was revoked: %v", err)
	}
	_ = res.Body.Close()
}

// TestMountsCountAsStreams: what one token may have open holds behind mounts, too.
func TestMountsCountAsStreams(t *testing.T) {
	began, release := make(chan struct{}, 2), make(chan struct{})
	r := mounted(t, func(_ http.ResponseWriter, _ *http.Request) {
		began <- struct{}{}
		<-release
	}, func(o *server.Options) { o.MaxStreamsPerToken = 1 })
	first := make(chan int, 1)
	go func() { first <- r.sendRequest(r.request(http.MethodGet, "/m", "")).status }()
	<-began
	done := make(chan struct{})
	go func() { // a second one that is let in must not hang the test
		select {
		case <-began:
			close(release)
		case <-done:
		}
	}()
	a := r.sendRequest(r.request(http.MethodGet, "/m", ""))
	if a.status != http.StatusTooManyRequests {
		t.Fatalf("a second request under way: %d %s", a.status, a.body)
	}
	a.problem(t)
	close(done)
	close(release)
	if got := <-first; got != http.StatusOK {
		t.Errorf("the first: %d", got)
	}
}

// TestMountBodiesShareTheBudget: bodies behind mounts are part of what all bodies
// may take in memory, until the answer begins.
func TestMountBodiesShareTheBudget(t *testing.T) {
	const size = 200 << 10
	full := errors.New("none yet")
	answering, release := make(chan struct{}, 1), make(chan struct{})
	h := func(w http.ResponseWriter, q *http.Request) {
		if _, full = io.ReadAll(q.Body); full != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if q.URL.Path == "/m/stream" {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			answering <- struct{}{}
			<-release
		}
	}
	r := mounted(t, h, func(o *server.Options) { o.MaxBodies = size })
	if a := r.sendRequest(r.request(http.MethodPost, "/m", strings.Repeat("x", 2*size))); a.status != http.StatusServiceUnavailable || fault.KindOf(full) != fault.Unavailable {
		t.Fatalf("a body over the budget: %d, %v", a.status, full)
	}
	held := make(chan int, 1)
	go func() {
		held <- r.sendRequest(r.request(http.MethodPost, "/m/stream", strings.Repeat("x", size))).status
	}()
	<-answering
	for range 3 {
		if a := r.sendRequest(r.request(http.MethodPost, "/m", strings.Repeat("x", size))); a.status != http.StatusOK {
			t.Errorf("a body that fits: %d, %v", a.status, full)
		}
	}
	close(release)
	if got := <-held; got != http.StatusOK {
		t.Errorf("the stream: %d", got)
	}
}

// TestProblemsOfMountsAreLikeTheServersOwn: they have the request's id and the time
// to wait.
func TestProblemsOfMountsAreLikeTheServersOwn(t *testing.T) {
	r := mounted(t, func(w http.ResponseWriter, _ *http.Request) {
		server.WriteProblem(w, &fault.Error{Kind: fault.RateLimited, Detail: "busy", RetryAfter: 1500 * time.Millisecond})
	}, nil)
	a := r.getPath("/m")
	if p := a.problem(t); a.status != 429 || p.RequestID == "" || p.RequestID != a.header.Get("X-Request-ID") || a.header.Get("Retry-After") != "2" || p.RetryAfter != 2 {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
}
