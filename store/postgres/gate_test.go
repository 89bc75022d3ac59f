package postgres_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
)

// gate stands before an object storage and lets requests through, or not.
type gate struct {
	url string
	// asked gets a word for each request that isn't answered.
	asked chan struct{}

	mu   sync.Mutex
	mode string
	// change is closed when the mode changes.
	change chan struct{}
}

func newGate(t *testing.T, to string) *gate {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{asked: make(chan struct{}, 100), mode: "open", change: make(chan struct{})}
	// Requests are signed with the address that they were sent to.
	through := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
		r.Out.Host = r.In.Host
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mode, change := g.get()
		switch mode {
		case "closed":
			panic(http.ErrAbortHandler)
		case "failing":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "cut":
			// What was asked for is done, and the answer breaks off.
			answer := httptest.NewRecorder()
			through.ServeHTTP(answer, r)
			if body := answer.Body.Bytes(); len(body) > 1 {
				maps.Copy(w.Header(), answer.Header())
				w.WriteHeader(answer.Code)
				_, _ = w.Write(body[:len(body)/2])
				_ = http.NewResponseController(w).Flush()
			}
			panic(http.ErrAbortHandler)
		case "silent":
			g.asked <- struct{}{}
			select {
			case <-change:
			case <-r.Context().Done():
			}
			panic(http.ErrAbortHandler)
		default:
			through.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	g.url = server.URL
	return g
}

func (g *gate) get() (string, chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mode, g.change
}

func (g *gate) set(mode string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.change)
	g.mode, g.change = mode, make(chan struct{})
}
